//! [`Registry`]: the part of a store that clients use.

use std::pin::Pin;

#[cfg(doc)]
use super::AUDIT_RETENTION;
use async_trait::async_trait;
use futures::Stream;
use windlass_statemachine::{
    Author, CommandId, Delete, NodeName, RetryTask, StateKind, TaskId, message::SendCommand,
};

use super::{
    Applied, AuditEntry, Change, CommandRecord, Doctor, Error, FailedTasks, Filter, LimitUse,
    Limits, NamedValue, NodeCommand, NodeCommandId, NodeRecord, Operation, Order, Page, Purge,
    RefusedRows, SetValue, Span, StoredLog, Submit, Submitted, TaskCount, TaskRecord, TaskStats,
    Transaction, Transfer, rules,
};
use crate::clock::{Clock, SystemClock};

/// A stream of batches of changes. An error means that the history before the next change was
/// pruned: list the tasks to see what has changed.
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

    /// Returns the limits of the store.
    fn limits(&self) -> Limits;

    /// Returns why the store takes no writes (a full disk, a file that another program keeps locked, a cluster without a
    /// quorum), or `None`: the outcome of this process's last write, where that failed within the last minute, else what the
    /// store can tell without a write. A store that does not know it returns `None`, like the default.
    async fn write_error(&self) -> Option<Error> {
        None
    }

    /// Returns the identity of this namespace: 16 to 64 lower-case letters and digits, which can be
    /// part of a file name. Files that belong to a store are named after it, because one store can
    /// have several URLs (another order of endpoints, a link to a file), and one URL may refer to
    /// different stores over time.
    ///
    /// # Duties of an implementation
    ///
    /// 1. The identity is random. It is made with the namespace, or with the first call, and stored
    ///    in it: every process that opens the namespace, by any URL, reads the same. Cases:
    ///    `registry::a_namespace_has_one_identity_of_its_own`, `registry::the_identity_is_durable`.
    /// 2. Another namespace has another identity. [`Transfer::import`] does not import it. Cases:
    ///    `registry::a_namespace_has_one_identity_of_its_own`.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn identity(&self) -> Result<String, Error>;

    /// Applies transactions. They are independent: a refused one does not affect the others.
    /// Transactions with the same task are applied in their order, and the results are in the order of
    /// the transactions. An implementation should combine the transactions of one call into few writes.
    ///
    /// # Errors
    ///
    /// Per transaction:
    ///
    /// | operation | errors |
    /// |---|---|
    /// | submit | [`Error::Invalid`], [`Error::TooLarge`], [`Error::AlreadyExists`], [`Error::AlreadyFinished`]; [`Error::Corrupt`] for the same task ([`IfExists::Same`](super::IfExists::Same)) whose state cannot be read |
    /// | send | [`Error::NotFound`], [`Error::AlreadyFinished`], [`Error::Invalid`], [`Error::TooLarge`] |
    /// | delete | [`Error::NotFound`]; [`Error::Claimed`] for a claimed task, unless the operation is forced |
    /// | retry | [`Error::NotFound`], [`Error::Invalid`] (field `state`) for a live task |
    /// | any | [`Error::Unavailable`] |
    ///
    /// A transaction that is more than one operation without an id
    /// ([`into_single`](Transaction::into_single)), a reschedule, and a retry with other data or props, is refused
    /// with:
    ///
    /// - [`Error::Refused`]: every refused guard and operation, with its reason.
    /// - [`Error::Invalid`] (field `operations`): no operation, more operations and guards than
    ///   [`Limits::max_operations`], or two operations on one task.
    /// - [`Error::Invalid`] (field `transaction id`): another transaction had the id.
    async fn apply(&self, transactions: Vec<Transaction>) -> Vec<Result<Applied, Error>>;

    /// Returns a command and its outcome. It is kept until its task is deleted.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Unavailable`].
    async fn command(&self, id: &CommandId) -> Result<CommandRecord, Error>;

    /// Returns the commands of a task, in order, including those that have an outcome.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Unavailable`].
    async fn commands(&self, task: &TaskId) -> Result<Vec<CommandRecord>, Error>;

    /// Returns one task.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Unavailable`].
    async fn get(&self, id: &TaskId) -> Result<TaskRecord, Error>;

    /// Lists the tasks that the filter selects, in submit order.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a page of size zero, [`Error::Unavailable`].
    async fn list(&self, filter: &Filter, page: Page) -> Result<Vec<TaskRecord>, Error>;

    /// Returns the cheapest order that lists the newest tasks first: by submit, or by id on a store whose only index is
    /// by id.
    fn order_of_newest(&self) -> Order {
        Order::Submitted
    }

    /// Returns the tasks of a span that the filter selects. [`Client::page`](crate::Client::page) makes its pages of
    /// them.
    ///
    /// The default implementation reads every matching task with [`list`](Self::list). A store with an index of the
    /// order reads only what it returns.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn span(&self, filter: &Filter, span: Span) -> Result<Vec<TaskRecord>, Error> {
        rules::list::span_of_list(span, |page| self.list(filter, page)).await
    }

    /// Returns how many tasks there are by kind and state.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn counts(&self) -> Result<Vec<TaskCount>, Error>;

    /// Returns how many tasks there are, grouped by whether and why a node can claim them.
    ///
    /// The default implementation reads every task with [`list`](Self::list), and uses the clock of the operating
    /// system. A store that keeps counts reads those, and returns `true` from [`keeps_counts`](Self::keeps_counts).
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

    /// Returns the failed tasks in groups by kind and the fingerprint of their last error, at most `limit` groups.
    ///
    /// The default implementation reads the last 10,000 failed tasks in the order of their ends, or the first in the order
    /// of submits if the store does not list by end.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn failures(&self, limit: usize) -> Result<FailedTasks, Error> {
        let filter = Filter::new().states([StateKind::Failed]);
        let mut span = Span {
            order: Order::Ended,
            ascending: false,
            after: None,
            limit: rules::failures::READ,
            without_props: true,
            only_waiting: false,
        };
        let records = match self.span(&filter, span.clone()).await {
            Err(error) if error.is_retryable() => return Err(error),
            Err(_) => {
                span.order = Order::Submitted;
                self.span(&filter, span).await?
            }
            Ok(records) => records,
        };
        let is_complete = records.len() < rules::failures::READ;
        Ok(FailedTasks::of(&records, limit, is_complete))
    }

    /// Returns the rows of the inbox that were refused, and wait for a correction. A store without an inbox has none, like the
    /// default. Reads a bounded number of rows.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn refused_rows(&self) -> Result<RefusedRows, Error> {
        Ok(RefusedRows::default())
    }

    /// Returns whether the cost of [`stats`](Self::stats) is independent of the number of tasks. Only then do nodes
    /// set the gauges of the namespace.
    fn keeps_counts(&self) -> bool {
        false
    }

    /// Returns the limits that tasks use at present, by key. A store that keeps the lines of limits reads only
    /// tasks with a slot and tasks in a line, not every task.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn limits_in_use(&self) -> Result<Vec<LimitUse>, Error>;

    /// Deletes ended tasks, oldest first, and returns their number. Spares, and does not count, a task that a live
    /// task waits for at that time. The history of the namespace gets one line, unless no task was deleted.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn purge(&self, purge: &Purge) -> Result<u64, Error>;

    /// Returns the history of the namespace, oldest first: at most the last `limit` lines. It has every deletion of a
    /// task, every purge and every command to a node of the last [`AUDIT_RETENTION`], except deletions by retention.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn audit(&self, limit: u32) -> Result<Vec<AuditEntry>, Error>;

    /// Returns the [named values](NamedValue) of the namespace whose names begin with a text, by name.
    ///
    /// # Duties of an implementation
    ///
    /// 1. A value is durable, and whole: its text and version are of one write. Cases:
    ///    `values::values_are_listed_by_folder`, `values::values_are_durable`.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn values(&self, folder: &str) -> Result<Vec<NamedValue>, Error>;

    /// Sets or deletes a [named value](NamedValue), and returns whether its present version was
    /// [the expected one](super::Expected). If it was not, nothing has changed.
    ///
    /// # Duties of an implementation
    ///
    /// 1. The comparison and the write are one: of concurrent calls that expect the same version, one succeeds. Cases:
    ///    `values::an_expectation_that_does_not_hold_changes_nothing`, `values::of_concurrent_writes_one_is_expected`.
    /// 2. Each write makes a version that the name never had. Cases: `values::a_version_is_never_used_again`.
    /// 3. Each write adds a line to the history of the namespace. A deletion of nothing adds none. Cases:
    ///    `values::the_history_of_the_namespace_has_their_writes`.
    /// 4. A name or a text that [`SetValue::check`] refuses is refused. Cases: `values::names_and_sizes_are_checked`.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] ([`SetValue::check`]), [`Error::Unavailable`].
    async fn set_value(&self, change: &SetValue) -> Result<bool, Error>;

    /// Returns the error with which a node cannot join at present; `None`, the default, when nodes
    /// may join. A store with the mark of a [copy](super::copy) returns the error of the mark.
    /// Case: `copies::a_copied_store_takes_no_tasks_and_no_nodes`.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn no_node_may_join(&self) -> Result<Option<Error>, Error> {
        Ok(None)
    }

    /// Returns the live nodes.
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

    /// Returns a node's answer to a command; `None` while the node has not answered.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] when the command does not exist, or was removed with its node;
    /// [`Error::Unavailable`].
    async fn node_outcome(&self, command: NodeCommandId) -> Result<Option<String>, Error>;

    /// Returns the history of one task, oldest first, as far back as it is kept: at most the last
    /// `limit` changes.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Unavailable`].
    async fn history(&self, id: &TaskId, limit: u32) -> Result<Vec<Change>, Error>;

    /// Returns the log lines of one task, in order: the kept parts from the part with this number on, and those of them
    /// that cannot be read.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Unavailable`].
    async fn log_parts(&self, id: &TaskId, from: u64) -> Result<StoredLog, Error>;

    /// Returns the stream of changes from now on (`None`), or after the change with this `seq`.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (field `after`) when the history after it is no longer kept,
    /// [`Error::Unavailable`].
    async fn changes(&self, after: Option<u64>) -> Result<ChangeStream, Error>;

    /// Returns a position after the newest change, which [`changes`](Self::changes) takes: the stream after it has every
    /// change that follows, and none that was made before the call. 0 before the first change.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn newest_change(&self) -> Result<u64, Error>;

    /// Submits tasks, each in its own transaction. Implementations do not override this method and
    /// the next three, which call [`apply`](Self::apply).
    ///
    /// # Errors
    ///
    /// Per task: the errors of [`Operation::Submit`], listed in [`apply`](Self::apply).
    async fn submit(&self, tasks: Vec<Submit>) -> Vec<Result<Submitted, Error>> {
        let answers = self.apply(each(tasks, Operation::Submit)).await;
        let submitted = |answer: Result<Applied, Error>| answer?.submitted();
        answers.into_iter().map(submitted).collect()
    }

    /// Sends commands, each in its own transaction, and returns their orders.
    ///
    /// # Errors
    ///
    /// Per command: the errors of [`Operation::Send`].
    async fn send(&self, commands: Vec<SendCommand>) -> Vec<Result<u64, Error>> {
        let answers = self.apply(each(commands, Operation::Send)).await;
        let sent = |answer: Result<Applied, Error>| answer?.sent();
        answers.into_iter().map(sent).collect()
    }

    /// Deletes tasks that no node has claimed, each in a transaction of its own.
    ///
    /// # Errors
    ///
    /// Per task: the errors of [`Operation::Delete`].
    async fn delete(&self, ids: Vec<TaskId>) -> Vec<Result<(), Error>> {
        let tasks = ids.into_iter().map(Delete::new).collect();
        let answers = self.apply(each(tasks, Operation::Delete)).await;
        answers.into_iter().map(|answer| answer.map(drop)).collect()
    }

    /// Retries tasks, each in its own transaction.
    ///
    /// # Errors
    ///
    /// Per task: the errors of [`Operation::Retry`].
    async fn retry(&self, ids: Vec<TaskId>) -> Vec<Result<(), Error>> {
        let tasks = ids.into_iter().map(RetryTask::new).collect();
        let answers = self.apply(each(tasks, Operation::Retry)).await;
        answers.into_iter().map(|answer| answer.map(drop)).collect()
    }
}

fn each<T>(items: Vec<T>, operation: fn(T) -> Operation) -> Vec<Transaction> {
    let operations = items.into_iter().map(operation);
    operations.map(Transaction::from).collect()
}
