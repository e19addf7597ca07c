//! Exports and imports tasks.

use std::path::Path;

use async_trait::async_trait;
use rusqlite::{Connection, params};
use windlass_statemachine::{Author, NodeName, StateKind, TaskId};

use super::{
    SqliteStore, all_failed,
    batch::{Batch, Sql, first},
    codes::{Log, from_code, micros, time, to_code},
    columns, command, copied,
    counts::{Group, Move},
    delete, dependencies,
    errors::{self, Stop},
    failures, history, inbox, inconsistent,
    jobs::Load,
    json, limits, log_lines, query, submit,
    texts::to_json,
};
use crate::store::{
    ChangeKind, CommandRecord, Error, Exported, Moment, Transfer,
    copy::{Backup, Copied, Outside},
    export::TargetTask,
    rules::{self, size::Weight},
};

pub(super) fn ids(conn: &Connection) -> Result<Vec<TaskId>, Stop> {
    let mut all = conn.prepare_cached("SELECT id FROM windlass_tasks ORDER BY n")?;
    let ids = all.query_map((), |row| columns::id(row, 0))?;
    let ids: Vec<Option<TaskId>> = ids.collect::<Sql<_>>()?;
    Ok(ids.into_iter().flatten().collect())
}

/// Returns what is committed but belongs to no task.
pub(super) fn outside(conn: &Connection, limit: u32) -> Result<Vec<Outside>, Stop> {
    let unnamed = inconsistent::without_id(conn)?
        .into_iter()
        .map(|what| Outside {
            what,
            refused: Some("its id cannot be read".to_owned()),
            is_task: true,
            refused_at: None,
        });
    let rows = inbox::outside(conn, limit)?;
    Ok(unnamed.chain(rows).take(limit as usize).collect())
}

pub(super) fn export(conn: &Connection, id: &TaskId) -> Result<Exported, Stop> {
    let record = query::get(conn, id)?;
    let mut lost = conn.prepare_cached(
        "SELECT s.lost_by FROM windlass_states s JOIN windlass_tasks t ON t.n = s.n WHERE t.id = ?1",
    )?;
    let lost_by = first(&mut lost, [id.as_str()], |row| columns::name(row, 0))?;
    let commands = query::commands(conn, id)?;
    let history = history::history(conn, id, u32::MAX)?;
    let log = log_lines::read(conn, id, 0)?;
    let log = rules::log_lines::whole(id, log)?;
    let holds_key = match &record.task.unique {
        None => false,
        Some(unique) => {
            let mut holder = conn.prepare_cached("SELECT n FROM windlass_unique WHERE key = ?1")?;
            let holder: Option<i64> = first(&mut holder, [unique.key()], |row| row.get(0))?;
            holder.is_some_and(|holder| holder as u64 == record.order)
        }
    };
    let exported = Exported::new(record, lost_by.flatten(), commands, history)?;
    Ok(exported.with_log(log).with_key(holds_key))
}

/// Imports a task with everything that belongs to it.
pub(super) fn import(batch: &mut Batch<'_>, exported: &Exported) -> Result<(), Stop> {
    exported.check_fits(batch.limits.max_bytes)?;
    let id = &exported.task.id;
    let replaced = batch.first(
        "SELECT t.n, s.code, s.owner IS NOT NULL, s.last
         FROM windlass_tasks t JOIN windlass_states s ON s.n = t.n WHERE t.id = ?1",
        [id.as_str()],
        |row| {
            let target = TargetTask {
                order: row.get::<_, i64>(0)? as u64,
                has_ended: to_code(row.get(1)?).is_some_and(StateKind::is_terminal),
                is_claimed: row.get(2)?,
            };
            Ok((target, row.get(3)?))
        },
    )?;
    if let Some((target, _)) = &replaced {
        exported.check_room(target)?;
    }
    batch.all_or_nothing(|batch| {
        if let Some((target, last)) = replaced {
            delete::remove(batch, target.order as i64, id, last)?;
        }
        batch.raise_fences(exported.fence.0 as i64)?;
        let exported = exported.clone().renumbered(batch.next() as u64);
        let n = exported.order as i64;
        let last = put_history(batch, n, &exported)?;
        let (task, at) = (&exported.task, micros(exported.submitted_at));
        submit::insert(batch, n, task, &submit::optional(task)?, at)?;
        take_key(batch, n, &exported)?;
        state(batch, n, last, &exported)?;
        log_lines::put(batch, n, &exported.log)?;
        let mut commands = exported.commands.iter();
        commands.try_for_each(|one| put_command(batch, n, one))
    })
}

/// Gives an imported task its unique key, if it is to have it.
fn take_key(batch: &Batch<'_>, n: i64, exported: &Exported) -> Result<(), Stop> {
    let Some(unique) = &exported.task.unique else {
        return Ok(());
    };
    let until = batch.first(
        "SELECT u.until FROM windlass_unique u JOIN windlass_tasks t ON t.n = u.n WHERE u.key = ?1 AND u.n <> ?2",
        (unique.key(), n),
        |row| Ok(time(row.get(0)?)),
    )?;
    if exported.takes_key(until) {
        submit::take_key(batch, n, &exported.task, exported.submitted_at)?;
    }
    Ok(())
}

/// Writes the history and returns the number of its last change.
fn put_history(batch: &mut Batch<'_>, n: i64, exported: &Exported) -> Result<i64, Stop> {
    let mut last = 0;
    for change in &exported.history {
        let named = match &change.what {
            ChangeKind::Claimed { node, .. } => lease_of(batch, node)?,
            ChangeKind::Rescheduled {
                kind: Some(kind), ..
            } => batch.kind(kind.as_str())?,
            _ => 0,
        };
        let log = Log::of(&change.what, batch.next(), named);
        last = batch.on_behalf(change.by.as_ref(), |batch| {
            batch.change_at(n, last, micros(change.at), log)
        })?;
    }
    Ok(last)
}

/// Returns an ended lease of a node, through which the history names the node.
fn lease_of(batch: &Batch<'_>, node: &NodeName) -> Result<i64, Stop> {
    let known = batch.first(
        "SELECT id FROM windlass_leases WHERE node = ?1 AND ended_at IS NOT NULL ORDER BY id DESC LIMIT 1",
        [node.as_str()],
        |row| row.get(0),
    )?;
    if let Some(lease) = known {
        return Ok(lease);
    }
    let made = batch.all(
        "INSERT INTO windlass_leases (node, spec, status, ttl, boot, expires, joined_at, ended_at)
         VALUES (?1, '{}', '{}', 0, '', 0, ?2, ?2) RETURNING id",
        (node.as_str(), batch.at),
        |row| row.get(0),
    )?;
    Ok(made.first().copied().unwrap_or_default())
}

fn state(batch: &mut Batch<'_>, n: i64, last: i64, exported: &Exported) -> Result<(), Stop> {
    let state = &exported.state;
    let ended = state.code().is_terminal().then(|| micros(state.since));
    let pending = exported.commands.iter().filter(|c| c.outcome.is_none());
    let waits = dependencies::column(state);
    let group = Group {
        kind: batch.kind(exported.task.kind.as_str())?,
        code: from_code(state.code()),
        version: state.data_version.into(),
        claimed: false,
        waits: waits.min(1),
        quarantined: false,
        failure: failures::number(rules::failures::of(state).as_deref()),
    };
    batch.write_state(
        "INSERT INTO windlass_states (n, code, due, fence, last, pending, size, version, lost_by, ended_at,
                state, data_version, limited, deadline, waits, kind, failure)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
        params![
            n,
            group.code,
            state.due().map(micros),
            exported.fence.0 as i64,
            last,
            pending.count() as i64,
            exported.task.props.len() as i64,
            state.version as i64,
            exported.lost_by.as_ref().map(|node| node.as_str()),
            ended,
            to_json(state)?,
            state.data_version,
            limits::limited(&exported.task),
            state.deadline().map(micros),
            waits,
            group.kind,
            group.failure,
        ],
        Move::new(group),
    )?;
    if state.is_waiting() {
        dependencies::add(batch, n, dependencies::waited_for(state))?;
    }
    Ok(())
}

fn put_command(batch: &Batch<'_>, n: i64, command: &CommandRecord) -> Result<(), Stop> {
    if let Some((_, task)) = command::known(batch, &command.id)? {
        return Err(Error::other_command(&command.id, &task).into());
    }
    let outcome = command.outcome.as_ref().map(|o| json("outcome", o));
    batch.run(
        "INSERT INTO windlass_commands (ord, id, n, sent_at, command, outcome, by)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        (
            command.order as i64,
            command.id.as_str(),
            n,
            micros(command.sent_at),
            json("command", &command.noted())?,
            outcome.transpose()?,
            command.by.as_ref().map(Author::as_str),
        ),
    )?;
    Ok(())
}

impl SqliteStore {
    /// Ends the claims of ended leases. They end with the next write of any process, and after a copy there may be none.
    pub(super) async fn look_for_ended_leases(&self) -> Result<(), Error> {
        let look = self.0.writer.run("look for ended leases", 1, |_| Ok(()));
        look.await
    }
}

#[async_trait]
impl Transfer for SqliteStore {
    async fn ids(&self) -> Result<Vec<TaskId>, Error> {
        self.look_for_ended_leases().await?;
        self.0.readers.run("list tasks", ids).await
    }

    async fn outside(&self, limit: u32) -> Result<Vec<Outside>, Error> {
        let read = move |conn: &_| outside(conn, limit);
        let verb = "read what is in no task";
        self.0.readers.run(verb, read).await
    }

    async fn copied(&self) -> Result<Option<Copied>, Error> {
        self.0
            .readers
            .run("read the mark of a copy", copied::read)
            .await
    }

    async fn set_copied(&self, mark: Option<Copied>) -> Result<(), Error> {
        let set = move |batch: &mut Batch<'_>| errors::item(copied::set(batch, mark.as_ref()));
        self.0.writer.run("set the mark of a copy", 1, set).await?
    }

    fn file(&self) -> Option<&Path> {
        Some(&self.0.path)
    }

    async fn backup(&self, to: &Path) -> Result<Backup, Error> {
        self.back_up(to).await
    }

    async fn moment(&self) -> Result<Moment, Error> {
        self.at_one_moment().await
    }

    async fn export(&self, ids: &[TaskId]) -> Vec<Result<Exported, Error>> {
        let (count, ids) = (ids.len(), ids.to_vec());
        let read = move |conn: &_| {
            let one = |id| errors::item(export(conn, id));
            Ok(ids.iter().map(one).collect::<Result<Vec<_>, _>>()?)
        };
        let read = self.0.readers.run("export tasks", read).await;
        read.unwrap_or_else(|e| all_failed(count, &e))
    }

    async fn import(&self, tasks: Vec<Exported>) -> Vec<Result<(), Error>> {
        let mut answers = Vec::with_capacity(tasks.len());
        let weight = |task: &Exported| Weight {
            operations: 1,
            bytes: task.bytes(),
        };
        for (weight, tasks) in rules::size::writes(tasks, weight) {
            let items = tasks.len();
            let load = Load::from(weight);
            let done = self.0.writer.run("import tasks", load, move |batch| {
                let import = |task| errors::item(import(batch, task));
                tasks.iter().map(import).collect()
            });
            let done: Vec<_> = done.await.unwrap_or_else(|e| all_failed(items, &e));
            answers.extend(done);
        }
        answers
    }
}
