//! [`transition()`]: the table, as a function.

use jiff::Timestamp;

use crate::{Action, ActionKind, Code, Invalid, Message, State, Status, errors::MAX_KEPT};

/// Why a message had no effect. The state stays as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransitionError {
    /// The table has no such transition.
    #[error("{}", explain(*from, *message))]
    NotInTable {
        /// The state that the message met.
        from: Code,
        /// The message.
        message: ActionKind,
    },
    /// The message itself is wrong.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

fn explain(from: Code, message: ActionKind) -> String {
    let article = if from == Code::Fault {
        "a task in"
    } else {
        "a"
    };
    let noun = if from == Code::Fault { "" } else { " task" };
    let why = match from {
        _ if from.is_terminal() => format!("{from} is final (retry starts it anew)"),
        Code::Fault => "its retry policy decides first".to_owned(),
        _ => "only a running handler returns it".to_owned(),
    };
    format!("{article} {from}{noun} does not take `{message}`: {why}")
}

/// The state that follows from `state` and `message` at `now`. The message's data, if it brings
/// any, replaces the state's.
///
/// # Errors
///
/// [`TransitionError`]: the table has no such transition, or the message's own content is wrong.
/// The state is only borrowed: it stays.
///
/// # Example
///
/// ```
/// use windlass_statemachine::{Code, Message, State, transition};
/// use jiff::Timestamp;
///
/// let now = Timestamp::UNIX_EPOCH;
/// let fault = transition(&State::new(now), &Message::error("disk full"), now).unwrap();
/// assert_eq!(fault.code(), Code::Fault);
/// assert_eq!(fault.errors.last().unwrap().error, "disk full");
/// ```
pub fn transition(
    state: &State,
    message: &Message,
    now: Timestamp,
) -> Result<State, TransitionError> {
    use ActionKind as M;
    use Code as C;

    let (from, kind) = (state.code(), message.kind());
    let not_in_table = || TransitionError::NotInTable {
        from,
        message: kind,
    };
    let mut next = state.clone();
    match (from, kind) {
        (C::Completed | C::Failed | C::Killed, _)
        | (C::Paused, M::Error)
        | (C::Fault, M::Checkpoint | M::Complete) => return Err(not_in_table()),

        (C::Runnable | C::Sleeping | C::Paused | C::Fault, M::Run) => {
            next.set(Status::Runnable, now);
        }
        (C::Runnable, M::Release | M::Checkpoint)
        | (C::Sleeping | C::Paused, M::Release | M::Checkpoint)
        | (C::Fault, M::Release) => {}
        (C::Runnable | C::Sleeping | C::Paused | C::Fault, M::Pause) => {
            next.set(Status::Paused, now);
        }
        (C::Runnable | C::Sleeping, M::Error) => next.set(Status::Fault, now),
        (C::Fault, M::Error) => next.set(Status::Failed, now),
        (C::Runnable | C::Sleeping | C::Paused | C::Fault, M::Kill) => {
            next.set(Status::Killed, now);
        }
        // Their content is read below.
        (C::Runnable | C::Sleeping | C::Paused | C::Fault, M::Sleep)
        | (C::Runnable | C::Sleeping | C::Paused, M::Complete) => {}
    }
    match &message.action {
        Action::Sleep { until } => {
            next.set(
                Status::Sleeping {
                    until: until.resolve(now)?,
                },
                now,
            );
        }
        Action::Complete { result } => {
            next.set(
                Status::Completed {
                    result: result.clone(),
                },
                now,
            );
        }
        Action::Error { error } if !error.is_empty() || from != C::Fault => {
            let text = if error.is_empty() {
                "(an error without a text)"
            } else {
                error
            };
            // The machine cuts the log to what the task's retry policy looks back at.
            next.errors.push(now, text, MAX_KEPT);
        }
        _ => {}
    }
    if let Some(data) = &message.data {
        next.data = Some(data.clone());
    }
    Ok(next)
}
