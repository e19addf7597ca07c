//! [`Watch`]: the one watch of a node, and the list that it begins with.

use std::{mem, sync::Arc, time::Duration};

use futures::StreamExt;
use tokio::{
    sync::{Semaphore, mpsc},
    task::AbortHandle,
    time::sleep,
};
use windlass_statemachine::Kind;

use crate::hash::HashMap;
use crate::{
    runner::input::{EngineInput, Events, SlotId, WatchEnded},
    store::{Coordinator, Lease},
};

/// When a task was claimed that the current list has not named so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unlisted {
    /// Before the list began: if the list does not name the task, the claim has ended.
    Before,
    /// While the list was read: the list may have passed the task already.
    Meanwhile,
}

/// The present watch. Events of earlier ones are ignored.
#[derive(Debug, Default)]
pub(super) struct Watch {
    epoch: u64,
    task: Option<AbortHandle>,
    listed: bool,
    /// The claims whose tasks the current list has not named so far.
    unlisted: HashMap<SlotId, Unlisted>,
}

impl Watch {
    /// Begins a new watch in place of the present one, and returns its number.
    pub(super) fn begin(&mut self) -> u64 {
        self.epoch += 1;
        self.abort();
        self.epoch
    }

    /// Stores the task that reads the watch.
    pub(super) fn attach(&mut self, task: AbortHandle) {
        self.task = Some(task);
    }

    /// Ends the watch, and drops its list.
    pub(super) fn end(&mut self) {
        self.epoch += 1;
        self.abort();
        self.listed = false;
        self.unlisted.clear();
    }

    fn abort(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }

    /// Returns whether events of the watch with this number are valid.
    pub(super) fn is_current(&self, epoch: u64) -> bool {
        self.epoch == epoch
    }

    /// Returns whether the node has seen the whole list of tasks.
    pub(super) fn is_listed(&self) -> bool {
        self.listed
    }

    /// Begins a list while this node has the tasks of these slots.
    pub(super) fn list_begins(&mut self, slots: impl Iterator<Item = SlotId>) {
        self.listed = false;
        self.unlisted = slots.map(|slot| (slot, Unlisted::Before)).collect();
    }

    /// Records that the list names the task of a slot, or that the slot is gone.
    pub(super) fn names(&mut self, slot: SlotId) {
        self.unlisted.remove(&slot);
    }

    /// Records the claim of a task that the list has not named. Returns whether the list has ended: then
    /// the task was deleted, or was submitted again.
    pub(super) fn claimed_unlisted(&mut self, slot: SlotId) -> bool {
        if !self.listed {
            self.unlisted.insert(slot, Unlisted::Meanwhile);
        }
        self.listed
    }

    /// Ends the list. Returns the slots whose tasks it has not named.
    pub(super) fn list_ends(&mut self) -> HashMap<SlotId, Unlisted> {
        self.listed = true;
        mem::take(&mut self.unlisted)
    }
}

/// Reads one watch.
pub(super) struct Follow {
    pub(super) coordinator: Arc<dyn Coordinator>,
    pub(super) lease: Lease,
    /// The kinds that this node runs; `None` for every kind.
    pub(super) kinds: Option<Vec<Kind>>,
    pub(super) epoch: u64,
    pub(super) to_engine: mpsc::UnboundedSender<EngineInput>,
}

impl Follow {
    /// Sends the events of the watch to the engine until the watch or the engine ends.
    pub(super) async fn run(self, pause: Duration) {
        sleep(pause).await;
        let why = match self.coordinator.watch(&self.lease, self.kinds).await {
            Ok(mut events) => {
                // Limits the batches that are queued for the engine, so that a long list waits for
                // it.
                let room = Arc::new(Semaphore::new(4));
                while let Some(batch) = events.next().await {
                    let Ok(permit) = room.clone().acquire_owned().await else {
                        return;
                    };
                    let events = EngineInput::Events(Events {
                        epoch: self.epoch,
                        events: batch,
                        _room: permit,
                    });
                    if self.to_engine.send(events).is_err() {
                        return;
                    }
                }
                None
            }
            Err(e) => Some(e),
        };
        let epoch = self.epoch;
        let ended = EngineInput::WatchEnded(WatchEnded { epoch, why });
        let _ = self.to_engine.send(ended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_an_earlier_watch_do_not_count() {
        let mut watch = Watch::default();
        let first = watch.begin();
        let second = watch.begin();
        assert!(!watch.is_current(first) && watch.is_current(second));
        watch.end();
        assert!(!watch.is_current(second));
    }

    #[test]
    fn a_list_that_ends_returns_the_slots_that_it_has_not_named() {
        let mut watch = Watch::default();
        watch.list_begins([1, 2].into_iter());
        assert!(!watch.is_listed());
        assert!(!watch.claimed_unlisted(3));
        watch.names(1);
        let unnamed = watch.list_ends();
        assert!(watch.is_listed());
        assert_eq!(unnamed.len(), 2);
        assert_eq!(unnamed.get(&2), Some(&Unlisted::Before));
        assert_eq!(unnamed.get(&3), Some(&Unlisted::Meanwhile));
        assert!(watch.claimed_unlisted(4), "the list has passed it");
        assert!(watch.list_ends().is_empty());
    }

    #[tokio::test]
    async fn a_watch_that_ends_aborts_its_task_and_forgets_its_list() {
        let mut watch = Watch::default();
        let task = tokio::spawn(std::future::pending::<()>());
        watch.attach(task.abort_handle());
        watch.list_begins([1].into_iter());
        watch.end();
        assert!(task.await.unwrap_err().is_cancelled());
        assert!(watch.list_ends().is_empty());
    }
}
