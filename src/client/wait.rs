//! Waiting: for a task to end, for a command's outcome, for many tasks to come to rest.

use std::time::Duration;

use futures::StreamExt;
use tokio::time::sleep;
use windlass_statemachine::{CommandId, Outcome, TaskId};

use super::{Client, Done};
use crate::store::{Change, ChangeStream, Error, Filter, Page, TaskRecord, What};

/// Should a change be missed (a pruned history, a broken stream), the wait looks again after this.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// A store that is down for a moment is asked again, for some seconds.
struct Retries {
    wait: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self {
            wait: Duration::from_millis(50),
        }
    }
}

impl Retries {
    /// Waits before the next try; the error itself when trying again is of no use (any more).
    async fn after(&mut self, error: Error) -> Result<(), Error> {
        if !error.is_retryable() || self.wait > LOOK_AGAIN {
            return Err(error);
        }
        sleep(self.wait).await;
        self.wait *= 2;
        Ok(())
    }
}

/// Waits for a change that matters, or until it is time to look again; false when the stream is of
/// no use any more.
async fn next(changes: &mut ChangeStream, matters: &impl Fn(&Change) -> bool) -> bool {
    let mut again = std::pin::pin!(sleep(LOOK_AGAIN));
    loop {
        tokio::select! {
            () = &mut again => return true,
            batch = changes.next() => match batch {
                Some(Ok(batch)) if batch.iter().any(matters) => return true,
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return false,
            },
        }
    }
}

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
        let mut retries = Retries::default();
        loop {
            let mut changes = match self.changes(None).await {
                Ok(changes) => changes,
                Err(e) => {
                    retries.after(e).await?;
                    continue;
                }
            };
            loop {
                match look().await {
                    Ok(Some(answer)) => return Ok(answer),
                    Ok(None) => retries = Retries::default(),
                    Err(e) => {
                        retries.after(e).await?;
                        continue;
                    }
                }
                if !next(&mut changes, &matters).await {
                    break;
                }
            }
            sleep(Retries::default().wait).await;
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
