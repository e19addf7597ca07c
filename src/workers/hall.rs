//! [`Hall`]: the due tasks, and the workers that wait for them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;
use windlass_statemachine::{Fence, Kind, NodeName, TaskId};

use super::{
    secret,
    worker::{Coverage, Notice, Worker},
};
use crate::{
    runner::due::{DueIndex, Moment},
    store::{NodeCommandId, QueuedNodeCommand, TaskView},
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
pub(super) struct Hall {
    due: DueIndex,
    workers: HashMap<u64, Arc<Worker>>,
    names: HashMap<NodeName, u64>,
    /// What each worker offers, and how many workers offer the same.
    offered: HashMap<u64, Vec<(Kind, Coverage)>>,
    covered: BTreeMap<Kind, HashMap<Coverage, usize>>,
    waiting: HashMap<Kind, VecDeque<Arc<Worker>>>,
    /// Which workers are in which of those lines.
    queued: HashSet<(Kind, u64)>,
    owners: HashMap<TaskId, (u64, Arc<Worker>)>,
    held_back: HashMap<TaskId, Instant>,
    /// The commands of operators to workers that have no answer yet.
    orders: HashMap<u64, Vec<QueuedNodeCommand>>,
}

impl Hall {
    /// Adds a worker, or what it offers now. Returns the kinds of all workers when they have changed, or what tasks a
    /// worker may have: the tasks are then to be listed again.
    pub(super) fn add(&mut self, worker: &Arc<Worker>) -> Option<BTreeSet<Kind>> {
        let lease = worker.lease.id;
        self.names.insert(worker.lease.node.clone(), lease);
        self.workers.insert(lease, worker.clone());
        let offered = worker.board().coverage();
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
            .retain(|_, (_, worker)| worker.lease.id != lease);
    }

    pub(super) fn workers(&self) -> Vec<Arc<Worker>> {
        self.workers.values().cloned().collect()
    }

    pub(super) fn owns(&mut self, id: &TaskId, order: u64, worker: &Arc<Worker>) {
        self.due.remove(id);
        self.owners.insert(id.clone(), (order, worker.clone()));
    }

    pub(super) fn disowns(&mut self, id: &TaskId, lease: u64) {
        if self
            .owners
            .get(id)
            .is_some_and(|(_, worker)| worker.lease.id == lease)
        {
            self.owners.remove(id);
        }
    }

    /// Notes the end of a claim. A task that could run again goes to other nodes first.
    pub(super) fn released(
        &mut self,
        id: &TaskId,
        lease: u64,
        (runs_again, stopped): (bool, bool),
        now: Moment,
    ) {
        self.disowns(id, lease);
        if runs_again {
            self.held_back.retain(|_, until| *until > now.at);
            let wait = if stopped { AFTER_STOP } else { AFTER_RELEASE };
            self.held_back.insert(id.clone(), now.at + wait);
            // The watch may have reported it before the answer to the write came.
            if let Some(view) = self.due.remove(id).filter(|view| !view.commanded) {
                self.due.put_off(view, now.at + wait, now);
            }
        }
    }

    pub(super) fn list_begins(&mut self) {
        self.due.clear();
    }

    /// Applies an event about a task. Returns the worker that is to look at its commands.
    pub(super) fn view(&mut self, view: TaskView, now: Moment) -> Option<Arc<Worker>> {
        if let Some(lease) = view.claimed_by {
            self.due.remove(&view.id);
            let worker = self.workers.get(&lease).filter(|_| view.commanded)?;
            worker.tell(Notice::Commands(view.id));
            return Some(worker.clone());
        }
        if !self.fits(&view) {
            self.due.remove(&view.id);
            return None;
        }
        match self.held_back.get(&view.id) {
            Some(until) if *until > now.at && !view.commanded => {
                let until = *until;
                self.due.put_off(view, until, now);
            }
            _ => self.due.upsert(view, now),
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
        let (of, worker) = self.owners.get(id)?;
        if *of != order {
            return None;
        }
        worker.tell(Notice::Gone(id.clone(), order, fence));
        Some(worker.clone())
    }

    /// Applies a command of an operator. Returns its worker.
    pub(super) fn order(&mut self, command: QueuedNodeCommand) -> Option<Arc<Worker>> {
        let known = self.orders.entry(command.lease).or_default();
        if known.iter().any(|other| other.id == command.id) {
            return None;
        }
        known.push(command.clone());
        let worker = self.workers.get(&command.lease)?;
        worker.tell(Notice::Node(command));
        Some(worker.clone())
    }

    /// Returns the commands of operators to a worker that have no answer, as far as is known here.
    pub(super) fn orders(&self, lease: u64) -> Vec<QueuedNodeCommand> {
        self.orders.get(&lease).cloned().unwrap_or_default()
    }

    /// Returns the leases of workers that are not known here and have commands of operators: another server answers them.
    pub(super) fn orders_of_others(&self) -> Vec<u64> {
        let leases = self.orders.keys().copied();
        leases
            .filter(|lease| !self.workers.contains_key(lease))
            .collect()
    }

    pub(super) fn answered(&mut self, lease: u64, command: NodeCommandId) {
        if let Some(orders) = self.orders.get_mut(&lease) {
            orders.retain(|order| order.id != command);
            if orders.is_empty() {
                self.orders.remove(&lease);
            }
        }
    }

    /// Adds a worker whose exchange waits for work. Returns whether a task is due now.
    pub(super) fn waits(&mut self, worker: &Arc<Worker>, now: Moment) -> bool {
        let kinds: Vec<Kind> = worker.board().offers.keys().cloned().collect();
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
        let mut board = worker.board();
        while views.len() < CLAIM_BATCH && others.len() < CLAIM_BATCH {
            let Some(view) = self.due.take(|kind, _| board.free(kind) > 0) else {
                break;
            };
            if board.fits(&view) {
                board.claims(&view.kind);
                self.due.claims(&view);
                views.push(view);
            } else {
                others.push(view);
            }
        }
        drop(board);
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
            worker.board().claims(&view.kind);
            self.due.claims(&view);
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
                let board = worker.board();
                board.waiting > 0 && board.free(&view.kind) > 0 && board.fits(view)
            };
            line.push_back(worker.clone());
            if may {
                return Some(worker);
            }
        }
        None
    }

    /// Puts tasks back that were not claimed.
    pub(super) fn put_back(&mut self, views: Vec<TaskView>, now: Moment) {
        for view in views {
            self.due.put_off(view, now.at + LATER, now);
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
            let board = worker.board();
            (board.waiting > 0, board.free(kind) > 0)
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
