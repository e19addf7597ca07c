//! The state and the terms of a task after a reschedule.

use jiff::Timestamp;
#[cfg(any(feature = "sqlite", feature = "etcd"))]
use windlass_statemachine::Terms;
use windlass_statemachine::{Invalid, StateKind, TaskState, check_limits};

use crate::store::{Error, Reschedule, model::Reason};

/// The states whose due time a reschedule changes.
const MOVABLE: [StateKind; 2] = [StateKind::Runnable, StateKind::Sleeping];

/// Checks the request on its own.
///
/// # Errors
///
/// [`Error::Invalid`]: field `reschedule` when it changes nothing, `limits` or `limits.key` for invalid limits.
pub(crate) fn check(change: &Reschedule) -> Result<(), Error> {
    let moves = change.due.is_some() || change.priority.is_some();
    if !moves && change.limits.is_none() && change.data.is_none() {
        let reason = "gives no due time, no priority and no limits; give at least one of them";
        return Err(Invalid::new("reschedule", reason).into());
    }
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

/// Returns the terms of a task after the change; `None` when it has none.
#[cfg(any(feature = "sqlite", feature = "etcd"))]
pub(crate) fn terms(change: &Reschedule, terms: Option<Terms>) -> Option<Terms> {
    let mut terms = terms.unwrap_or_default();
    if let Some(limits) = &change.limits {
        terms.limits.clone_from(limits);
    }
    (terms != Terms::default()).then_some(terms)
}

/// Returns the state of a live, unclaimed task after the change.
///
/// # Errors
///
/// [`Reason::State`] for a new due time of a task that has no due time.
pub(crate) fn state(
    change: &Reschedule,
    mut state: TaskState,
    now: Timestamp,
) -> Result<TaskState, Reason> {
    if let Some(data) = &change.data {
        state.data = Some(data.clone());
    }
    let Some(due) = change.due else {
        return Ok(state);
    };
    let is = state.code();
    state.rescheduled(due, now).ok_or_else(|| Reason::State {
        is,
        required: MOVABLE.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use windlass_statemachine::{Limit, TaskStatus};

    use super::*;

    #[test]
    fn a_change_of_nothing_is_refused() {
        let change = Reschedule::new("a".parse().unwrap());
        let refused = check(&change).unwrap_err().to_string();
        assert!(
            refused.starts_with("reschedule: gives no due time"),
            "{refused}"
        );
        assert!(check(&change.clone().priority(0)).is_ok());
        assert!(check(&change.due(Timestamp::UNIX_EPOCH)).is_ok());
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
        let after = terms(&to(std::slice::from_ref(&two)), Some(before.clone())).unwrap();
        assert_eq!((after.limits, after.end_by), (vec![two], before.end_by));
        assert_eq!(terms(&change, Some(before.clone())), Some(before));
        assert_eq!(terms(&to(&[]), None), None);
    }

    #[test]
    fn only_the_due_time_needs_a_state_that_waits_for_it() {
        let now = Timestamp::UNIX_EPOCH;
        let paused = TaskState {
            status: TaskStatus::Paused,
            ..TaskState::new(now)
        };
        let change = Reschedule::new("a".parse().unwrap()).priority(7);
        assert_eq!(state(&change, paused.clone(), now), Ok(paused.clone()));
        let change = change.due(now + SignedDuration::from_secs(1));
        let (is, required) = (StateKind::Paused, MOVABLE.to_vec());
        let refused = Err(Reason::State { is, required });
        assert_eq!(state(&change, paused, now), refused);
        let asleep = state(&change, TaskState::new(now), now).unwrap();
        assert_eq!(asleep.due(), change.due);
    }
}
