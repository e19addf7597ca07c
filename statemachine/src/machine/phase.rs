//! [`Phase`]: the phase of a machine, with its data.

use std::{collections::VecDeque, mem, time::Duration};

use jiff::Timestamp;

use super::{io::Answer, signals::Open};
use crate::{Json, Message, QueuedCommand, TaskState, state::Report};

/// The phase of a machine.
#[derive(Debug, Clone)]
pub(super) enum Phase {
    /// Before [`Input::Begin`](super::Input::Begin).
    Fresh,
    /// No handler runs and no write is under way: a short sleep, or a wait before the next run.
    Idle,
    /// The handler runs.
    Running(SideWrites),
    /// The handler was aborted and has not ended yet.
    Aborting(SideWrites),
    /// The handler has ended while a write was under way. Its end is settled after that write.
    Ended {
        /// The write that is under way.
        write: SideWrite,
        /// What is settled next.
        cause: Cause,
    },
    /// No handler runs; the write that settles a return, commands or a stop is under way.
    Storing(Settling),
    /// The claim is released or lost.
    Done,
}

/// The writes while a handler has not ended.
#[derive(Debug, Clone, Default)]
pub(super) struct SideWrites {
    /// The write that is under way.
    pub(super) write: Option<SideWrite>,
    /// The checkpoints and replies that are queued behind that write.
    pub(super) next: VecDeque<Asked>,
}

/// A write that a handler asks for while it runs.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) ticket: u64,
    pub(super) what: Ask,
    /// The number of a remote worker's report. Only the write of what it reports stores it.
    pub(super) report: Option<Report>,
}

/// The write that a handler asks for.
#[derive(Debug, Clone)]
pub(super) enum Ask {
    /// Stores this data.
    Checkpoint(Json),
    /// Stores the reply to a signal.
    Answer(Answer),
}

/// A write that is under way: what it makes durable, and what a refusal puts back.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    pub(super) state: TaskState,
    /// The commands that the write settles. A refusal puts them back into the queue.
    pub(super) settles: Vec<Waiting>,
    /// The signals that the write settles.
    pub(super) signals: Vec<Open>,
}

/// A write while a handler runs: its checkpoint, or commands that do not stop it.
#[derive(Debug, Clone)]
pub(super) struct SideWrite {
    pub(super) pending: Pending,
    /// The checkpoint that the write stores, if it stores one.
    pub(super) ticket: Option<u64>,
}

/// A write that settles the end of a run.
#[derive(Debug, Clone)]
pub(super) struct Settling {
    pub(super) pending: Pending,
    pub(super) drop_claim: bool,
    /// The cause to settle when the write is refused.
    pub(super) again: Cause,
}

/// What makes the machine compute a new state.
#[derive(Debug, Clone)]
pub(super) enum Cause {
    /// The handler returned.
    Returned(Message),
    /// The handler was aborted, or did not run: only commands, a stop and the time count.
    Nothing,
    /// The previous claim was abandoned, and the retry policy gives up.
    GivesUp,
    /// A task that had to complete before the first run did not. Holds the error.
    Unmet(String),
}

impl Cause {
    /// Returns the cause to settle when the write of this one is refused. A returned message is not
    /// sent again: an error replaces it.
    pub(super) fn after_refusal(&self) -> Self {
        match self {
            Self::Returned(message) if !message.is_retryable() => Self::Returned(Message::fail("")),
            Self::Returned(_) => Self::Returned(Message::error("")),
            Self::Nothing => Self::Nothing,
            Self::GivesUp => Self::GivesUp,
            Self::Unmet(text) => Self::Unmet(text.clone()),
        }
    }
}

/// A command that has no outcome yet.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    pub(super) command: QueuedCommand,
    /// When the machine received it.
    pub(super) received: Timestamp,
    /// When the handler's grace for the command ends; `None` when the command was not delivered to a
    /// handler.
    pub(super) deadline: Option<Duration>,
}

impl Waiting {
    /// Returns whether the command was delivered to the handler.
    pub(super) fn is_delivered(&self) -> bool {
        self.deadline.is_some()
    }

    /// Returns whether the handler's grace for the command is over.
    pub(super) fn is_overdue(&self, elapsed: Duration) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= elapsed)
    }
}

/// A write whose result the store has reported, by the phase in which it was sent.
pub(super) enum Answered {
    /// The handler still runs.
    SideWrite(SideWrite),
    /// The handler has ended in the meantime; the cause is settled next.
    Ended(SideWrite, Cause),
    Settling(Settling),
}

impl Phase {
    /// Takes out the write that is under way. If no handler runs, the phase is [`Done`](Self::Done)
    /// until the caller sets the next one.
    pub(super) fn answered(&mut self) -> Option<Answered> {
        match self {
            Self::Running(side) | Self::Aborting(side) => {
                side.write.take().map(Answered::SideWrite)
            }
            Self::Ended { .. } | Self::Storing(_) => match mem::replace(self, Self::Done) {
                Self::Ended { write, cause } => Some(Answered::Ended(write, cause)),
                Self::Storing(settling) => Some(Answered::Settling(settling)),
                _ => None,
            },
            Self::Fresh | Self::Idle | Self::Done => None,
        }
    }

    /// Returns whether a write is under way.
    pub(super) fn is_storing(&self) -> bool {
        match self {
            Self::Running(side) | Self::Aborting(side) => side.write.is_some(),
            Self::Ended { .. } | Self::Storing(_) => true,
            Self::Fresh | Self::Idle | Self::Done => false,
        }
    }
}
