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

    /// The changes that were reported so far.
    pub fn changes(&self) -> Vec<Change> {
        self.lock().changes.clone()
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

/// What the feed reported of one id, from a submit to the delete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Life {
    /// The changes in order, without the delete.
    pub history: Vec<Change>,
    /// The delete; `None` while the task is there.
    pub deleted: Option<Change>,
}

/// The lives of each id, in order.
pub fn lives(changes: &[Change]) -> BTreeMap<TaskId, Vec<Life>> {
    let mut ids: BTreeMap<TaskId, Vec<Life>> = BTreeMap::new();
    for change in changes {
        let lives = ids.entry(change.task.clone()).or_default();
        if lives.last().is_none_or(|life| life.deleted.is_some()) {
            lives.push(Life::default());
        }
        match lives.last_mut() {
            Some(life) if change.what == What::Deleted => life.deleted = Some(change.clone()),
            Some(life) => life.history.push(change.clone()),
            None => {}
        }
    }
    ids
}

#[cfg(test)]
mod tests {
    use windlass::Code;

    use super::*;

    #[test]
    fn a_delete_ends_a_life_and_what_follows_begins_the_next() {
        let submitted = What::Submitted {
            state: Code::Runnable,
        };
        let whats = [submitted.clone(), What::Deleted, submitted, What::Retried];
        let changes = whats.into_iter().zip(1..).map(|(what, seq)| Change {
            seq,
            at: jiff::Timestamp::UNIX_EPOCH,
            task: "t".parse().unwrap(),
            what,
        });
        let changes: Vec<Change> = changes.collect();
        let lives = lives(&changes).remove("t").unwrap();
        assert_eq!(lives[0].history, changes[..1]);
        assert_eq!(lives[0].deleted, Some(changes[1].clone()));
        assert_eq!(lives[1].history, changes[2..]);
        assert_eq!(lives.len(), 2);
    }
}
