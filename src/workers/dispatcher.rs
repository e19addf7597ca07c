//! [`Dispatcher`]: the due tasks, and the workers that wait for them.

mod orders;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use windlass_statemachine::{Fence, Kind, NodeName, TaskId};

use super::{
    secret,
    worker::{Coverage, Notice, Worker},
};
use crate::{
    runner::due::{DueIndex, Moment, Released},
    store::{QueuedNodeCommand, TaskView},
};

/// The most tasks of one claim call.
const CLAIM_BATCH: usize = 256;
/// How long a task is put off that no waiting worker may have, or whose claim was refused.
const LATER: Duration = Duration::from_millis(300);
/// How long a task that an operator has stopped on a worker is not claimed by this process.
const AFTER_STOP: Duration = Duration::from_secs(30);
/// How long a task that was released while it could run is not claimed by this process.
const AFTER_RELEASE: Duration = Duration::from_secs(1);

/// The due tasks of the namespace, and the workers of this process.
#[derive(Default)]
pub(super) struct Dispatcher {
    due: DueIndex,
    workers: HashMap<u64, Arc<Worker>>,
    names: HashMap<NodeName, u64>,
    /// What each worker offers, and how many workers offer the same.
    offered: HashMap<u64, Vec<(Kind, Coverage)>>,
    covered: BTreeMap<Kind, HashMap<Coverage, usize>>,
    waiting: HashMap<Kind, VecDeque<Arc<Worker>>>,
    /// Which workers are in which of those lines.
    queued: HashSet<(Kind, u64)>,
    owners: HashMap<TaskId, Owner>,
    /// The tasks that are being claimed, and whether an event has reported the task since it was taken out.
    claiming: HashMap<TaskId, bool>,
    held_back: HashMap<TaskId, Released>,
    /// The commands of operators to workers that have no answer yet.
    orders: HashMap<u64, Vec<QueuedNodeCommand>>,
}

/// A claim of a worker, as events about it concern this process.
struct Owner {
    order: u64,
    worker: Arc<Worker>,
    /// The free task that was reported before this process knew of the claim. The event is older than the claim, or the
    /// claim is over already.
    reported: Option<TaskView>,
}

/// How a claim has ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    pub(super) order: u64,
    /// Whether the task could run again at once.
    pub(super) runs_again: bool,
    /// Whether an operator has stopped it on the worker.
    pub(super) is_stopped: bool,
    /// Whether signals wait for its next run.
    pub(super) signalled: bool,
}

impl Dispatcher {
    /// Adds a worker, or what it offers now. Returns the kinds of all workers when they have changed, or what tasks a
    /// worker may have: the tasks are then to be listed again.
    pub(super) fn add(&mut self, worker: &Arc<Worker>) -> Option<BTreeSet<Kind>> {
        let lease = worker.lease.id;
        self.names.insert(worker.lease.node.clone(), lease);
        self.workers.insert(lease, worker.clone());
        let offered = worker.shared().coverage();
        let mut is_new = false;
        for (kind, coverage) in &offered {
            let of_kind = self.covered.entry(kind.clone()).or_default();
            let count = of_kind.entry(coverage.clone()).or_default();
            is_new |= *count == 0;
            *count += 1;
        }
        let before = self.offered.insert(lease, offered);
        self.covers_no_more(before);
        is_new.then(|| self.covered.keys().cloned().collect())
    }

    fn covers_no_more(&mut self, offered: Option<Vec<(Kind, Coverage)>>) {
        for (kind, coverage) in offered.into_iter().flatten() {
            let Some(of_kind) = self.covered.get_mut(&kind) else {
                continue;
            };
            if let Some(count) = of_kind.get_mut(&coverage) {
                *count -= 1;
                if *count == 0 {
                    of_kind.remove(&coverage);
                }
            }
            if of_kind.is_empty() {
                self.covered.remove(&kind);
            }
        }
    }

    /// Returns whether a worker of this process may have the task, busy or not.
    fn fits(&self, view: &TaskView) -> bool {
        let of_kind = self.covered.get(&view.kind);
        let mut all = of_kind.into_iter().flat_map(HashMap::keys);
        all.any(|coverage| coverage.fits(view))
    }

    pub(super) fn worker(&self, lease: u64) -> Option<&Arc<Worker>> {
        self.workers.get(&lease)
    }

    /// Returns the worker that was known last by this name.
    pub(super) fn by_name(&self, name: &NodeName) -> Option<&Arc<Worker>> {
        self.workers.get(self.names.get(name)?)
    }

    /// Returns the worker with this name and the hash of its secret.
    pub(super) fn named(&self, name: &NodeName, secret: &str) -> Option<Arc<Worker>> {
        let worker = self.by_name(name)?;
        secret::is_same(&worker.secret, secret).then(|| worker.clone())
    }

    pub(super) fn remove(&mut self, lease: u64) {
        if let Some(worker) = self.workers.remove(&lease)
            && self.names.get(&worker.lease.node) == Some(&lease)
        {
            self.names.remove(&worker.lease.node);
        }
        self.orders.remove(&lease);
        let offered = self.offered.remove(&lease);
        self.covers_no_more(offered);
        self.owners
            .retain(|_, owner| owner.worker.lease.id != lease);
    }

    pub(super) fn workers(&self) -> Vec<Arc<Worker>> {
        self.workers.values().cloned().collect()
    }

    pub(super) fn owns(&mut self, id: &TaskId, order: u64, worker: &Arc<Worker>) {
        let before = self.owners.remove(id).and_then(|owner| owner.reported);
        let owner = Owner {
            order,
            worker: worker.clone(),
            reported: self.due.remove(id).or(before),
        };
        self.owners.insert(id.clone(), owner);
    }

    /// Notes that a claim is no longer known here. A task that was reported as free is due again.
    pub(super) fn disowns(&mut self, id: &TaskId, lease: u64, now: Moment) {
        let owner = self.owners.get(id);
        if owner.is_none_or(|owner| owner.worker.lease.id != lease) {
            return;
        }
        if let Some(owner) = self.owners.remove(id)
            && let Some(view) = owner.reported
            && self.due.order(id).is_none()
        {
            self.due.upsert(view, now);
        }
    }

    /// Notes the end of a claim. A task that could run again goes to other nodes first.
    pub(super) fn released(&mut self, id: &TaskId, lease: u64, ended: Ended, now: Moment) {
        self.disowns(id, lease, now);
        if !ended.runs_again {
            return;
        }
        self.held_back.retain(|_, held| held.until > now.at);
        let wait = match ended.is_stopped {
            true => AFTER_STOP,
            false => AFTER_RELEASE,
        };
        let held = Released {
            order: ended.order,
            until: now.at + wait,
            signalled: ended.signalled,
        };
        self.held_back.insert(id.clone(), held);
        // The watch may have reported it before the answer to the write came.
        if let Some(view) = self.due.remove(id) {
            held.enter(view, &mut self.due, now);
        }
    }

    pub(super) fn list_begins(&mut self) {
        self.due.clear();
    }

    /// Applies an event about a task. Returns the worker that is to look at its commands.
    pub(super) fn view(&mut self, view: TaskView, now: Moment) -> Option<Arc<Worker>> {
        self.reports(&view.id);
        if let Some(lease) = view.claimed_by {
            self.due.remove(&view.id);
            if let Some(owner) = self.owners.get_mut(&view.id) {
                owner.reported = None;
            }
            let worker = self.workers.get(&lease).filter(|_| view.commanded)?;
            worker.tell(Notice::Commands(view.id));
            return Some(worker.clone());
        }
        if !self.fits(&view) {
            self.due.remove(&view.id);
            return None;
        }
        match self.held_back.get(&view.id).copied() {
            Some(held) => held.enter(view, &mut self.due, now),
            None => self.due.upsert(view, now),
        }
        None
    }

    /// Applies the end of a task. Returns its worker.
    pub(super) fn gone(
        &mut self,
        id: &TaskId,
        order: u64,
        fence: Option<Fence>,
    ) -> Option<Arc<Worker>> {
        if self.due.order(id).is_some_and(|known| known <= order) {
            self.due.remove(id);
        }
        self.reports(id);
        let owner = self.owners.get_mut(id)?;
        let of = |view: &mut TaskView| view.order <= order;
        owner.reported.take_if(of);
        if owner.order != order {
            return None;
        }
        owner.worker.tell(Notice::Gone(id.clone(), order, fence));
        Some(owner.worker.clone())
    }

    /// Notes an event about a task that is being claimed.
    fn reports(&mut self, id: &TaskId) {
        if let Some(reported) = self.claiming.get_mut(id) {
            *reported = true;
        }
    }

    /// Adds a worker whose exchange waits for work. Returns whether a task is due now.
    pub(super) fn waits(&mut self, worker: &Arc<Worker>, now: Moment) -> bool {
        let kinds: Vec<Kind> = worker.shared().offers.keys().cloned().collect();
        for kind in kinds {
            if self.queued.insert((kind.clone(), worker.lease.id)) {
                self.waiting
                    .entry(kind)
                    .or_default()
                    .push_back(worker.clone());
            }
        }
        self.due.advance(now);
        self.due.ready_len() > 0
    }

    /// Takes the due tasks that a worker may have now.
    pub(super) fn take_for(&mut self, worker: &Worker, now: Moment) -> Vec<TaskView> {
        self.due.advance(now);
        let (mut views, mut others) = (Vec::new(), Vec::new());
        let mut shared = worker.shared();
        while views.len() < CLAIM_BATCH && others.len() < CLAIM_BATCH {
            let Some(view) = self.due.take(|kind, _| shared.free(kind) > 0) else {
                break;
            };
            if shared.fits(&view) {
                shared.claims(&view.kind);
                self.due.claims(&view);
                self.claiming.insert(view.id.clone(), false);
                views.push(view);
            } else {
                others.push(view);
            }
        }
        drop(shared);
        for view in others {
            self.due.put_off(view, now.at + LATER, now);
        }
        views
    }

    /// Takes the due tasks that waiting workers may have now, by worker.
    pub(super) fn take(&mut self, now: Moment) -> Vec<(Arc<Worker>, Vec<TaskView>)> {
        self.due.advance(now);
        let mut taken: HashMap<u64, (Arc<Worker>, Vec<TaskView>)> = HashMap::new();
        let mut others = Vec::new();
        for _ in 0..CLAIM_BATCH {
            let (waiting, queued) = (&mut self.waiting, &mut self.queued);
            let Some(view) = self.due.take(|kind, _| has_room(waiting, queued, kind)) else {
                break;
            };
            let Some(worker) = self.choose(&view) else {
                others.push(view);
                continue;
            };
            worker.shared().claims(&view.kind);
            self.due.claims(&view);
            self.claiming.insert(view.id.clone(), false);
            let entry = taken.entry(worker.lease.id);
            entry.or_insert_with(|| (worker, Vec::new())).1.push(view);
        }
        for view in others {
            self.due.put_off(view, now.at + LATER, now);
        }
        taken.into_values().collect()
    }

    /// Returns the next waiting worker that may have the task.
    fn choose(&mut self, view: &TaskView) -> Option<Arc<Worker>> {
        let line = self.waiting.get_mut(&view.kind)?;
        for _ in 0..line.len() {
            let worker = line.pop_front()?;
            let may = {
                let shared = worker.shared();
                shared.waiting > 0 && shared.free(&view.kind) > 0 && shared.fits(view)
            };
            line.push_back(worker.clone());
            if may {
                return Some(worker);
            }
        }
        None
    }

    /// Notes that the claims of these tasks are answered.
    pub(super) fn claims_answered<'a>(&mut self, ids: impl Iterator<Item = &'a TaskId>) {
        for id in ids {
            self.claiming.remove(id);
        }
    }

    /// Puts tasks back that were not claimed. An event that came meanwhile knows better.
    pub(super) fn put_back(&mut self, views: Vec<TaskView>, now: Moment) {
        for view in views {
            if self.claiming.get(&view.id) == Some(&true) {
                continue;
            }
            // The clock may have been set back. A task with a command is due at once, whenever it wakes: it is put off, too.
            match view.sleeping && !view.commanded && view.due.is_some_and(|due| due > now.clock) {
                true => self.due.upsert(view, now),
                false => self.due.put_off(view, now.at + LATER, now),
            }
        }
    }

    pub(super) fn next_due_in(&self, now: Moment) -> Option<Duration> {
        self.due.next_due_in(now)
    }
}

/// Returns whether a worker waits with room for the kind. Those that wait no longer leave the line.
fn has_room(
    waiting: &mut HashMap<Kind, VecDeque<Arc<Worker>>>,
    queued: &mut HashSet<(Kind, u64)>,
    kind: &Kind,
) -> bool {
    let Some(line) = waiting.get_mut(kind) else {
        return false;
    };
    for _ in 0..line.len() {
        let Some(worker) = line.front() else {
            return false;
        };
        let (waits, has_room) = {
            let shared = worker.shared();
            (shared.waiting > 0, shared.free(kind) > 0)
        };
        if waits && has_room {
            return true;
        }
        if let Some(worker) = line.pop_front() {
            if waits {
                line.push_back(worker);
            } else {
                queued.remove(&(kind.clone(), worker.lease.id));
            }
        }
    }
    false
}

#[cfg(test)]
mod tests;
