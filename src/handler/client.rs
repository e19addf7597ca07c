//! The client of a running handler.

use windlass_statemachine::TaskType;

use super::TaskContext;
use crate::client::Client;

impl<J: TaskType> TaskContext<J> {
    /// Returns a client of the store that holds the task. The author of its changes is the task: `task ID`. Tasks that it
    /// submits have the [place in a trace](Self::trace) of this run.
    ///
    /// # Guarantees
    ///
    /// Each call of the client takes effect on its own, like a call of another system: it is neither part of the write of the
    /// message that the handler returns, nor fenced. A handler that runs again after a crash repeats the call, so give a
    /// submit an id and [`idempotent`](crate::NewTask::idempotent). The effects of a message
    /// ([`Message::and_submit`](crate::Message::and_submit) and others) are applied once, together with the message.
    ///
    /// # Caveats
    ///
    /// A handler that waits with a client until another task has ended keeps its slot of the node for that time. Return
    /// [`Message::wait_for`](crate::Message::wait_for) instead: a task that waits costs no slot.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{BoxError, Message, NewTask, StateKind, TaskContext, store::Filter, testing::Simulation};
    ///
    /// /// Reports how many tasks have failed.
    /// async fn report(task: TaskContext) -> Result<Message, BoxError> {
    ///     let failed = Filter::new().states([StateKind::Failed]);
    ///     let page = task.client().list(&failed, Default::default()).await?;
    ///     Ok(Message::complete_with(page.len()))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
    /// let mut simulation = Simulation::builder()
    ///     .handler("report", report)
    ///     .handler("bad", |_: TaskContext| async { Message::fail("no") })
    ///     .start()
    ///     .await?;
    /// let bad = simulation.client().submit(NewTask::new("bad")).await?;
    /// simulation.run(&bad).await?;
    /// let id = simulation.client().submit(NewTask::new("report")).await?;
    /// assert_eq!(simulation.run(&id).await?.result::<usize>()?, 1);
    /// # Ok(()) }
    /// ```
    pub fn client(&self) -> Client {
        Client::of_task(&self.run.store, self.id(), self.trace())
    }
}
