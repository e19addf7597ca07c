//! What this process knows of the claims that it holds: what a commit needs without reading.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use windlass_statemachine::{Fence, NodeName, Task, TaskId};

use super::queued::Stored;

/// One claim.
#[derive(Debug, Clone)]
pub(super) struct Held {
    /// The node's lease, and the one that the owner's key hangs on.
    pub(super) lease: u64,
    pub(super) token: i64,
    pub(super) node: NodeName,
    pub(super) fence: Fence,
    /// When the state was last written.
    pub(super) state_revision: i64,
    pub(super) task: Arc<Task>,
    pub(super) order: u64,
    pub(super) submitted_at: Timestamp,
    /// The commands that wait, as they were known at this revision.
    pub(super) queue: Vec<Stored>,
    pub(super) queue_revision: i64,
}

/// The claims of this process.
#[derive(Debug, Default)]
pub(super) struct Claims(Mutex<HashMap<TaskId, Held>>);

impl Claims {
    fn lock(&self) -> MutexGuard<'_, HashMap<TaskId, Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, id: &TaskId, fence: Fence) -> Option<Held> {
        let held = self.lock();
        held.get(id).filter(|held| held.fence == fence).cloned()
    }

    /// Keeps a claim; answers the one whose place it takes.
    pub(super) fn keep(&self, id: &TaskId, held: Held) -> Option<Held> {
        self.lock().insert(id.clone(), held)
    }

    /// The state of a claim was written; `Some` for commands that are known meanwhile.
    pub(super) fn wrote(&self, id: &TaskId, fence: Fence, revision: i64, settled: &[u64]) {
        if let Some(held) = self.lock().get_mut(id)
            && held.fence == fence
        {
            held.state_revision = revision;
            held.queue.retain(|stored| !settled.contains(&stored.order));
        }
    }

    /// A command came for a task that is held: it need not be read again to be settled.
    pub(super) fn learn(&self, id: &TaskId, stored: &Stored) {
        if let Some(held) = self.lock().get_mut(id)
            // What was sent before the queue was read is in it, or was sent to an earlier task.
            && stored.revision > held.queue_revision
            && held.queue.iter().all(|known| known.order != stored.order)
        {
            held.queue.push(stored.clone());
        }
    }

    pub(super) fn forget(&self, id: &TaskId, fence: Fence) -> Option<Held> {
        let mut held = self.lock();
        if held.get(id)?.fence != fence {
            return None;
        }
        held.remove(id)
    }

    /// The owner's key of a task was deleted when a claim would have had this fence: an older one is gone.
    pub(super) fn deleted(&self, id: &TaskId, fence: Fence) -> Option<Held> {
        let mut held = self.lock();
        if fence <= held.get(id)?.fence {
            return None;
        }
        held.remove(id)
    }

    /// The tasks that are claimed on a lease: their orders, and the fences of their claims.
    pub(super) fn of_lease(&self, lease: u64) -> HashMap<TaskId, (u64, Fence)> {
        let held = self.lock();
        let of_lease = held.iter().filter(|(_, held)| held.lease == lease);
        of_lease
            .map(|(id, held)| (id.clone(), (held.order, held.fence)))
            .collect()
    }

    /// The claims of a lease that is over.
    pub(super) fn forget_lease(&self, lease: u64) {
        self.lock().retain(|_, held| held.lease != lease);
    }
}
