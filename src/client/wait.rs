//! Waiting: for a task to end, for a command's outcome, for many tasks to come to rest.

use std::time::Duration;

use futures::StreamExt;
use tokio::time::sleep;
use windlass_statemachine::{CommandId, Outcome, TaskId};

use super::{Client, Done};
use crate::store::{Change, Error, Filter, Page, TaskRecord, What};

/// Should a change be missed (a pruned history, a broken stream), the wait looks again after this.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

impl Client {
    /// Asks again after every change that `matters`, until there is an answer. The changes are
    /// followed from before the first look, so that nothing falls between the two.
    async fn until<T, Fut>(
        &self,
        matters: impl Fn(&Change) -> bool,
        look: impl Fn() -> Fut,
    ) -> Result<T, Error>
    where
        Fut: Future<Output = Result<Option<T>, Error>>,
    {
        let mut changes = self.changes(None).await?;
        let mut retried = Duration::from_millis(50);
        loop {
            match look().await {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => retried = Duration::from_millis(50),
                Err(e) if e.is_retryable() && retried < LOOK_AGAIN => {
                    sleep(retried).await;
                    retried *= 2;
                    continue;
                }
                Err(e) => return Err(e),
            }
            let mut again = Box::pin(sleep(LOOK_AGAIN));
            loop {
                tokio::select! {
                    () = &mut again => break,
                    batch = changes.next() => match batch {
                        Some(Ok(batch)) if batch.iter().any(&matters) => break,
                        Some(Ok(_)) => {}
                        Some(Err(_)) | None => {
                            sleep(Duration::from_millis(100)).await;
                            changes = self.changes(None).await?;
                            break;
                        }
                    },
                }
            }
        }
    }

    /// Waits until a task has ended.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] when there is no such task, or it is deleted meanwhile;
    /// [`Error::Corrupt`] when it is set aside; [`Error::Unavailable`].
    pub async fn wait(&self, id: &TaskId) -> Result<Done, Error> {
        self.until(
            |change| change.task == *id && may_end(&change.what),
            || async {
                let record = self.get(id).await?;
                let ended = record
                    .state
                    .as_ref()
                    .map_or(true, |s| s.code().is_terminal());
                if ended {
                    Done::from_record(record).map(Some)
                } else {
                    Ok(None)
                }
            },
        )
        .await
    }

    /// Waits until a command has its outcome.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] when there is no such command, or its task is deleted meanwhile;
    /// [`Error::Unavailable`].
    pub async fn wait_outcome(&self, id: &CommandId) -> Result<Outcome, Error> {
        let task = self.store().registry().command(id).await?.task;
        self.until(|change| change.task == task, || self.outcome(id))
            .await
    }

    /// Waits until no task that is meant is runnable, claimed or in fault: all have ended, or are
    /// paused, or sleep, or are set aside.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    pub async fn wait_idle(&self, filter: &Filter) -> Result<(), Error> {
        self.until(
            |change| {
                !matches!(
                    change.what,
                    What::Claimed { .. } | What::Checkpointed { .. }
                )
            },
            || async {
                let mut page = Page::default();
                loop {
                    let records = self.list(filter, page).await?;
                    let Some(last) = records.last() else {
                        return Ok(Some(()));
                    };
                    page.after = last.order;
                    if records.iter().any(is_busy) {
                        return Ok(None);
                    }
                }
            },
        )
        .await
    }
}

fn may_end(what: &What) -> bool {
    match what {
        What::Moved { to, .. } => to.is_terminal(),
        What::Deleted | What::Quarantined => true,
        _ => false,
    }
}

fn is_busy(record: &TaskRecord) -> bool {
    use windlass_statemachine::Code;
    record.state.as_ref().is_ok_and(|state| {
        matches!(state.code(), Code::Runnable | Code::Fault) || record.node.is_some()
    })
}
