//! [`Registry`]: what a client asks of a store.

use std::pin::Pin;

#[cfg(doc)]
use super::AUDIT_RETENTION;
use async_trait::async_trait;
use futures::Stream;
use windlass_statemachine::{Author, CommandId, NodeName, TaskId, message::SendCommand};

use super::{
    Applied, AuditEntry, Change, CommandRecord, Doctor, Error, Filter, LimitUse, Limits,
    NodeCommand, NodeCommandId, NodeRecord, Operation, Order, Page, Purge, Span, Submit, Submitted,
    TaskCount, TaskRecord, TaskStats, Transaction, Transfer, rules,
};
use crate::clock::{Clock, SystemClock};

/// A stream of batches of changes. An error means that the history before the next change is gone
/// (pruned): what happened meanwhile has to be listed.
pub type ChangeStream = Pin<Box<dyn Stream<Item = Result<Vec<Change>, Error>> + Send>>;

/// The tasks of one namespace, as clients see and change them.
///
/// # Stability
///
/// Unstable: methods, duties and fields may change in each minor version ([stability](crate#stability)).
/// Pin the version (`windlass = "=X.Y.Z"`) and run the conformance suite at each update.
///
/// # Duties of an implementation
///
#[doc = include_str!("registry_duties.md")]
#[async_trait]
pub trait Registry: Send + Sync + 'static {
    /// Returns the name of this kind of store, as errors show it: `SQLite`.
    fn name(&self) -> &str;

    /// Returns the part that exports and imports whole tasks; `None` when the store lacks it.
    fn transfer(&self) -> Option<&dyn Transfer> {
        None
    }

    /// Returns the part that examines the store; `None` when the store lacks it.
    fn doctor(&self) -> Option<&dyn Doctor> {
        None
    }

    /// What it takes at the most.
    fn limits(&self) -> Limits;

    /// The identity of this namespace: 16 to 64 lower-case letters and digits, which can stand in
    /// the name of a file. Where something is kept beside a store, it is found by this, since the same
    /// store has many names (another order of endpoints, a link to a file) and the same name may
    /// stand for one store after another.
    ///
    /// # Duties of an implementation
    ///
    /// 1. It is made at random with the namespace, or with the first call, and kept in it: every
    ///    process that opens the namespace, however it names it, reads the same.
    ///    Cases: `registry::a_namespace_has_one_identity_of_its_own`,
    ///    `registry::the_identity_is_durable`.
    /// 2. Another namespace has another one. What [`Transfer::import`] takes does not bring it.
    ///    Cases: `registry::a_namespace_has_one_identity_of_its_own`.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn identity(&self) -> Result<String, Error>;

    /// Applies transactions. They are independent: one that is refused does not touch the others. Those
    /// that name the same task are applied in their order, and the results come in that order. Many of
    /// one call should become one write.
    ///
    /// # Errors
    ///
    /// Per transaction:
    ///
    /// | operation | errors |
    /// |---|---|
    /// | submit | [`Error::Invalid`], [`Error::TooLarge`], [`Error::AlreadyExists`], [`Error::AlreadyFinished`]; [`Error::Corrupt`] for the same task ([`IfExists::Same`](super::IfExists::Same)) whose state cannot be read |
    /// | send | [`Error::NotFound`], [`Error::AlreadyFinished`], [`Error::Invalid`], [`Error::TooLarge`] |
    /// | delete | [`Error::NotFound`] |
    /// | retry | [`Error::NotFound`], [`Error::Invalid`] (field `state`) for a live task |
    /// | any | [`Error::Unavailable`] |
    ///
    /// A transaction that is more than one operation without an id
    /// ([`into_single`](Transaction::into_single)), and a reschedule, is refused with:
    ///
    /// - [`Error::Refused`]: every guard and operation that is refused, with its reason.
    /// - [`Error::Invalid`] (field `operations`): no operation, more operations and guards than
    ///   [`Limits::max_operations`], or two operations on one task.
    /// - [`Error::Invalid`] (field `transaction id`): the id was that of another transaction.
    async fn apply(&self, transactions: Vec<Transaction>) -> Vec<Result<Applied, Error>>;

    /// A command and its outcome. It is kept as long as its task.
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

    /// Lists the tasks that the filter selects, in submit order.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a page of no size, [`Error::Unavailable`].
    async fn list(&self, filter: &Filter, page: Page) -> Result<Vec<TaskRecord>, Error>;

    /// Returns the order of a list with the newest tasks first that costs what the list returns: by submit, or by id on a
    /// store whose one index is that of the ids.
    fn order_of_newest(&self) -> Order {
        Order::Submitted
    }

    /// Returns the tasks of a span that the filter selects: those of a page of [`Client::page`](crate::Client::page).
    ///
    /// The default reads every matching task by [`list`](Self::list). A store with an index of an order reads what it
    /// returns.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn span(&self, filter: &Filter, span: Span) -> Result<Vec<TaskRecord>, Error> {
        rules::list::span_of_list(span, |page| self.list(filter, page)).await
    }

    /// How many tasks there are by kind and state.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn counts(&self) -> Result<Vec<TaskCount>, Error>;

    /// Returns how many tasks there are, by what decides whether a node claims them.
    ///
    /// The default reads every task by [`list`](Self::list), at the clock of the operating system. A store that keeps
    /// counts reads these, and returns `true` from [`keeps_counts`](Self::keeps_counts).
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn stats(&self) -> Result<TaskStats, Error> {
        let mut counter = rules::stats::Counter::new(SystemClock.now());
        let mut page = Page {
            after: 0,
            limit: 10_000,
        };
        loop {
            let records = self.list(&Filter::default(), page).await?;
            let Some(last) = records.last() else {
                return Ok(counter.into_stats(true));
            };
            page.after = last.order;
            records.iter().for_each(|record| counter.take(record));
        }
    }

    /// Returns whether [`stats`](Self::stats) costs the same however many tasks there are. Nodes set the gauges of the
    /// namespace only then.
    fn keeps_counts(&self) -> bool {
        false
    }

    /// Returns the limits that tasks use at present, by key. It reads what has a slot or waits for one, and not
    /// every task, where the store keeps the lines.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn limits_in_use(&self) -> Result<Vec<LimitUse>, Error>;

    /// Deletes ended tasks, oldest first, and returns how many. A task that a live task waits for at that time stays,
    /// and does not count. The history of the namespace gets one line, unless no task was deleted.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn purge(&self, purge: &Purge) -> Result<u64, Error>;

    /// Returns the history of the namespace, oldest first: at most the last `limit` lines. It has every deletion of a
    /// task, every purge and every command to a node of the last [`AUDIT_RETENTION`], but what retention deletes on
    /// its own.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn audit(&self, limit: u32) -> Result<Vec<AuditEntry>, Error>;

    /// Returns the error of a node that joins at present; `None`, the default, when nodes may join.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn no_node_may_join(&self) -> Result<Option<Error>, Error> {
        Ok(None)
    }

    /// The nodes that live.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn nodes(&self) -> Result<Vec<NodeRecord>, Error>;

    /// Sends a command to a node on behalf of an author, and returns its order.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] when no live node has that name, [`Error::Unavailable`].
    async fn send_node(
        &self,
        node: &NodeName,
        command: NodeCommand,
        by: Option<&Author>,
    ) -> Result<NodeCommandId, Error>;

    /// What a node answered to the command of this order; `None` while it waits.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] when there is no such command (or its node is gone and took it along),
    /// [`Error::Unavailable`].
    async fn node_outcome(&self, command: NodeCommandId) -> Result<Option<String>, Error>;

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

    /// Submits tasks, each in a transaction of its own. Implementations leave this and the next three
    /// as they are: they call [`apply`](Self::apply).
    ///
    /// # Errors
    ///
    /// Per task: those of [`Operation::Submit`], as [`apply`](Self::apply) has them.
    async fn submit(&self, tasks: Vec<Submit>) -> Vec<Result<Submitted, Error>> {
        let answers = self.apply(each(tasks, Operation::Submit)).await;
        let submitted = |answer: Result<Applied, Error>| answer?.submitted();
        answers.into_iter().map(submitted).collect()
    }

    /// Sends commands, each in a transaction of its own, and returns their orders.
    ///
    /// # Errors
    ///
    /// Per command: those of [`Operation::Send`].
    async fn send(&self, commands: Vec<SendCommand>) -> Vec<Result<u64, Error>> {
        let answers = self.apply(each(commands, Operation::Send)).await;
        let sent = |answer: Result<Applied, Error>| answer?.sent();
        answers.into_iter().map(sent).collect()
    }

    /// Deletes tasks, each in a transaction of its own.
    ///
    /// # Errors
    ///
    /// Per task: those of [`Operation::Delete`].
    async fn delete(&self, ids: Vec<TaskId>) -> Vec<Result<(), Error>> {
        let answers = self.apply(each(ids, Operation::Delete)).await;
        answers.into_iter().map(|answer| answer.map(drop)).collect()
    }

    /// Retries tasks, each in a transaction of its own.
    ///
    /// # Errors
    ///
    /// Per task: those of [`Operation::Retry`].
    async fn retry(&self, ids: Vec<TaskId>) -> Vec<Result<(), Error>> {
        let answers = self.apply(each(ids, Operation::Retry)).await;
        answers.into_iter().map(|answer| answer.map(drop)).collect()
    }
}

fn each<T>(items: Vec<T>, operation: fn(T) -> Operation) -> Vec<Transaction> {
    let operations = items.into_iter().map(operation);
    operations.map(Transaction::from).collect()
}
