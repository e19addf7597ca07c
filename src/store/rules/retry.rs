//! The state that a retry starts a task with.

use jiff::Timestamp;
use windlass_statemachine::{Fence, TaskId, TaskState, errors::MAX_KEPT};

use crate::store::Error;

/// What a store holds of a task that is to be retried.
#[derive(Debug)]
pub(crate) struct Record<'a> {
    /// The task.
    pub(crate) id: &'a TaskId,
    /// Its state, or why that cannot be read.
    pub(crate) state: Result<TaskState, String>,
    /// Why its envelope cannot be read; `None` when it can.
    pub(crate) envelope: Option<String>,
    /// Whether the task is quarantined.
    pub(crate) is_quarantined: bool,
    /// The counters after the last write.
    pub(crate) last: Counted,
}

/// The counters of the last write, as a store knows them without reading the state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// The version of the state.
    pub(crate) version: u64,
    /// The fence of the last claim.
    pub(crate) fence: Fence,
}

/// Returns the state that a retry stores. Every retry writes the next version.
///
/// - An ended task starts a new incarnation.
/// - So does one whose record cannot be read. Its error log keeps the reason; what can be read stays.
///   Without a state, it starts from its props, in the incarnation 1.
/// - A quarantined task whose record can be read again goes on in its incarnation.
///
/// # Errors
///
/// [`Error::Invalid`] (field `state`) for a live task that can be read.
pub(crate) fn state(record: Record<'_>, now: Timestamp) -> Result<TaskState, Error> {
    let Record {
        id,
        state,
        envelope,
        is_quarantined,
        last,
    } = record;
    let (mut state, unreadable) = match state {
        Ok(state) => (state, envelope),
        Err(reason) => {
            let state = TaskState {
                version: last.version,
                fence: last.fence,
                ..TaskState::new(now)
            };
            (state, Some(reason))
        }
    };
    if let Some(reason) = unreadable {
        state.errors.push(now, restarted(id, &reason), MAX_KEPT);
        return Ok(state.retried(now));
    }
    if state.code().is_terminal() {
        return Ok(state.retried(now));
    }
    if !is_quarantined {
        return Err(Error::not_retried(state.code()));
    }
    state.version = state.version.saturating_add(1);
    Ok(state)
}

/// The line in the error log of a task whose record could not be read.
fn restarted(id: &TaskId, reason: &str) -> String {
    format!("could not read the record of task '{id}': {reason}; a retry restarted the task")
}

#[cfg(test)]
mod tests {
    use windlass_statemachine::{StateKind, TaskStatus};

    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn stored(status: TaskStatus) -> TaskState {
        TaskState {
            status,
            version: 7,
            incarnation: 2,
            attempts: 3,
            fence: Fence(40),
            data: Some(serde_json::json!(1).into()),
            ..TaskState::new(NOW)
        }
    }

    fn retried(
        state: Result<TaskState, &str>,
        envelope: Option<&str>,
        is_quarantined: bool,
    ) -> Result<TaskState, Error> {
        let record = Record {
            id: &"a".parse().unwrap(),
            state: state.map_err(str::to_owned),
            envelope: envelope.map(str::to_owned),
            is_quarantined,
            last: Counted {
                version: 9,
                fence: Fence(50),
            },
        };
        super::state(record, NOW)
    }

    fn last_error(state: &TaskState) -> &str {
        &state.errors.last().expect("a reason").error
    }

    #[test]
    fn an_ended_task_starts_a_new_incarnation() {
        for quarantined in [false, true] {
            let state = retried(Ok(stored(TaskStatus::Failed)), None, quarantined).unwrap();
            assert_eq!(state.code(), StateKind::Runnable);
            assert_eq!((state.incarnation, state.version), (3, 8));
            assert_eq!((state.attempts, state.fence), (0, Fence(40)));
            assert!(state.data.is_some() && state.errors.entries().is_empty());
        }
    }

    #[test]
    fn a_state_that_cannot_be_read_starts_again_and_goes_on_counting() {
        for quarantined in [false, true] {
            let state = retried(Err("no JSON"), None, quarantined).unwrap();
            assert_eq!(state.code(), StateKind::Runnable);
            assert_eq!((state.incarnation, state.version), (1, 10));
            assert_eq!((state.fence, state.data.clone()), (Fence(50), None));
            assert_eq!(
                last_error(&state),
                "could not read the record of task 'a': no JSON; a retry restarted the task"
            );
        }
    }

    #[test]
    fn an_envelope_that_cannot_be_read_leaves_the_state_its_data() {
        for status in [TaskStatus::Paused, TaskStatus::Failed] {
            let state = retried(Ok(stored(status)), Some("kind: is empty"), true).unwrap();
            assert_eq!(state.code(), StateKind::Runnable);
            assert_eq!((state.incarnation, state.version), (3, 8));
            assert!(state.data.is_some());
            assert!(last_error(&state).contains("kind: is empty"));
        }
    }

    #[test]
    fn a_record_that_can_be_read_again_goes_on() {
        let state = retried(Ok(stored(TaskStatus::Paused)), None, true).unwrap();
        let expected = TaskState {
            version: 8,
            ..stored(TaskStatus::Paused)
        };
        assert_eq!(state, expected);
    }

    #[test]
    fn a_live_task_is_not_retried() {
        let refused = retried(Ok(stored(TaskStatus::Paused)), None, false).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "state: is paused; retry starts only tasks that have ended or are quarantined; resume it to run it now"
        );
    }
}
