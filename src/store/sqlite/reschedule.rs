//! Changes due times, priorities and limits.

use windlass_statemachine::{StateKind, TaskState, Terms, plain};

use super::{
    batch::Batch,
    codes::{Log, from_code, micros},
    counts::{Group, Move},
    errors::Stop,
    json, limits,
    texts::{Text, to_json},
};
use crate::store::{Error, Reschedule, rules};

/// Writes the state, the priority and the limits of task `n` after a reschedule. Its newest change is `last`,
/// and its state had the code `from` before.
pub(super) fn write(
    batch: &mut Batch<'_>,
    (n, last): (i64, i64),
    change: &Reschedule,
    (from, state): (StateKind, &TaskState),
) -> Result<(), Stop> {
    let seq = batch.change(n, last, Log::rescheduled(from, state.code()))?;
    if let Some(priority) = change.priority {
        batch.run(
            "UPDATE windlass_tasks SET priority = ?2 WHERE n = ?1",
            (n, priority),
        )?;
    }
    let Some((limited, group)) = batch.limited_and_group(n)? else {
        return Err(Error::no_task(&change.task).into());
    };
    let code = from_code(state.code());
    batch.write_state(
        "UPDATE windlass_states SET code = ?2, due = ?3, last = ?4, state = ?5 WHERE n = ?1",
        (n, code, state.due().map(micros), seq, to_json(state)?),
        Move::between(group, Group { code, ..group }),
    )?;
    // The claim looks for a slot again.
    limits::forget(batch, n, limited)?;
    if change.limits.is_some() {
        set_limits(batch, n, change)?;
    }
    Ok(())
}

/// Sets other limits of a task without a claim that is in no line.
fn set_limits(batch: &Batch<'_>, n: i64, change: &Reschedule) -> Result<(), Stop> {
    let terms = "SELECT terms FROM windlass_tasks WHERE n = ?1";
    let terms: Option<Text> = batch.first(terms, [n], |row| row.get(0))?.flatten();
    let terms = terms.map(|text| {
        serde_json::from_str::<Terms>(&text.0).map_err(|e| {
            Error::corrupt_task(&change.task, format!("its terms: {}", plain::words(&e)))
        })
    });
    let terms = rules::reschedule::terms(change, terms.transpose()?);
    let limited = limits::limited_by_terms(terms.as_ref());
    let terms = terms.map(|terms| json("terms", &terms)).transpose()?;
    batch.run(
        "UPDATE windlass_tasks SET terms = ?2 WHERE n = ?1",
        (n, terms),
    )?;
    let limit = "UPDATE windlass_states SET limited = ?2 WHERE n = ?1";
    batch.run(limit, (n, limited))?;
    Ok(())
}
