//! [`transition()`]: the transition table, as a function.

use jiff::Timestamp;

use crate::{
    Action, ActionKind, Invalid, Message, StateKind, TaskState, TaskStatus, Wake,
    errors::MAX_KEPT,
    state::Pause,
    time::LAST,
    waits::{WaitStage, Waits},
};

/// The transition table: what follows from a state (the row, in the order of [`StateKind::ALL`]) and a
/// message (the column, in the order of [`ActionKind::ALL`]). `None`: no such transition.
///
/// # Example
///
/// ```
/// use windlass_statemachine::{ActionKind, StateKind, transition::TABLE};
///
/// assert_eq!(TABLE[StateKind::Paused as usize][ActionKind::Run as usize], Some(StateKind::Runnable));
/// assert_eq!(TABLE[StateKind::Killed as usize], [None; 8]);
/// ```
#[rustfmt::skip] // A line per state reads as the table that it is.
pub const TABLE: [[Option<StateKind>; 8]; 7] = {
    use StateKind::{Completed, Failed, Fault, Killed, Paused, Runnable, Sleeping};
    const fn to(code: StateKind) -> Option<StateKind> {
        Some(code)
    }
    [
        // Run           Sleep         Pause       Release       Checkpoint    Error       Complete       Kill
        [to(Runnable), to(Sleeping), to(Paused), to(Runnable), to(Runnable), to(Fault),  to(Completed), to(Killed)],
        [to(Runnable), to(Sleeping), to(Paused), to(Sleeping), to(Sleeping), to(Fault),  to(Completed), to(Killed)],
        [to(Runnable), to(Sleeping), to(Paused), to(Paused),   to(Paused),   None,       to(Completed), to(Killed)],
        [to(Runnable), to(Sleeping), to(Paused), to(Fault),    None,         to(Failed), None,          to(Killed)],
        [None; 8],
        [None; 8],
        [None; 8],
    ]
};

/// What follows from a state (in the order of [`StateKind::ALL`]) and a signal that no handler has
/// received: the same as Run for a live task. The history shows it as Run, with the signal's order.
///
/// # Example
///
/// ```
/// use windlass_statemachine::{StateKind, transition::SIGNAL};
///
/// assert_eq!(SIGNAL[StateKind::Paused as usize], Some(StateKind::Runnable));
/// assert_eq!(SIGNAL[StateKind::Completed as usize], None);
/// ```
pub const SIGNAL: [Option<StateKind>; 7] = {
    const WAKES: Option<StateKind> = Some(StateKind::Runnable);
    // In `fault` the retry policy decides first; the signal stays in the queue.
    [
        WAKES,
        WAKES,
        WAKES,
        Some(StateKind::Fault),
        None,
        None,
        None,
    ]
};

/// The reason why a message had no effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransitionError {
    /// The table has no such transition.
    #[error("{}", explain(*from, *message))]
    NotInTable {
        /// The state to which the message was applied.
        from: StateKind,
        /// The message.
        message: ActionKind,
    },
    /// The content of the message is invalid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

fn explain(from: StateKind, message: ActionKind) -> String {
    let article = if from == StateKind::Fault {
        "a task in"
    } else {
        "a"
    };
    let noun = if from == StateKind::Fault {
        ""
    } else {
        " task"
    };
    let why = match from {
        _ if from.is_terminal() => format!("{from} is final (retry starts it again)"),
        StateKind::Fault => "its retry policy decides first".to_owned(),
        _ => "only a running handler returns it".to_owned(),
    };
    format!("{article} {from}{noun} does not take `{message}`: {why}")
}

/// Returns the state that follows from `state` and `message` at `now`. Data in the message replaces the
/// data of the state.
///
/// # Errors
///
/// [`TransitionError`]: the table has no such transition, or the message's own content is invalid. The state is unchanged.
///
/// # Example
///
/// ```
/// use windlass_statemachine::{StateKind, Message, TaskState, transition};
/// use jiff::Timestamp;
///
/// let now = Timestamp::UNIX_EPOCH;
/// let fault = transition(&TaskState::new(now), &Message::error("disk full"), now).unwrap();
/// assert_eq!(fault.code(), StateKind::Fault);
/// assert_eq!(fault.errors.last().unwrap().error, "disk full");
/// ```
pub fn transition(
    state: &TaskState,
    message: &Message,
    now: Timestamp,
) -> Result<TaskState, TransitionError> {
    let (from, kind) = (state.code(), message.kind());
    let to = TABLE[from as usize][kind as usize].ok_or(TransitionError::NotInTable {
        from,
        message: kind,
    })?;
    let status = match (to, &message.body.action) {
        (StateKind::Sleeping, Action::Sleep { until }) => TaskStatus::Sleeping {
            until: resolve(*until, message, now)?,
        },
        // A sleep continues until its time, whatever the message is.
        (StateKind::Sleeping, _) => state.status.clone(),
        (StateKind::Completed, Action::Complete { result }) => TaskStatus::Completed {
            result: result.clone(),
        },
        (StateKind::Completed, _) => TaskStatus::Completed { result: None },
        (StateKind::Runnable, _) => TaskStatus::Runnable,
        (StateKind::Paused, _) => TaskStatus::Paused,
        (StateKind::Fault, _) => TaskStatus::Fault,
        (StateKind::Failed, _) => TaskStatus::Failed,
        (StateKind::Killed, _) => TaskStatus::Killed,
    };
    let mut next = state.clone();
    next.waits = waits(state, message);
    // The end of a wait that was given by its length.
    if let (
        Action::Sleep {
            until: Wake::After(_),
        },
        TaskStatus::Sleeping { until },
    ) = (&message.body.action, &status)
        && message.body.waits.is_some()
        && let Some(waits) = &mut next.waits
    {
        waits.deadline = Some(*until);
    }
    next.set(status, now);
    next.runs_from(now);
    if kind == ActionKind::Pause {
        // A command that paused the task replaces it when it is settled.
        next.paused = Some(Box::new(Pause::by_handler().interrupting(state)));
    }
    if let Some(signal) = &message.body.awaited_signal {
        let until = match next.status {
            TaskStatus::Sleeping { until } => Some(until),
            _ => None,
        };
        next.awaited_signal = Some(Box::new(signal.as_ref().clone().begun(until)));
    }
    match &message.body.action {
        // The policy gave up: the log already has the error that led to it.
        Action::Error { error, .. } if error.is_empty() && from == StateKind::Fault => {}
        Action::Error { error, .. } => {
            let text = if error.is_empty() {
                "(an error without a text)"
            } else {
                error
            };
            // The machine cuts the log to the errors that the task's retry policy reads.
            next.errors.push(now, text, MAX_KEPT);
        }
        _ => {}
    }
    if let Some(data) = &message.body.data {
        next.set_data(data.clone(), message.body.data_version, now);
    }
    Ok(next)
}

/// Returns when a sleep ends.
fn resolve(until: Wake, message: &Message, now: Timestamp) -> Result<Timestamp, Invalid> {
    let waits = message.body.waits.is_some() || message.body.awaited_signal.is_some();
    until.resolve(now).map_err(|wrong| match waits {
        true => Invalid::new(
            "within",
            format!("is beyond {LAST}; wait for a shorter time"),
        ),
        false => wrong,
    })
}

/// Returns the wait of the next state: that of the message, or that of the present state. `run`, `sleep` and
/// `pause` override a wait; `run` also overrides the outcomes of a wait that is over.
fn waits(state: &TaskState, message: &Message) -> Option<Box<Waits>> {
    if message.body.waits.is_some() {
        return message.body.waits.clone();
    }
    let mut waits = state.waits.clone()?;
    let overrides = match message.kind() {
        // For a task in `fault`, the message comes from the retry policy.
        ActionKind::Run => state.code() != StateKind::Fault,
        ActionKind::Sleep | ActionKind::Pause => state.is_waiting(),
        _ => false,
    };
    if overrides {
        waits.stage = WaitStage::Overridden;
    }
    Some(waits)
}
