//! [`Feed`]: the changes as they are reported. etcd keeps only the last part of a task's history,
//! so the histories for the checkers are collected during the run.

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
    store::{Change, ChangeKind, Error},
};

use crate::BoxError;

/// The task whose submit shows that everything before it was reported.
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

    /// The number of the last change that was reported; 0 for none.
    pub fn last(&self) -> u64 {
        self.lock().changes.last().map_or(0, |c| c.seq)
    }

    /// Waits until every change so far was reported, and returns the changes.
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
        match client.force_delete(&marker).await {
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

/// The changes of one task that the feed reported: of one id, from a submit to the delete or to the
/// submit of the task that replaced it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Life {
    /// The changes in order, without the delete.
    pub history: Vec<Change>,
    /// The delete; `None` while the task is there, and of a task that was replaced.
    pub deleted: Option<Change>,
}

/// The lives of each id, in order.
pub fn lives(changes: &[Change]) -> BTreeMap<TaskId, Vec<Life>> {
    let mut ids: BTreeMap<TaskId, Vec<Life>> = BTreeMap::new();
    for change in changes {
        let lives = ids.entry(change.task.clone()).or_default();
        // The feed reports no delete of a task that is replaced.
        let begins = matches!(change.what, ChangeKind::Submitted { .. });
        if begins || lives.last().is_none_or(|life| life.deleted.is_some()) {
            lives.push(Life::default());
        }
        match lives.last_mut() {
            Some(life) if change.what == ChangeKind::Deleted => life.deleted = Some(change.clone()),
            Some(life) => life.history.push(change.clone()),
            None => {}
        }
    }
    ids
}

/// Takes the last life of each id that no delete has ended. Leaves the lives that have ended.
pub fn take_live(ids: &mut BTreeMap<TaskId, Vec<Life>>) -> BTreeMap<TaskId, Life> {
    let mut live = BTreeMap::new();
    ids.retain(|id, lives| {
        if let Some(last) = lives.pop_if(|life| life.deleted.is_none()) {
            live.insert(id.clone(), last);
        }
        !lives.is_empty()
    });
    live
}

#[cfg(test)]
mod tests {
    use windlass::StateKind;

    use super::*;

    fn changes(whats: impl IntoIterator<Item = ChangeKind>) -> Vec<Change> {
        let changes = whats.into_iter().zip(1..).map(|(what, seq)| {
            Change::new(seq, jiff::Timestamp::UNIX_EPOCH, "t".parse().unwrap(), what)
        });
        changes.collect()
    }

    fn submitted() -> ChangeKind {
        ChangeKind::Submitted {
            state: StateKind::Runnable,
        }
    }

    #[test]
    fn a_delete_ends_a_life_and_what_follows_begins_the_next() {
        let changes = changes([
            submitted(),
            ChangeKind::Deleted,
            submitted(),
            ChangeKind::Retried,
        ]);
        let lives = lives(&changes).remove("t").unwrap();
        assert_eq!(lives[0].history, changes[..1]);
        assert_eq!(lives[0].deleted, Some(changes[1].clone()));
        assert_eq!(lives[1].history, changes[2..]);
        assert_eq!(lives.len(), 2);
    }

    #[test]
    fn the_history_of_an_id_begins_with_its_last_submit() {
        let changes = changes([
            submitted(),
            ChangeKind::Retried,
            submitted(),
            ChangeKind::Retried,
        ]);
        let lives = lives(&changes).remove("t").unwrap();
        assert_eq!(lives[0].history, changes[..2]);
        assert_eq!(lives[0].deleted, None);
        assert_eq!(lives[1].history, changes[2..]);
        assert_eq!(lives.len(), 2);
    }

    #[test]
    fn of_the_lives_of_an_id_the_last_goes_on_unless_a_delete_ended_it() {
        let all = changes([submitted(), submitted(), ChangeKind::Deleted, submitted()]);
        let mut ended = lives(&all);
        let live = take_live(&mut ended);
        assert_eq!(live["t"].history, all[3..]);
        assert_eq!(ended["t"].len(), 2);
        let mut deleted = lives(&all[..3]);
        assert!(take_live(&mut deleted).is_empty());
        assert_eq!(deleted["t"].len(), 2);
        let mut only = lives(&all[..1]);
        assert_eq!(take_live(&mut only)["t"].history, all[..1]);
        assert!(only.is_empty());
    }

    #[test]
    fn a_change_after_the_delete_is_a_life_without_a_submit() {
        let changes = changes([submitted(), ChangeKind::Deleted, ChangeKind::Retried]);
        let lives = lives(&changes).remove("t").unwrap();
        assert_eq!(lives[1].history, changes[2..]);
    }
}
