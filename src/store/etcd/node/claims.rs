//! The claims of this process: everything that a commit needs, without a read.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use windlass_statemachine::{Author, Fence, NodeName, Task, TaskId, TaskState};

use tokio::sync::mpsc::UnboundedSender;

use super::{node_lease::NodeLease, slots::Refused};
use crate::store::{
    etcd::{
        schema::{Envelope, Recent, Slot, Stored, snapshot::PropsKeys},
        write::log_lines::KnownLog,
    },
    rules::{commit::Stored as Written, limits::reserve::Reserver},
};

/// One claim.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    /// The node's lease, and the lease to which the owner's key is attached.
    pub(crate) lease: u64,
    pub(crate) token: i64,
    pub(crate) node: NodeName,
    pub(crate) fence: Fence,
    /// The revision that last wrote the state.
    pub(crate) state_revision: i64,
    /// The write that made the stored state. `None` when the state cannot be read, or was not written under
    /// this claim: the next commit then replaces it.
    pub(crate) written: Option<Written>,
    /// The lines of history that the value of the state has.
    pub(crate) recent: Recent,
    pub(crate) task: Arc<Task>,
    pub(crate) order: u64,
    pub(crate) submitted_at: Timestamp,
    pub(crate) submitted_by: Option<Author>,
    /// The time until which the task waits for other tasks at the longest, according to its submit.
    pub(crate) waited_until: Option<Timestamp>,
    /// The data version in the task's envelope.
    pub(crate) data_version: u32,
    /// The keys that contain its props.
    pub(crate) props: PropsKeys,
    /// The queued commands, and the revision at which they were read.
    pub(crate) queue: Vec<Stored>,
    pub(crate) queue_revision: i64,
    /// The slots of limits that the claim has taken.
    pub(crate) slots: Vec<Slot>,
    /// The log of the task, once the claim has written a line.
    pub(crate) log: Option<Arc<KnownLog>>,
}

impl Held {
    /// Returns the envelope of the task, as its submit wrote it.
    pub(super) fn envelope(&self) -> Envelope {
        let envelope = Envelope {
            by: self.submitted_by.clone(),
            ..Envelope::new(&self.task, self.submitted_at, 0)
        };
        match self.waited_until {
            Some(until) => envelope.waits_until(until),
            None => envelope,
        }
    }
}

/// The claims of this process, and the leases of its nodes to which they are attached.
#[derive(Default)]
pub(crate) struct Claims {
    held: Mutex<HashMap<TaskId, Held>>,
    nodes: Mutex<HashMap<u64, Arc<NodeLease>>>,
    /// The watch of each lease, which reports a refused claim again when a slot becomes free.
    watches: Mutex<HashMap<u64, UnboundedSender<Refused>>>,
    /// The task for which the watch of each lease keeps slots.
    reservers: Mutex<HashMap<u64, Reserver>>,
}

impl Claims {
    fn held(&self) -> MutexGuard<'_, HashMap<TaskId, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn nodes(&self) -> MutexGuard<'_, HashMap<u64, Arc<NodeLease>>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watches(&self) -> MutexGuard<'_, HashMap<u64, UnboundedSender<Refused>>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends refused claims of this lease to `to` from now on.
    pub(crate) fn watched(&self, lease: u64, to: UnboundedSender<Refused>) {
        self.watches().insert(lease, to);
    }

    /// Reports a claim that found no slot to the watch of the node.
    pub(crate) fn refused(&self, lease: u64, refused: Refused) {
        let watches = self.watches();
        // A watch that has ended reports nothing any more; the next one lists. The lease of a worker has no watch.
        if let Some(to) = watches.get(&lease) {
            let _ = to.send(refused);
            return;
        }
        for to in watches.values() {
            let _ = to.send(refused.clone());
        }
    }

    fn reservers(&self) -> MutexGuard<'_, HashMap<u64, Reserver>> {
        self.reservers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps slots for this task in claims of this lease from now on.
    pub(crate) fn keeps_for(&self, lease: u64, reserver: Option<Reserver>) {
        let mut reservers = self.reservers();
        match reserver {
            Some(reserver) => drop(reservers.insert(lease, reserver)),
            None if reservers.is_empty() => {}
            None => drop(reservers.remove(&lease)),
        }
    }

    /// Returns the task for which claims of this lease keep slots. The lease of a worker has no watch, so it keeps
    /// those of the first watch of this process: all keep the same lines.
    pub(crate) fn reserver(&self, lease: u64) -> Option<Reserver> {
        let watch = {
            let watches = self.watches();
            let first = || watches.keys().min().copied();
            let own = watches.contains_key(&lease).then_some(lease);
            own.or_else(first)?
        };
        self.reservers().get(&watch).cloned()
    }

    /// Adds a node that has joined with this lease.
    pub(crate) fn joined(&self, lease: u64, node: NodeLease) -> Arc<NodeLease> {
        let node = Arc::new(node);
        self.nodes().insert(lease, node.clone());
        node
    }

    pub(crate) fn node(&self, lease: u64) -> Option<Arc<NodeLease>> {
        self.nodes().get(&lease).cloned()
    }

    /// Returns whether this is the lease of a worker that this process knows.
    pub(crate) fn is_worker(&self, lease: u64) -> bool {
        self.node(lease).is_some_and(|node| node.is_worker)
    }

    /// Returns a lease of the node with room for one more claim, and counts the claim.
    pub(crate) fn room(&self, lease: u64) -> Option<i64> {
        self.node(lease)?.attach()
    }

    /// Counts the end of a claim that was attached to this lease.
    pub(crate) fn freed(&self, lease: u64, token: i64) {
        if let Some(node) = self.node(lease) {
            node.freed(token);
        }
    }

    /// Drops an expired lease, and its claims.
    pub(crate) fn lost(&self, lease: u64) {
        self.nodes().remove(&lease);
        self.watches().remove(&lease);
        self.reservers().remove(&lease);
        self.held().retain(|_, held| held.lease != lease);
    }

    pub(crate) fn get(&self, id: &TaskId, fence: Fence) -> Option<Held> {
        let held = self.held();
        held.get(id).filter(|held| held.fence == fence).cloned()
    }

    /// Adds a claim.
    pub(crate) fn keep(&self, id: &TaskId, held: Held) {
        let fence = held.fence;
        let before = self.held().insert(id.clone(), held);
        if let Some(before) = before.filter(|before| before.fence != fence) {
            self.freed(before.lease, before.token);
        }
    }

    /// Notes that this state of a claim was written at this revision, with these lines of history.
    pub(crate) fn wrote(&self, id: &TaskId, state: &TaskState, revision: i64, recent: Recent) {
        self.change(id, state.fence, |held| {
            held.state_revision = revision;
            held.written = Some(Written::of(state));
            held.recent = recent;
        });
    }

    /// Notes the log of a task after a write of lines.
    pub(crate) fn logged(&self, id: &TaskId, fence: Fence, log: Arc<KnownLog>) {
        self.change(id, fence, |held| held.log = Some(log));
    }

    /// Notes that these commands were settled.
    pub(crate) fn settled(&self, id: &TaskId, fence: Fence, settled: &[u64]) {
        self.change(id, fence, |held| {
            held.queue.retain(|stored| !settled.contains(&stored.order));
        });
    }

    /// Records the data version that the envelope of a claimed task now has.
    pub(crate) fn wrote_data_version(&self, id: &TaskId, fence: Fence, version: u32) {
        self.change(id, fence, |held| held.data_version = version);
    }

    fn change(&self, id: &TaskId, fence: Fence, change: impl FnOnce(&mut Held)) {
        if let Some(held) = self.held().get_mut(id)
            && held.fence == fence
        {
            change(held);
        }
    }

    /// Adds a new command for a claimed task, so that a commit can settle it without a read.
    pub(crate) fn learn(&self, id: &TaskId, stored: &Stored) {
        if let Some(held) = self.held().get_mut(id)
            // A command from before the read is in the queue already, or was sent to an earlier
            // task.
            && stored.revision > held.queue_revision
            && held.queue.iter().all(|known| known.order != stored.order)
        {
            held.queue.push(stored.clone());
        }
    }

    /// Drops a claim that has ended.
    pub(crate) fn forget(&self, id: &TaskId, fence: Fence) {
        self.forget_if(id, |held| held.fence == fence);
    }

    /// Drops a claim that is older than this fence, which is that of the revision that deleted the
    /// owner.
    pub(crate) fn deleted(&self, id: &TaskId, fence: Fence) {
        self.forget_if(id, |held| held.fence < fence);
    }

    fn forget_if(&self, id: &TaskId, is_over: impl Fn(&Held) -> bool) {
        let mut all = self.held();
        let over = all.get(id).is_some_and(is_over).then(|| all.remove(id));
        drop(all);
        if let Some(held) = over.flatten() {
            self.freed(held.lease, held.token);
        }
    }

    /// Returns the tasks that are claimed on a lease or, for the watch of a node, on the leases of workers, with their
    /// orders and the fences of their claims.
    pub(crate) fn of_watch(&self, lease: u64) -> HashMap<TaskId, (u64, Fence)> {
        let nodes = self.nodes();
        let workers = nodes.iter().filter(|(_, node)| node.is_worker);
        let mut leases: HashSet<u64> = workers.map(|(lease, _)| *lease).collect();
        drop(nodes);
        leases.insert(lease);
        self.of_leases(&leases)
    }

    /// Returns the tasks that are claimed on a lease, as far as this process knows.
    pub(crate) fn of_lease(&self, lease: u64) -> HashMap<TaskId, (u64, Fence)> {
        self.of_leases(&HashSet::from([lease]))
    }

    fn of_leases(&self, leases: &HashSet<u64>) -> HashMap<TaskId, (u64, Fence)> {
        let held = self.held();
        let of_lease = held.iter().filter(|(_, held)| leases.contains(&held.lease));
        of_lease
            .map(|(id, held)| (id.clone(), (held.order, held.fence)))
            .collect()
    }
}
