//! [`DueIndex`]: every unclaimed task that this node could take, and when it is due.
//!
//! A parked task is one entry here: no claim, no async task, no timer, no watch. `benches/` checks that
//! it takes at most 256 bytes.

mod fair_share;
mod interned;
mod ready;
mod released;

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::BuildHasher,
    sync::Arc,
    time::Duration,
};

use hashbrown::HashTable;
use jiff::Timestamp;
use tokio::time::Instant;
use windlass_statemachine::{Kind, TaskId, task::Labels};

pub(crate) use self::released::Released;
use self::{fair_share::KeyId, interned::Interned, ready::Ready};
use crate::hash::{HashMap, State};
use crate::store::TaskView;

/// The number of a kind with a data version.
type KindId = u32;

/// What the tasks with the same number have in common.
type Class = (Kind, u32);

/// When a paused task is due.
const NEVER: i64 = i64::MAX;

#[derive(Debug)]
struct Entry {
    id: TaskId,
    due: i64,
    /// When the task is ready: in milliseconds of the clock; for a deferred task, in milliseconds
    /// since the index was made.
    wait: i64,
    labels: Option<Arc<Labels>>,
    order: u64,
    kind: KindId,
    key: KeyId,
    priority: i32,
    commanded: bool,
    sleeping: bool,
    put_off: bool,
    ready: bool,
}

/// One moment, by the wall clock and by the monotonic clock. Wake-ups follow the wall clock, which
/// may be set; deferred tasks follow the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) clock: Timestamp,
    pub(crate) at: Instant,
}

#[derive(Debug)]
pub(crate) struct DueIndex {
    made: Instant,
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    by_id: HashTable<u32>,
    hasher: State,
    waiting: BTreeSet<(i64, u32)>,
    put_off: BTreeSet<(i64, u32)>,
    /// Future deadlines, with their tasks. A task counts as commanded from its deadline on.
    late: BTreeSet<(i64, u32)>,
    deadlines: HashMap<u32, i64>,
    ready: Ready,
    kinds: Interned<Class>,
}

fn millis(at: Timestamp) -> i64 {
    // Rounded up, so that a task is never early: a time within a millisecond is due at its end.
    let ms = at.as_millisecond();
    if at.subsec_nanosecond() % 1_000_000 > 0 {
        ms.saturating_add(1)
    } else {
        ms
    }
}

impl Default for DueIndex {
    fn default() -> Self {
        Self {
            made: Instant::now(),
            entries: Vec::new(),
            free: Vec::new(),
            by_id: HashTable::new(),
            hasher: State::default(),
            waiting: BTreeSet::new(),
            put_off: BTreeSet::new(),
            late: BTreeSet::new(),
            deadlines: HashMap::default(),
            ready: Ready::default(),
            kinds: Interned::default(),
        }
    }
}

impl DueIndex {
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Returns how many tasks are due or commanded now.
    pub(crate) fn ready_len(&self) -> usize {
        self.ready.len()
    }

    /// Returns how many tasks are deferred, although they may be due.
    pub(crate) fn put_off_len(&self) -> usize {
        self.put_off.len()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    fn find(&self, id: &TaskId) -> Option<u32> {
        let hash = self.hasher.hash_one(id.as_str());
        let same = |at: &u32| {
            self.entries[*at as usize]
                .as_ref()
                .is_some_and(|e| e.id == *id)
        };
        self.by_id.find(hash, same).copied()
    }

    /// Returns the submit order of a known task.
    pub(crate) fn order(&self, id: &TaskId) -> Option<u64> {
        let entry = self.entries[self.find(id)? as usize].as_ref();
        entry.map(|entry| entry.order)
    }

    /// Records the present view of a task.
    pub(crate) fn upsert(&mut self, view: TaskView, now: Moment) {
        // Only a sleeping task waits for its due time. The due time of any other task is its position
        // among the claimable ones, and may come from a clock that is ahead of this one.
        let wait = match view.due {
            _ if view.commanded => i64::MIN,
            None => NEVER,
            Some(due) if view.sleeping => millis(due),
            Some(_) => i64::MIN,
        };
        self.insert(view, wait, false, now);
    }

    /// Records a task that is deferred until a moment, although it may be due.
    pub(crate) fn put_off(&mut self, view: TaskView, until: Instant, now: Moment) {
        // Until the end of the millisecond, as for a wake-up.
        let wait = self.passed(until).saturating_add(1);
        self.insert(view, wait, true, now);
    }

    /// Returns the milliseconds from when the index was made to a moment.
    fn passed(&self, at: Instant) -> i64 {
        let passed = at.saturating_duration_since(self.made).as_millis();
        i64::try_from(passed).unwrap_or(i64::MAX - 1)
    }

    fn insert(&mut self, view: TaskView, wait: i64, put_off: bool, now: Moment) {
        self.remove(&view.id);
        let deadline = view.deadline.map(millis);
        let kind = self.kinds.intern((view.kind, view.data_version));
        let key = self.ready.fair_share.enter(view.fair_key);
        let entry = Entry {
            due: view.due.map_or(NEVER, millis),
            wait,
            id: view.id,
            labels: view.labels,
            order: view.order,
            kind,
            key,
            priority: view.priority,
            commanded: view.commanded,
            sleeping: view.sleeping,
            put_off,
            ready: false,
        };
        let hash = self.hasher.hash_one(entry.id.as_str());
        let at = match self.free.pop() {
            Some(at) => {
                self.entries[at as usize] = Some(entry);
                at
            }
            None => {
                self.entries.push(Some(entry));
                (self.entries.len() - 1) as u32
            }
        };
        let (entries, hasher) = (&self.entries, &self.hasher);
        self.by_id.insert_unique(hash, at, |at| {
            let id = entries[*at as usize].as_ref().map_or("", |e| e.id.as_str());
            hasher.hash_one(id)
        });
        if let Some(deadline) = deadline {
            self.deadlines.insert(at, deadline);
            self.late.insert((deadline, at));
        }
        self.place(at, now);
    }

    /// Moves a task whose deadline has come to the commanded ones, unless it is deferred.
    fn is_late(&mut self, at: u32, now: Moment) {
        self.unplace(at);
        if let Some(entry) = self.entries[at as usize].as_mut() {
            entry.commanded = true;
            entry.wait = if entry.put_off { entry.wait } else { i64::MIN };
        }
        self.place(at, now);
    }

    /// Removes an entry from the set in which it waits.
    fn unplace(&mut self, at: u32) {
        let Some(entry) = self.entries[at as usize].as_mut() else {
            return;
        };
        if entry.ready {
            entry.ready = false;
            self.ready.remove(entry.task(at));
        } else if entry.put_off {
            self.put_off.remove(&(entry.wait, at));
        } else if entry.wait != NEVER {
            self.waiting.remove(&(entry.wait, at));
        }
    }

    fn place(&mut self, at: u32, now: Moment) {
        let passed = self.passed(now.at);
        let Some(entry) = self.entries[at as usize].as_mut() else {
            return;
        };
        let (reached, waiting) = match entry.put_off {
            true => (passed, &mut self.put_off),
            false => (now.clock.as_millisecond(), &mut self.waiting),
        };
        if entry.wait <= reached {
            entry.ready = true;
            self.ready.insert(entry.task(at));
        } else if entry.wait != NEVER {
            waiting.insert((entry.wait, at));
        }
    }

    /// Removes a task, if it is known.
    pub(crate) fn remove(&mut self, id: &TaskId) -> Option<TaskView> {
        let at = self.find(id)?;
        let view = self.remove_at(at)?;
        if !self.ready.fair_share.is_empty() {
            self.ready.forget_if_idle(view.priority);
        }
        Some(view)
    }

    fn remove_at(&mut self, at: u32) -> Option<TaskView> {
        self.unplace(at);
        let entry = self.entries[at as usize].take()?;
        let deadline = self.deadlines.remove(&at);
        if let Some(deadline) = deadline {
            self.late.remove(&(deadline, at));
        }
        let hash = self.hasher.hash_one(entry.id.as_str());
        if let Ok(found) = self.by_id.find_entry(hash, |other| *other == at) {
            found.remove();
        }
        self.free.push(at);
        let ((kind, data_version), was_last) = self.kinds.release(entry.kind)?;
        if was_last {
            self.ready.forget(entry.kind);
        }
        let due = match entry.due {
            NEVER => None,
            ms => Timestamp::from_millisecond(ms).ok(),
        };
        Some(TaskView {
            id: entry.id,
            kind,
            labels: entry.labels,
            data_version,
            priority: entry.priority,
            order: entry.order,
            due,
            deadline: deadline.and_then(|ms| Timestamp::from_millisecond(ms).ok()),
            sleeping: entry.sleeping,
            claimed_by: None,
            commanded: entry.commanded,
            fair_key: self.ready.fair_share.leave(entry.key),
        })
    }

    /// Moves tasks that have become due to the ready ones, and returns how many.
    pub(crate) fn advance(&mut self, now: Moment) -> usize {
        let clock = now.clock.as_millisecond();
        let passed = self.passed(now.at);
        let mut moved = 0;
        while let Some(at) = pop_due(&mut self.late, clock) {
            self.is_late(at, now);
            moved += 1;
        }
        while let Some(at) =
            pop_due(&mut self.waiting, clock).or_else(|| pop_due(&mut self.put_off, passed))
        {
            self.place(at, now);
            moved += 1;
        }
        moved
    }

    /// Returns the time until the next task becomes due, unless the clock is set.
    pub(crate) fn next_due_in(&self, now: Moment) -> Option<Duration> {
        let sleeper = self
            .waiting
            .first()
            .into_iter()
            .chain(self.late.first())
            .min();
        let sleeper = sleeper.map(|(due, _)| {
            let due = Timestamp::from_millisecond(*due).unwrap_or(Timestamp::MAX);
            Duration::try_from(due.duration_since(now.clock)).unwrap_or(Duration::ZERO)
        });
        let put_off = self.put_off.first().map(|(until, _)| {
            let until = Duration::from_millis(until.unsigned_abs());
            until.saturating_sub(now.at.saturating_duration_since(self.made))
        });
        sleeper.into_iter().chain(put_off).min()
    }

    /// Takes out the first ready task of a kind for which there is room. Calls `room` at most once
    /// for each kind and data version, with whether the first such task was commanded.
    pub(crate) fn take(&mut self, mut room: impl FnMut(&Kind, bool) -> bool) -> Option<TaskView> {
        let kinds = &self.kinds;
        let first = self.ready.next(|kind, commanded| {
            let known = kinds.get(kind);
            known.is_some_and(|(kind, _)| room(kind, commanded))
        });
        self.remove_at(first?)
    }

    /// Returns, for each kind, the due time of the first task that is ready without a command.
    pub(crate) fn oldest_due(&self) -> BTreeMap<Kind, Timestamp> {
        let mut oldest = BTreeMap::new();
        for (kind, due) in self.ready.first_due() {
            let Some((kind, _)) = self.kinds.get(kind) else {
                continue;
            };
            let due = Timestamp::from_millisecond(due).unwrap_or(Timestamp::MAX);
            // A kind has one number for each version of its data.
            let first = oldest.entry(kind.clone()).or_insert(due);
            *first = due.min(*first);
        }
        oldest
    }

    /// Records that this node claims a task that it has taken out: the key of the task has had its
    /// turn.
    pub(crate) fn claims(&mut self, view: &TaskView) {
        if !view.commanded {
            self.ready.claims(view.priority, view.fair_key.as_ref());
        } else if !self.ready.fair_share.is_empty() {
            self.ready.forget_if_idle(view.priority);
        }
    }
}

/// Takes out the first entry whose time has come.
fn pop_due(waiting: &mut BTreeSet<(i64, u32)>, reached: i64) -> Option<u32> {
    let (due, _) = waiting.first()?;
    if *due > reached {
        return None;
    }
    waiting.pop_first().map(|(_, at)| at)
}

impl Entry {
    /// Returns the entry at this position as a ready task.
    fn task(&self, at: u32) -> ready::Task {
        ready::Task {
            kind: self.kind,
            key: self.key,
            commanded: self.commanded,
            priority: self.priority,
            place: (self.due, self.order, at),
        }
    }
}

#[cfg(test)]
mod tests;
