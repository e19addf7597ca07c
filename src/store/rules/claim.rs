//! Whether a task can be claimed.

use jiff::Timestamp;
use windlass_statemachine::State;

/// Returns whether a task without an owner can be claimed at `now`: it is live, and due or commanded.
/// An index of due times may find tasks that are not; this decides.
pub(crate) fn is_claimable(state: &State, is_commanded: bool, now: Timestamp) -> bool {
    !state.code().is_terminal() && (is_commanded || state.is_due(now))
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use windlass_statemachine::Status;

    use super::*;

    #[test]
    fn a_live_task_is_claimed_when_it_is_due_or_commanded() {
        let now = Timestamp::UNIX_EPOCH;
        let soon = now + SignedDuration::from_nanos(1);
        for (status, due, commanded) in [
            (Status::Runnable, true, true),
            (Status::Fault, true, true),
            (Status::Sleeping { until: now }, true, true),
            (Status::Sleeping { until: soon }, false, true),
            (Status::Paused, false, true),
            (Status::Completed { result: None }, false, false),
            (Status::Failed, false, false),
            (Status::Killed, false, false),
        ] {
            let state = State {
                status,
                ..State::new(soon)
            };
            assert_eq!(is_claimable(&state, false, now), due, "{}", state.code());
            let reported = is_claimable(&state, true, now);
            assert_eq!(reported, commanded, "{} with a command", state.code());
        }
    }
}
