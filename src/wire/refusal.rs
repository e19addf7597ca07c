//! [`RefusalForm`]: why a guard or an operation was refused.

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use windlass_statemachine::{Fence, Kind, StateKind, TaskId};

use crate::store::{Reason, Refusal};

/// A refused guard, operation or effect of a message.
///
/// # Example
///
/// ```
/// use windlass::{Client, store::{Error, Store}};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
/// let client = Client::new(&Store::open("memory:").await?);
/// let Err(Error::Refused(refusals)) = client.transaction().delete("a").commit().await else {
///     panic!("the task does not exist");
/// };
/// assert_eq!(
///     serde_json::to_string(&refusals)?,
///     r#"[{"part":"operations[0]","task":"a","text":"task 'a' does not exist","reason":"missing"}]"#
/// );
/// # Ok(()) }
/// ```
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Refusal"))]
#[non_exhaustive]
pub struct RefusalForm<'a> {
    /// Which part it is: `guards[0]`, `operations[3]` or `effects.delete[1]`, counted from 0.
    pub part: String,
    /// Its task.
    pub task: &'a TaskId,
    /// The reason as a sentence.
    pub text: String,
    /// The reason, with its details.
    #[serde(flatten)]
    pub reason: ReasonForm<'a>,
}

/// Why a part was refused.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReasonForm<'a> {
    /// The task does not exist.
    Missing,
    /// A task has this id; for a submit, a live task.
    Exists {
        /// How the task differs from the new one, for a submit with `"if_exists":"same"`.
        #[serde(skip_serializing_if = "Option::is_none")]
        difference: Option<&'a str>,
    },
    /// The task has ended.
    Finished {
        /// How the task differs from the new one, for a submit with `"if_exists":"same"`.
        #[serde(skip_serializing_if = "Option::is_none")]
        difference: Option<&'a str>,
    },
    /// Another task has the unique key of the submitted one.
    #[serde(rename = "not_unique")]
    NotUnique {
        /// The key.
        key: &'a str,
        /// The other task.
        holder: &'a TaskId,
        /// When the key becomes free.
        until: Timestamp,
    },
    /// A node has claimed the task.
    Claimed,
    /// The effect is in a message of this task itself. Only a command may go to it.
    Own,
    /// The task is in another state.
    State {
        /// Its state.
        is: StateKind,
        /// The states that the guard or the operation needs.
        required: &'a [StateKind],
    },
    /// The state has another version.
    Version {
        /// Its version.
        is: u64,
        /// The required one.
        required: u64,
    },
    /// The last claim of the task has another fence.
    Fence {
        /// Its fence.
        is: Fence,
        /// The required one.
        required: Fence,
    },
    /// Another task with the id was submitted since.
    Order {
        /// Its submit order.
        is: u64,
        /// The required one.
        required: u64,
    },
    /// The task has another kind.
    Kind {
        /// Its kind.
        is: &'a Kind,
        /// The required one.
        required: &'a Kind,
    },
    /// The task has other data.
    Data,
    /// The record of the task cannot be read.
    Unreadable {
        /// Why not.
        error: &'a str,
    },
    /// The operation itself is invalid.
    Invalid {
        /// The field.
        field: &'a str,
        /// What is wrong with it, and what would be valid.
        error: &'a str,
    },
    /// A field is larger than the store accepts.
    #[serde(rename = "too_large")]
    TooLarge {
        /// The field.
        field: &'a str,
        /// Its size in bytes.
        bytes: usize,
        /// The greatest size in bytes.
        limit: usize,
    },
}

impl<'a> From<&'a Refusal> for RefusalForm<'a> {
    fn from(refusal: &'a Refusal) -> Self {
        Self {
            part: refusal.part.to_string(),
            task: &refusal.task,
            text: refusal.to_string(),
            reason: (&refusal.reason).into(),
        }
    }
}

impl<'a> From<&'a Reason> for ReasonForm<'a> {
    fn from(reason: &'a Reason) -> Self {
        match reason {
            Reason::Missing => Self::Missing,
            Reason::Exists { difference } => Self::Exists {
                difference: difference.as_deref(),
            },
            Reason::Finished { difference } => Self::Finished {
                difference: difference.as_deref(),
            },
            Reason::NotUnique { key, task, until } => Self::NotUnique {
                key,
                holder: task,
                until: *until,
            },
            Reason::Claimed => Self::Claimed,
            Reason::Own => Self::Own,
            Reason::State { is, required } => Self::State { is: *is, required },
            Reason::Version { is, required } => Self::Version {
                is: *is,
                required: *required,
            },
            Reason::Fence { is, required } => Self::Fence {
                is: *is,
                required: *required,
            },
            Reason::Order { is, required } => Self::Order {
                is: *is,
                required: *required,
            },
            Reason::Kind { is, required } => Self::Kind { is, required },
            Reason::Data => Self::Data,
            Reason::Unreadable(error) => Self::Unreadable { error },
            Reason::Invalid(invalid) => Self::Invalid {
                field: invalid.field(),
                error: invalid.reason(),
            },
            Reason::TooLarge {
                field,
                bytes,
                limit,
            } => Self::TooLarge {
                field,
                bytes: *bytes,
                limit: *limit,
            },
        }
    }
}

impl Serialize for Refusal {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        RefusalForm::from(self).serialize(to)
    }
}
