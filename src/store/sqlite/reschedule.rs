//! Changes unclaimed tasks.

use windlass_statemachine::{Json, Limit, TaskId, TaskState, Terms, plain};

use super::{
    batch::{Batch, Sql},
    codes::{Log, from_code, micros},
    counts::{Group, Move},
    dependencies,
    errors::Stop,
    json,
    limits::{self, limited_by_terms},
    texts::{Text, to_json},
};
use crate::store::{ChangeKind, Error, Reschedule, rules};

/// Gives task `n`, whose newest change is `last`, the decided state and what the request changes beside it. `what` is
/// the line of the history.
pub(super) fn write(
    batch: &mut Batch<'_>,
    (n, last): (i64, i64),
    change: &Reschedule,
    (what, state): (&ChangeKind, &TaskState),
) -> Result<(), Stop> {
    let kind = match what {
        ChangeKind::Rescheduled { kind, .. } => kind.as_ref(),
        _ => None,
    };
    let number = kind.map(|kind| batch.kind(kind.as_str())).transpose()?;
    let log = Log::of(what, 0, number.unwrap_or_default());
    let seq = batch.change(n, last, log)?;
    if let Some(kind) = kind {
        let sql = "UPDATE windlass_tasks SET kind = ?2 WHERE n = ?1";
        batch.run(sql, (n, kind.as_str()))?;
    }
    if let Some(props) = &change.props {
        put_props(batch, n, props)?;
    }
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
    let kind = number.unwrap_or(group.kind);
    let waits = dependencies::column(state).min(1);
    let version = state.version as i64;
    batch.write_state(
        "UPDATE windlass_states SET code = ?2, due = ?3, last = ?4, state = ?5, version = ?6, kind = ?7 WHERE n = ?1",
        (n, code, state.due().map(micros), seq, to_json(state)?, version, kind),
        Move::between(group, Group { kind, code, waits, ..group }),
    )?;
    if waits != group.waits {
        dependencies::put(
            batch,
            n,
            dependencies::column(state),
            dependencies::waited_for(state),
        )?;
    }
    // The claim looks for a slot again.
    limits::forget(batch, n, limited)?;
    if let Some(limits) = &change.limits {
        set_limits(batch, n, (&change.task, limits))?;
    }
    Ok(())
}

/// Gives a task new props.
pub(super) fn put_props(batch: &Batch<'_>, n: i64, props: &Json) -> Sql<()> {
    let sql = "UPDATE windlass_tasks SET props = ?2 WHERE n = ?1";
    batch.run(sql, (n, props.as_str()))?;
    let sql = "UPDATE windlass_states SET size = ?2 WHERE n = ?1";
    batch.run(sql, (n, props.len() as i64)).map(drop)
}

/// Gives a task without a claim, which is in no line, other limits.
pub(super) fn set_limits(
    batch: &Batch<'_>,
    n: i64,
    (id, limits): (&TaskId, &[Limit]),
) -> Result<(), Stop> {
    let terms = "SELECT terms FROM windlass_tasks WHERE n = ?1";
    let terms: Option<Text> = batch.first(terms, [n], |row| row.get(0))?.flatten();
    let terms = terms.map(|text| {
        serde_json::from_str::<Terms>(&text.0)
            .map_err(|e| Error::corrupt_task(id, format!("its terms: {}", plain::words(&e))))
    });
    let terms = rules::reschedule::terms(limits, terms.transpose()?);
    let limited = limited_by_terms(terms.as_ref());
    let terms = terms.map(|terms| json("terms", &terms)).transpose()?;
    batch.run(
        "UPDATE windlass_tasks SET terms = ?2 WHERE n = ?1",
        (n, terms),
    )?;
    let limit = "UPDATE windlass_states SET limited = ?2 WHERE n = ?1";
    batch.run(limit, (n, limited))?;
    Ok(())
}
