//! [`Client`]: submits, lists, commands and waits.

pub mod activity;
mod author;
mod by_id;
mod command;
mod counted;
mod edit;
mod examine;
mod failures;
mod graph;
mod handle;
mod log;
mod missing;
mod nodes;
mod not_run;
mod notes;
mod of_kind;
mod pages;
mod pausers;
mod purge;
mod reasons;
mod record;
mod signal;
mod stats;
mod submit;
mod transaction;
mod wait;
mod wait_none;
mod waiting;
mod waits;

use windlass_statemachine::{Author, Invalid, Job, Note, TaskId, Trace};

pub(crate) use by_id::{AIM, ById};
pub use counted::{HeldBack, KindStats, Stats};
pub use failures::{Failure, Failures};
pub use graph::{Around, Graph};
pub use handle::{Handle, TaskFailed, WaitError};
pub use missing::{SameRequest, ToCheck};
pub use not_run::{Cause, NotRun};
pub use pages::Pages;
pub use pausers::Pausers;
pub use record::Done;
pub use signal::SignalError;
pub use transaction::TransactionBuilder;
pub use waiting::Waiting;
pub use waits::{Selector, WaitReason};

use crate::store::{
    Change, ChangeKind, ChangeStream, Cursor, Error, Filter, Order, Page, Query, Store, TaskCount,
    TaskPage, TaskRecord, rules,
};

/// Reads and changes the tasks of a namespace. A client has no state of its own; clones are
/// equivalent.
///
/// # Example
///
/// ```
/// use windlass::{Client, StateKind, Command, NewTask, store::{Filter, Store}};
///
/// # #[tokio::main] async fn main() -> Result<(), windlass::BoxError> {
/// let client = Client::new(&Store::open("memory:").await?);
/// let id = client.submit(NewTask::new("mail").id("welcome-7").label("team", "a")).await?;
///
/// // It waits in the queue of the task until a node has the task.
/// let pause = client.command(&id, Command::Pause).await?;
/// assert_eq!(client.outcome(&pause).await?, None);
///
/// let mine = Filter::new().has_label("team");
/// assert_eq!(client.list(&mine, Default::default()).await?.len(), 1);
/// assert_eq!(client.get(&id).await?.state?.code(), StateKind::Runnable);
/// client.delete(&id).await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Client {
    store: Store,
    by: Author,
    /// The note of the commands that it sends.
    note: Option<Note>,
    /// The place in a trace to which its changes belong.
    trace: Option<Trace>,
}

/// Returns the name that a caller passed, or its error.
fn name<N>(given: impl TryInto<N, Error: Into<Invalid>>) -> Result<N, Error> {
    given.try_into().map_err(|e| Error::Invalid(e.into()))
}

fn only<T>(mut answers: Vec<Result<T, Error>>) -> Result<T, Error> {
    answers
        .pop()
        .unwrap_or_else(|| Err(Error::unavailable("answer", "the store gave no answer")))
}

impl Client {
    /// Returns a client of a store. The author of its changes is the operating-system user of the
    /// process; see [`on_behalf_of`](Self::on_behalf_of).
    pub fn new(store: &Store) -> Self {
        Self {
            store: store.clone(),
            by: author::of_process(),
            note: None,
            trace: None,
        }
    }

    /// Returns the client of the handler of a task, whose changes name the task as their author.
    pub(crate) fn of_task(store: &Store, task: &TaskId, trace: Option<Trace>) -> Self {
        Self {
            store: store.clone(),
            by: Author::task(task),
            note: None,
            trace,
        }
    }

    /// Returns the time by the clock of the store, with which start times, deadlines and schedules are compared: by default
    /// that of this machine. Nodes use the clocks of their machines; etcd has no clock.
    ///
    /// # Example
    ///
    /// ```
    /// use jiff::SignedDuration;
    /// use windlass::{Client, NewTask, store::Store};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::store::Error> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// let later = client.now() + SignedDuration::from_mins(5);
    /// client.submit(NewTask::new("report").start_at(later)).await?;
    /// # Ok(()) }
    /// ```
    pub fn now(&self) -> jiff::Timestamp {
        self.store.clock().now()
    }

    /// Returns the store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns a handle of a task that was submitted before. Whether the task exists is not checked.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for an invalid id.
    pub fn handle<J: Job>(
        &self,
        id: impl TryInto<TaskId, Error: Into<Invalid>>,
    ) -> Result<Handle<J>, Error> {
        Ok(Handle::new(self.clone(), name(id)?, None))
    }

    /// Returns one task.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (field `id`), [`Error::NotFound`], [`Error::Unavailable`].
    ///
    /// # Example
    ///
    /// An id is a [`TaskId`], or text:
    ///
    /// ```
    /// use windlass::{Client, NewTask, store::{Error, Store}};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// let id = client.submit(NewTask::new("mail").id("welcome-7")).await?;
    /// assert_eq!(client.get("welcome-7").await?.task, client.get(&id).await?.task);
    /// let error = client.get("a/b").await.unwrap_err();
    /// assert!(matches!(error, Error::Invalid(e) if e.field() == "id"));
    /// # Ok(()) }
    /// ```
    pub async fn get(
        &self,
        id: impl TryInto<TaskId, Error: Into<Invalid>>,
    ) -> Result<TaskRecord, Error> {
        self.store.registry().get(&name(id)?).await
    }

    /// Returns a page of the tasks that the filter selects, in submit order. The next page begins after
    /// the [`order`](TaskRecord::order) of the last task of this one.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (field `limit`), [`Error::Unavailable`].
    pub async fn list(&self, filter: &Filter, page: Page) -> Result<Vec<TaskRecord>, Error> {
        filter.check()?;
        self.store.registry().list(filter, page).await
    }

    /// Returns a page of the tasks of a query: the first page, or the page at a cursor that another
    /// page returned.
    ///
    /// # Cost
    ///
    /// SQLite reads the tasks that it returns. For a list by wake-up it also reads one index entry for each kind and data
    /// version, and the claimed tasks. etcd reads the tasks that it returns for a list by id, a list by end, and a filter
    /// that names ids. For every page of another list etcd reads all tasks (only the live ones if the query selects only
    /// those), unless the process keeps an index in memory (`memory-index=true`). A condition without an index (labels,
    /// texts of errors, props, times of submits, kinds, the reason of a wait) also reads the tasks that it leaves out: at
    /// worst all of them, up to 4,000 at a time on etcd.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (field `limit`; field `cursor` for a cursor of another order; the fields of [`Filter::check`]),
    /// [`Error::Unavailable`].
    pub async fn page(&self, query: &Query, cursor: Option<&Cursor>) -> Result<TaskPage, Error> {
        let now = self.now();
        let span = rules::list::from_now(rules::list::span(query, cursor)?, now);
        let mut tasks = match query.waits {
            None => self.store.registry().span(&query.filter, span).await?,
            Some(reason) => self.span_that_waits(reason, &query.filter, span).await?,
        };
        rules::list::retain_late(query.order, &mut tasks, now);
        Ok(rules::list::page(query, cursor, tasks))
    }

    /// Returns the cheapest order that lists the newest tasks first: [`Order::Submitted`], or [`Order::Id`] on etcd.
    /// Ids that windlass makes begin with the time of the submit. On etcd, tasks with ids of your own are therefore in
    /// the order of their ids.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Client, store::{Filter, Order, Query, Store}};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// assert_eq!(client.order_of_newest(), Order::Submitted);
    /// let newest = Query::new(Filter::default()).order(client.order_of_newest()).limit(20);
    /// assert!(client.page(&newest, None).await?.tasks.is_empty());
    /// # Ok(()) }
    /// ```
    pub fn order_of_newest(&self) -> Order {
        self.store.registry().order_of_newest()
    }

    /// Returns how many tasks there are by kind and state.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    pub async fn counts(&self) -> Result<Vec<TaskCount>, Error> {
        self.store.registry().counts().await
    }

    /// Deletes a task with all that belongs to it, if no node has claimed it.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`]; [`Error::Claimed`] for a task that a node has claimed; [`Error::Unavailable`].
    pub async fn delete(
        &self,
        id: impl TryInto<TaskId, Error: Into<Invalid>>,
    ) -> Result<(), Error> {
        only(self.delete_many(vec![name(id)?]).await)
    }

    /// Starts an ended task again, in a new incarnation with attempts from 0 and with its present
    /// data.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Invalid`] (field `state`) for a live task,
    /// [`Error::Unavailable`].
    pub async fn retry(&self, id: impl TryInto<TaskId, Error: Into<Invalid>>) -> Result<(), Error> {
        only(self.retry_many(vec![name(id)?]).await)
    }

    /// Returns the history of a task, oldest first: at most the last `limit` changes, with the notes of its commands.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn history(
        &self,
        id: impl TryInto<TaskId, Error: Into<Invalid>>,
        limit: u32,
    ) -> Result<Vec<Change>, Error> {
        let id = name(id)?;
        let registry = self.store.registry();
        let mut history = registry.history(&id, limit).await?;
        let is_sent = |change: &Change| matches!(change.what, ChangeKind::Commanded { .. });
        if history.iter().any(is_sent) {
            notes::add(&mut history, &registry.commands(&id).await?);
        }
        Ok(history)
    }

    /// Returns a stream of the changes of the namespace: from now on (`None`), or after the change
    /// with this number.
    ///
    /// All streams from now on share one feed, so the store is read once for each change, however many streams there
    /// are. A stream that is read too slowly for the shared feed switches to its own feed, and loses no change.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (field `after`) when that part of the history is no longer kept,
    /// [`Error::Unavailable`].
    pub async fn changes(&self, after: Option<u64>) -> Result<ChangeStream, Error> {
        match after {
            None => self.store.changes().whole().await,
            after => self.store.registry().changes(after).await,
        }
    }

    /// Returns a position after the newest change, which [`changes`](Self::changes) takes.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    ///
    /// # Example
    ///
    /// ```
    /// use futures::StreamExt;
    /// use windlass::{Client, NewTask, store::Store};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// client.submit(NewTask::new("mail").id("a")).await?;
    /// let newest = client.newest_change().await?;
    /// client.submit(NewTask::new("mail").id("b")).await?;
    /// let mut changes = client.changes(Some(newest)).await?;
    /// let next = changes.next().await.ok_or("the stream has ended")??;
    /// assert_eq!(next[0].task.as_str(), "b");
    /// # Ok(()) }
    /// ```
    pub async fn newest_change(&self) -> Result<u64, Error> {
        self.store.registry().newest_change().await
    }
}
