//! Tasks and commands as a store knows them.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windlass_statemachine::{
    Author, Bound, Command, CommandId, ErrorEntry, Fence, Kind, Limit, NodeName, Note, Outcome,
    QueuedCommand, StateKind, Task, TaskId, TaskState, command::NotedCommand, fingerprint,
    size::Size, state::Skipped,
};

use crate::store::Error;

/// A command as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct CommandRecord {
    /// The id.
    pub id: CommandId,
    /// The task to which it was sent.
    pub task: TaskId,
    /// Its position in the queue.
    pub order: u64,
    /// The command.
    pub command: Command,
    /// When it was sent.
    pub sent_at: Timestamp,
    /// Who sent it, if the sender named an author.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Author>,
    /// Why it was sent, if the sender wrote a note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Note>,
    /// The outcome; `None` while the command is in the queue.
    pub outcome: Option<Outcome>,
}

impl CommandRecord {
    /// Returns a queued command.
    pub fn new(task: TaskId, queued: QueuedCommand, sent_at: Timestamp) -> Self {
        Self {
            id: queued.id,
            task,
            order: queued.order,
            command: queued.command,
            sent_at,
            by: queued.by,
            note: queued.note,
            outcome: None,
        }
    }

    /// Returns the command as nodes get it.
    pub(crate) fn queued(&self) -> QueuedCommand {
        QueuedCommand::new(self.id.clone(), self.order, self.command.clone())
            .by(self.by.clone())
            .note(self.note.clone())
    }

    /// Returns the command with its note, as stores keep it.
    pub(crate) fn noted(&self) -> NotedCommand {
        NotedCommand::new(self.command.clone(), self.note.clone())
    }
}

/// A task as the store knows it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TaskRecord {
    /// The task.
    pub task: Task,
    /// Its state, or the error why it cannot be read ([`Error::Corrupt`]: the task is quarantined).
    pub state: Result<TaskState, Error>,
    /// Its submit order.
    pub order: u64,
    /// When it was submitted.
    pub submitted_at: Timestamp,
    /// The node that has claimed it.
    pub node: Option<NodeName>,
    /// The fence of its last claim.
    pub fence: Fence,
    /// How many commands are in its queue.
    pub commands: u64,
    /// The limit that holds it back; `None` when none does, or when no node has tried to claim it.
    pub limited_by: Option<LimitedBy>,
}

impl TaskRecord {
    /// Returns what a command to run skips ([`TaskState::skipped`]); `None` for a schedule, which submits its runs at their times
    /// after a resume too, and for a record that cannot be read.
    pub fn skipped(&self, now: Timestamp) -> Option<Skipped<'_>> {
        let state = self.state.as_ref().ok()?;
        state
            .skipped(now)
            .filter(|_| self.task.kind.as_str() != Kind::SCHEDULE)
    }

    /// Returns how many bytes its props, data and result have.
    pub fn bytes(&self) -> usize {
        let state = self.state.as_ref();
        self.task.props.len() + state.map_or(0, |state| Size::of(state).bytes())
    }

    /// Returns a task that no node has claimed.
    pub fn new(
        task: Task,
        state: Result<TaskState, Error>,
        order: u64,
        submitted_at: Timestamp,
    ) -> Self {
        Self {
            fence: state
                .as_ref()
                .map_or_else(|_| Fence::default(), |state| state.fence),
            task,
            state,
            order,
            submitted_at,
            node: None,
            commands: 0,
            limited_by: None,
        }
    }
}

impl TaskRecord {
    /// Returns the [fingerprint](windlass_statemachine::fingerprint) of its last error, or of the reason why its record
    /// cannot be read; `None` without an error. Tasks that failed for the same reason have the same fingerprint.
    pub fn fingerprint(&self) -> Option<String> {
        match &self.state {
            Ok(state) => state.errors.last().map(ErrorEntry::fingerprint),
            // The text of the error names the task.
            Err(Error::Corrupt { reason, .. }) => Some(fingerprint(reason)),
            Err(other) => Some(fingerprint(&other.to_string())),
        }
    }

    /// Returns whether its last error has this fingerprint, as this version or an earlier one computes it.
    pub(crate) fn has_fingerprint(&self, print: &str) -> bool {
        match &self.state {
            Ok(state) => {
                let last = state.errors.last();
                last.is_some_and(|last| last.has_fingerprint(print))
            }
            Err(_) => self.fingerprint().as_deref() == Some(print),
        }
    }
}

/// The limit that holds a task back: no slot was free when a node tried to claim it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct LimitedBy {
    /// The limit.
    pub limit: Limit,
    /// When the next slot of a limit on starts is free; `None` for a limit on tasks at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The nodes that could take the task otherwise, if none of them has a free slot either. A record does not have
    /// them: [`Client::wait_reasons`](crate::Client::wait_reasons) and [`Client::stats`](crate::Client::stats) look at
    /// the nodes.
    #[serde(skip)]
    pub full: Vec<NodeName>,
}

impl LimitedBy {
    /// Returns a limit that holds a task back, without a time.
    pub fn new(limit: Limit) -> Self {
        Self {
            limit,
            until: None,
            full: Vec::new(),
        }
    }
}

/// A limit that tasks use at present: a claim has a slot of it, or a task waits for one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct LimitUse {
    /// Its key.
    pub key: String,
    /// What the limit counts.
    pub form: LimitForm,
    /// The period of a limit on starts, without a fraction of a millisecond; `None` for a limit on tasks at once.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "jiff::fmt::serde::unsigned_duration::friendly::compact::optional"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub within: Option<Duration>,
    /// The limit, as a claimed task or a task in its line declares it, with the template of its key; if they differ, the one
    /// with the greatest number. `None` for a limit on starts without such a task; some stores know it even then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// How many claims have a slot: for a limit on starts, the claims that began within the period.
    pub taken: u32,
    /// How many tasks wait in its line.
    pub waiting: u64,
    /// When the next slot of a limit on starts is free; `None` when a slot is free now, for a limit on tasks
    /// at once, and while [`limit`](Self::limit) is `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Timestamp>,
}

/// What a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LimitForm {
    /// Tasks that are claimed at the same time.
    AtOnce,
    /// Claims that begin within a period.
    Starts,
}

impl LimitForm {
    pub(crate) fn of(bound: Bound) -> Self {
        match bound {
            Bound::AtOnce(_) => Self::AtOnce,
            Bound::Starts { .. } => Self::Starts,
        }
    }
}

/// How many tasks of a kind are in a state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TaskCount {
    /// The kind.
    pub kind: Kind,
    /// The state; `None` for quarantined tasks.
    pub state: Option<StateKind>,
    /// The number of tasks.
    pub tasks: u64,
    /// How many of them are claimed.
    pub claimed: u64,
}

impl TaskCount {
    /// Returns the number of tasks of a kind and a state, none of them claimed.
    pub fn new(kind: Kind, state: Option<StateKind>, tasks: u64) -> Self {
        Self {
            kind,
            state,
            tasks,
            claimed: 0,
        }
    }
}
