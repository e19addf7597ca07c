//! The task and the state that a reschedule leaves.

use jiff::Timestamp;
#[cfg(any(feature = "sqlite-system", feature = "etcd"))]
use windlass_statemachine::Terms;
use windlass_statemachine::{Invalid, Json, Kind, Limit, StateKind, Task, TaskState, check_limits};

use crate::store::{ChangeKind, Error, Reschedule, model::Reason};

/// The states whose due time a reschedule changes.
const MOVABLE: [StateKind; 2] = [StateKind::Runnable, StateKind::Sleeping];

/// Checks the request on its own.
///
/// # Errors
///
/// [`Error::Invalid`]: field `reschedule` when it changes nothing, `limits` or `limits.key` for limits that no task
/// may have, `data` or `props` when they are nested too deep.
pub(crate) fn check(change: &Reschedule) -> Result<(), Error> {
    if change.is_empty() {
        let reason = "changes nothing; give a due time, a priority, a kind, limits, data or props";
        return Err(Invalid::new("reschedule", reason).into());
    }
    check_depths(&change.data, &change.props)?;
    let limits = change.limits.as_deref().unwrap_or_default();
    check_limits(limits)?;
    let has_place = |key: &str| key.contains("{label:") || key.contains("{prop:");
    if let Some(limit) = limits.iter().find(|limit| has_place(limit.key())) {
        let reason = format!(
            "'{}' has a place for a value of a task, which a reschedule does not fill in; write the key as \
             the record of the task shows it",
            limit.key()
        );
        return Err(Invalid::new("limits.key", reason).into());
    }
    Ok(())
}

/// Checks how deep new data and props are nested.
///
/// # Errors
///
/// [`Error::Invalid`] (field `data`, `props`).
pub(super) fn check_depths(data: &Option<Json>, props: &Option<Json>) -> Result<(), Error> {
    for (field, json) in [("data", data), ("props", props)] {
        json.as_ref()
            .map_or(Ok(()), |json| json.check_depth(field))?;
    }
    Ok(())
}

/// Returns the new kind of a task; `None` when it keeps its kind.
///
/// # Errors
///
/// [`Reason::Invalid`] (field `kind`) for a schedule, and for a task that would become one: its handler reads a
/// specification that only the operations of schedules write.
fn new_kind(change: &Reschedule, task: &Task) -> Result<Option<Kind>, Reason> {
    let Some(kind) = change.kind.as_ref().filter(|kind| **kind != task.kind) else {
        return Ok(None);
    };
    if [kind, &task.kind]
        .iter()
        .any(|kind| kind.as_str() == Kind::SCHEDULE)
    {
        let reason = "is that of schedules, which a task neither gets nor loses; create or delete a schedule";
        return Err(Reason::Invalid(Invalid::new("kind", reason)));
    }
    Ok(Some(kind.clone()))
}

/// Returns what the history says of the change, and the state that follows it, of a live, unclaimed task.
///
/// # Errors
///
/// [`Reason::State`] for a new due time of a task that waits for no time; [`Reason::Invalid`] (field `kind`) for a
/// schedule.
pub(crate) fn decide(
    change: &Reschedule,
    task: &Task,
    before: TaskState,
    now: Timestamp,
) -> Result<(ChangeKind, TaskState), Reason> {
    let kind = new_kind(change, task)?;
    let from = before.code();
    let state = state(change, before, now)?;
    let to = state.code();
    Ok((ChangeKind::Rescheduled { from, to, kind }, state))
}

/// Changes the task itself: everything but its state.
pub(crate) fn apply(change: &Reschedule, task: &mut Task) {
    task.priority = change.priority.unwrap_or(task.priority);
    if let Some(kind) = &change.kind {
        task.kind.clone_from(kind);
    }
    if let Some(limits) = &change.limits {
        task.limits.clone_from(limits);
    }
    if let Some(props) = &change.props {
        task.props.clone_from(props);
    }
}

/// Returns the limits that a task gets with new props, because keys of its limits contain values of the props. `None` when
/// it keeps its limits. Every change of the props asks here: a reschedule, a retry, and a submit that replaces a waiting
/// task.
///
/// # Errors
///
/// [`Invalid`] (field `limits.key`) when the new props lack a value that a key names.
pub(super) fn limits_of(task: &Task, props: Option<&Json>) -> Result<Option<Vec<Limit>>, Invalid> {
    props.map_or(Ok(None), |props| task.limits_with(props))
}

/// Returns the terms of a task with other limits; `None` when it has none.
#[cfg(any(feature = "sqlite-system", feature = "etcd"))]
pub(crate) fn terms(limits: &[Limit], terms: Option<Terms>) -> Option<Terms> {
    let mut terms = terms.unwrap_or_default();
    limits.clone_into(&mut terms.limits);
    (terms != Terms::default()).then_some(terms)
}

/// Gives a state new data; null removes the data, and what it was before.
pub(super) fn put_data(state: &mut TaskState, data: Option<&Json>, now: Timestamp) {
    if let Some(data) = data {
        match data.is_null() {
            // What is removed is not kept either.
            true => (state.data, state.earlier_data) = (None, Default::default()),
            false => state.replace_data(Some(data.clone()), now),
        }
    }
}

/// Refuses a time after a deadline of the task, which would then fail without a run.
fn check_deadline(change: &Reschedule, state: &TaskState) -> Result<(), Reason> {
    let deadlines = state.deadlines.as_deref().copied().unwrap_or_default();
    let deadlines = [
        ("start_by", deadlines.start_by),
        ("end_by", deadlines.end_by),
    ];
    for (field, at) in deadlines {
        if let (Some(due), Some(at)) = (change.due, at)
            && at < due
        {
            let reason = format!(
                "{due} is after {field} {at} of the task, which would fail without a run; give an earlier time"
            );
            return Err(Reason::Invalid(Invalid::new("due", reason)));
        }
    }
    Ok(())
}

/// Returns the state after the change.
///
/// # Errors
///
/// [`Reason::State`] for a new due time of a task that waits for no time.
fn state(change: &Reschedule, mut state: TaskState, now: Timestamp) -> Result<TaskState, Reason> {
    put_data(&mut state, change.data.as_ref(), now);
    let is = state.code();
    check_deadline(change, &state)?;
    state
        .rescheduled(change.due, now)
        .ok_or_else(|| Reason::State {
            is,
            required: MOVABLE.to_vec(),
        })
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use windlass_statemachine::TaskStatus;

    use super::*;

    #[test]
    fn a_change_of_nothing_is_refused() {
        let change = Reschedule::new("a".parse().unwrap());
        let refused = check(&change).unwrap_err().to_string();
        assert!(
            refused.starts_with("reschedule: changes nothing"),
            "{refused}"
        );
        assert!(check(&change.clone().priority(0)).is_ok());
        assert!(check(&change.due(Timestamp::UNIX_EPOCH)).is_ok());
    }

    #[test]
    fn data_that_is_removed_is_not_kept() {
        let now = Timestamp::UNIX_EPOCH;
        let mut state = TaskState::new(now);
        for data in ["1", "2"] {
            put_data(&mut state, Some(&Json::parse("data", data).unwrap()), now);
        }
        assert_eq!(state.earlier_data.len(), 2);
        put_data(&mut state, None, now);
        assert_eq!(state.earlier_data.len(), 2, "no new data");
        put_data(&mut state, Some(&Json::null()), now);
        assert_eq!((&state.data, state.earlier_data.len()), (&None, 0));
    }

    #[test]
    fn new_limits_are_checked_and_replace_the_others() {
        let (one, two) = (
            Limit::at_once("one", 1).unwrap(),
            Limit::at_once("two", 2).unwrap(),
        );
        let change = Reschedule::new("a".parse().unwrap());
        let to = |limits: &[Limit]| change.clone().limits(limits.to_vec());
        assert!(check(&to(&[one.clone(), two.clone()])).is_ok());
        assert!(check(&to(&[])).is_ok());
        let field = |limits: &[Limit]| match check(&to(limits)) {
            Err(Error::Invalid(wrong)) => wrong.field().to_owned(),
            other => panic!("{other:?}"),
        };
        assert_eq!(field(&[one.clone(), one.clone()]), "limits");
        assert_eq!(field(&vec![one.clone(); 9]), "limits");
        let place = Limit::at_once("customer={prop:id}", 1).unwrap();
        assert_eq!(field(&[place]), "limits.key");
        let before = Terms {
            limits: vec![one],
            end_by: Some(Timestamp::UNIX_EPOCH),
            ..Terms::default()
        };
        let after = terms(std::slice::from_ref(&two), Some(before.clone())).unwrap();
        assert_eq!((after.limits, after.end_by), (vec![two], before.end_by));
        assert_eq!(terms(&[], None), None);
    }

    #[test]
    fn a_task_gets_another_kind_and_a_schedule_keeps_its_own() {
        let now = Timestamp::UNIX_EPOCH;
        let to = |kind: &str| Reschedule::new("a".parse().unwrap()).kind(kind.parse().unwrap());
        let of = |kind: &str| Task::new("a".parse().unwrap(), kind.parse().unwrap());
        let decided = |kind: &str, other: &str| {
            let (what, _) = decide(&to(other), &of(kind), TaskState::new(now), now)?;
            let ChangeKind::Rescheduled { kind, .. } = what else {
                panic!("{what:?}")
            };
            Ok::<_, Reason>(kind.map(|kind| kind.to_string()))
        };
        assert_eq!(
            decided("inbox", "inbox/err"),
            Ok(Some("inbox/err".to_owned()))
        );
        assert_eq!(decided("inbox", "inbox"), Ok(None));
        for (kind, other) in [("schedule", "k"), ("k", "schedule")] {
            let Err(Reason::Invalid(invalid)) = decided(kind, other) else {
                panic!("{kind} became {other}")
            };
            assert_eq!(invalid.field(), "kind");
        }
        let mut task = of("inbox");
        let props = Json::new("props", &7).unwrap();
        apply(&to("inbox/err").props(props.clone()).priority(3), &mut task);
        assert_eq!((task.kind.as_str(), task.priority), ("inbox/err", 3));
        assert_eq!(task.props, props);
    }

    #[test]
    fn a_time_after_a_deadline_is_refused() {
        let now = Timestamp::UNIX_EPOCH;
        let at = |seconds| now + SignedDuration::from_secs(seconds);
        let mut task = Task::new("a".parse().unwrap(), "k".parse().unwrap());
        task.start_by = Some(at(60));
        let due = |seconds| {
            let change = Reschedule::new("a".parse().unwrap()).due(at(seconds));
            decide(&change, &task, TaskState::first(&task, now), now).map(|(_, state)| state.due())
        };
        assert_eq!(due(60), Ok(Some(at(60))));
        let Err(Reason::Invalid(wrong)) = due(61) else {
            panic!("the task would fail without a run")
        };
        assert_eq!(wrong.field(), "due");
        assert!(wrong.reason().contains("after start_by"), "{wrong}");
    }

    #[test]
    fn only_the_due_time_needs_a_state_that_waits_for_it() {
        let now = Timestamp::UNIX_EPOCH;
        let paused = TaskState {
            status: TaskStatus::Paused,
            ..TaskState::new(now)
        };
        let change = Reschedule::new("a".parse().unwrap()).priority(7);
        let after = state(&change, paused.clone(), now).unwrap();
        assert_eq!((after.code(), after.version), (StateKind::Paused, 1));
        assert_eq!(after.reschedules, 1);
        let change = change.due(now + SignedDuration::from_secs(1));
        let (is, required) = (StateKind::Paused, MOVABLE.to_vec());
        let refused = Err(Reason::State { is, required });
        assert_eq!(state(&change, paused, now), refused);
        let asleep = state(&change, TaskState::new(now), now).unwrap();
        assert_eq!(asleep.due(), change.due);
    }
}
