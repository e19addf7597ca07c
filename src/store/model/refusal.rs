//! [`Refusal`]: why one part of a transaction was not applied.

use std::fmt;

use jiff::Timestamp;
use windlass_statemachine::{Fence, Invalid, Kind, StateKind, TaskId};

/// A part of a transaction, or of the effects of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Part {
    /// The guard with this index, starting at 0.
    Guard(usize),
    /// The operation with this index, starting at 0.
    Operation(usize),
    /// An effect of a message ([`Effects`](windlass_statemachine::Effects)).
    Effect {
        /// The field of the effect: `submit`, `send`, `delete`, `retry`, `reschedule` or `require`.
        field: &'static str,
        /// Its index in the field, starting at 0.
        index: usize,
    },
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Guard(index) => write!(f, "guards[{index}]"),
            Self::Operation(index) => write!(f, "operations[{index}]"),
            Self::Effect { field, index } => write!(f, "effects.{field}[{index}]"),
        }
    }
}

/// Why a guard or an operation was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The task does not exist.
    Missing,
    /// A task has this id. For a submit: a live task.
    Exists {
        /// How the task differs from the new one ([`Task::difference`](windlass_statemachine::Task::difference)), for a submit
        /// that accepts the same work ([`IfExists::Same`](windlass_statemachine::IfExists::Same)).
        difference: Option<String>,
    },
    /// The task has ended.
    Finished {
        /// As of [`Exists`](Self::Exists).
        difference: Option<String>,
    },
    /// Another task has the unique key of the submitted one.
    NotUnique {
        /// The key.
        key: String,
        /// The other task.
        task: TaskId,
        /// When the key becomes free.
        until: Timestamp,
    },
    /// A node has claimed the task.
    Claimed,
    /// The effect names the task of its own message, which only a command may do.
    Own,
    /// The task is in another state.
    State {
        /// Its state.
        is: StateKind,
        /// The states that the guard or the operation needs.
        required: Vec<StateKind>,
    },
    /// The state has another version.
    Version {
        /// Its version.
        is: u64,
        /// What the guard requires.
        required: u64,
    },
    /// The last claim of the task has another fence.
    Fence {
        /// Its fence.
        is: Fence,
        /// What the guard requires.
        required: Fence,
    },
    /// Another task with the id was submitted since.
    Order {
        /// Its submit order.
        is: u64,
        /// What the guard requires.
        required: u64,
    },
    /// The task has another kind.
    Kind {
        /// Its kind.
        is: Kind,
        /// What the guard requires.
        required: Kind,
    },
    /// The task has other data.
    Data,
    /// The record of the task cannot be read, for this reason.
    Unreadable(String),
    /// The operation itself is invalid.
    Invalid(Invalid),
    /// A field is larger than the store allows.
    TooLarge {
        /// The name of the field.
        field: &'static str,
        /// Its size in bytes.
        bytes: usize,
        /// The limit in bytes.
        limit: usize,
    },
}

impl Reason {
    /// Returns the reason that a task with the id exists.
    pub fn exists() -> Self {
        Self::Exists { difference: None }
    }

    /// Returns the reason that the task has ended.
    pub fn finished() -> Self {
        Self::Finished { difference: None }
    }
}

/// One refused guard or operation. Its text is one sentence that names the task.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// The guard or operation.
    pub part: Part,
    /// Its task.
    pub task: TaskId,
    /// The reason.
    pub reason: Reason,
}

impl Refusal {
    /// Returns the refusal of a part of a transaction.
    pub fn new(part: Part, task: TaskId, reason: Reason) -> Self {
        Self { part, task, reason }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let task = &self.task;
        match &self.reason {
            Reason::Missing => write!(f, "task '{task}' does not exist"),
            Reason::Exists { difference } => {
                let ending = ending(difference.as_deref());
                write!(f, "task '{task}' exists already{ending}")
            }
            Reason::Finished { difference } => {
                let ending = ending(difference.as_deref());
                write!(f, "task '{task}' has ended already{ending}")
            }
            Reason::NotUnique {
                key,
                task: other,
                until,
            } => write!(
                f,
                "task '{task}' has the unique key '{key}', which task '{other}' has until {until}"
            ),
            Reason::Claimed => write!(
                f,
                "task '{task}' is claimed by a node that lives or has ended without releasing it"
            ),
            Reason::Own => write!(
                f,
                "task '{task}' is the message's own task; return another message, or send it a command"
            ),
            Reason::State { is, required } => {
                let names: Vec<&str> = required.iter().map(|code| code.as_str()).collect();
                let names = names.join(" or ");
                write!(f, "task '{task}' is {is}; it must be {names}")
            }
            Reason::Version { is, required } => {
                write!(f, "task '{task}' has version {is}; it must have {required}")
            }
            Reason::Fence { is, required } => {
                write!(f, "task '{task}' has fence {is}; it must have {required}")
            }
            Reason::Order { is, required } => {
                write!(f, "task '{task}' has order {is}; it must have {required}")
            }
            Reason::Kind { is, required } => {
                write!(
                    f,
                    "task '{task}' has kind '{is}'; it must have '{required}'"
                )
            }
            Reason::Data => write!(f, "task '{task}' has other data than required"),
            Reason::Unreadable(reason) => {
                write!(f, "the record of task '{task}' cannot be read: {reason}")
            }
            Reason::Invalid(invalid) => write!(f, "task '{task}': {invalid}"),
            Reason::TooLarge {
                field,
                bytes,
                limit,
            } => write!(
                f,
                "task '{task}': {field} has {bytes} bytes; the store takes at most {limit}"
            ),
        }
    }
}

/// Returns the end of the text of an error about a task that exists.
pub(in crate::store) fn ending(difference: Option<&str>) -> String {
    difference.map_or_else(String::new, |difference| format!("; {difference}"))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::store::Error;

    pub(in crate::store::model) fn refusal(reason: Reason) -> Refusal {
        Refusal {
            part: Part::Operation(3),
            task: "a".parse().unwrap(),
            reason,
        }
    }

    #[test]
    fn every_reason_is_a_sentence_about_the_task() {
        let (kind, other) = ("k".parse().unwrap(), "l".parse().unwrap());
        for (reason, text) in [
            (Reason::Missing, "task 'a' does not exist"),
            (Reason::exists(), "task 'a' exists already"),
            (Reason::finished(), "task 'a' has ended already"),
            (
                Reason::Finished {
                    difference: Some("its props are others".into()),
                },
                "task 'a' has ended already; its props are others",
            ),
            (
                Reason::NotUnique {
                    key: "mail".into(),
                    task: "b".parse().unwrap(),
                    until: Timestamp::UNIX_EPOCH,
                },
                "task 'a' has the unique key 'mail', which task 'b' has until 1970-01-01T00:00:00Z",
            ),
            (
                Reason::Claimed,
                "task 'a' is claimed by a node that lives or has ended without releasing it",
            ),
            (
                Reason::Own,
                "task 'a' is the message's own task; return another message, or send it a command",
            ),
            (
                Reason::State {
                    is: StateKind::Paused,
                    required: vec![StateKind::Runnable, StateKind::Sleeping],
                },
                "task 'a' is paused; it must be runnable or sleeping",
            ),
            (
                Reason::Version { is: 8, required: 7 },
                "task 'a' has version 8; it must have 7",
            ),
            (
                Reason::Fence {
                    is: Fence(8),
                    required: Fence(7),
                },
                "task 'a' has fence 8; it must have 7",
            ),
            (
                Reason::Kind {
                    is: kind,
                    required: other,
                },
                "task 'a' has kind 'k'; it must have 'l'",
            ),
            (
                Reason::Unreadable("no JSON".into()),
                "the record of task 'a' cannot be read: no JSON",
            ),
            (
                Reason::Invalid(Invalid::new("until", "is past")),
                "task 'a': until: is past",
            ),
            (
                Reason::TooLarge {
                    field: "props",
                    bytes: 9,
                    limit: 8,
                },
                "task 'a': props has 9 bytes; the store takes at most 8",
            ),
        ] {
            assert_eq!(refusal(reason).to_string(), text);
        }
    }

    #[test]
    fn a_failure_of_the_store_is_no_reason() {
        let failed = Reason::of(Error::unavailable("apply", "it is gone")).unwrap_err();
        assert!(failed.is_retryable());
        let id = "a".parse().unwrap();
        assert_eq!(Reason::of(Error::no_task(&id)).unwrap(), Reason::Missing);
    }
}
