//! [`Feed`]: the changes as they are told. etcd keeps only the last part of a task's history, so
//! what the checkers look at is gathered while it happens.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::StreamExt;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};
use windlass::{
    Client, NewTask, TaskId,
    store::{Change, Error, What},
};

use crate::BoxError;

/// The task whose submit tells that everything before it was told.
const MARKER: &str = "marker";

#[derive(Debug, Default)]
struct Gathered {
    changes: Vec<Change>,
    /// Why it has ended.
    broken: Option<String>,
}

/// Follows the changes from its start on.
#[derive(Debug)]
pub struct Feed {
    gathered: Arc<Mutex<Gathered>>,
    following: JoinHandle<()>,
}

impl Feed {
    /// Follows the changes of a store.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn follow(client: &Client) -> Result<Self, BoxError> {
        let mut changes = client.changes(None).await?;
        let gathered = Arc::new(Mutex::new(Gathered::default()));
        let to = gathered.clone();
        let following = tokio::spawn(async move {
            loop {
                let next = changes.next().await;
                let mut to = to.lock().unwrap_or_else(PoisonError::into_inner);
                match next {
                    Some(Ok(changes)) => to.changes.extend(changes),
                    Some(Err(e)) => return to.broken = Some(e.to_string()),
                    None => return to.broken = Some("it has ended".to_owned()),
                }
            }
        });
        Ok(Self {
            gathered,
            following,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Gathered> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the last change that was told; 0 for none.
    pub fn last(&self) -> u64 {
        self.lock().changes.last().map_or(0, |c| c.seq)
    }

    /// Waits until everything that has happened was told, and answers it.
    ///
    /// # Errors
    ///
    /// When the feed has broken, or is late.
    pub async fn all(&self, client: &Client, within: Duration) -> Result<Vec<Change>, BoxError> {
        let deadline = Instant::now() + within;
        let marker: TaskId = MARKER.parse()?;
        loop {
            let task = NewTask::new(MARKER).id(MARKER).idempotent();
            match client.submit(task).await {
                Ok(_) => break,
                Err(e) if e.is_retryable() && Instant::now() < deadline => {}
                Err(e) => return Err(e.into()),
            }
        }
        loop {
            {
                let gathered = self.lock();
                if let Some(why) = &gathered.broken {
                    return Err(format!("the feed of changes broke: {why}").into());
                }
                let mut last = gathered.changes.iter().rev().take(10);
                if last.any(|c| c.task == marker) {
                    break;
                }
            }
            if Instant::now() > deadline {
                return Err(format!("the feed of changes is late by more than {within:?}").into());
            }
            sleep(Duration::from_millis(20)).await;
        }
        match client.delete(&marker).await {
            Ok(()) | Err(Error::NotFound { .. }) => {}
            Err(e) => return Err(e.into()),
        }
        let mut changes = self.lock().changes.clone();
        changes.retain(|c| c.task != marker);
        Ok(changes)
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.following.abort();
    }
}

/// What was told of each task that was neither deleted nor replaced, in the order in which it was.
pub fn by_task(changes: &[Change]) -> BTreeMap<TaskId, Vec<Change>> {
    let mut tasks: BTreeMap<TaskId, Vec<Change>> = BTreeMap::new();
    for change in changes {
        match change.what {
            What::Deleted => {
                tasks.remove(&change.task);
                continue;
            }
            // A task that takes the place of one that has ended: no delete is told of that one.
            What::Submitted { .. } => {
                tasks.remove(&change.task);
            }
            _ => {}
        }
        let task = tasks.entry(change.task.clone()).or_default();
        task.push(change.clone());
    }
    tasks
}

#[cfg(test)]
mod tests {
    use windlass::Code;

    use super::*;

    #[test]
    fn the_history_of_an_id_begins_with_its_last_submit() {
        let submitted = What::Submitted {
            state: Code::Runnable,
        };
        let whats = [submitted.clone(), What::Retried, submitted, What::Retried];
        let changes = whats.into_iter().zip(1..).map(|(what, seq)| Change {
            seq,
            at: jiff::Timestamp::UNIX_EPOCH,
            task: "t".parse().unwrap(),
            what,
        });
        let changes: Vec<Change> = changes.collect();
        assert_eq!(by_task(&changes)["t"], changes[2..]);
    }
}
