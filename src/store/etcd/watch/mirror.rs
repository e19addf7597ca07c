//! The mirror: a node's view of each task, updated from the keys.
//!
//! Two watches deliver the keys of one task, in no common order, and some keys arrive twice after a
//! broken stream. So each key sets only its own part of an entry, and events are made from the
//! whole entry.

mod marks;
mod report;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use etcd_client::EventType;
use jiff::Timestamp;
use tokio::time::Instant;
use windlass_statemachine::{Kind, TaskId};

use self::marks::Marked;
use super::{
    entries::{Entries, Entry, Late, Mark, Owned},
    limited::Limited,
    releases::Releases,
    waiters::Waiters,
};
use crate::store::etcd::{
    node::Refused,
    schema::{
        Envelope, Fences, KeyValue, Keys, Part, Stored, json::parse, ranges::is_pointer, records,
        slots_of,
    },
};

pub(crate) struct Mirror {
    keys: Keys,
    fences: Fences,
    lease: u64,
    kinds: Option<Vec<Kind>>,
    tasks: Entries,
    /// The commands of tasks that have some, also of tasks of other kinds: a task may get a kind that the node lists.
    waiting: HashMap<TaskId, BTreeMap<Option<String>, Stored>>,
    /// Marks whose task has not arrived yet, with the revisions that wrote them.
    early: HashMap<TaskId, Marked>,
    waiters: Waiters,
    limited: Limited,
    /// The time of the next events, for limits on starts.
    wall: Timestamp,
    /// Every key of a task up to this revision has arrived.
    tasks_at: i64,
    /// Marks of tasks that a node of Metafora has claimed, with the revisions that wrote them.
    stale: Vec<(TaskId, i64)>,
    /// The changed tasks, with their orders, because an id may be used again.
    changed: Vec<(TaskId, u64)>,
    in_changed: HashSet<(TaskId, u64)>,
    /// The changed tasks whose keys were deleted, with the revisions.
    deleted: HashMap<(TaskId, u64), i64>,
    /// The changed tasks that are reported once their mark has arrived.
    releases: Releases,
}

/// Whether a task is still as its submit wrote it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    /// The task is as submitted, and can be claimed at once, without a slot of a limit.
    Submitted(TaskId),
    /// The task was claimed or deleted.
    Taken(TaskId),
}

/// What a key reports in addition to the entry.
#[derive(Default)]
pub(crate) struct News {
    pub(crate) change: Option<Changed>,
    /// An owner's key was deleted.
    pub(crate) unowned: Option<(TaskId, i64)>,
    /// A command for a task that a lease owns.
    pub(crate) owned: Option<(u64, TaskId, Stored)>,
}

impl Mirror {
    pub(crate) fn new(keys: Keys, fences: Fences, lease: u64, kinds: Option<Vec<Kind>>) -> Self {
        Self {
            keys,
            fences,
            lease,
            kinds,
            tasks: Entries::default(),
            waiting: HashMap::new(),
            early: HashMap::new(),
            waiters: Waiters::default(),
            limited: Limited::default(),
            wall: Timestamp::MIN,
            tasks_at: 0,
            stale: Vec::new(),
            changed: Vec::new(),
            in_changed: HashSet::new(),
            deleted: HashMap::new(),
            releases: Releases::default(),
        }
    }

    fn touch(&mut self, id: &TaskId, order: u64) {
        let task = (id.clone(), order);
        if self.in_changed.insert(task.clone()) {
            self.changed.push(task);
        }
    }

    /// Applies a key below `/NS/tasks/` that arrived `now`.
    pub(crate) fn task_key(&mut self, event: EventType, kv: &KeyValue, now: Instant) -> News {
        let mut news = News::default();
        let keys = self.keys.clone();
        let Some((id, part)) = keys.split(kv.key()) else {
            return news;
        };
        let Ok(id) = TaskId::new(id) else { return news };
        let (put, at) = (event == EventType::Put, kv.mod_revision());
        match part {
            Part::Props => {}
            Part::Task if put => {
                let is_new = self.put_task(&id, kv, now);
                news.change = is_new.then_some(Changed::Submitted(id));
            }
            Part::Task => {
                self.remove_task(&id, at);
                news.change = Some(Changed::Taken(id));
            }
            Part::Owner => {
                if put {
                    news.change = Some(Changed::Taken(id.clone()));
                    self.limited.claimed(&id, slots_of(kv), self.wall);
                } else {
                    self.limited.released(&id);
                    news.unowned = Some((id.clone(), at));
                }
                if let Some(mut entry) = self.tasks.get(&id) {
                    entry.owner = put.then(|| Owned {
                        lease: records::lease_of(kv),
                        foreign: records::is_foreign(kv),
                    });
                    let order = entry.order;
                    self.tasks.put(&id, entry);
                    if put {
                        self.releases.settled(&id);
                    } else {
                        self.releases.released(&id, at, now);
                    }
                    self.touch(&id, order);
                    self.look_for_stale(&id);
                }
            }
            Part::Command(_) if put && is_pointer(kv) => {}
            Part::Slot | Part::Command(_) => {
                let name = match part {
                    Part::Command(name) => Some(name.to_owned()),
                    _ => None,
                };
                let known = self.tasks.get(&id).map(|entry| (entry.owner, entry.order));
                if known.is_none() && !self.waiters.is_other(&id) {
                    return news;
                }
                let owner = known.and_then(|(owner, _)| owner);
                if put {
                    let stored = Stored::read(name.as_deref(), kv);
                    news.owned = owner.map(|owner| (owner.lease, id.clone(), stored.clone()));
                    self.waiting
                        .entry(id.clone())
                        .or_default()
                        .insert(name, stored);
                } else if let Some(waiting) = self.waiting.get_mut(&id) {
                    waiting.remove(&name);
                    if waiting.is_empty() {
                        self.waiting.remove(&id);
                    }
                }
                if let Some((_, order)) = known {
                    self.touch(&id, order);
                }
            }
        }
        news
    }

    /// Returns whether it is a new task that can be claimed as its submit wrote it.
    fn put_task(&mut self, id: &TaskId, kv: &KeyValue, now: Instant) -> bool {
        // The mirror skips a task that cannot be read. The next claim of it quarantines it.
        let Ok(envelope) = Envelope::read(kv).or_else(|_| Envelope::foreign()) else {
            return false;
        };
        let wanted = self
            .kinds
            .as_ref()
            .is_none_or(|kinds| kinds.contains(&envelope.kind));
        if !wanted {
            self.unlist(id, kv.mod_revision());
            return false;
        }
        // The task was retried or copied.
        let is_again = envelope.order.is_some();
        let is_as_submitted = envelope.is_as_submitted(kv);
        let (order, submitted_at) = (envelope.order(kv), envelope.submitted_at());
        let (priority, data_version) = (envelope.priority, envelope.data_version);
        let submitted = envelope.deadlines().and_then(|late| late.first());
        let limits = envelope.terms.map_or_else(Vec::new, |terms| terms.limits);
        let has_limits = !limits.is_empty();
        self.limited.put(id, order, limits);
        let labels = (!envelope.labels.is_empty()).then(|| Arc::new(envelope.labels));
        let before = self.tasks.get(id);
        let before_order = before.as_ref().map(|before| before.order);
        let known = before.as_ref().map(|e| (e.mark, e.late.parked, e.marked));
        let known = self.early.remove(id).or(known);
        let (mark, parked, marked) = known.unwrap_or((Mark::None, None, 0));
        let entry = Entry {
            kind: envelope.kind,
            labels,
            data_version,
            priority,
            order,
            submitted_at,
            owner: before
                .filter(|before| before.order == order)
                .and_then(|before| before.owner),
            mark,
            late: Late { submitted, parked },
            marked,
        };
        let is_new = before_order != Some(order);
        self.tasks.put(id, entry);
        self.touch(id, order);
        if is_new {
            if mark == Mark::None && is_again {
                // The same write may have put its mark.
                self.releases.released(id, kv.mod_revision(), now);
            }
            self.waiters.other(id, false);
            self.touch_waiters(id);
        }
        is_new && is_as_submitted && !has_limits && mark == Mark::None
    }

    /// Takes note of a task of a kind that the node does not list. One that had a listed kind before is reported as gone.
    fn unlist(&mut self, id: &TaskId, at: i64) {
        self.early.remove(id);
        self.waiters.remove(id);
        self.limited.remove(id);
        if let Some(entry) = self.tasks.remove(id) {
            self.releases.settled(id);
            self.touch(id, entry.order);
            self.deleted.insert((id.clone(), entry.order), at);
        }
        self.waiters.other(id, true);
        self.touch_waiters(id);
    }

    fn remove_task(&mut self, id: &TaskId, at: i64) {
        self.waiting.remove(id);
        self.limited.remove(id);
        self.waiters.other(id, false);
        self.releases.settled(id);
        if let Some(entry) = self.tasks.remove(id) {
            // The mark of a later task with this id arrived first.
            if entry.marked > at && entry.mark != Mark::None {
                let early = (entry.mark, entry.late.parked, entry.marked);
                self.early.insert(id.clone(), early);
            } else {
                self.waiters.remove(id);
            }
            self.touch(id, entry.order);
            self.deleted.insert((id.clone(), entry.order), at);
        }
        self.touch_released(id);
    }

    /// Reports the tasks that waited for this one, which is gone, if they now wait for no live task.
    fn touch_released(&mut self, id: &TaskId) {
        for waiter in self.waiters.of(id) {
            let is_blocked = self
                .waiters
                .is_blocked(&waiter, |id| self.tasks.contains(id));
            if is_blocked != Some(true)
                && let Some(entry) = self.tasks.get(&waiter)
            {
                self.touch(&waiter, entry.order);
            }
        }
    }

    /// Reports the tasks that wait for this one, which is live again.
    fn touch_waiters(&mut self, id: &TaskId) {
        for waiter in self.waiters.of(id) {
            if let Some(entry) = self.tasks.get(&waiter) {
                self.touch(&waiter, entry.order);
            }
        }
    }

    /// Notes that every key below `/NS/tasks/` up to this revision has arrived. Drops older marks
    /// without a task: this node skips those tasks.
    pub(crate) fn tasks_are_at(&mut self, revision: i64) {
        self.tasks_at = self.tasks_at.max(revision);
        if !self.early.is_empty() {
            let waiters = &mut self.waiters;
            self.early.retain(|id, (.., at)| {
                let stays = *at > revision;
                if !stays {
                    waiters.remove(id);
                }
                stays
            });
        }
    }

    /// Applies the key of a slot of a limit on starts, when the watch begins.
    pub(crate) fn start_key(&mut self, kv: &KeyValue) {
        if let (Some(slot), Ok(record)) = (self.keys.split_slot(kv.key()), parse(kv)) {
            self.limited.listed(slot, &record);
        }
    }

    /// Notes that a claim of this node found no slot.
    pub(crate) fn refused(&mut self, refused: Refused) {
        self.limited.refused(refused);
    }

    /// Sets the time of the next events.
    pub(crate) fn set_time(&mut self, wall: Timestamp) {
        self.wall = wall;
    }
}
