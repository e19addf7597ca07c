//! [`Refusals`]: why a transaction was not applied.

use std::fmt;

use jiff::Timestamp;
use windlass_statemachine::{Fence, Invalid, Kind, StateKind, TaskId};

/// How many refusals the text of [`Refusals`] shows.
const SHOWN: usize = 5;

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
    Exists,
    /// The task has ended.
    Finished,
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
            Reason::Exists => write!(f, "task '{task}' exists already"),
            Reason::Finished => write!(f, "task '{task}' has ended already"),
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

/// Every refused guard and operation of a transaction, or of the effects of a message: guards first, each kind
/// in order. Nothing was applied, and the task of the message did not change.
///
/// # Example
///
/// ```
/// use windlass::{Client, store::{Error, Reason, Store}};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
/// let client = Client::new(&Store::open("memory:").await?);
/// let transaction = client.transaction().delete("a").delete("b");
/// let Err(Error::Refused(refusals)) = transaction.commit().await else {
///     panic!("neither task exists");
/// };
/// assert!(refusals.iter().all(|refusal| refusal.reason == Reason::Missing));
/// assert_eq!(
///     refusals.to_string(),
///     "could not apply the transaction: operations[0]: task 'a' does not exist; operations[1]: task \
///      'b' does not exist; nothing was changed"
/// );
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub struct Refusals {
    list: Vec<Refusal>,
    /// What a single operation would have done: `reschedule a task`.
    #[serde(skip)]
    verb: Option<&'static str>,
}

impl Refusals {
    /// Returns these refusals, for a custom store, which must list at least one.
    pub fn new(refusals: Vec<Refusal>) -> Self {
        let (list, verb) = (refusals, None);
        Self { list, verb }
    }

    /// Returns the same refusals, of a single operation that does this.
    pub(crate) fn of_single(mut self, verb: &'static str) -> Self {
        self.verb = Some(verb);
        self
    }

    /// Returns each refusal.
    pub fn iter(&self) -> std::slice::Iter<'_, Refusal> {
        self.list.iter()
    }
}

impl<'a> IntoIterator for &'a Refusals {
    type Item = &'a Refusal;
    type IntoIter = std::slice::Iter<'a, Refusal>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_effects = |one: &Refusal| matches!(one.part, Part::Effect { .. });
        match (self.verb, self.list.iter().any(of_effects)) {
            (Some(verb), _) => write!(f, "could not {verb}: ")?,
            (None, true) => f.write_str("could not apply the effects: ")?,
            (None, false) => f.write_str("could not apply the transaction: ")?,
        }
        for refusal in self.list.iter().take(SHOWN) {
            if self.verb.is_none() {
                write!(f, "{}: ", refusal.part)?;
            }
            write!(f, "{refusal}; ")?;
        }
        if let Some(more) = self.list.len().checked_sub(SHOWN).filter(|more| *more > 0) {
            write!(f, "{more} more are refused; ")?;
        }
        f.write_str("nothing was changed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Error;

    fn refusal(reason: Reason) -> Refusal {
        Refusal {
            part: Part::Operation(3),
            task: "a".parse().unwrap(),
            reason,
        }
    }

    #[test]
    fn the_error_of_a_single_operation_names_it() {
        let refusals = || Refusals::new(vec![refusal(Reason::Missing)]);
        let of_single = refusals().of_single("reschedule a task").to_string();
        assert_eq!(
            of_single,
            "could not reschedule a task: task 'a' does not exist; nothing was changed"
        );
        let of_many = "could not apply the transaction: operations[3]: task 'a' does not exist; nothing was changed";
        assert_eq!(refusals().to_string(), of_many);
    }

    #[test]
    fn every_reason_is_a_sentence_about_the_task() {
        let (kind, other) = ("k".parse().unwrap(), "l".parse().unwrap());
        for (reason, text) in [
            (Reason::Missing, "task 'a' does not exist"),
            (Reason::Exists, "task 'a' exists already"),
            (Reason::Finished, "task 'a' has ended already"),
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
                Reason::Order { is: 8, required: 7 },
                "task 'a' has order 8; it must have 7",
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
    fn a_long_list_is_cut_short_in_the_text_alone() {
        let many = (0..7).map(|_| refusal(Reason::Missing)).collect();
        let Some(Error::Refused(refusals)) = Refusals::error(many) else {
            panic!("there are refusals");
        };
        assert_eq!(refusals.iter().count(), 7);
        let text = refusals.to_string();
        assert_eq!(text.matches("does not exist").count(), SHOWN);
        assert!(
            text.ends_with("; 2 more are refused; nothing was changed"),
            "{text}"
        );
        assert!(Refusals::error(Vec::new()).is_none());
        let part = Part::Effect {
            field: "delete",
            index: 1,
        };
        let refused = Refusal {
            part,
            ..refusal(Reason::Missing)
        };
        let text = "could not apply the effects: effects.delete[1]: task 'a' does not exist; nothing was changed";
        assert_eq!(Refusals::new(vec![refused]).to_string(), text);
    }

    #[test]
    fn a_failure_of_the_store_is_no_reason() {
        let failed = Reason::of(Error::unavailable("apply", "it is gone")).unwrap_err();
        assert!(failed.is_retryable());
        let id = "a".parse().unwrap();
        assert_eq!(Reason::of(Error::no_task(&id)).unwrap(), Reason::Missing);
    }
}
