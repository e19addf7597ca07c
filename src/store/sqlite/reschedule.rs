//! Changes due times and priorities.

use windlass_statemachine::{StateKind, TaskState};

use super::{
    batch::Batch,
    codes::{Log, from_code, micros},
    errors::Stop,
    limits,
    texts::to_json,
};

/// Gives task `n`, whose newest change is `last`, the decided state, which had the code `from` before, and
/// the new priority.
pub(super) fn write(
    batch: &mut Batch<'_>,
    (n, last): (i64, i64),
    priority: Option<i32>,
    (from, state): (StateKind, &TaskState),
) -> Result<(), Stop> {
    let seq = batch.change(n, last, Log::rescheduled(from, state.code()))?;
    if let Some(priority) = priority {
        batch.run(
            "UPDATE windlass_tasks SET priority = ?2 WHERE n = ?1",
            (n, priority),
        )?;
    }
    let limited = batch.first(
        "UPDATE windlass_states SET code = ?2, due = ?3, last = ?4, state = ?5 WHERE n = ?1 RETURNING limited",
        (
            n,
            from_code(state.code()),
            state.due().map(micros),
            seq,
            to_json(state)?,
        ),
        |row| row.get(0),
    )?;
    // The claim looks for a slot again.
    limits::forget(batch, n, limited.unwrap_or(0))?;
    Ok(())
}
