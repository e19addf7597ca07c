//! Calls that act on every matching task.

use std::time::Duration;

use jiff::Timestamp;
use windlass_statemachine::{Command, Invalid, StateKind, TaskId};

use super::Client;
use crate::store::{Error, Filter, Purge, TaskRecord};

/// The result of a bulk call.
#[derive(Debug, Default)]
pub struct Bulk {
    /// The number of tasks for which the call succeeded.
    pub done: u64,
    /// The tasks for which it failed, and why.
    pub failed: Vec<(TaskId, Error)>,
}

/// The number of tasks that a purge deletes at a time.
const CHUNK: u32 = 1000;

impl Client {
    /// Sends a command to every live matching task. Skips tasks that have ended.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`], [`Error::Unavailable`] while listing; the result has the errors of single
    /// tasks.
    pub async fn command_all(&self, filter: &Filter, command: Command) -> Result<Bulk, Error> {
        command.check(self.store.clock().now())?;
        let (client, command) = (self, &command);
        let send = |ids: Vec<TaskId>| async move {
            match client.command_many(&ids, command.clone()).await {
                Ok(sent) => sent.into_iter().map(|sent| sent.map(drop)).collect(),
                Err(error) => ids.iter().map(|_| Err(error.clone())).collect(),
            }
        };
        self.each(filter, |record| !is_ended(record), send).await
    }

    /// Deletes every matching task.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] while listing; the result has the errors of single tasks.
    pub async fn delete_all(&self, filter: &Filter) -> Result<Bulk, Error> {
        let delete = |ids| self.delete_many(ids);
        self.each(filter, |_| true, delete).await
    }

    /// Retries every matching task that has ended or is quarantined. Skips live tasks.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] while listing; the result has the errors of single tasks.
    pub async fn retry_all(&self, filter: &Filter) -> Result<Bulk, Error> {
        let retry = |ids| self.retry_many(ids);
        self.each(filter, is_ended, retry).await
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
        let mut pages = self.every(filter);
        while let Some(records) = pages.next().await? {
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
        Ok(bulk)
    }

    /// Deletes the tasks that ended longer than `age` ago in one of `states` (empty: any terminal state),
    /// and returns their number.
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
            let purge = Purge::new(states, before).limit(CHUNK).by(self.by.clone());
            let now = self.store.registry().purge(&purge).await?;
            purged += now;
            if now < u64::from(CHUNK) {
                return Ok(purged);
            }
        }
    }
}

fn is_ended(record: &TaskRecord) -> bool {
    // A retry starts a quarantined task too.
    let state = record.state.as_ref();
    state.map_or(true, |state| state.code().is_terminal())
}
