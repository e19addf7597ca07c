//! [`Client`]: submits, lists, commands and waits.

mod record;
mod wait;
mod waiting;
mod waits;

use std::time::Duration;

use jiff::Timestamp;
use windlass_statemachine::{
    Code, Command, CommandId, Invalid, Kind, NodeName, Outcome, State, TaskId,
};

pub use record::Done;
pub use waiting::Waiting;
pub use waits::Waits;

use crate::{
    store::{
        Change, ChangeStream, CommandRecord, Count, Error, Filter, NodeCommand, NodeRecord, Page,
        SendCommand, Store, Submit, Submitted, TaskRecord,
    },
    task::NewTask,
};

/// Sees and changes the tasks of a namespace. Clones are the same client; it holds no state of its
/// own.
///
/// # Example
///
/// ```
/// use windlass::{Client, Code, Command, NewTask, store::{Filter, Store}};
///
/// # #[tokio::main] async fn main() -> Result<(), windlass::BoxError> {
/// let client = Client::new(&Store::open("memory:").await?);
/// let id = client.submit(NewTask::new("mail").id("welcome-7").label("team", "a")).await?;
///
/// // It waits in the queue of the task until a node has the task.
/// let pause = client.command(&id, Command::Pause).await?;
/// assert_eq!(client.outcome(&pause).await?, None);
///
/// let mine = Filter { labels: vec![("team".into(), None)], ..Filter::default() };
/// assert_eq!(client.list(&mine, Default::default()).await?.len(), 1);
/// assert_eq!(client.get(&id).await?.state?.code(), Code::Runnable);
/// client.delete(&id).await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Client {
    store: Store,
}

/// What bulk calls did: how many tasks, and which failed.
#[derive(Debug, Default)]
pub struct Bulk {
    /// For how many tasks it was done.
    pub done: u64,
    /// For which it was not, and why.
    pub failed: Vec<(TaskId, Error)>,
}

/// How many tasks a bulk call handles at a time.
const CHUNK: u32 = 1000;

fn only<T>(mut answers: Vec<Result<T, Error>>) -> Result<T, Error> {
    answers
        .pop()
        .unwrap_or_else(|| Err(Error::unavailable("answer", "the store gave no answer")))
}

impl Client {
    /// A client of a store.
    pub fn new(store: &Store) -> Self {
        Self {
            store: store.clone(),
        }
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Submits a task. When this returns, it will be run, whatever crashes.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] naming the field, [`Error::TooLarge`], [`Error::AlreadyExists`],
    /// [`Error::AlreadyFinished`], [`Error::Unavailable`].
    pub async fn submit(&self, task: NewTask) -> Result<TaskId, Error> {
        let submit = task.build()?;
        let id = submit.task.id.clone();
        only(self.submit_many(vec![submit]).await)?;
        Ok(id)
    }

    /// Submits many tasks; answers in their order. One that fails does not touch the others.
    pub async fn submit_many(&self, tasks: Vec<Submit>) -> Vec<Result<Submitted, Error>> {
        let limit = self.store.registry().limits().max_bytes;
        let mut answers: Vec<Option<Result<Submitted, Error>>> = Vec::with_capacity(tasks.len());
        let mut good = Vec::with_capacity(tasks.len());
        for submit in tasks {
            let bytes = submit.task.props.len();
            let checked = if bytes > limit {
                Err(Error::TooLarge {
                    field: "props",
                    bytes,
                    limit,
                })
            } else {
                submit.task.check(limit).map_err(Error::from)
            };
            match checked {
                Ok(()) => {
                    answers.push(None);
                    good.push(submit);
                }
                Err(e) => answers.push(Some(Err(e))),
            }
        }
        let mut stored = if good.is_empty() {
            Vec::new().into_iter()
        } else {
            self.store.registry().submit(good).await.into_iter()
        };
        answers
            .into_iter()
            .map(|answer| {
                answer
                    .or_else(|| stored.next())
                    .unwrap_or_else(|| only(Vec::new()))
            })
            .collect()
    }

    /// Sends a command to a task; answers its id. The command waits while nobody has the task, and
    /// ends in exactly one outcome.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (a sleep that ends in the past), [`Error::NotFound`],
    /// [`Error::AlreadyFinished`], [`Error::Unavailable`].
    pub async fn command(&self, task: &TaskId, command: Command) -> Result<CommandId, Error> {
        let id = CommandId::new(uuid::Uuid::now_v7().to_string())?;
        self.command_with_id(task, id.clone(), command).await?;
        Ok(id)
    }

    /// As [`command`](Self::command), with an id of your own: sending it again is the same command,
    /// also when the time of a sleep has passed meanwhile.
    ///
    /// # Errors
    ///
    /// As [`command`](Self::command).
    pub async fn command_with_id(
        &self,
        task: &TaskId,
        id: CommandId,
        command: Command,
    ) -> Result<(), Error> {
        // The store checks the command if it does not know the id: what was taken once is not held
        // against the clock again.
        let send = SendCommand {
            task: task.clone(),
            id,
            command,
        };
        only(self.store.registry().send(vec![send]).await).map(drop)
    }

    /// Sends a command to every live task that is meant. Tasks that end meanwhile are left out.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`], [`Error::Unavailable`] while listing; those of single tasks are in the
    /// answer.
    pub async fn command_all(&self, filter: &Filter, command: Command) -> Result<Bulk, Error> {
        command.check(self.store.clock().now())?;
        let registry = self.store.registry().clone();
        self.each(
            filter,
            |record| !is_ended(record),
            |ids| {
                let registry = registry.clone();
                let sends: Result<Vec<SendCommand>, Invalid> = ids
                    .iter()
                    .map(|task| {
                        let id = CommandId::new(uuid::Uuid::now_v7().to_string())?;
                        Ok(SendCommand {
                            task: task.clone(),
                            id,
                            command: command.clone(),
                        })
                    })
                    .collect();
                async move {
                    match sends {
                        Ok(sends) => {
                            let answers = registry.send(sends).await;
                            answers.into_iter().map(|a| a.map(drop)).collect()
                        }
                        Err(e) => ids.iter().map(|_| Err(e.clone().into())).collect(),
                    }
                }
            },
        )
        .await
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
        let answers = self.store.registry().send(sends).await;
        let answers = answers.into_iter().zip(ids);
        Ok(answers.map(|(answer, id)| answer.map(|_| id)).collect())
    }

    /// What became of a command; `None` while it waits.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] (also once its task is deleted), [`Error::Unavailable`].
    pub async fn outcome(&self, id: &CommandId) -> Result<Option<Outcome>, Error> {
        Ok(self.store.registry().command(id).await?.outcome)
    }

    /// The commands of a task, in order, those that have an outcome included.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn commands(&self, task: &TaskId) -> Result<Vec<CommandRecord>, Error> {
        self.store.registry().commands(task).await
    }

    /// One task.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn get(&self, id: &TaskId) -> Result<TaskRecord, Error> {
        self.store.registry().get(id).await
    }

    /// The tasks that are meant, in submit order, a page of them. The next page begins after the
    /// last one's [`order`](TaskRecord::order).
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (field `limit`), [`Error::Unavailable`].
    pub async fn list(&self, filter: &Filter, page: Page) -> Result<Vec<TaskRecord>, Error> {
        self.store.registry().list(filter, page).await
    }

    /// How many tasks there are by kind and state.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    pub async fn counts(&self) -> Result<Vec<Count>, Error> {
        self.store.registry().counts().await
    }

    /// Deletes a task with all that belongs to it. If it runs, its handler is stopped.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn delete(&self, id: &TaskId) -> Result<(), Error> {
        only(self.store.registry().delete(vec![id.clone()]).await)
    }

    /// Deletes every task that is meant.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] while listing; those of single tasks are in the answer.
    pub async fn delete_all(&self, filter: &Filter) -> Result<Bulk, Error> {
        let registry = self.store.registry().clone();
        self.each(
            filter,
            |_| true,
            |ids| {
                let registry = registry.clone();
                async move { registry.delete(ids).await }
            },
        )
        .await
    }

    /// Starts an ended task anew: a new incarnation, attempts from 0, with the data it had.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Invalid`] (field `state`) for a live one,
    /// [`Error::Unavailable`].
    pub async fn retry(&self, id: &TaskId) -> Result<(), Error> {
        only(self.store.registry().retry(vec![id.clone()]).await)
    }

    /// Starts every ended task that is meant anew; those that live are left out.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] while listing; those of single tasks are in the answer.
    pub async fn retry_all(&self, filter: &Filter) -> Result<Bulk, Error> {
        let registry = self.store.registry().clone();
        self.each(filter, is_ended, |ids| {
            let registry = registry.clone();
            async move { registry.retry(ids).await }
        })
        .await
    }

    async fn each<F, Fut>(
        &self,
        filter: &Filter,
        wanted: impl Fn(&TaskRecord) -> bool,
        act: F,
    ) -> Result<Bulk, Error>
    where
        F: Fn(Vec<TaskId>) -> Fut,
        Fut: Future<Output = Vec<Result<(), Error>>>,
    {
        let mut bulk = Bulk::default();
        let mut page = Page {
            after: 0,
            limit: CHUNK,
        };
        loop {
            let records = self.store.registry().list(filter, page).await?;
            let Some(last) = records.last() else {
                return Ok(bulk);
            };
            page.after = last.order;
            let ids: Vec<TaskId> = records
                .iter()
                .filter(|r| wanted(r))
                .map(|r| r.task.id.clone())
                .collect();
            if ids.is_empty() {
                continue;
            }
            for (id, answer) in ids.iter().zip(act(ids.clone()).await) {
                match answer {
                    Ok(()) => bulk.done += 1,
                    Err(e) => bulk.failed.push((id.clone(), e)),
                }
            }
        }
    }

    /// Deletes what ended longer than `age` ago in one of `states` (empty: any terminal state);
    /// answers how many tasks.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (field `states`) for one that is not terminal, [`Error::Unavailable`].
    pub async fn purge(&self, states: &[Code], age: Duration) -> Result<u64, Error> {
        if let Some(live) = states.iter().find(|s| !s.is_terminal()) {
            let reason = format!("'{live}' is not an end; purge takes completed, failed, killed");
            return Err(Invalid::new("states", reason).into());
        }
        let all = [Code::Completed, Code::Failed, Code::Killed];
        let states = if states.is_empty() { &all[..] } else { states };
        let age = jiff::SignedDuration::try_from(age).unwrap_or(jiff::SignedDuration::MAX);
        let before = self
            .store
            .clock()
            .now()
            .checked_sub(age)
            .unwrap_or(Timestamp::MIN);
        let mut purged = 0;
        loop {
            let now = self.store.registry().purge(states, before, CHUNK).await?;
            purged += now;
            if now < u64::from(CHUNK) {
                return Ok(purged);
            }
        }
    }

    /// The nodes that live.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    pub async fn nodes(&self) -> Result<Vec<NodeRecord>, Error> {
        self.store.registry().nodes().await
    }

    /// Whether a live node has a handler for this kind.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    pub async fn is_handled(&self, kind: &Kind) -> Result<bool, Error> {
        let nodes = self.nodes().await?;
        Ok(nodes.iter().any(|n| {
            n.spec
                .kinds
                .as_ref()
                .is_none_or(|kinds| kinds.contains(kind))
        }))
    }

    /// Sends a command to a node; answers its order, for [`node_outcome`](Self::node_outcome).
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] when no live node has that name, [`Error::Unavailable`].
    pub async fn command_node(&self, node: &NodeName, command: NodeCommand) -> Result<u64, Error> {
        self.store.registry().send_node(node, command).await
    }

    /// What a node answered; `None` while it has not.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] when there is no such command (any more), [`Error::Unavailable`].
    pub async fn node_outcome(&self, order: u64) -> Result<Option<String>, Error> {
        self.store.registry().node_outcome(order).await
    }

    /// The history of a task, oldest first: at most the last `limit` changes.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn history(&self, id: &TaskId, limit: u32) -> Result<Vec<Change>, Error> {
        self.store.registry().history(id, limit).await
    }

    /// What happens in the namespace: from now on (`None`), or after a change that was seen.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (field `after`) when that history is not kept any more,
    /// [`Error::Unavailable`].
    pub async fn changes(&self, after: Option<u64>) -> Result<ChangeStream, Error> {
        self.store.registry().changes(after).await
    }
}

fn is_ended(record: &TaskRecord) -> bool {
    // One that is set aside is retried too.
    record
        .state
        .as_ref()
        .map_or(true, |state: &State| state.code().is_terminal())
}
