//! [`History`]: assertions on the history of a task.

use std::fmt;

use windlass_statemachine::{ActionKind, Invalid, StateKind, TaskId};

use crate::{
    client::Client,
    store::{Change, ChangeKind, Error},
};

/// The history of one task, oldest change first, as far back as the store keeps it.
///
/// # Example
///
/// ```
/// use windlass::{ActionKind, StateKind, Message, NewTask, TaskContext, testing::Simulation};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
/// let handler = |_: TaskContext| async { Message::complete() };
/// let mut simulation = Simulation::builder().handler("demo", handler).start().await?;
/// let id = simulation.client().submit(NewTask::new("demo")).await?;
/// simulation.run(&id).await?;
/// let history = simulation.history(&id).await?;
/// history.assert_messages(&[ActionKind::Complete]);
/// history.assert_states(&[StateKind::Runnable, StateKind::Completed]);
/// assert_eq!(history.claims(), 1);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History(Vec<Change>);

impl History {
    /// Reads the history of a task from any store.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn read(
        client: &Client,
        task: impl TryInto<TaskId, Error: Into<Invalid>>,
    ) -> Result<Self, Error> {
        client.history(task, u32::MAX).await.map(Self)
    }

    /// Returns every change.
    pub fn changes(&self) -> &[Change] {
        &self.0
    }

    /// Returns the state in which the task was submitted, then the state after each transition
    /// and each reschedule.
    pub fn states(&self) -> Vec<StateKind> {
        let states = self.0.iter().filter_map(|change| match change.what {
            ChangeKind::Submitted { state } => Some(state),
            ChangeKind::Moved { to, .. } | ChangeKind::Rescheduled { to, .. } => Some(to),
            _ => None,
        });
        states.collect()
    }

    /// Returns the message of each transition.
    pub fn messages(&self) -> Vec<ActionKind> {
        let messages = self.0.iter().filter_map(|change| match change.what {
            ChangeKind::Moved { message, .. } => Some(message),
            _ => None,
        });
        messages.collect()
    }

    /// Returns the number of claims.
    pub fn claims(&self) -> usize {
        self.count(|what| matches!(what, ChangeKind::Claimed { .. }))
    }

    /// Returns the number of checkpoints of running handlers.
    pub fn checkpoints(&self) -> usize {
        self.count(|what| matches!(what, ChangeKind::Checkpointed { .. }))
    }

    /// Returns the number of claims that were lost with their node.
    pub fn lost(&self) -> usize {
        self.count(|what| matches!(what, ChangeKind::Lost { .. }))
    }

    fn count(&self, is: impl Fn(&ChangeKind) -> bool) -> usize {
        self.0.iter().filter(|change| is(&change.what)).count()
    }

    /// Asserts that [`states`](Self::states) are these.
    ///
    /// # Panics
    ///
    /// When they differ; the text contains the whole history.
    #[track_caller]
    pub fn assert_states(&self, expected: &[StateKind]) {
        assert_eq!(self.states(), expected, "states of the history:\n{self}");
    }

    /// Asserts that [`messages`](Self::messages) are these.
    ///
    /// # Panics
    ///
    /// When they differ; the text contains the whole history.
    #[track_caller]
    pub fn assert_messages(&self, expected: &[ActionKind]) {
        let messages = self.messages();
        assert_eq!(messages, expected, "messages of the history:\n{self}");
    }
}

/// Prints one line for each change: its time and its kind.
impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for change in &self.0 {
            writeln!(f, "{} {:?}", change.at, change.what)?;
        }
        Ok(())
    }
}
