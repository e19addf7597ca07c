//! The mirror: what a node knows of each task, updated from the keys.
//!
//! Two watches bring the keys of one task, in no order between them, and some keys come twice after
//! a broken stream. So each key sets only its own part of an entry, and events are made from the
//! whole entry.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use etcd_client::EventType;
use tokio::time::Instant;
use windlass_statemachine::{Kind, TaskId};

use super::{
    entries::{Entries, Entry, Mark, Owned},
    releases::Releases,
};
use crate::store::{
    Event, TaskView,
    etcd::schema::{
        Envelope, Fences, KeyValue, Keys, Parked, Part, Stored, json::parse, ranges::is_pointer,
        records, reported,
    },
};

impl Mark {
    fn read(kv: &KeyValue) -> Self {
        match parse::<Parked>(kv) {
            Ok(Parked { aside: Some(_), .. }) => Self::Quarantined,
            Ok(Parked {
                until: Some(at), ..
            }) => Self::Until(at),
            _ => Self::Paused,
        }
    }
}

pub(crate) struct Mirror {
    keys: Keys,
    fences: Fences,
    lease: u64,
    kinds: Option<Vec<Kind>>,
    tasks: Entries,
    /// The commands of tasks that have some.
    waiting: HashMap<TaskId, BTreeMap<Option<String>, Stored>>,
    /// Marks whose task has not come yet, with the revisions that wrote them.
    early: HashMap<TaskId, (Mark, i64)>,
    /// Marks of tasks that a node of Metafora has claimed, with the revisions that wrote them.
    stale: Vec<(TaskId, i64)>,
    /// The changed tasks, with their orders: an id may be used again.
    changed: Vec<(TaskId, u64)>,
    in_changed: HashSet<(TaskId, u64)>,
    /// The changed tasks whose keys were deleted, with the revisions.
    deleted: HashMap<(TaskId, u64), i64>,
    /// The changed tasks that are reported once their mark has come.
    releases: Releases,
}

/// What a key reports beside the entry.
#[derive(Default)]
pub(crate) struct News {
    /// An owner's key was deleted.
    pub(crate) unowned: Option<(TaskId, i64)>,
    /// A command for a task that this lease owns.
    pub(crate) ours: Option<(TaskId, Stored)>,
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

    /// Takes in a key below `/NS/tasks/`, which came `now`.
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
            Part::Task if put => self.put_task(&id, kv),
            Part::Task => self.remove_task(&id, at),
            Part::Owner => {
                if !put {
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
                let Some((owner, order)) = known else {
                    return news;
                };
                if put {
                    let stored = Stored::read(name.as_deref(), kv);
                    if owner.is_some_and(|owner| owner.lease == self.lease) {
                        news.ours = Some((id.clone(), stored.clone()));
                    }
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
                self.touch(&id, order);
            }
        }
        news
    }

    fn put_task(&mut self, id: &TaskId, kv: &KeyValue) {
        // The mirror skips a task that cannot be read. The next claim of it quarantines it.
        let Ok(envelope) = Envelope::read(kv).or_else(|_| Envelope::foreign()) else {
            return;
        };
        let wanted = self
            .kinds
            .as_ref()
            .is_none_or(|kinds| kinds.contains(&envelope.kind));
        if !wanted {
            self.early.remove(id);
            return;
        }
        let (order, submitted_at) = (envelope.order(kv), envelope.submitted_at());
        let (priority, data_version) = (envelope.priority, envelope.data_version);
        let labels = (!envelope.labels.is_empty()).then(|| Arc::new(envelope.labels));
        let before = self.tasks.get(id);
        let known = before.as_ref().map(|e| (e.mark, e.marked));
        let (mark, marked) = self.early.remove(id).or(known).unwrap_or((Mark::None, 0));
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
            marked,
        };
        self.tasks.put(id, entry);
        self.touch(id, order);
    }

    fn remove_task(&mut self, id: &TaskId, at: i64) {
        self.waiting.remove(id);
        self.releases.settled(id);
        if let Some(entry) = self.tasks.remove(id) {
            // The mark of a later task with this id came first.
            if entry.marked > at && entry.mark != Mark::None {
                self.early.insert(id.clone(), (entry.mark, entry.marked));
            }
            self.touch(id, entry.order);
            self.deleted.insert((id.clone(), entry.order), at);
        }
    }

    /// Takes in a key below `/NS/parked/`.
    pub(crate) fn parked_key(&mut self, event: EventType, kv: &KeyValue, listing: bool) {
        let id = self.keys.strip(kv.key(), "parked/");
        let Some(id) = id.and_then(|id| TaskId::new(id).ok()) else {
            return;
        };
        let mark = match event {
            EventType::Put => Mark::read(kv),
            EventType::Delete => Mark::None,
        };
        let at = kv.mod_revision();
        self.releases.settled(&id);
        match self.tasks.get(&id) {
            Some(mut entry) => {
                (entry.mark, entry.marked) = (mark, at);
                let order = entry.order;
                self.tasks.put(&id, entry);
                self.touch(&id, order);
                self.look_for_stale(&id);
            }
            None if mark == Mark::None || listing => {
                self.early.remove(&id);
            }
            None => {
                self.early.insert(id, (mark, at));
            }
        }
    }

    fn look_for_stale(&mut self, id: &TaskId) {
        if let Some(entry) = self.tasks.get(id)
            && entry.owner.is_some_and(|owner| owner.foreign)
            && matches!(entry.mark, Mark::Until(_) | Mark::Paused)
        {
            self.stale.push((id.clone(), entry.marked));
        }
    }

    pub(crate) fn has_marks(&self) -> bool {
        self.tasks.has_marks()
    }

    /// Returns the task of this state if the state is newer than the mark, with the revisions of
    /// mark and state: the mark is outdated.
    pub(crate) fn outdated_by(&self, state: &KeyValue) -> Option<(TaskId, i64, i64)> {
        let id = TaskId::new(self.keys.strip(state.key(), "state/")?).ok()?;
        let entry = self.tasks.get(&id)?;
        let stored = state.mod_revision();
        let outdated = entry.mark != Mark::None && entry.owner.is_none() && entry.marked < stored;
        outdated.then_some((id, entry.marked, stored))
    }

    /// Takes the marks to delete: a node of Metafora has claimed their tasks.
    pub(crate) fn take_stale(&mut self) -> Vec<(TaskId, i64)> {
        std::mem::take(&mut self.stale)
    }

    /// Notes that every key below `/NS/tasks/` up to this revision has come. Drops older marks
    /// without a task: this node skips those tasks.
    pub(crate) fn tasks_are_at(&mut self, revision: i64) {
        if !self.early.is_empty() {
            self.early.retain(|_, (_, at)| *at > revision);
        }
    }

    /// Notes that every key below `/NS/parked/` up to this revision has come.
    pub(crate) fn marks_are_at(&mut self, revision: i64) {
        self.releases.marks_are_at(revision);
    }

    /// Returns when [`take`](Self::take) returns events even if no key comes.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.releases.next()
    }

    /// Takes the changes since the last call, as they are now. Keeps the tasks whose mark may be on
    /// its way.
    pub(crate) fn take(&mut self, now: Instant) -> Vec<Event> {
        self.releases.expire(now);
        let mut changed = std::mem::take(&mut self.changed);
        self.in_changed.clear();
        if !self.releases.is_empty() {
            let (held, free) = changed
                .into_iter()
                .partition(|(id, _)| self.releases.holds(id));
            (self.changed, changed) = (held, free);
            self.in_changed.extend(self.changed.iter().cloned());
        }
        let mut deleted = std::mem::take(&mut self.deleted);
        let mut events = Vec::with_capacity(changed.len());
        for task in changed {
            let at = deleted.remove(&task);
            self.add(task, at, &mut events);
        }
        // Deletions that are not reported yet.
        self.deleted = deleted;
        events
    }

    /// Adds the events of a task as it is now. `deleted` is the revision that deleted its key last.
    /// A task that was retried after its end exists again, with the same order.
    fn add(&self, (id, order): (TaskId, u64), deleted: Option<i64>, events: &mut Vec<Event>) {
        let gone = |at: i64| Event::Gone {
            id: id.clone(),
            order,
            fence: Some(self.fences.of(at)),
        };
        events.extend(deleted.map(gone));
        let entry = self.tasks.get(&id).filter(|entry| entry.order == order);
        let Some(entry) = entry else { return };
        if entry.mark == Mark::Quarantined {
            return events.push(gone(entry.marked));
        }
        let waiting = self.waiting.get(&id);
        events.push(Event::Task(TaskView {
            id: id.clone(),
            kind: entry.kind.clone(),
            labels: entry.labels.clone(),
            data_version: entry.data_version,
            priority: entry.priority,
            order: entry.order,
            due: match entry.mark {
                Mark::None => Some(entry.submitted_at),
                Mark::Until(at) => Some(at),
                Mark::Paused | Mark::Quarantined => None,
            },
            sleeping: matches!(entry.mark, Mark::Until(_)),
            claimed_by: entry.owner.map(|owner| owner.lease),
            commanded: waiting.is_some(),
        }));
        if entry.owner.is_some_and(|owner| owner.lease == self.lease)
            && let Some(waiting) = waiting
        {
            let queue: Vec<Stored> = waiting.values().cloned().collect();
            let commands = reported(&queue);
            if !commands.is_empty() {
                events.push(Event::Commands {
                    id,
                    order,
                    commands,
                });
            }
        }
    }

    /// Returns the tasks that a watch begins with, in submit order. [`views`](Self::views) makes
    /// the events of some of them at a time: those of all at once would take more memory than the
    /// mirror.
    pub(crate) fn listed(&mut self) -> Vec<(TaskId, u64)> {
        // Dropped, not cleared: their capacity fits every task.
        (self.changed, self.in_changed) = Default::default();
        self.deleted = HashMap::new();
        let listed = self.tasks.listed();
        let mut ids: Vec<(u64, TaskId)> = listed.map(|(n, id)| (n, id.clone())).collect();
        ids.sort_unstable();
        ids.into_iter().map(|(order, id)| (id, order)).collect()
    }

    pub(crate) fn views(&self, tasks: &[(TaskId, u64)]) -> Vec<Event> {
        let mut events = Vec::with_capacity(tasks.len());
        for task in tasks {
            self.add(task.clone(), None, &mut events);
        }
        events
    }
}
