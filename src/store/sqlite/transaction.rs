//! Applies transactions of several operations and guards, and remembers them.

use std::{collections::HashMap, sync::Arc};

use rusqlite::{Connection, Row};
use windlass_statemachine::{CommandId, Fence, StateKind, TaskId, TransactionId};

use super::{
    batch::{Batch, Sql},
    codes::to_code,
    command, delete,
    errors::Stop,
    json, reschedule, retry, rows, submit,
};
use crate::store::{
    Applied, Done, Error, Operation, Submitted, Transaction,
    rules::{
        plan::Bounds,
        retry::Counted,
        transaction::{self, Facts, Present, Step},
    },
};

/// A transaction with the JSON texts of its commands.
pub(super) struct Prepared {
    transaction: Transaction,
    texts: Result<HashMap<CommandId, String>, Error>,
}

impl Prepared {
    pub(super) fn new(transaction: Transaction) -> Self {
        let commands = transaction.operations().iter().filter_map(|one| match one {
            Operation::Send(send) => Some(send),
            _ => None,
        });
        let texts = commands.map(|send| Ok((send.id.clone(), json("command", &send.command)?)));
        Self {
            texts: texts.collect(),
            transaction,
        }
    }
}

/// Where the rows of a task are.
struct Place {
    n: i64,
    /// The task's newest change.
    last: i64,
    fence: i64,
}

type Places = HashMap<TaskId, Place>;

/// Applies every operation or none.
pub(super) fn apply(batch: &mut Batch<'_>, prepared: &Prepared) -> Result<Applied, Stop> {
    let transaction = &prepared.transaction;
    let texts = prepared.texts.as_ref().map_err(Clone::clone)?;
    transaction::check(transaction, "SQLite", batch.limits.max_operations)?;
    if let Some(id) = transaction.id()
        && let Some(earlier) = remembered(batch, id)?
    {
        return Ok(earlier.repeated_by(transaction)?);
    }
    let (facts, places) = read(batch, transaction)?;
    let bounds = Bounds {
        max_bytes: batch.limits.max_bytes,
        now: batch.now,
    };
    let steps = transaction::decide(transaction, &facts, bounds)?;
    batch.all_or_nothing(|batch| {
        let write = |step| carry_out(batch, step, &places, texts);
        let done: Vec<Done> = steps.into_iter().map(write).collect::<Result<_, Stop>>()?;
        let applied = Applied::from(done);
        if let Some(id) = transaction.id() {
            batch.run(
                "INSERT INTO transactions (id, at, answer) VALUES (?1, ?2, ?3)",
                (id.as_str(), batch.at, json("answer", &applied)?),
            )?;
        }
        Ok(applied)
    })
}

/// Returns the result of a transaction that was applied before.
fn remembered(batch: &Batch<'_>, id: &TransactionId) -> Result<Option<Applied>, Stop> {
    let answer: Option<String> = batch.first(
        "SELECT answer FROM transactions WHERE id = ?1",
        [id.as_str()],
        |row| row.get(0),
    )?;
    let Some(answer) = answer else {
        return Ok(None);
    };
    let applied = serde_json::from_str(&answer).map_err(|e| Error::Corrupt {
        what: format!("transaction '{id}'"),
        reason: e.to_string(),
    })?;
    Ok(Some(applied))
}

fn read(batch: &Batch<'_>, transaction: &Transaction) -> Sql<(Facts, Places)> {
    let (mut facts, mut places) = (Facts::default(), Places::new());
    for id in transaction.tasks() {
        if places.contains_key(id) {
            continue;
        }
        let found = batch.first(
            "SELECT t.id, t.kind, t.priority, t.labels, t.start_at, t.retry, t.props,
                    s.n, s.state, s.quarantine, s.last, s.fence, s.version, s.owner IS NOT NULL,
                    s.code, s.size
             FROM tasks t JOIN states s ON s.n = t.n WHERE t.id = ?1",
            [id.as_str()],
            found,
        )?;
        if let Some((place, present)) = found {
            places.insert(id.clone(), place);
            facts.tasks.insert(id.clone(), present);
        }
    }
    for operation in transaction.operations() {
        if let Operation::Send(send) = operation
            && let Some((order, task)) = command::known(batch, &send.id)?
        {
            let known = (task, order as u64);
            facts.commands.insert(send.id.clone(), known);
        }
    }
    Ok((facts, places))
}

fn found(row: &Row<'_>) -> Sql<(Place, Present)> {
    let fence: i64 = row.get(11)?;
    let task = match rows::task(row, 0)? {
        Some((task, None)) => Ok(Arc::new(task)),
        Some((_, Some(wrong))) => Err(wrong),
        None => Err("its id is not one".to_owned()),
    };
    let place = Place {
        n: row.get(7)?,
        last: row.get(10)?,
        fence,
    };
    let present = Present {
        task,
        state: rows::state(row, 8)?,
        quarantine: row.get(9)?,
        has_ended: to_code(row.get(14)?).is_some_and(StateKind::is_terminal),
        is_claimed: row.get(13)?,
        last: Counted {
            version: row.get::<_, i64>(12)? as u64,
            fence: Fence(fence as u64),
        },
        props: row.get::<_, i64>(15)? as usize,
    };
    Ok((place, present))
}

fn carry_out(
    batch: &mut Batch<'_>,
    step: Step<'_>,
    places: &Places,
    texts: &HashMap<CommandId, String>,
) -> Result<Done, Stop> {
    let place = |id: &TaskId| places.get(id).ok_or_else(|| Error::no_task(id));
    Ok(match step {
        Step::Known(done) => done,
        Step::Submit { task, replaces } => {
            let mut fence = 0;
            if replaces {
                let ended = place(&task.id)?;
                delete::forget(batch, ended.n, &task.id, batch.next())?;
                fence = ended.fence;
            }
            submit::write(batch, task, fence)?;
            Done::Submitted(Submitted::New)
        }
        Step::Send(send) => {
            let Place { n, last, .. } = place(&send.task)?;
            let text = texts.get(&send.id).map_or("", String::as_str);
            Done::Sent(command::write(batch, (*n, *last), &send.id, text)?)
        }
        Step::Delete(id) => {
            let Place { n, last, .. } = place(id)?;
            delete::remove(batch, *n, id, *last)?;
            Done::Deleted
        }
        Step::Retry { task, state } => {
            let place = place(task)?;
            retry::write(batch, (place.n, place.last), &state)?;
            Done::Retried
        }
        Step::Reschedule {
            change,
            from,
            state,
        } => {
            let Place { n, last, .. } = place(&change.task)?;
            reschedule::write(batch, (*n, *last), change.priority, (from, &state))?;
            Done::Rescheduled(state.code())
        }
    })
}

/// Returns whether a transaction from before `before` is remembered.
pub(super) fn has_old(conn: &Connection, before: i64) -> Sql<bool> {
    let mut old =
        conn.prepare_cached("SELECT EXISTS (SELECT 1 FROM transactions WHERE at < ?1)")?;
    old.query_row([before], |row| row.get(0))
}

/// Forgets up to `limit` transactions from before `before`.
pub(super) fn forget(batch: &Batch<'_>, before: i64, limit: u32) -> Sql<usize> {
    batch.run(
        "DELETE FROM transactions WHERE id IN
             (SELECT id FROM transactions WHERE at < ?1 ORDER BY at LIMIT ?2)",
        (before, limit),
    )
}
