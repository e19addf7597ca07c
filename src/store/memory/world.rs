//! The data of a namespace, with its indexes and its history.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use jiff::Timestamp;
use tokio::sync::watch;
use windlass_statemachine::{Author, CommandId, Fence, TaskId, TaskState, TransactionId};

use super::{
    limited::Limited,
    row::{LeaseRow, NodeCommandRow, Owner, Remembered, Row, Saved, Watcher},
    waiters::Waiters,
};
use crate::store::{
    AuditEntry, Change, ChangeKind, Error, Limits, NamedValue, NodeCommandId,
    copy::Copied,
    rules::{facts::Holder, kept_time::kept},
};

/// A namespace.
pub(super) struct World {
    pub(super) limits: Limits,
    pub(super) tasks: HashMap<TaskId, Row>,
    pub(super) by_order: BTreeMap<u64, TaskId>,
    /// The time and the order of each ended task.
    pub(super) ended: BTreeSet<(Timestamp, u64)>,
    /// The task and the order of each known command.
    pub(super) commands: HashMap<CommandId, (TaskId, u64)>,
    /// The transactions that may be repeated.
    pub(super) applied: HashMap<TransactionId, Remembered>,
    /// The holders of unique keys, with their submit orders.
    pub(super) unique: HashMap<String, (u64, Holder)>,
    pub(super) waiters: Waiters,
    pub(super) limited: Limited,
    /// The time of the present call.
    pub(super) now: Timestamp,
    pub(super) leases: BTreeMap<u64, LeaseRow>,
    pub(super) node_commands: BTreeMap<NodeCommandId, NodeCommandRow>,
    pub(super) watchers: HashMap<u64, Watcher>,
    /// The history, without gaps. Fences and the orders of tasks and commands are positions in it.
    pub(super) log: VecDeque<Change>,
    /// The history of the namespace.
    pub(super) audit: VecDeque<AuditEntry>,
    pub(super) values: BTreeMap<String, NamedValue>,
    /// How many values were set, which is the version of the last one.
    pub(super) value_writes: u64,
    /// The author of the present changes.
    pub(super) by: Option<Author>,
    /// The position of the oldest kept change, or of the next change if none is kept.
    pub(super) first_seq: u64,
    /// The position of the newest change.
    pub(super) latest: watch::Sender<u64>,
    /// The mark of a copy.
    pub(super) copied: Option<Copied>,
    /// The last number that was assigned to a lease, a watcher or a node command.
    last_number: u64,
    /// The offset from the position of a claim to its fence. Imported tasks may have had greater
    /// fences than the positions here.
    fence_floor: u64,
}

impl World {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            copied: None,
            tasks: HashMap::new(),
            by_order: BTreeMap::new(),
            ended: BTreeSet::new(),
            commands: HashMap::new(),
            applied: HashMap::new(),
            unique: HashMap::new(),
            waiters: Waiters::default(),
            limited: Limited::default(),
            now: Timestamp::MIN,
            leases: BTreeMap::new(),
            node_commands: BTreeMap::new(),
            watchers: HashMap::new(),
            log: VecDeque::new(),
            audit: VecDeque::new(),
            values: BTreeMap::new(),
            value_writes: 0,
            by: None,
            first_seq: 1,
            latest: watch::Sender::new(0),
            last_number: 0,
            fence_floor: 0,
        }
    }

    /// Returns the fence of the next claim. It is greater than every earlier fence, including those
    /// of deleted tasks.
    pub(super) fn next_fence(&self) -> Fence {
        Fence(self.next_seq().saturating_add(self.fence_floor))
    }

    /// Makes every later fence greater than `fence`.
    pub(super) fn raise_fences(&mut self, fence: Fence) {
        if fence >= self.next_fence() {
            self.fence_floor = fence.0;
        }
    }

    /// Returns a number that was never returned before.
    pub(super) fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Returns the position of the next change.
    pub(super) fn next_seq(&self) -> u64 {
        self.first_seq + self.log.len() as u64
    }

    /// Adds a change to the history and returns its position.
    pub(super) fn record(&mut self, task: &TaskId, what: ChangeKind, at: Timestamp) -> u64 {
        let seq = self.next_seq();
        if let Some(row) = self.tasks.get_mut(task) {
            while row.history.front().is_some_and(|s| *s < self.first_seq) {
                row.history.pop_front();
            }
            row.history.push_back(seq);
        }
        let change = Change::new(seq, kept(at), task.clone(), what);
        self.log.push_back(change.by(self.by.clone()));
        self.latest.send_replace(seq);
        seq
    }

    /// Replaces the state of a task, and updates the index of ended tasks.
    pub(super) fn set_state(&mut self, id: &TaskId, state: TaskState) {
        let Some(row) = self.tasks.get_mut(id) else {
            return;
        };
        let had_ended = row.has_ended();
        if let Some((_, since)) = row.ended.take() {
            self.ended.remove(&(since, row.order));
        }
        if state.code().is_terminal() {
            self.ended.insert((state.since, row.order));
            row.ended = Some((state.code(), state.since));
        }
        row.version = state.version;
        self.waiters.remove(id, &row.saved);
        self.waiters.add(id, &state);
        row.saved = state.into();
        if row.has_ended() != had_ended {
            self.touch_waiters(id);
        }
    }

    /// Ends the claim of a task and returns it; `None` when the task has none.
    pub(super) fn unclaim(&mut self, id: &TaskId) -> Option<Owner> {
        // Before the end, because a watch may get events of the task only while its lease has the
        // claim.
        self.touch(id);
        let owner = self.tasks.get_mut(id)?.owner.take()?;
        if let Some(lease) = self.leases.get_mut(&owner.lease) {
            lease.claims.remove(id);
        }
        self.claim_ended(id, owner.over_limit);
        Some(owner)
    }

    /// Parses the state of a task if it is text. Quarantines a task whose text is not a state.
    pub(super) fn read_state(&mut self, id: &TaskId, now: Timestamp) -> Result<(), Error> {
        let Some(row) = self.tasks.get_mut(id) else {
            return Err(Error::no_task(id));
        };
        let Saved::Text(_) = &row.saved else {
            return Ok(());
        };
        match row.saved.read() {
            Ok(state) => {
                self.set_state(id, state);
                self.touch(id);
                Ok(())
            }
            Err(reason) => {
                let error = Error::corrupt_task(id, reason.clone());
                if row.quarantine.is_none() && row.ended.is_none() {
                    row.quarantine = Some(reason);
                    row.abandoned = None;
                    let order = row.order;
                    self.leave_line(order);
                    self.unclaim(id);
                    self.record(id, ChangeKind::Quarantined, now);
                    self.touch(id);
                }
                Err(error)
            }
        }
    }

    /// Removes a task with everything that belongs to it.
    pub(super) fn remove(&mut self, id: &TaskId) -> Option<Row> {
        self.unclaim(id);
        let order = self.tasks.get(id)?.order;
        self.leave_line(order);
        let row = self.tasks.remove(id)?;
        self.waiters.remove(id, &row.saved);
        self.touch_waiters(id);
        self.by_order.remove(&row.order);
        if let Some((_, since)) = row.ended {
            self.ended.remove(&(since, row.order));
        }
        for command in row.commands.values() {
            self.commands.remove(&command.id);
        }
        Some(row)
    }

    pub(super) fn damage(&mut self, id: &TaskId, text: &str) -> Result<(), Error> {
        let row = self.tasks.get_mut(id).ok_or_else(|| Error::no_task(id))?;
        row.saved = Saved::Text(text.to_owned());
        Ok(())
    }
}
