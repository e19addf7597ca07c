use jiff::SignedDuration;

use super::*;

const SECOND: SignedDuration = SignedDuration::from_secs(1);

fn now() -> Timestamp {
    Timestamp::from_second(1000).unwrap()
}

fn in_status(status: TaskStatus) -> TaskState {
    let mut state = TaskState::new(now());
    state.status = status;
    state
}

#[test]
fn only_a_task_that_waits_for_no_command_has_a_due_time() {
    let until = now() + SECOND;
    for (status, due, before, at) in [
        (TaskStatus::Runnable, Some(now()), true, true),
        (TaskStatus::Fault, Some(now()), true, true),
        (TaskStatus::Sleeping { until }, Some(until), false, true),
        (TaskStatus::Paused, None, false, false),
        (TaskStatus::Completed { result: None }, None, false, false),
        (TaskStatus::Failed, None, false, false),
        (TaskStatus::Killed, None, false, false),
    ] {
        let state = in_status(status);
        assert_eq!(state.due(), due, "{}", state.code());
        assert_eq!(state.is_due(now() - SECOND), before, "{}", state.code());
        assert_eq!(state.is_due(until), at, "{}", state.code());
    }
}

#[test]
fn a_submitted_task_sleeps_only_until_a_later_start() {
    let later = now() + SECOND;
    for (start_at, status) in [
        (None, TaskStatus::Runnable),
        (Some(now() - SECOND), TaskStatus::Runnable),
        (Some(now()), TaskStatus::Runnable),
        (Some(later), TaskStatus::Sleeping { until: later }),
    ] {
        let state = TaskState::submitted(start_at, now());
        assert_eq!(state, in_status(status), "{start_at:?}");
    }
}

#[test]
fn only_a_task_that_waits_for_a_time_or_for_room_is_rescheduled() {
    let later = now() + SECOND;
    let asleep = TaskStatus::Sleeping { until: later };
    for (status, moves) in [
        (TaskStatus::Runnable, true),
        (TaskStatus::Sleeping { until: now() }, true),
        (TaskStatus::Paused, false),
        (TaskStatus::Fault, false),
        (TaskStatus::Completed { result: None }, false),
        (TaskStatus::Failed, false),
        (TaskStatus::Killed, false),
    ] {
        let before = in_status(status);
        for (due, to) in [
            (later, asleep.clone()),
            (now(), TaskStatus::Runnable),
            (now() - SECOND, TaskStatus::Runnable),
        ] {
            let after = before.clone().rescheduled(Some(due), now());
            let code = before.code();
            assert_eq!(after.is_some(), moves, "{code} until {due}");
            if let Some(after) = after {
                assert_eq!(
                    (after.status, after.version),
                    (to, before.version + 1),
                    "{code}"
                );
            }
        }
    }
}

#[test]
fn a_claim_wakes_only_a_sleeper_whose_time_has_come() {
    for (until, code) in [
        (now() - SECOND, StateKind::Runnable),
        (now(), StateKind::Runnable),
        (now() + SECOND, StateKind::Sleeping),
    ] {
        let claimed = in_status(TaskStatus::Sleeping { until }).claimed(Fence(1), None, now());
        assert_eq!(claimed.code(), code, "{until}");
    }
}
