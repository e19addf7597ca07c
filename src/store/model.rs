//! The records and requests that stores and their users exchange.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windlass_statemachine::{
    ActionKind, Code, Command, CommandId, Fence, Kind, NodeName, Outcome, QueuedCommand, State,
    Task, TaskId, machine::Write, task::Labels,
};

use super::Error;

/// What a store takes at the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a task's props, data and result together: 1 MiB by default.
    pub max_bytes: usize,
    /// How many commands one write takes the outcomes of: 500 by default, on etcd a quarter of
    /// `--max-txn-ops` and 40 at the most.
    pub max_outcomes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_bytes: 1 << 20,
            max_outcomes: 500,
        }
    }
}

/// What a node says of itself when it joins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSpec {
    /// Its unique name.
    pub name: NodeName,
    /// The kinds it has handlers for; `None` when its default handler takes every kind.
    pub kinds: Option<Vec<Kind>>,
    /// It takes only tasks that have all of these labels.
    #[serde(default)]
    pub labels: Labels,
    /// How many handlers it runs at once.
    pub slots: u32,
    /// The process it lives in, for operators.
    pub pid: u32,
    /// The version of windlass it runs.
    pub version: String,
}

/// What a node tells with every renewal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// It claims and balances nothing.
    pub frozen: bool,
    /// It gives everything back and claims nothing.
    pub draining: bool,
    /// How many handlers run on it.
    pub running: u32,
}

/// A node's lease. Its claims hang on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The store's number for it; never used twice.
    pub id: u64,
    /// Whose lease it is.
    pub node: NodeName,
    /// It ends this long after the last renewal.
    pub ttl: Duration,
}

/// A claim of a task: what proves, in every write, that the writer is the live owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The task.
    pub task: TaskId,
    /// Greater than that of every earlier claim of the task.
    pub fence: Fence,
    /// The lease that it hangs on.
    pub lease: u64,
    /// Whatever the store wants to be given back with it (a row number, say).
    pub token: u64,
}

/// What a successful claim brings: all that is needed to start.
#[derive(Debug, Clone)]
pub struct Claimed {
    /// The claim.
    pub claim: Claim,
    /// The task.
    pub task: Arc<Task>,
    /// Its place among all submits, as in [`TaskRecord::order`]. A task that is deleted and
    /// submitted again under the same id has another one.
    pub order: u64,
    /// Its state, after [`State::claimed`].
    pub state: State,
    /// The commands that wait for it, in order.
    pub commands: Vec<QueuedCommand>,
    /// The claim before this one was lost, not given back.
    pub abandoned: bool,
}

/// One task's write, on behalf of a claim.
#[derive(Debug, Clone)]
pub struct Commit {
    /// The claim that must be the live one.
    pub claim: Claim,
    /// What is written.
    pub write: Write,
}

/// A task as a node needs to know it: whether, when and by whom it can be claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskView {
    /// The task.
    pub id: TaskId,
    /// Its kind.
    pub kind: Kind,
    /// Its labels; `None` when it has none.
    pub labels: Option<Arc<Labels>>,
    /// Its priority.
    pub priority: i32,
    /// Its place among all submits.
    pub order: u64,
    /// Its place among the claimable tasks of one priority, earliest first: the wake-up of a
    /// sleeping task, about the time since which any other could be claimed. `None` for one that is
    /// paused.
    pub due: Option<Timestamp>,
    /// Whether it sleeps: only then is `due` a time to wait for. Any other task that has a `due` can
    /// be claimed at once, since that time may come from a clock that is ahead.
    pub sleeping: bool,
    /// The lease that its claim hangs on, if it is claimed.
    pub claimed_by: Option<u64>,
    /// Whether commands wait for it.
    pub commanded: bool,
}

/// What a watch tells. Events are levels, not edges: each says how things are now, so seeing one
/// twice, or only the last of several, makes no difference.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// Forget every task that you know of: a list follows (at the start, and whenever the history
    /// that the watch resumes from is gone).
    Reset,
    /// The list is complete.
    Listed,
    /// A live task as it is now.
    Task(TaskView),
    /// The task has ended, was deleted or was quarantined. A task with the same id and a greater
    /// order is another task: this event does not concern it.
    Gone {
        /// The task.
        id: TaskId,
        /// Its [`TaskRecord::order`].
        order: u64,
        /// Every claim up to this fence is over: a task that was retried may have a later one.
        /// `None` when the task was deleted: every claim of it is over.
        fence: Option<Fence>,
    },
    /// Commands wait for a task that this lease has claimed.
    Commands {
        /// The task.
        id: TaskId,
        /// Its [`TaskRecord::order`]: no other task with this id may get the commands.
        order: u64,
        /// The commands, in order.
        commands: Vec<QueuedCommand>,
    },
    /// A command for this node; to be answered with `acknowledge`.
    Node(QueuedNodeCommand),
    /// Another node came, went, or told something new of itself: `peers` answers it. A store that
    /// cannot tell at no cost does not: nodes ask now and then all the same.
    Peers,
}

/// What an operator sends to a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum NodeCommand {
    /// Claim and balance nothing until [`Unfreeze`](Self::Unfreeze).
    Freeze,
    /// Go back to normal, after a freeze or a drain.
    Unfreeze,
    /// Balance now.
    Balance,
    /// Freeze, give every task back, and stay.
    Drain,
    /// Give this task back.
    StopTask {
        /// Which.
        task: TaskId,
    },
}

/// A command in the queue of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedNodeCommand {
    /// Its place.
    pub order: u64,
    /// What is asked.
    pub command: NodeCommand,
}

/// A node as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// What it said of itself.
    #[serde(flatten)]
    pub spec: NodeSpec,
    /// What it told last.
    #[serde(flatten)]
    pub status: NodeStatus,
    /// Its lease.
    pub lease: u64,
    /// When it joined.
    pub joined_at: Timestamp,
    /// How long its lease still holds, in milliseconds.
    pub lease_left_ms: u64,
    /// How many claims it holds.
    pub claims: u64,
}

/// What to do when the id of a task to submit is taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IfExists {
    /// Refuse: [`Error::AlreadyExists`] for a live task, [`Error::AlreadyFinished`] for an ended one.
    #[default]
    Refuse,
    /// The same task is as good as submitted, live or ended; another is refused. The same is one of
    /// the same kind whose props have the same value ([`Task::is_same_work`]).
    Same,
    /// Take the place of an ended one; a live one is refused.
    ReplaceFinished,
}

/// A task to submit.
#[derive(Debug, Clone, PartialEq)]
pub struct Submit {
    /// The task.
    pub task: Task,
    /// What to do when its id is taken.
    pub if_exists: IfExists,
}

/// What became of a submit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Submitted {
    /// The task is there now.
    New,
    /// It was there already ([`IfExists::Same`]); this is its state.
    Existing(Code),
}

/// A command to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Send {
    /// To which task.
    pub task: TaskId,
    /// Its id: sending it again is the same command.
    pub id: CommandId,
    /// What is asked.
    pub command: Command,
}

/// A command as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandRecord {
    /// Its id.
    pub id: CommandId,
    /// The task it was sent to.
    pub task: TaskId,
    /// Its place in the queue.
    pub order: u64,
    /// What is asked.
    pub command: Command,
    /// When it was sent.
    pub sent_at: Timestamp,
    /// What became of it; `None` while it waits.
    pub outcome: Option<Outcome>,
}

/// A task as the store knows it.
#[derive(Debug, Clone)]
pub struct TaskRecord {
    /// The task.
    pub task: Task,
    /// Its state, or why that cannot be read ([`Error::Corrupt`]: the task is set aside).
    pub state: Result<State, Error>,
    /// Its place among all submits.
    pub order: u64,
    /// When it was submitted.
    pub submitted_at: Timestamp,
    /// The node that has claimed it.
    pub node: Option<NodeName>,
    /// The fence of its last claim.
    pub fence: Fence,
    /// How many commands wait for it.
    pub commands: u64,
}

/// Which tasks are meant. Every condition that is given must hold; the default is all of them.
///
/// # Example
///
/// ```
/// use windlass::store::Filter;
/// use windlass::Code;
///
/// let dead_letters = Filter { states: vec![Code::Failed], ..Filter::default() };
/// assert!(!dead_letters.is_all());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// In one of these states; empty for any.
    pub states: Vec<Code>,
    /// Only those that are set aside because their record cannot be read.
    pub quarantined: bool,
    /// Of this kind.
    pub kind: Option<Kind>,
    /// With each of these labels; `None` as a value means any value.
    pub labels: Vec<(String, Option<String>)>,
    /// Whose id begins so.
    pub id_prefix: Option<String>,
    /// Claimed by this node.
    pub node: Option<NodeName>,
    /// With this text in one of the errors that are kept (case does not matter).
    pub error: Option<String>,
}

impl Filter {
    /// Whether every task is meant.
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }

    /// Whether only live tasks can match, so that a store need not read those that have ended.
    pub(crate) fn is_live_only(&self) -> bool {
        let live = !self.states.is_empty() && !self.states.iter().any(|code| code.is_terminal());
        live || self.node.is_some()
    }

    /// Whether this record is meant.
    pub fn matches(&self, record: &TaskRecord) -> bool {
        let state = record.state.as_ref().ok();
        let task = &record.task;
        (self.states.is_empty() || state.is_some_and(|s| self.states.contains(&s.code())))
            && (!self.quarantined || record.state.is_err())
            && self.kind.as_ref().is_none_or(|k| *k == task.kind)
            && self.labels.iter().all(|(name, value)| {
                let has = task.labels.get(name);
                has.is_some_and(|has| value.as_ref().is_none_or(|v| v == has))
            })
            && self
                .id_prefix
                .as_ref()
                .is_none_or(|p| task.id.as_str().starts_with(p.as_str()))
            && self
                .node
                .as_ref()
                .is_none_or(|n| record.node.as_ref() == Some(n))
            && self.error.as_ref().is_none_or(|text| {
                let text = text.to_lowercase();
                match &record.state {
                    Ok(state) => {
                        let mut errors = state.errors.entries().iter();
                        errors.any(|e| e.error.to_lowercase().contains(&text))
                    }
                    Err(e) => e.to_string().to_lowercase().contains(&text),
                }
            })
    }
}

/// Which part of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Only tasks after this submit order; 0 for the first page.
    pub after: u64,
    /// At most so many: 1 to 10,000.
    pub limit: u32,
}

impl Default for Page {
    fn default() -> Self {
        Self {
            after: 0,
            limit: 1000,
        }
    }
}

/// How many tasks of a kind are in a state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// The kind.
    pub kind: Kind,
    /// The state; `None` for those that are set aside.
    pub state: Option<Code>,
    /// How many.
    pub tasks: u64,
    /// How many of them are claimed.
    pub claimed: u64,
}

/// One line of history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Its place in the history of the namespace; it only grows.
    pub seq: u64,
    /// When it was.
    pub at: Timestamp,
    /// The task it is about.
    pub task: TaskId,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

impl What {
    /// The fence of the claim that it happened to, or by.
    pub(crate) fn fence(&self) -> Option<Fence> {
        match self {
            Self::Claimed { fence, .. }
            | Self::Moved { fence, .. }
            | Self::Checkpointed { fence }
            | Self::Dropped { fence }
            | Self::Lost { fence } => Some(*fence),
            _ => None,
        }
    }
}

/// What happened to a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum What {
    /// It was submitted.
    Submitted {
        /// The state it began in.
        state: Code,
    },
    /// A node claimed it.
    Claimed {
        /// Which.
        node: NodeName,
        /// The claim's fence.
        fence: Fence,
        /// The claim before was lost, not given back.
        abandoned: bool,
    },
    /// It took a transition.
    Moved {
        /// By this message.
        message: ActionKind,
        /// From this state.
        from: Code,
        /// To this state.
        to: Code,
        /// By this claim.
        fence: Fence,
        /// By the command of this order, if it was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<u64>,
    },
    /// A running handler made a checkpoint.
    Checkpointed {
        /// By this claim.
        fence: Fence,
    },
    /// The claim was given back.
    Dropped {
        /// This one.
        fence: Fence,
    },
    /// The claim was lost with its lease.
    Lost {
        /// This one.
        fence: Fence,
    },
    /// A command was sent to it.
    Commanded {
        /// The command's order.
        command: u64,
    },
    /// An explicit retry started a new incarnation.
    Retried,
    /// Its record cannot be read: it was set aside.
    Quarantined,
    /// It was deleted, or pruned when its retention was over.
    Deleted,
}
