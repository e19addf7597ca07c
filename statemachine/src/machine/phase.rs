//! [`Phase`]: what a machine does, with the data of that phase.

use std::{collections::VecDeque, mem, time::Duration};

use super::{io::Answer, signals::Open};
use crate::{Json, Message, QueuedCommand, TaskState};

/// What a machine does.
#[derive(Debug, Clone)]
pub(super) enum Phase {
    /// Before [`Input::Begin`](super::Input::Begin).
    Fresh,
    /// Nothing runs and nothing is written: a short sleep, or a wait before the next run.
    Idle,
    /// The handler runs.
    Running(Beside),
    /// The handler was aborted and has not ended yet.
    Aborting(Beside),
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

/// The writes beside a handler that has not ended.
#[derive(Debug, Clone, Default)]
pub(super) struct Beside {
    /// The write that is under way.
    pub(super) write: Option<SideWrite>,
    /// The checkpoints and replies that wait for that write.
    pub(super) next: VecDeque<Asked>,
}

/// A write that a handler asks for while it runs.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) ticket: u64,
    pub(super) what: Ask,
}

/// What a handler asks to write.
#[derive(Debug, Clone)]
pub(super) enum Ask {
    /// This data.
    Checkpoint(Json),
    /// The reply to a signal.
    Answer(Answer),
}

/// A write that is under way: what becomes durable, and what a refusal undoes.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    pub(super) state: TaskState,
    /// The commands that the write settles: they go back into the queue when it is refused.
    pub(super) settles: Vec<Waiting>,
    /// The signals that the write settles.
    pub(super) signals: Vec<Open>,
}

/// A write beside a handler: its checkpoint, or commands that do not stop it.
#[derive(Debug, Clone)]
pub(super) struct SideWrite {
    pub(super) pending: Pending,
    /// The checkpoint that the write stores, if it stores one.
    pub(super) ticket: Option<u64>,
}

/// A write that settles what has ended a run.
#[derive(Debug, Clone)]
pub(super) struct Settling {
    pub(super) pending: Pending,
    pub(super) drop_claim: bool,
    /// What is settled when the write is refused.
    pub(super) again: Cause,
}

/// Why a new state is worked out.
#[derive(Debug, Clone)]
pub(super) enum Cause {
    /// The handler returned.
    Returned(Message),
    /// The handler was aborted, or did not run: only commands, the stop and the time count.
    Nothing,
    /// The claim before this one was abandoned, once too often for the retry policy.
    GivesUp,
    /// A task that had to complete before the first run did not: this is the error.
    Unmet(String),
}

impl Cause {
    /// Returns the cause that is settled when the write of this one is refused. A returned message
    /// is not sent again: an error takes its place.
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
    /// When the handler's grace for the command ends; `None` when the command was not delivered to a
    /// handler.
    pub(super) deadline: Option<Duration>,
}

impl Waiting {
    /// Returns whether the handler knows of the command.
    pub(super) fn is_delivered(&self) -> bool {
        self.deadline.is_some()
    }

    /// Returns whether the handler's grace for the command is over.
    pub(super) fn is_overdue(&self, elapsed: Duration) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= elapsed)
    }
}

/// A write that the store has answered, by the phase that it was made in.
pub(super) enum Answered {
    /// The handler has not ended.
    Beside(SideWrite),
    /// The handler has ended meanwhile; this is settled next.
    Ended(SideWrite, Cause),
    Settling(Settling),
}

impl Phase {
    /// Takes out the write that is under way. Without a handler the phase is [`Done`](Self::Done)
    /// until the caller sets the one that follows.
    pub(super) fn answered(&mut self) -> Option<Answered> {
        match self {
            Self::Running(beside) | Self::Aborting(beside) => {
                beside.write.take().map(Answered::Beside)
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
            Self::Running(beside) | Self::Aborting(beside) => beside.write.is_some(),
            Self::Ended { .. } | Self::Storing(_) => true,
            Self::Fresh | Self::Idle | Self::Done => false,
        }
    }
}
