//! Whether a task can be claimed.

use jiff::Timestamp;
use windlass_statemachine::TaskState;

/// Returns whether a task without an owner can be claimed at `now`: it is live, and due or commanded.
/// An index of due times may find tasks that are not; this decides.
pub(crate) fn is_claimable(state: &TaskState, is_commanded: bool, now: Timestamp) -> bool {
    !state.code().is_terminal() && (is_commanded || state.is_due(now))
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use windlass_statemachine::TaskStatus;

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
        }
    }
}
