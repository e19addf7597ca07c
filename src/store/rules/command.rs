//! Checks commands, and makes the outcomes that stores record themselves.

use jiff::Timestamp;
use windlass_statemachine::{Command, Outcome, StateKind, size::Size};

use crate::store::Error;

/// Checks a new command for a task with `props` bytes of props.
///
/// # Errors
///
/// [`Error::Invalid`] for a wake-up in the past, [`Error::TooLarge`] (field `result`, or `payload` for
/// a signal).
pub(crate) fn check(
    command: &Command,
    props: usize,
    limit: usize,
    now: Timestamp,
) -> Result<(), Error> {
    command.check(now)?;
    let result = match command {
        Command::Complete { result } => result.as_ref().map_or(0, |json| json.len()),
        Command::Signal(signal) => {
            let payload = signal.payload_json().map_or(0, |json| json.len());
            let bytes = props.saturating_add(payload);
            if payload > 0 && bytes > limit {
                return Err(Error::too_large("payload", bytes, limit));
            }
            return Ok(());
        }
        _ => 0,
    };
    let size = Size {
        result,
        ..Size::default()
    };
    super::size::check(size, props, limit)
}

/// Returns the outcome of a command that was still in the queue when its task ended.
pub(crate) fn ended(code: StateKind) -> Outcome {
    let reason = format!("the task has ended: it is {code}");
    Outcome::Rejected { reason }
}

/// Returns the outcome of a command that is settled before the end of its task is stored, because more commands wait than one
/// write takes. If the claim is lost then, another one continues the task.
#[cfg(feature = "etcd")]
pub(crate) fn ending(code: StateKind) -> Outcome {
    let reason = format!("the task was about to end: {code}");
    Outcome::Rejected { reason }
}

/// Returns the outcome of a command whose record cannot be read. It lets the commands after it
/// continue.
#[cfg(any(test, feature = "sqlite-system", feature = "etcd"))]
pub(crate) fn unreadable(reason: &str) -> Outcome {
    let reason = format!("its record cannot be read: {reason}");
    Outcome::Rejected { reason }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use windlass_statemachine::Json;

    use super::*;

    #[test]
    fn a_result_has_room_beside_the_props() {
        let now = Timestamp::UNIX_EPOCH;
        let result = Some(Json::new("result", &"12345678").unwrap());
        let complete = Command::Complete { result };
        assert!(check(&complete, 10, 20, now).is_ok());
        let refused = check(&complete, 11, 20, now).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "result has 21 bytes; the store takes at most 20"
        );
        let result = None;
        assert!(check(&Command::Complete { result }, 99, 20, now).is_ok());
        assert!(check(&Command::Kill, 99, 20, now).is_ok());
    }

    #[test]
    fn a_payload_has_room_beside_the_props() {
        let now = Timestamp::UNIX_EPOCH;
        let signal = Command::signal("n", &"12345678").unwrap();
        assert!(check(&signal, 10, 20, now).is_ok());
        let refused = check(&signal, 11, 20, now).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "payload has 21 bytes; the store takes at most 20"
        );
        let plain = Command::Signal(windlass_statemachine::Signal::new("n"));
        assert!(check(&plain, 99, 20, now).is_ok());
    }

    #[test]
    fn a_wake_up_in_the_past_is_refused() {
        let now = Timestamp::UNIX_EPOCH;
        assert!(check(&Command::Sleep { until: now }, 0, 20, now).is_err());
        let until = now + SignedDuration::from_nanos(1);
        assert!(check(&Command::Sleep { until }, 0, 20, now).is_ok());
    }

    #[test]
    fn outcomes_give_their_reason() {
        let reason = |outcome| match outcome {
            Outcome::Rejected { reason } => reason,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            reason(ended(StateKind::Killed)),
            "the task has ended: it is killed"
        );
        assert_eq!(
            reason(unreadable("no JSON")),
            "its record cannot be read: no JSON"
        );
    }
}
