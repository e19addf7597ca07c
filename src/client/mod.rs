//! [`Client`]: submits, lists, commands and waits.

mod author;
mod edit;
mod handle;
mod nodes;
mod of_kind;
mod pages;
mod purge;
mod record;
mod signal;
mod stats;
mod transaction;
mod wait;
mod waiting;
mod waits;

use std::time::Duration;

use windlass_statemachine::{Author, Command, CommandId, Invalid, Outcome, TaskId, Wake};

pub use handle::{Handle, TaskFailed, WaitError};
pub use pages::Pages;
pub use record::Done;
pub use signal::SignalError;
pub use stats::{HeldBack, KindStats, Stats};
pub use transaction::TransactionBuilder;
pub use waiting::Waiting;
pub use waits::{Selector, WaitReason};

use crate::{
    job::Job,
    store::{
        Change, ChangeStream, CommandRecord, Cursor, Error, Filter, Operation, Order, Page, Query,
        SendCommand, Store, Submitted, TaskCount, TaskPage, TaskRecord, rules,
    },
    task::NewTask,
};

/// Sees and changes the tasks of a namespace. Clones are the same client; it holds no state of its
/// own.
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
}

/// The name that a caller gave, or what is wrong with it.
fn name<N>(given: impl TryInto<N, Error: Into<Invalid>>) -> Result<N, Error> {
    given.try_into().map_err(|e| Error::Invalid(e.into()))
}

fn only<T>(mut answers: Vec<Result<T, Error>>) -> Result<T, Error> {
    answers
        .pop()
        .unwrap_or_else(|| Err(Error::unavailable("answer", "the store gave no answer")))
}

impl Client {
    /// Returns a client of a store. Its changes are by the operating-system user of the process
    /// ([`on_behalf_of`](Self::on_behalf_of)).
    pub fn new(store: &Store) -> Self {
        Self {
            store: store.clone(),
            by: author::of_process(),
        }
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Submits a task. When this returns, it will be run, whatever crashes.
    ///
    /// Takes a [`NewTask`], or a value of a typed kind ([`Job`]). The handle is that of the task that is there,
    /// when the submit finds it: by its id, or by its unique key ([`NewTask::unique`]).
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] naming the field, [`Error::TooLarge`], [`Error::AlreadyExists`],
    /// [`Error::AlreadyFinished`], [`Error::NotUnique`], [`Error::Unavailable`].
    pub async fn submit<J>(&self, task: impl Into<NewTask<J>>) -> Result<Handle<J>, Error> {
        only(self.submit_many([task]).await)
    }

    /// Submits many tasks in one call, and returns the results in their order. Each succeeds or fails
    /// on its own, as [`submit`](Self::submit).
    pub async fn submit_many<J, T: Into<NewTask<J>>>(
        &self,
        tasks: impl IntoIterator<Item = T>,
    ) -> Vec<Result<Handle<J>, Error>> {
        let limit = self.store.registry().limits().max_bytes;
        let now = self.store.clock().now();
        let mut good = Vec::new();
        let checked: Vec<Result<TaskId, Error>> = tasks
            .into_iter()
            .map(|task| {
                let submit = task.into().build_at(now)?;
                rules::size::check_task(&submit.task, limit)?;
                let id = submit.task.id.clone();
                good.push(submit);
                Ok(id)
            })
            .collect();
        let mut stored = if good.is_empty() {
            Vec::new().into_iter()
        } else {
            self.apply_each(good, Operation::Submit).await.into_iter()
        };
        let handle = |id| {
            let applied = stored.next().unwrap_or_else(|| only(Vec::new()))?;
            let submitted = applied.submitted()?;
            let id = match &submitted {
                Submitted::Other { task, .. } => task.clone(),
                Submitted::New | Submitted::Existing(_) => id,
            };
            Ok(Handle::new(self.clone(), id, Some(submitted)))
        };
        let mut handle = handle;
        checked.into_iter().map(|id| handle(id?)).collect()
    }

    /// Returns a handle of a task that was submitted before. Whether the task exists is not checked.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the id is not one.
    pub fn handle<J: Job>(
        &self,
        id: impl TryInto<TaskId, Error: Into<Invalid>>,
    ) -> Result<Handle<J>, Error> {
        Ok(Handle::new(self.clone(), name(id)?, None))
    }

    /// Sends a command to a task; returns its id. The command waits while no node has the task, and
    /// ends in exactly one outcome.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (a sleep that ends in the past), [`Error::NotFound`],
    /// [`Error::AlreadyFinished`], [`Error::Unavailable`].
    pub async fn command(
        &self,
        task: impl TryInto<TaskId, Error: Into<Invalid>>,
        command: Command,
    ) -> Result<CommandId, Error> {
        let id = CommandId::new(uuid::Uuid::now_v7().to_string())?;
        let send = SendCommand {
            task: name(task)?,
            id: id.clone(),
            command,
        };
        only(self.send_each(vec![send]).await)?;
        Ok(id)
    }

    /// As [`command`](Self::command), with an id of your own: sending it again is the same command,
    /// also when the time of a sleep has passed meanwhile.
    ///
    /// # Errors
    ///
    /// As [`command`](Self::command); [`Error::Invalid`] (field `name`, `payload` or `command`) for a signal
    /// whose id was given to another command of the task.
    pub async fn command_with_id(
        &self,
        task: impl TryInto<TaskId, Error: Into<Invalid>>,
        id: impl TryInto<CommandId, Error: Into<Invalid>>,
        command: Command,
    ) -> Result<(), Error> {
        // The store checks a command whose id is new: one that was taken is not held against the clock.
        let send = SendCommand {
            task: name(task)?,
            id: name(id)?,
            command,
        };
        self.send_again(send).await
    }

    /// Sends a task to sleep for this long from now, by the store's clock, as
    /// [`Command::Sleep`] does until a time.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (field `until`) for no time at all or one beyond the last time, `9999-12-30T22:00:00Z`, and those of
    /// [`command`](Self::command).
    pub async fn sleep_for(
        &self,
        task: impl TryInto<TaskId, Error: Into<Invalid>>,
        wait: Duration,
    ) -> Result<CommandId, Error> {
        let until = Wake::After(wait).resolve(self.store.clock().now())?;
        self.command(task, Command::Sleep { until }).await
    }

    /// Sends a command to many tasks; answers the ids of the commands in the order of the tasks. One
    /// that fails does not touch the others.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the command itself is wrong; those of single tasks are in the answer.
    pub async fn command_many(
        &self,
        tasks: &[TaskId],
        command: Command,
    ) -> Result<Vec<Result<CommandId, Error>>, Error> {
        command.check(self.store.clock().now())?;
        let mut ids = Vec::with_capacity(tasks.len());
        let mut sends = Vec::with_capacity(tasks.len());
        for task in tasks {
            let id = CommandId::new(uuid::Uuid::now_v7().to_string())?;
            ids.push(id.clone());
            sends.push(SendCommand {
                task: task.clone(),
                id,
                command: command.clone(),
            });
        }
        let answers = self.send_each(sends).await;
        let answers = answers.into_iter().zip(ids);
        Ok(answers.map(|(answer, id)| answer.map(|_| id)).collect())
    }

    /// Returns the outcome of a command; `None` while it waits.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] (also once its task is deleted), [`Error::Unavailable`].
    pub async fn outcome(
        &self,
        id: impl TryInto<CommandId, Error: Into<Invalid>>,
    ) -> Result<Option<Outcome>, Error> {
        let id = name(id)?;
        Ok(self.store.registry().command(&id).await?.outcome)
    }

    /// The commands of a task, in order, those that have an outcome included.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn commands(
        &self,
        task: impl TryInto<TaskId, Error: Into<Invalid>>,
    ) -> Result<Vec<CommandRecord>, Error> {
        self.store.registry().commands(&name(task)?).await
    }

    /// One task.
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

    /// Lists a page of the tasks that the filter selects, in submit order. The next page begins after the
    /// last one's [`order`](TaskRecord::order).
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (field `limit`), [`Error::Unavailable`].
    pub async fn list(&self, filter: &Filter, page: Page) -> Result<Vec<TaskRecord>, Error> {
        self.store.registry().list(filter, page).await
    }

    /// Returns a page of the tasks of a query: the first one, or the one at a cursor of another page.
    ///
    /// # Cost
    ///
    /// SQLite reads what it returns, and for a list by wake-up also one entry of an index for each kind and data version and
    /// the claimed tasks. etcd reads what it returns of a list by id or by end, or of tasks whose ids the filter names;
    /// every page of another list reads all tasks, or all live ones where the query has only such, unless the process keeps
    /// an index in memory (`memory-index=true`). A condition without an index (labels, texts of errors, props, times of
    /// submits, kinds, the reason of a wait) reads the tasks that it leaves out as well: at worst all of them, up to 4,000
    /// at a time on etcd.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (field `limit`; field `cursor` for one of another order), [`Error::Unavailable`].
    pub async fn page(&self, query: &Query, cursor: Option<&Cursor>) -> Result<TaskPage, Error> {
        let span = rules::list::span(query, cursor)?;
        let tasks = match query.waits {
            None => self.store.registry().span(&query.filter, span).await?,
            Some(reason) => self.span_that_waits(reason, &query.filter, span).await?,
        };
        Ok(rules::list::page(query, cursor, tasks))
    }

    /// Returns the order of a list with the newest tasks first that costs what it returns: [`Order::Submitted`], or
    /// [`Order::Id`] on etcd. Ids that windlass makes begin with the time of the submit; tasks with ids of your own are
    /// in their alphabetical order there.
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

    /// How many tasks there are by kind and state.
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

    /// Starts an ended task again: a new incarnation, attempts from 0, with the data it had.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Invalid`] (field `state`) for a live one,
    /// [`Error::Unavailable`].
    pub async fn retry(&self, id: impl TryInto<TaskId, Error: Into<Invalid>>) -> Result<(), Error> {
        only(self.retry_many(vec![name(id)?]).await)
    }

    /// The history of a task, oldest first: at most the last `limit` changes.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn history(
        &self,
        id: impl TryInto<TaskId, Error: Into<Invalid>>,
        limit: u32,
    ) -> Result<Vec<Change>, Error> {
        self.store.registry().history(&name(id)?, limit).await
    }

    /// Returns the changes of the namespace: from now on (`None`), or after a change that was seen.
    ///
    /// The streams from now on share one feed, whatever their number: the store is read once for each change. A stream
    /// that is read too slowly for that goes on with a feed of its own, and loses nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (field `after`) when that history is not kept any more,
    /// [`Error::Unavailable`].
    pub async fn changes(&self, after: Option<u64>) -> Result<ChangeStream, Error> {
        match after {
            None => self.store.changes().whole().await,
            after => self.store.registry().changes(after).await,
        }
    }
}
