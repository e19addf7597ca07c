//! The state with which a retry starts a task.

use jiff::Timestamp;
use windlass_statemachine::{Fence, Invalid, TaskId, TaskState, TaskStatus, errors::MAX_KEPT};

use crate::store::Error;

/// A task to retry, as the store has it.
#[derive(Debug)]
pub(crate) struct Record<'a> {
    /// The task.
    pub(crate) id: &'a TaskId,
    /// Its state, or the reason why it cannot be read.
    pub(crate) state: Result<TaskState, String>,
    /// The reason why its envelope cannot be read; `None` when it can be read.
    pub(crate) envelope: Option<String>,
    /// The start of the task, if its envelope has one.
    pub(crate) start_at: Option<Timestamp>,
    /// Whether the task is quarantined.
    pub(crate) is_quarantined: bool,
    /// Whether a live lease has claimed the task.
    pub(crate) is_claimed: bool,
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
/// - A task whose state cannot be read also starts a new incarnation, from its props. Its error log keeps
///   the reason. Its incarnation is the number of the version: every retry writes a version, so no earlier
///   incarnation was greater. It waits for its start time, like a new task.
/// - A quarantined task whose record can be read again continues in its incarnation.
///
/// # Errors
///
/// - [`Error::Invalid`] (field `state`) for a live task that can be read, and for an unreadable one that
///   a node has claimed: that node would not notice the retry.
/// - [`Error::Corrupt`] when the envelope cannot be read: a retry would overwrite what can be
///   repaired.
pub(crate) fn state(record: Record<'_>, now: Timestamp) -> Result<TaskState, Error> {
    let Record {
        id,
        state,
        envelope,
        start_at,
        is_quarantined,
        is_claimed,
        last,
    } = record;
    if let Some(reason) = envelope {
        let advice = "; repair the record and retry the task, or delete it";
        return Err(Error::corrupt_task(id, reason + advice));
    }
    let mut state = match state {
        Ok(state) => state,
        Err(reason) if is_claimed => return Err(claimed(id, &reason).into()),
        Err(reason) => {
            let last = TaskState {
                version: last.version,
                incarnation: u32::try_from(last.version).unwrap_or(u32::MAX),
                fence: last.fence,
                ..TaskState::new(now)
            };
            let mut state = last.retried(now);
            if let Some(until) = start_at.filter(|start| *start > now) {
                state.status = TaskStatus::Sleeping { until };
            }
            state.errors.push(now, restarted(id, &reason), MAX_KEPT);
            return Ok(state);
        }
    };
    if state.code().is_terminal() {
        return Ok(state.retried(now));
    }
    if !is_quarantined {
        return Err(Error::not_retried(state.code()));
    }
    state.version = state.version.saturating_add(1);
    Ok(state)
}

/// Returns the error for a task that a node has claimed.
fn claimed(id: &TaskId, reason: &str) -> Invalid {
    let text = format!(
        "of task '{id}' cannot be read ({reason}), and a live node has claimed the task: the next write of \
         that node repairs the record or ends the claim; retry the task when no node has it"
    );
    Invalid::new("state", text)
}

/// Returns the line in the error log of a task whose record could not be read.
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
            start_at: None,
            is_quarantined,
            is_claimed: false,
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
            assert_eq!((state.incarnation, state.version), (10, 10));
            assert_eq!((state.fence, state.data.clone()), (Fence(50), None));
            assert_eq!(
                last_error(&state),
                "could not read the record of task 'a': no JSON; a retry restarted the task"
            );
        }
    }

    #[test]
    fn a_task_whose_envelope_cannot_be_read_is_not_retried() {
        for state in [Ok(stored(TaskStatus::Failed)), Err("no JSON")] {
            let refused = retried(state, Some("kind: is empty"), true).unwrap_err();
            assert_eq!(
                refused.to_string(),
                "the record of task 'a' cannot be read: kind: is empty; repair the record and retry the \
                 task, or delete it"
            );
        }
    }

    #[test]
    fn a_state_that_cannot_be_read_waits_for_its_start_and_for_its_owner() {
        let id = "a".parse().unwrap();
        let record = |start_at, is_claimed| Record {
            id: &id,
            state: Err("no JSON".to_owned()),
            envelope: None,
            start_at,
            is_quarantined: false,
            is_claimed,
            last: Counted::default(),
        };
        let (early, late) = (NOW, NOW + jiff::SignedDuration::from_hours(1));
        let started = super::state(record(Some(early), false), NOW).unwrap();
        assert_eq!(started.status, TaskStatus::Runnable);
        let waits = super::state(record(Some(late), false), NOW).unwrap();
        assert_eq!(waits.status, TaskStatus::Sleeping { until: late });
        let refused = super::state(record(None, true), NOW).unwrap_err();
        assert!(matches!(refused, Error::Invalid(_)), "{refused}");
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
