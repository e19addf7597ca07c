//! [`Entries`]: the mirror's entries of tasks. A node keeps one for every task, so values that many tasks share are
//! stored once, and values that few tasks have are stored separately.

use std::{
    collections::{HashMap, hash_map},
    hash::BuildHasher,
    sync::Arc,
};

use hashbrown::HashTable;
use jiff::Timestamp;
use windlass_statemachine::{Kind, TaskId, task::Labels};

use crate::hash::State;

/// Whether a task waits, and for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    None,
    /// The task does not wait, and can be claimed since this time.
    Ready(Timestamp),
    Until(Timestamp),
    Paused,
    Quarantined,
}

/// The next deadline of a task, according to its keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Late {
    /// The deadline while the task is as submitted.
    pub(crate) submitted: Option<Timestamp>,
    /// The deadline while the task is parked.
    pub(crate) parked: Option<Timestamp>,
}

/// The owner of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owned {
    pub(crate) lease: u64,
    /// Whether it is a node of Metafora, which ignores marks.
    pub(crate) foreign: bool,
}

/// A task, according to its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    pub(crate) labels: Option<Arc<Labels>>,
    pub(crate) data_version: u32,
    pub(crate) priority: i32,
    pub(crate) order: u64,
    pub(crate) submitted_at: Timestamp,
    pub(crate) owner: Option<Owned>,
    pub(crate) mark: Mark,
    pub(crate) late: Late,
    /// The revision that last wrote the mark.
    pub(crate) marked: i64,
}

/// The values that many tasks share.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Class {
    kind: Kind,
    labels: Option<Arc<Labels>>,
    data_version: u32,
    priority: i32,
}

/// A stored entry. Times are in microseconds.
struct Packed {
    id: TaskId,
    order: u64,
    submitted_at: i64,
    /// The time of the mark.
    time: i64,
    marked: i64,
    class: u32,
    mark: Packing,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Packing {
    None,
    Ready,
    Until,
    Paused,
    Quarantined,
}

/// Rounded up, so that nothing is due too early.
fn micros(at: Timestamp) -> i64 {
    let rest = at.subsec_nanosecond().rem_euclid(1000);
    at.as_microsecond()
        .saturating_add(i64::from(rest > 0 && at.as_nanosecond() > 0))
}

fn timestamp(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(micros).unwrap_or(Timestamp::MAX)
}

/// The tasks, by id.
#[derive(Default)]
pub(crate) struct Entries {
    slots: Vec<Option<Packed>>,
    free: Vec<u32>,
    by_id: HashTable<u32>,
    hasher: State,
    owned: HashMap<TaskId, Owned>,
    /// The deadlines of tasks that have some.
    late: HashMap<TaskId, Late>,
    /// Each class, and the number of its tasks.
    classes: Vec<Option<(Class, u32)>>,
    free_classes: Vec<u32>,
    by_class: HashMap<Class, u32>,
}

impl Entries {
    fn find(&self, id: &TaskId) -> Option<u32> {
        let hash = self.hasher.hash_one(id.as_str());
        let same = |at: &u32| {
            let slot = self.slots[*at as usize].as_ref();
            slot.is_some_and(|packed| packed.id == *id)
        };
        self.by_id.find(hash, same).copied()
    }

    fn class(&mut self, class: Class) -> u32 {
        match self.by_class.entry(class) {
            hash_map::Entry::Occupied(known) => {
                let at = *known.get();
                if let Some((_, count)) = &mut self.classes[at as usize] {
                    *count += 1;
                }
                at
            }
            hash_map::Entry::Vacant(new) => {
                let kept = Some((new.key().clone(), 1));
                let at = match self.free_classes.pop() {
                    Some(at) => {
                        self.classes[at as usize] = kept;
                        at
                    }
                    None => {
                        self.classes.push(kept);
                        (self.classes.len() - 1) as u32
                    }
                };
                *new.insert(at)
            }
        }
    }

    fn leave_class(&mut self, at: u32) {
        let Some((class, count)) = &mut self.classes[at as usize] else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            self.by_class.remove(class);
            self.classes[at as usize] = None;
            self.free_classes.push(at);
        }
    }

    fn unpack(&self, packed: &Packed) -> Option<Entry> {
        let (class, _) = self.classes[packed.class as usize].as_ref()?;
        Some(Entry {
            kind: class.kind.clone(),
            labels: class.labels.clone(),
            data_version: class.data_version,
            priority: class.priority,
            order: packed.order,
            submitted_at: timestamp(packed.submitted_at),
            owner: self.owned.get(&packed.id).copied(),
            mark: match packed.mark {
                Packing::None => Mark::None,
                Packing::Ready => Mark::Ready(timestamp(packed.time)),
                Packing::Until => Mark::Until(timestamp(packed.time)),
                Packing::Paused => Mark::Paused,
                Packing::Quarantined => Mark::Quarantined,
            },
            late: self.late.get(&packed.id).copied().unwrap_or_default(),
            marked: packed.marked,
        })
    }

    pub(crate) fn contains(&self, id: &TaskId) -> bool {
        self.find(id).is_some()
    }

    pub(crate) fn get(&self, id: &TaskId) -> Option<Entry> {
        self.unpack(self.slots[self.find(id)? as usize].as_ref()?)
    }

    /// Returns whether any task has a mark.
    pub(crate) fn has_marks(&self) -> bool {
        let mut kept = self.slots.iter().flatten();
        kept.any(|packed| !matches!(packed.mark, Packing::None))
    }

    /// Puts or replaces an entry.
    pub(crate) fn put(&mut self, id: &TaskId, entry: Entry) {
        match entry.owner {
            Some(owned) => self.owned.insert(id.clone(), owned),
            None => self.owned.remove(id),
        };
        match entry.late {
            late if late == Late::default() => self.late.remove(id),
            late => self.late.insert(id.clone(), late),
        };
        let (mark, time) = match entry.mark {
            Mark::None => (Packing::None, 0),
            Mark::Ready(at) => (Packing::Ready, micros(at)),
            Mark::Until(at) => (Packing::Until, micros(at)),
            Mark::Paused => (Packing::Paused, 0),
            Mark::Quarantined => (Packing::Quarantined, 0),
        };
        let class = self.class(Class {
            kind: entry.kind,
            labels: entry.labels,
            data_version: entry.data_version,
            priority: entry.priority,
        });
        let known = self.find(id);
        let before = known.and_then(|at| self.slots[at as usize].take());
        if let Some(before) = &before {
            self.leave_class(before.class);
        }
        let packed = Packed {
            // The id that other maps share.
            id: before.map_or_else(|| id.clone(), |before| before.id),
            order: entry.order,
            submitted_at: micros(entry.submitted_at),
            time,
            marked: entry.marked,
            class,
            mark,
        };
        if let Some(at) = known {
            self.slots[at as usize] = Some(packed);
            return;
        }
        let at = match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = Some(packed);
                at
            }
            None => {
                self.slots.push(Some(packed));
                (self.slots.len() - 1) as u32
            }
        };
        let hash = self.hasher.hash_one(id.as_str());
        let (slots, hasher) = (&self.slots, &self.hasher);
        self.by_id.insert_unique(hash, at, |at| {
            let slot = slots[*at as usize].as_ref();
            slot.map_or(0, |packed| hasher.hash_one(packed.id.as_str()))
        });
    }

    pub(crate) fn remove(&mut self, id: &TaskId) -> Option<Entry> {
        let at = self.find(id)?;
        let entry = self.get(id);
        let hash = self.hasher.hash_one(id.as_str());
        if let Ok(found) = self.by_id.find_entry(hash, |known| *known == at) {
            found.remove();
        }
        if let Some(packed) = self.slots[at as usize].take() {
            self.leave_class(packed.class);
            self.free.push(at);
        }
        self.owned.remove(id);
        self.late.remove(id);
        entry
    }

    /// Returns every task except the quarantined ones, with its submit order.
    pub(crate) fn listed(&self) -> impl Iterator<Item = (u64, &TaskId)> {
        let kept = self.slots.iter().flatten();
        let listed = kept.filter(|packed| packed.mark != Packing::Quarantined);
        listed.map(|packed| (packed.order, &packed.id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: &str, priority: i32, mark: Mark) -> Entry {
        Entry {
            kind: kind.parse().unwrap_or_else(|e| panic!("{e}")),
            labels: None,
            data_version: 1,
            priority,
            order: 7,
            submitted_at: timestamp(1_700_000_000_000_001),
            owner: None,
            mark,
            late: Late::default(),
            marked: 3,
        }
    }

    #[test]
    fn what_is_put_is_got_until_it_is_removed() {
        let mut entries = Entries::default();
        let ids: Vec<TaskId> = (0..100)
            .map(|n| format!("t{n}").parse().unwrap_or_else(|e| panic!("{e}")))
            .collect();
        let owner = Some(Owned {
            lease: 9,
            foreign: true,
        });
        let until = Mark::Until(timestamp(5));
        for (n, id) in ids.iter().enumerate() {
            entries.put(id, entry("a", n as i32 % 3, Mark::None));
            let (kind, priority) = (["b", "c"][n % 2], n as i32 % 5);
            let changed = Entry {
                owner: owner.filter(|_| n % 4 == 0),
                data_version: 1 + (n as u32 / 10) % 2,
                late: Late {
                    submitted: (n % 5 == 0).then(|| timestamp(n as i64)),
                    parked: None,
                },
                ..entry(
                    kind,
                    priority,
                    if n % 3 == 0 { Mark::Quarantined } else { until },
                )
            };
            entries.put(id, changed.clone());
            assert_eq!(entries.get(id), Some(changed));
        }
        assert_eq!(entries.classes.iter().flatten().count(), 20);
        assert_eq!(entries.listed().count(), 66);
        for id in &ids[10..] {
            assert!(entries.remove(id).is_some());
            assert_eq!(entries.remove(id), None);
        }
        assert_eq!(
            (entries.get(&ids[9]).is_some(), entries.get(&ids[10])),
            (true, None)
        );
        for id in &ids[10..] {
            entries.put(id, entry("a", 0, Mark::Paused));
        }
        assert_eq!(entries.slots.len(), 100, "places are used again");
        for id in &ids {
            entries.remove(id);
        }
        assert!(entries.by_class.is_empty() && entries.owned.is_empty() && entries.late.is_empty());
    }

    #[test]
    fn nothing_is_due_too_early() {
        let at: Timestamp = "2030-01-01T00:00:00.000000001Z"
            .parse()
            .unwrap_or(Timestamp::MIN);
        assert!(timestamp(micros(at)) >= at);
        assert_eq!(timestamp(micros(Timestamp::MAX)), Timestamp::MAX);
    }

    #[test]
    fn an_entry_at_rest_is_small() {
        assert!(size_of::<Option<Packed>>() <= 56);
    }
}
