//! Quarantines tasks, and retries quarantined and ended ones.

use windlass_statemachine::TaskState;

use super::{
    batch::{Batch, Sql},
    codes::{Log, from_code, micros},
    counts::{Group, Move, NOT_FAILED},
    dependencies,
    errors::Stop,
    limits,
    texts::to_json,
};

/// Quarantines a task whose record cannot be read, with the reason. The record stays until an operator
/// retries the task. Its claim ends.
pub(super) fn quarantine(batch: &mut Batch<'_>, n: i64, last: i64, reason: &str) -> Sql<()> {
    let seq = batch.change(n, last, Log::quarantined())?;
    let Some((limited, group)) = batch.limited_and_group(n)? else {
        return Ok(());
    };
    let quarantined = Group {
        claimed: false,
        quarantined: true,
        ..group
    };
    batch.write_state(
        "UPDATE windlass_states SET quarantine = ?2, owner = NULL, lost_by = NULL, last = ?3 WHERE n = ?1",
        (n, reason, seq),
        Move::between(group, quarantined),
    )?;
    limits::forget(batch, n, limited)
}

/// Writes the state of a retry to task `n`, whose newest change is `last`.
pub(super) fn write(
    batch: &mut Batch<'_>,
    (n, last): (i64, i64),
    state: &TaskState,
) -> Result<(), Stop> {
    let seq = batch.change(n, last, Log::retried())?;
    batch.waits.unsettles = true;
    let waited_for = dependencies::waited_for(state);
    let before = batch.group(n)?;
    let step = before.map_or(Move::NONE, |before| {
        let after = Group {
            kind: before.kind,
            code: from_code(state.code()),
            version: state.data_version.into(),
            claimed: false,
            waits: dependencies::column(state).min(1),
            quarantined: false,
            failure: NOT_FAILED,
        };
        Move::between(before, after)
    });
    batch.write_state(
        "UPDATE windlass_states SET code = ?2, due = ?3, owner = NULL, last = ?4, lost_by = NULL,
                ended_at = NULL, quarantine = NULL, version = ?5, state = ?6,
                data_version = ?7, deadline = ?8, failure = -1,
                pending = (SELECT count(*) FROM windlass_commands c WHERE c.n = ?1 AND outcome IS NULL)
         WHERE n = ?1",
        (
            n,
            from_code(state.code()),
            state.due().map(micros),
            seq,
            state.version as i64,
            to_json(state)?,
            state.data_version,
            state.deadline().map(micros),
        ),
        step,
    )?;
    // The previous state may have been unreadable, so its wait is not known.
    dependencies::put(batch, n, dependencies::column(state), waited_for)?;
    Ok(())
}
