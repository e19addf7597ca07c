//! Applies transactions, and remembers those that have an id.

use std::{collections::HashMap, sync::Arc};

use rusqlite::{Connection, Row};
use windlass_statemachine::{CommandId, Fence, StateKind, Task, TaskId, TransactionId};

use super::{
    batch::{Batch, Sql},
    codes::{time, to_code},
    columns, command, delete,
    errors::Stop,
    json, reschedule, retry, rows, submit,
    texts::Text,
};
use crate::store::{
    Applied, Done, Error, Operation, Submitted, Transaction,
    rules::{
        self,
        facts::Holder,
        retry::Counted,
        transaction::{self, Bounds, Facts, Need, Present, Step},
    },
};

/// A transaction with the JSON texts of its commands, which are made before it reaches the writer thread.
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
        let texts = commands.map(|send| Ok((send.id.clone(), json("command", &send.noted())?)));
        Self {
            texts: texts.collect(),
            transaction,
        }
    }
}

/// The rows of a task.
struct Place {
    n: i64,
    /// The task's newest change.
    last: i64,
    fence: i64,
}

type Places = HashMap<TaskId, Place>;

/// Applies every operation or none, on behalf of the author.
pub(super) fn apply(batch: &mut Batch<'_>, prepared: &Prepared) -> Result<Applied, Stop> {
    let by = prepared.transaction.author();
    batch.on_behalf(by, |batch| apply_by(batch, prepared))
}

fn apply_by(batch: &mut Batch<'_>, prepared: &Prepared) -> Result<Applied, Stop> {
    let transaction = &prepared.transaction;
    let texts = prepared.texts.as_ref().map_err(Clone::clone)?;
    if let Some(operation) = transaction.alone() {
        let (facts, mut places) = read(batch, transaction)?;
        let step = transaction::decide_alone(operation, &facts, bounds(batch))?;
        let done = match step {
            // No later step needs its place.
            Step::Submit { task, replaces } => {
                let replaced = places.get(&task.id).filter(|_| replaces);
                submit(batch, task, replaced)?;
                Done::Submitted(Submitted::New)
            }
            step => carry_out(batch, step, &mut places, texts)?,
        };
        return Ok(done.into());
    }
    transaction::check(transaction, "SQLite", batch.limits.max_operations)?;
    if let Some(id) = transaction.id()
        && let Some((earlier, fingerprint)) = remembered(batch, id)?
    {
        transaction.check_repeats(&fingerprint)?;
        return Ok(earlier.repeated_by(transaction)?);
    }
    let (mut facts, mut places) = read(batch, transaction)?;
    let steps = transaction::decide(transaction, &mut facts, bounds(batch))?;
    batch.all_or_nothing(|batch| {
        let write = |step| carry_out(batch, step, &mut places, texts);
        let done: Vec<Done> = steps.into_iter().map(write).collect::<Result<_, Stop>>()?;
        let applied = Applied::from(done);
        if let Some(id) = transaction.id() {
            batch.run(
                "INSERT INTO windlass_transactions (id, at, answer, fingerprint) VALUES (?1, ?2, ?3, ?4)",
                (id.as_str(), batch.at, json("answer", &applied)?, transaction.fingerprint()),
            )?;
        }
        Ok(applied)
    })
}

/// Applies the effects of a message of task `own`, whose transition is already written. The caller is in a
/// savepoint: a refusal rolls the transition back.
pub(super) fn effects(
    batch: &mut Batch<'_>,
    prepared: &Prepared,
    own: &TaskId,
) -> Result<(), Stop> {
    let effects = &prepared.transaction;
    let texts = prepared.texts.as_ref().map_err(Clone::clone)?;
    rules::effects::check(effects, "SQLite", batch.limits.max_operations)?;
    let (mut facts, mut places) = read(batch, effects)?;
    for step in rules::effects::decide(effects, own, &mut facts, bounds(batch))? {
        carry_out(batch, step, &mut places, texts)?;
    }
    Ok(())
}

fn bounds(batch: &Batch<'_>) -> Bounds {
    Bounds {
        max_bytes: batch.limits.max_bytes,
        now: batch.now,
    }
}

/// Returns the result of a transaction that was applied before, and its fingerprint.
fn remembered(batch: &Batch<'_>, id: &TransactionId) -> Result<Option<(Applied, String)>, Stop> {
    let found = batch.first(
        "SELECT answer, fingerprint FROM windlass_transactions WHERE id = ?1",
        [id.as_str()],
        |row| {
            let answer = columns::json(row, 0, "answer")?;
            Ok((answer, row.get::<_, Text>(1)?.0))
        },
    )?;
    let Some((answer, fingerprint)) = found else {
        return Ok(None);
    };
    let answer = answer.and_then(|answer| answer.ok_or_else(|| "answer: is missing".to_owned()));
    let applied = answer.map_err(|reason| Error::Corrupt {
        what: format!("transaction '{id}'"),
        reason,
    })?;
    Ok(Some((applied, fingerprint)))
}

/// The columns of a task beside its record.
macro_rules! head_columns {
    () => {
        "s.n, s.last, s.fence, s.version, s.owner IS NOT NULL, s.code, s.size, s.lost_by IS NOT NULL"
    };
}

fn read(batch: &Batch<'_>, transaction: &Transaction) -> Sql<(Facts, Places)> {
    let (mut facts, mut places) = (Facts::default(), Places::new());
    let need = Need::of(transaction);
    for key in transaction.unique_keys() {
        if let Some(holder) = holder(batch, key)? {
            facts.keys.insert(key.to_owned(), holder);
        }
    }
    let holders: Vec<TaskId> = facts.keys.values().map(|has| has.task.clone()).collect();
    for id in transaction.tasks().chain(&holders) {
        if places.contains_key(id) {
            continue;
        }
        let found = match need {
            Need::Head => batch.first(
                concat!(
                    "SELECT ",
                    head_columns!(),
                    " FROM windlass_tasks t JOIN windlass_states s ON s.n = t.n WHERE t.id = ?1"
                ),
                [id.as_str()],
                head,
            )?,
            Need::Whole => batch.first(
                concat!(
                    "SELECT ",
                    head_columns!(),
                    ", s.state, s.quarantine, ",
                    rows::task_columns!(),
                    " FROM windlass_tasks t JOIN windlass_states s ON s.n = t.n WHERE t.id = ?1"
                ),
                [id.as_str()],
                whole,
            )?,
        };
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

/// Returns the task that has a unique key, even after its time.
fn holder(batch: &Batch<'_>, key: &str) -> Sql<Option<Holder>> {
    let found = batch.first(
        "SELECT t.id, u.until FROM windlass_unique u JOIN windlass_tasks t ON t.n = u.n WHERE u.key = ?1",
        [key],
        |row| Ok((columns::id(row, 0)?, row.get(1)?)),
    )?;
    Ok(found.and_then(|(task, until)| {
        let (task, until) = (task?, time(until));
        Some(Holder { task, until })
    }))
}

fn head(row: &Row<'_>) -> Sql<(Place, Present)> {
    let place = Place {
        n: row.get(0)?,
        last: row.get(1)?,
        fence: row.get(2)?,
    };
    let present = Present {
        task: Err(Present::NOT_READ.to_owned()),
        order: place.n as u64,
        state: Err(Present::NOT_READ.to_owned()),
        quarantine: None,
        has_ended: to_code(row.get(5)?).is_some_and(StateKind::is_terminal),
        is_claimed: row.get(4)?,
        is_lost: row.get(7)?,
        last: Counted {
            version: row.get::<_, i64>(3)? as u64,
            fence: Fence(place.fence as u64),
        },
        props: row.get::<_, i64>(6)? as usize,
    };
    Ok((place, present))
}

fn whole(row: &Row<'_>) -> Sql<(Place, Present)> {
    let (place, mut present) = head(row)?;
    present.state = columns::state(row, 8)?;
    present.quarantine = columns::quarantine(row, 9)?;
    present.task = match rows::task(row, 10)? {
        Some((task, None)) => Ok(Arc::new(task)),
        Some((_, Some(wrong))) => Err(wrong),
        None => Err("its id is not one".to_owned()),
    };
    Ok((place, present))
}

/// Adds a new task, in the place of the ended one that it replaces.
fn submit(batch: &mut Batch<'_>, task: &Task, replaced: Option<&Place>) -> Result<Place, Stop> {
    if let Some(ended) = replaced {
        delete::forget(batch, ended.n, &task.id, batch.next())?;
    }
    let fence = replaced.map_or(0, |ended| ended.fence);
    let n = submit::write(batch, task, fence)?;
    Ok(Place { n, last: n, fence })
}

fn carry_out(
    batch: &mut Batch<'_>,
    step: Step<'_>,
    places: &mut Places,
    texts: &HashMap<CommandId, String>,
) -> Result<Done, Stop> {
    let place = |id: &TaskId| places.get(id).ok_or_else(|| Error::no_task(id));
    Ok(match step {
        Step::Known(done) => done,
        Step::Submit { task, replaces } => {
            let replaced = replaces.then(|| place(&task.id)).transpose()?;
            let new = submit(batch, task, replaced)?;
            places.insert(task.id.clone(), new);
            Done::Submitted(Submitted::New)
        }
        Step::Send(send) => {
            let Place { n, last, .. } = place(&send.task)?;
            let text = texts.get(&send.id).map_or("", String::as_str);
            let order = command::write(batch, (*n, *last), &send.id, text)?;
            if let Some(to) = places.get_mut(&send.task) {
                // A message may send the task another command.
                to.last = order as i64;
            }
            Done::Sent(order)
        }
        Step::Delete(one) => {
            let id = &one.task;
            let Place { n, last, .. } = place(id)?;
            delete::asked(batch, *n, id, *last)?;
            Done::Deleted
        }
        Step::Retry {
            retry,
            state,
            limits,
        } => {
            let place = place(&retry.task)?;
            if let Some(props) = &retry.props {
                reschedule::put_props(batch, place.n, props)?;
            }
            if let Some(limits) = &limits {
                reschedule::set_limits(batch, place.n, (&retry.task, limits))?;
            }
            retry::write(batch, (place.n, place.last), &state)?;
            Done::Retried
        }
        Step::Reschedule {
            change,
            what,
            state,
            done,
        } => {
            let Place { n, last, .. } = place(&change.task)?;
            reschedule::write(batch, (*n, *last), &change, (&what, &state))?;
            done
        }
    })
}

/// Returns whether a transaction from before `before` is still remembered, or a unique key or a slot of a limit on
/// starts is still stored that has been free since then.
pub(super) fn has_old(conn: &Connection, before: i64) -> Sql<bool> {
    let mut old = conn.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM windlass_transactions WHERE at < ?1)
             OR EXISTS (SELECT 1 FROM windlass_unique WHERE until < ?1)
             OR EXISTS (SELECT 1 FROM windlass_slots WHERE until < ?1)",
    )?;
    old.query_row([before], |row| row.get(0))
}

/// Deletes up to `limit` transactions from before `before`, and as many unique keys and slots of limits on starts
/// that have been free since then.
pub(super) fn forget(batch: &Batch<'_>, before: i64, limit: u32) -> Sql<usize> {
    batch.run(
        "DELETE FROM windlass_unique WHERE key IN
             (SELECT key FROM windlass_unique WHERE until < ?1 ORDER BY until LIMIT ?2)",
        (before, limit),
    )?;
    batch.run(
        "DELETE FROM windlass_slots WHERE (key, within, slot) IN
             (SELECT key, within, slot FROM windlass_slots WHERE until < ?1 ORDER BY until LIMIT ?2)",
        (before, limit),
    )?;
    batch.run(
        "DELETE FROM windlass_transactions WHERE id IN
             (SELECT id FROM windlass_transactions WHERE at < ?1 ORDER BY at LIMIT ?2)",
        (before, limit),
    )
}
