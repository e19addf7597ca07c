//! [`DueIndex`]: every unclaimed task that this node could take, and when.
//!
//! A parked task is one entry here: no claim, no async task, no timer, no watch. `benches/` checks that
//! it takes at most 256 bytes.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap},
    hash::BuildHasher,
    sync::Arc,
    time::Duration,
};

use hashbrown::{DefaultHashBuilder, HashTable};
use jiff::Timestamp;
use tokio::time::Instant;
use windlass_statemachine::{Kind, TaskId, task::Labels};

use crate::store::TaskView;

/// A kind and a data version of it, as a small number.
type KindId = u32;

/// What the tasks of one number have in common.
type Class = (Kind, u32);

/// When a paused task is due.
const NEVER: i64 = i64::MAX;

#[derive(Debug)]
struct Entry {
    id: TaskId,
    due: i64,
    /// When it is ready: in milliseconds of the clock, or, for one that is put off, of the time that
    /// has passed since the index was made.
    wait: i64,
    labels: Option<Arc<Labels>>,
    order: u64,
    kind: KindId,
    priority: i32,
    commanded: bool,
    sleeping: bool,
    put_off: bool,
    ready: bool,
}

/// One moment, by the clock and by the time that passes. Wake-ups follow the clock, which may be set;
/// tasks that are put off follow the time that passes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) clock: Timestamp,
    pub(crate) at: Instant,
}

/// The order in which tasks are claimed: commanded ones first (they are quick), then by priority,
/// due time and submit order.
type Rank = (Reverse<bool>, Reverse<i32>, i64, u64, u32);

#[derive(Debug)]
pub(crate) struct DueIndex {
    made: Instant,
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    by_id: HashTable<u32>,
    hasher: DefaultHashBuilder,
    waiting: BTreeSet<(i64, u32)>,
    put_off: BTreeSet<(i64, u32)>,
    ready: HashMap<KindId, BTreeSet<Rank>>,
    kinds: HashMap<Class, KindId>,
    /// Each kind and data version, and how many tasks are of them.
    kind_list: Vec<Option<(Class, u32)>>,
    free_kinds: Vec<KindId>,
}

fn millis(at: Timestamp) -> i64 {
    // A task is never early: what is due within a millisecond is due at its end.
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
            hasher: DefaultHashBuilder::default(),
            waiting: BTreeSet::new(),
            put_off: BTreeSet::new(),
            ready: HashMap::new(),
            kinds: HashMap::new(),
            kind_list: Vec::new(),
            free_kinds: Vec::new(),
        }
    }
}

impl DueIndex {
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Returns how many tasks are due or commanded now.
    pub(crate) fn ready_len(&self) -> usize {
        self.ready.values().map(BTreeSet::len).sum()
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

    /// The submit order of a task that is known.
    pub(crate) fn order(&self, id: &TaskId) -> Option<u64> {
        let entry = self.entries[self.find(id)? as usize].as_ref();
        entry.map(|entry| entry.order)
    }

    /// The number of a kind, for one task more of it.
    fn intern(&mut self, kind: Class) -> KindId {
        if let Some(&known) = self.kinds.get(&kind) {
            if let Some(Some((_, tasks))) = self.kind_list.get_mut(known as usize) {
                *tasks += 1;
            }
            return known;
        }
        let entry = Some((kind.clone(), 1));
        let id = match self.free_kinds.pop() {
            Some(id) => {
                self.kind_list[id as usize] = entry;
                id
            }
            None => {
                self.kind_list.push(entry);
                (self.kind_list.len() - 1) as KindId
            }
        };
        self.kinds.insert(kind, id);
        id
    }

    /// Gives up the number of a kind for one task of it; forgets the kind with the last.
    fn release(&mut self, id: KindId) -> Option<Class> {
        let slot = self.kind_list.get_mut(id as usize)?;
        let (kind, tasks) = slot.as_mut()?;
        *tasks -= 1;
        if *tasks > 0 {
            return Some(kind.clone());
        }
        let (kind, _) = slot.take()?;
        self.kinds.remove(&kind);
        self.ready.remove(&id);
        self.free_kinds.push(id);
        Some(kind)
    }

    /// Records a task as it is now.
    pub(crate) fn upsert(&mut self, view: TaskView, now: Moment) {
        // Only a sleeper waits for its due time. The due time of any other task is its place among the
        // claimable ones, and may come from a clock that is ahead of this one.
        let wait = match view.due {
            _ if view.commanded => i64::MIN,
            None => NEVER,
            Some(due) if view.sleeping => millis(due),
            Some(_) => i64::MIN,
        };
        self.insert(view, wait, false, now);
    }

    /// Records a task that is deferred until a moment, though it may be due.
    pub(crate) fn put_off(&mut self, view: TaskView, until: Instant, now: Moment) {
        // Up to the end of the millisecond, as for a wake-up.
        let wait = self.passed(until).saturating_add(1);
        self.insert(view, wait, true, now);
    }

    /// Milliseconds from when the index was made to a moment.
    fn passed(&self, at: Instant) -> i64 {
        let passed = at.saturating_duration_since(self.made).as_millis();
        i64::try_from(passed).unwrap_or(i64::MAX - 1)
    }

    fn insert(&mut self, view: TaskView, wait: i64, put_off: bool, now: Moment) {
        self.remove(&view.id);
        let kind = self.intern((view.kind, view.data_version));
        let entry = Entry {
            due: view.due.map_or(NEVER, millis),
            wait,
            id: view.id,
            labels: view.labels,
            order: view.order,
            kind,
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
        self.place(at, now);
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
            let rank = rank(entry, at);
            self.ready.entry(entry.kind).or_default().insert(rank);
        } else if entry.wait != NEVER {
            waiting.insert((entry.wait, at));
        }
    }

    /// Forgets a task, if it is known.
    pub(crate) fn remove(&mut self, id: &TaskId) -> Option<TaskView> {
        let at = self.find(id)?;
        self.remove_at(at)
    }

    fn remove_at(&mut self, at: u32) -> Option<TaskView> {
        let entry = self.entries[at as usize].take()?;
        let hash = self.hasher.hash_one(entry.id.as_str());
        if let Ok(found) = self.by_id.find_entry(hash, |other| *other == at) {
            found.remove();
        }
        if entry.ready {
            if let Some(set) = self.ready.get_mut(&entry.kind) {
                set.remove(&rank(&entry, at));
            }
        } else if entry.put_off {
            self.put_off.remove(&(entry.wait, at));
        } else if entry.wait != NEVER {
            self.waiting.remove(&(entry.wait, at));
        }
        self.free.push(at);
        let (kind, data_version) = self.release(entry.kind)?;
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
            sleeping: entry.sleeping,
            claimed_by: None,
            commanded: entry.commanded,
        })
    }

    /// Moves tasks that have become due to the ready ones, and returns how many.
    pub(crate) fn advance(&mut self, now: Moment) -> usize {
        let clock = now.clock.as_millisecond();
        let passed = self.passed(now.at);
        let mut moved = 0;
        while let Some(at) =
            pop_due(&mut self.waiting, clock).or_else(|| pop_due(&mut self.put_off, passed))
        {
            self.place(at, now);
            moved += 1;
        }
        moved
    }

    /// How long it is until the next task becomes due, unless the clock is set.
    pub(crate) fn next_due_in(&self, now: Moment) -> Option<Duration> {
        let sleeper = self.waiting.first().map(|(due, _)| {
            let due = Timestamp::from_millisecond(*due).unwrap_or(Timestamp::MAX);
            Duration::try_from(due.duration_since(now.clock)).unwrap_or(Duration::ZERO)
        });
        let put_off = self.put_off.first().map(|(until, _)| {
            let until = Duration::from_millis(until.unsigned_abs());
            until.saturating_sub(now.at.saturating_duration_since(self.made))
        });
        sleeper.into_iter().chain(put_off).min()
    }

    /// Takes out the first ready task of a kind that there is room for. `room` is asked at most once
    /// for each kind and data version, with whether the first such task was commanded.
    pub(crate) fn take(&mut self, mut room: impl FnMut(&Kind, bool) -> bool) -> Option<TaskView> {
        let mut best: Option<Rank> = None;
        for (kind, set) in &self.ready {
            if let Some(first) = set.first()
                && best.is_none_or(|best| *first < best)
                && let Some(Some(((kind, _), _))) = self.kind_list.get(*kind as usize)
                && room(kind, first.0.0)
            {
                best = Some(*first);
            }
        }
        best.and_then(|rank| self.remove_at(rank.4))
    }
}

/// Takes out the first entry whose time is reached.
fn pop_due(waiting: &mut BTreeSet<(i64, u32)>, reached: i64) -> Option<u32> {
    let (due, _) = waiting.first()?;
    if *due > reached {
        return None;
    }
    waiting.pop_first().map(|(_, at)| at)
}

fn rank(entry: &Entry, at: u32) -> Rank {
    (
        Reverse(entry.commanded),
        Reverse(entry.priority),
        entry.due,
        entry.order,
        at,
    )
}

#[cfg(test)]
mod tests;
