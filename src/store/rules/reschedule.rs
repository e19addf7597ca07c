//! The state that a reschedule leaves a task in.

use jiff::Timestamp;
use windlass_statemachine::{Invalid, StateKind, TaskState};

use crate::store::{Error, Reschedule, model::Reason};

/// The states whose due time a reschedule changes.
const MOVABLE: [StateKind; 2] = [StateKind::Runnable, StateKind::Sleeping];

/// Checks the request itself.
///
/// # Errors
///
/// [`Error::Invalid`] (field `reschedule`) when it changes nothing.
pub(crate) fn check(change: &Reschedule) -> Result<(), Error> {
    if change.due.is_some() || change.priority.is_some() || change.data.is_some() {
        return Ok(());
    }
    let reason = "gives neither a due time nor a priority; give one of them or both";
    Err(Invalid::new("reschedule", reason).into())
}

/// Returns the state of a live, unclaimed task after the change.
///
/// # Errors
///
/// [`Reason::State`] for a new due time of a task that waits for no time.
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
    use windlass_statemachine::TaskStatus;

    use super::*;

    #[test]
    fn a_change_of_nothing_is_refused() {
        let change = Reschedule::new("a".parse().unwrap());
        let refused = check(&change).unwrap_err().to_string();
        assert!(
            refused.starts_with("reschedule: gives neither"),
            "{refused}"
        );
        assert!(check(&change.clone().priority(0)).is_ok());
        assert!(check(&change.due(Timestamp::UNIX_EPOCH)).is_ok());
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
