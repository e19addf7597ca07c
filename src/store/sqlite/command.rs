//! Sends commands to tasks, reads waiting commands, and records outcomes.

use rusqlite::Connection;
use windlass_statemachine::{
    Author, CommandId, Outcome, QueuedCommand, StateKind, TaskId, command::NotedCommand,
};

use super::{
    batch::{Batch, Sql},
    codes::Log,
    columns,
    errors::Stop,
    json,
    texts::Text,
};
use crate::store::{Error, rules};

/// Returns the order of a known command, and the task that it was sent to.
pub(super) fn known(batch: &Batch<'_>, id: &CommandId) -> Sql<Option<(i64, TaskId)>> {
    let known = batch.first(
        "SELECT c.ord, t.id FROM windlass_commands c JOIN windlass_tasks t ON t.n = c.n WHERE c.id = ?1",
        [id.as_str()],
        |row| Ok((row.get(0)?, columns::id(row, 1)?)),
    )?;
    Ok(known.and_then(|(order, task)| Some((order, task?))))
}

/// Queues a checked command of task `n`, whose newest change is `last`, and returns its order.
pub(super) fn write(
    batch: &mut Batch<'_>,
    (n, last): (i64, i64),
    id: &CommandId,
    text: &str,
) -> Sql<u64> {
    let order = batch.next();
    batch.change(n, last, Log::commanded(order))?;
    batch.run(
        "INSERT INTO windlass_commands (ord, id, n, sent_at, by, command) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        (
            order,
            id.as_str(),
            n,
            batch.at,
            batch.author().map(Author::as_str),
            text,
        ),
    )?;
    batch.run(
        "UPDATE windlass_states SET pending = pending + 1, last = ?2 WHERE n = ?1",
        (n, order),
    )?;
    Ok(order as u64)
}

/// A waiting command, or the order of one that cannot be read, with the reason.
pub(super) type Waiting = Result<QueuedCommand, (i64, String)>;

/// Returns the waiting commands of a task, in order.
pub(super) fn waiting(conn: &Connection, n: i64) -> Sql<Vec<Waiting>> {
    let mut waiting = conn.prepare_cached(
        "SELECT ord, id, command, by FROM windlass_commands WHERE n = ?1 AND outcome IS NULL ORDER BY ord",
    )?;
    let rows = waiting.query_map([n], |row| {
        let (order, id): (i64, Text) = (row.get(0)?, row.get(1)?);
        let command = columns::json::<NotedCommand>(row, 2, "command")?;
        let by = columns::author(row, 3)?;
        let read = || {
            let id = CommandId::new(id.0).map_err(|e| e.to_string())?;
            let NotedCommand { command, note } = command?.ok_or("it is empty")?;
            Ok(QueuedCommand::new(id, order as u64, command)
                .by(by)
                .note(note))
        };
        Ok(read().map_err(|e: String| (order, e)))
    })?;
    rows.collect()
}

/// Returns an outcome as its row stores it.
pub(super) fn outcome_text(outcome: &Outcome) -> Result<String, Error> {
    json("outcome", outcome)
}

/// Records the outcome of a command of task `n`. Returns whether the command was waiting.
pub(super) fn settle(batch: &Batch<'_>, n: i64, order: i64, outcome: &str) -> Sql<bool> {
    let settled = batch.run(
        "UPDATE windlass_commands SET outcome = ?3 WHERE ord = ?1 AND n = ?2 AND outcome IS NULL",
        (order, n, outcome),
    )?;
    Ok(settled > 0)
}

/// Rejects a command whose record cannot be read, so that the commands after it continue.
pub(super) fn reject_unreadable(
    batch: &Batch<'_>,
    n: i64,
    order: i64,
    reason: &str,
) -> Result<(), Stop> {
    let outcome = outcome_text(&rules::command::unreadable(reason))?;
    if settle(batch, n, order, &outcome)? {
        batch.run(
            "UPDATE windlass_states SET pending = pending - 1 WHERE n = ?1",
            [n],
        )?;
    }
    Ok(())
}

/// Rejects the waiting commands of a task that has ended.
pub(super) fn reject_waiting(batch: &Batch<'_>, n: i64, code: StateKind) -> Result<(), Stop> {
    batch.run(
        "UPDATE windlass_commands SET outcome = ?2 WHERE n = ?1 AND outcome IS NULL",
        (n, outcome_text(&rules::command::ended(code))?),
    )?;
    Ok(())
}
