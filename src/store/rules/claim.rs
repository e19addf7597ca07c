//! Whether a task can be claimed.

use jiff::Timestamp;
use windlass_statemachine::TaskState;

/// Returns whether a task without an owner can be claimed at `now`: it is live, and is due, commanded or
/// past a deadline. An index of due times may return tasks that cannot be claimed, so this rule decides.
pub(crate) fn is_claimable(state: &TaskState, is_commanded: bool, now: Timestamp) -> bool {
    !state.code().is_terminal() && (is_commanded || state.is_due(now) || is_late(state, now))
}

/// Returns whether a task has missed a deadline. Such a task is claimed without slots of its limits, and
/// fails.
pub(crate) fn is_late(state: &TaskState, now: Timestamp) -> bool {
    state.deadline().is_some_and(|at| at <= now)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use windlass_statemachine::{TaskStatus, state::Deadlines};

    use super::*;

    #[test]
    fn a_live_task_is_claimed_when_it_is_due_or_commanded() {
        let now = Timestamp::UNIX_EPOCH;
        let soon = now + SignedDuration::from_nanos(1);
        for (status, due, commanded) in [
            (TaskStatus::Runnable, true, true),
            (TaskStatus::Fault, true, true),
            (TaskStatus::Sleeping { until: now }, true, true),
            (TaskStatus::Sleeping { until: soon }, false, true),
            (TaskStatus::Paused, false, true),
            (TaskStatus::Completed { result: None }, false, false),
            (TaskStatus::Failed, false, false),
            (TaskStatus::Killed, false, false),
        ] {
            let state = TaskState {
                status,
                ..TaskState::new(soon)
            };
            assert_eq!(is_claimable(&state, false, now), due, "{}", state.code());
            let reported = is_claimable(&state, true, now);
            assert_eq!(reported, commanded, "{} with a command", state.code());
            for (end_by, late) in [(now, commanded), (soon, due)] {
                let mut state = state.clone();
                let start_by = None;
                let end_by = Some(end_by);
                state.deadlines = Some(Box::new(Deadlines { start_by, end_by }));
                assert_eq!(is_claimable(&state, false, now), late, "{state:?}");
            }
        }
    }
}
