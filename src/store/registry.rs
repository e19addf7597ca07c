//! [`Registry`]: what a client asks of a store.

use std::pin::Pin;

use async_trait::async_trait;
use futures::Stream;
use jiff::Timestamp;
use windlass_statemachine::{Code, CommandId, NodeName, TaskId};

use super::{
    Change, CommandRecord, Count, Error, Filter, Limits, NodeCommand, NodeRecord, Page, Send,
    Submit, Submitted, TaskRecord,
};

/// A stream of batches of changes. An error means that the history before the next change is gone
/// (pruned): what happened meanwhile has to be listed.
pub type ChangeStream = Pin<Box<dyn Stream<Item = Result<Vec<Change>, Error>> + std::marker::Send>>;

/// The tasks of one namespace, as clients see and change them.
///
/// # Duties of an implementation
///
/// 1. **Acknowledged is durable**, and reaches the watches of the nodes.
/// 2. **Items are independent**: one that fails does not touch the others; answers come in the
///    order of the items, also when two items name the same task.
/// 3. **Commands queue.** None replaces another; they get growing orders, and a command whose id is
///    known already is the same command (for the same task; else [`Error::Invalid`]).
/// 4. **Records are told as they are**: a task whose record cannot be read is listed with the
///    reason, not left out.
#[async_trait]
pub trait Registry: std::marker::Send + Sync + 'static {
    /// What it takes at the most.
    fn limits(&self) -> Limits;

    /// Submits tasks. A new one has the state
    /// [`State::submitted`](windlass_statemachine::State::submitted); one that replaces an ended
    /// task has nothing of it but a fence that goes on growing.
    ///
    /// # Errors
    ///
    /// Per task: [`Error::Invalid`] and [`Error::TooLarge`] (it is checked here again),
    /// [`Error::AlreadyExists`], [`Error::AlreadyFinished`], [`Error::Unavailable`].
    async fn submit(&self, tasks: Vec<Submit>) -> Vec<Result<Submitted, Error>>;

    /// Sends commands; answers their orders.
    ///
    /// # Errors
    ///
    /// Per command: [`Error::NotFound`], [`Error::AlreadyFinished`], [`Error::Invalid`],
    /// [`Error::Unavailable`].
    async fn send(&self, commands: Vec<Send>) -> Vec<Result<u64, Error>>;

    /// A command and what became of it. It is kept as long as its task.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Unavailable`].
    async fn command(&self, id: &CommandId) -> Result<CommandRecord, Error>;

    /// The commands of a task, in order, those that have an outcome included.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Unavailable`].
    async fn commands(&self, task: &TaskId) -> Result<Vec<CommandRecord>, Error>;

    /// One task.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Unavailable`].
    async fn get(&self, id: &TaskId) -> Result<TaskRecord, Error>;

    /// The tasks that are meant, in submit order.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a page of no size, [`Error::Unavailable`].
    async fn list(&self, filter: &Filter, page: Page) -> Result<Vec<TaskRecord>, Error>;

    /// How many tasks there are by kind and state.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn counts(&self) -> Result<Vec<Count>, Error>;

    /// Deletes tasks with all that belongs to them. A node that runs one is told
    /// ([`Event::Gone`](super::Event::Gone)) and its claim is gone.
    ///
    /// # Errors
    ///
    /// Per task: [`Error::NotFound`], [`Error::Unavailable`].
    async fn delete(&self, ids: Vec<TaskId>) -> Vec<Result<(), Error>>;

    /// Starts ended tasks anew ([`State::retried`](windlass_statemachine::State::retried)). For one
    /// that is set aside: its record is read again, and where it still cannot be read the task
    /// starts from its props with a new state, whose error log keeps the reason.
    ///
    /// # Errors
    ///
    /// Per task: [`Error::NotFound`], [`Error::Invalid`] (field `state`) for one that is live,
    /// [`Error::Unavailable`].
    async fn retry(&self, ids: Vec<TaskId>) -> Vec<Result<(), Error>>;

    /// Deletes at most `limit` tasks that ended in one of `states` before `before`, oldest first;
    /// answers how many. States that are not terminal are not looked at.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn purge(&self, states: &[Code], before: Timestamp, limit: u32) -> Result<u64, Error>;

    /// The nodes that live.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn nodes(&self) -> Result<Vec<NodeRecord>, Error>;

    /// Sends a command to a node; answers its order.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] when no live node has that name, [`Error::Unavailable`].
    async fn send_node(&self, node: &NodeName, command: NodeCommand) -> Result<u64, Error>;

    /// What a node answered to the command of this order; `None` while it waits.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] when there is no such command (or its node is gone and took it along),
    /// [`Error::Unavailable`].
    async fn node_outcome(&self, order: u64) -> Result<Option<String>, Error>;

    /// The history of one task, oldest first, as far back as it is kept; at most the last `limit`.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Unavailable`].
    async fn history(&self, id: &TaskId, limit: u32) -> Result<Vec<Change>, Error>;

    /// What happens from now on (`None`), or after the change with this `seq`.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (field `after`) when the history after it is not kept any more,
    /// [`Error::Unavailable`].
    async fn changes(&self, after: Option<u64>) -> Result<ChangeStream, Error>;
}
