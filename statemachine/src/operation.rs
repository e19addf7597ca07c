//! The parts that transactions and the effects of messages share: [`Operation`] with [`Submit`], [`Delete`],
//! [`RetryTask`] and [`Reschedule`], and the guards, [`Guard`] and [`Require`].

mod replacing;
mod send;

pub use send::SendCommand;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Command, Fence, Json, Kind, Limit, StateKind, Task, TaskId};

/// What to do when the id of a task to submit is taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum IfExists {
    /// Refuses the submit: the error of a store is `AlreadyExists` for a live task, `AlreadyFinished`
    /// for an ended one.
    #[default]
    Refuse,
    /// Accepts the existing task, live or ended, if it is the same work: the same kind, and props
    /// of the same value ([`Task::is_same_work`]). Otherwise refuses the submit.
    Same,
    /// Replaces an ended task; refuses the submit when the task is live.
    ReplaceFinished,
    /// Gives the props and the time of the submit to a task of the same kind that is runnable or sleeping and that no
    /// node has claimed: of many submits before its time, the last one counts (debounce). The task keeps everything else
    /// ([`Submit::not_taken_over`]). Replaces an ended task.
    /// Refuses the submit when the task is claimed, paused, waits for other tasks or has another kind.
    ReplaceWaiting,
    /// Accepts any task with this id, live or ended, whatever its kind and props are.
    Skip,
}

/// A task to submit.
///
/// # Example
///
/// ```
/// use windlass_statemachine::{IfExists, Submit, Task};
///
/// let submit = Submit::from(Task::new("report".parse()?, "mail".parse()?));
/// assert_eq!(submit.if_exists, IfExists::Refuse);
/// # Ok::<(), windlass_statemachine::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Submit {
    /// The task.
    pub task: Task,
    /// What to do when its id is taken.
    pub if_exists: IfExists,
}

impl From<Task> for Submit {
    fn from(task: Task) -> Self {
        let if_exists = IfExists::Refuse;
        Self { task, if_exists }
    }
}

/// One change of one task.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// Submits a task. A new one has the state
    /// [`TaskState::submitted`](crate::TaskState::submitted). A task that replaces an ended one
    /// takes over nothing from it, except that its fences continue to grow.
    Submit(Submit),
    /// Sends a command. A command whose id is already known for this task keeps its order, whatever
    /// the task and the clock are: only a new command is checked.
    Send(SendCommand),
    /// Deletes a task with everything that belongs to it. A task that a node has claimed is refused, unless the
    /// operation is forced: then the node gets `Event::Gone` of the store, and its claim ends.
    Delete(Delete),
    /// Starts an ended task again ([`TaskState::retried`](crate::TaskState::retried)). The
    /// record of a quarantined task is read again. If it still cannot be read, the task starts from
    /// its props in a new incarnation, and its error log keeps the reason. Version and fence continue
    /// from those of the last write.
    Retry(RetryTask),
    /// Changes a live task without a claim: its due time, priority, kind, limits, data or props
    /// ([`TaskState::rescheduled`](crate::TaskState::rescheduled)).
    Reschedule(Reschedule),
}

impl Operation {
    /// Returns the task that the operation changes.
    pub fn task(&self) -> &TaskId {
        match self {
            Self::Submit(submit) => &submit.task.id,
            Self::Send(send) => &send.task,
            Self::Delete(delete) => &delete.task,
            Self::Retry(retry) => &retry.task,
            Self::Reschedule(change) => &change.task,
        }
    }

    /// Returns the bytes of the JSON values that the operation writes: props, result, payload or data.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Submit(submit) => submit.task.props.len(),
            Self::Send(send) => match &send.command {
                Command::Complete { result } => result.as_ref().map_or(0, Json::len),
                Command::Signal(signal) => signal.payload_json().map_or(0, Json::len),
                _ => 0,
            },
            Self::Delete(_) => 0,
            Self::Retry(retry) => lengths([&retry.data, &retry.props]),
            Self::Reschedule(change) => lengths([&change.data, &change.props]),
        }
    }

    /// Returns what the operation does, as error texts say it: `submit a task`.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Submit(_) => "submit a task",
            Self::Send(_) => "send a command",
            Self::Delete(_) => "delete a task",
            Self::Retry(_) => "retry a task",
            Self::Reschedule(_) => "reschedule a task",
        }
    }
}

fn lengths(values: [&Option<Json>; 2]) -> usize {
    values.into_iter().flatten().map(Json::len).sum()
}

/// The deletion of a task.
///
/// # Example
///
/// ```
/// use windlass_statemachine::Delete;
///
/// let delete = Delete::new("report".parse()?);
/// assert!(!delete.force && delete.forced().force);
/// # Ok::<(), windlass_statemachine::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delete {
    /// The task.
    pub task: TaskId,
    /// Whether a task that a node has claimed is deleted too. Its handler is stopped, and what it returns is lost.
    /// `false` by default.
    pub force: bool,
}

impl Delete {
    /// Returns the deletion of a task that no node has claimed.
    pub fn new(task: TaskId) -> Self {
        Self { task, force: false }
    }

    /// Returns the same deletion, also of a task that a node has claimed.
    #[must_use]
    pub fn forced(mut self) -> Self {
        self.force = true;
        self
    }
}

impl From<TaskId> for Delete {
    fn from(task: TaskId) -> Self {
        Self::new(task)
    }
}

/// The retry of an ended task, or of one that is quarantined.
///
/// # Example
///
/// ```
/// use windlass_statemachine::{Json, RetryTask};
///
/// let props = Json::parse("props", r#"{"month":8}"#)?;
/// let corrected = RetryTask::new("report".parse()?).props(props);
/// assert!(corrected.data.is_none());
/// # Ok::<(), windlass_statemachine::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryTask {
    /// The task.
    pub task: TaskId,
    /// The new data, of the version of its present data. `None` (default) keeps the data.
    pub data: Option<Json>,
    /// The new props. Keys of the limits that contain values of the props follow them. `None` (default) keeps the props.
    pub props: Option<Json>,
}

impl RetryTask {
    /// Returns the retry of a task as it is.
    pub fn new(task: TaskId) -> Self {
        let (data, props) = (None, None);
        Self { task, data, props }
    }

    /// Sets the data.
    #[must_use]
    pub fn data(mut self, data: Json) -> Self {
        self.data = Some(data);
        self
    }

    /// Sets the props.
    #[must_use]
    pub fn props(mut self, props: Json) -> Self {
        self.props = Some(props);
        self
    }

    /// Returns whether data or props change.
    pub fn is_edited(&self) -> bool {
        self.data.is_some() || self.props.is_some()
    }
}

impl From<TaskId> for RetryTask {
    fn from(task: TaskId) -> Self {
        Self::new(task)
    }
}

/// Another due time, priority, kind, limits, data or props for a task that is not claimed.
///
/// # Example
///
/// ```
/// use windlass_statemachine::Reschedule;
///
/// let later = "2030-01-01T00:00:00Z".parse().unwrap();
/// let change = Reschedule::new("report".parse()?).due(later).priority(5);
/// assert_eq!((change.due, change.priority), (Some(later), Some(5)));
/// # Ok::<(), windlass_statemachine::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reschedule {
    /// The task.
    pub task: TaskId,
    /// The new due time of a runnable or sleeping task. It sleeps until then, or is runnable at once when
    /// that time has passed. `None` (default) keeps the time.
    pub due: Option<Timestamp>,
    /// The new priority. `None` (default) keeps it.
    pub priority: Option<i32>,
    /// The new kind. The task keeps its id, and waits for a node of the new kind with its commands. Schedules
    /// (kind `schedule`) keep theirs, and no task becomes one. `None` (default) keeps the kind.
    pub kind: Option<Kind>,
    /// The new limits. A task that waits for a slot then looks for one again. `None` (default) keeps the present
    /// limits; an empty list removes them.
    pub limits: Option<Vec<Limit>>,
    /// The new data of a live task, in the version of its present data. `None` (default) keeps the
    /// data.
    pub data: Option<Json>,
    /// The new props. Without new limits, keys of the limits that contain values of the props follow them. `None` (default)
    /// keeps the props.
    pub props: Option<Json>,
}

impl Reschedule {
    /// Returns a change of this task that changes nothing yet.
    pub fn new(task: TaskId) -> Self {
        Self {
            task,
            due: None,
            priority: None,
            kind: None,
            limits: None,
            data: None,
            props: None,
        }
    }

    /// Sets the data. Combine it with [`Require::Data`] to avoid overwriting data that was not
    /// read.
    #[must_use]
    pub fn data(mut self, data: Json) -> Self {
        self.data = Some(data);
        self
    }

    /// Sets the kind: moves the task to the handler, and the queue, of another kind.
    #[must_use]
    pub fn kind(mut self, kind: Kind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Sets the props.
    #[must_use]
    pub fn props(mut self, props: Json) -> Self {
        self.props = Some(props);
        self
    }

    /// Returns whether the operation changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::new(self.task.clone())
    }

    /// Sets the limits. Their keys must be literal: a key with `{label:NAME}` or `{prop:NAME}` is refused.
    #[must_use]
    pub fn limits(mut self, limits: impl IntoIterator<Item = Limit>) -> Self {
        self.limits = Some(limits.into_iter().collect());
        self
    }

    /// Sets the due time.
    #[must_use]
    pub fn due(mut self, due: Timestamp) -> Self {
        self.due = Some(due);
        self
    }

    /// Sets the priority; tasks with a greater one run first.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }
}

/// A condition on one task.
///
/// # Example
///
/// ```
/// use windlass_statemachine::{Guard, Require, StateKind};
///
/// let guard = Guard { task: "report".parse()?, require: Require::State(StateKind::Paused) };
/// assert_eq!(guard.task.as_str(), "report");
/// # Ok::<(), windlass_statemachine::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// The task.
    pub task: TaskId,
    /// What must hold for it.
    pub require: Require,
}

/// What must hold for a task before a transaction or a message's effects change anything. Every condition
/// except [`Absent`](Self::Absent) fails for a task that does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Require {
    /// The task exists, live or ended.
    Exists,
    /// No task has the id.
    Absent,
    /// The task is in this state.
    State(StateKind),
    /// Its state has this version ([`TaskState::version`](crate::TaskState::version)): no claim, no retry and no
    /// reschedule has written it since that version was read. A command that waits leaves the version as it is.
    Version(u64),
    /// Its last claim has this fence (`TaskRecord::fence` of a store): the task was not claimed since that
    /// fence was read. `Fence(0)` for a task that was never claimed.
    Fence(Fence),
    /// It has this submit order (`TaskRecord::order` of a store): it is still the task that was submitted then. A task that
    /// was deleted and submitted again under the same id has another order.
    Order(u64),
    /// It has this kind.
    Kind(Kind),
    /// No node has claimed it.
    Unclaimed,
    /// Its data has this value; `None` for a task without data.
    Data(Option<Json>),
}
