//! Calls that act on every matching task.

use std::time::Duration;

use jiff::Timestamp;
use windlass_statemachine::{Command, CommandId, Invalid, StateKind, TaskId, TaskState};

use super::Client;
use crate::store::{Error, Filter, Page, SendCommand, TaskRecord};

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

impl Client {
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
    pub async fn purge(&self, states: &[StateKind], age: Duration) -> Result<u64, Error> {
        if let Some(live) = states.iter().find(|s| !s.is_terminal()) {
            let reason = format!("'{live}' is not an end; purge takes completed, failed, killed");
            return Err(Invalid::new("states", reason).into());
        }
        let all = [StateKind::Completed, StateKind::Failed, StateKind::Killed];
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
}

fn is_ended(record: &TaskRecord) -> bool {
    // A quarantined one is retried too.
    record
        .state
        .as_ref()
        .map_or(true, |state: &TaskState| state.code().is_terminal())
}
