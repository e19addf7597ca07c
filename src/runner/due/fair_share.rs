//! [`FairShare`]: the keys of limits take turns among the ready tasks of one priority.
//!
//! Each key has a virtual time, which grows by one turn with each claim of a task of the key on this node. The
//! key with the lowest time is next. Tasks without a key share one time. A key that had no ready task joins at
//! the present virtual time, so that it earns no credit while it is idle.

use std::{collections::BTreeSet, sync::Arc};

use super::interned::Interned;
use crate::hash::HashMap;

/// A key as a small number.
pub(super) type KeyId = u32;

/// The number of tasks without a key.
pub(super) const NO_KEY: KeyId = KeyId::MAX;

/// One turn, in virtual time.
const TURN: u64 = 1 << 20;

/// The virtual times of all keys. Empty while no task with a key is ready.
#[derive(Debug, Default)]
pub(super) struct FairShare {
    names: Interned<Arc<str>>,
    rounds: HashMap<i32, Round>,
}

/// The keys of one priority.
#[derive(Debug, Default)]
struct Round {
    /// The present virtual time: it grows by about one turn when each key with ready tasks has had
    /// one.
    now: u64,
    /// The time of the tasks without a key.
    plain: u64,
    /// The keys with ready tasks, and the idle keys.
    keys: HashMap<KeyId, Key>,
    /// The keys without ready tasks whose time is in the future. Each counts as a use of its
    /// number.
    idle: BTreeSet<(u64, KeyId)>,
}

#[derive(Debug)]
struct Key {
    time: u64,
    /// The number of its ready tasks.
    ready: u32,
}

/// A key with ready tasks whose time has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moved {
    pub(super) key: KeyId,
    pub(super) from: u64,
    pub(super) to: u64,
}

impl Round {
    fn ready(&self) -> usize {
        self.keys.len() - self.idle.len()
    }

    /// Records a turn that began at a virtual time. Returns the end of the turn.
    fn turn(&mut self, at: u64) -> u64 {
        // All tasks without a key count as one key that is always ready.
        let ready = self.ready() as u64 + 1;
        let step = (TURN / ready).max(1);
        self.now = at.max(self.now.saturating_add(step));
        // A key that had no turn for a long time, because its kind had no room, does not get all turns
        // now.
        at.saturating_add(TURN).max(self.now)
    }
}

impl FairShare {
    pub(super) fn is_empty(&self) -> bool {
        self.rounds.is_empty()
    }

    /// Returns the number of a key, and counts one more task.
    pub(super) fn enter(&mut self, key: Option<Arc<str>>) -> KeyId {
        key.map_or(NO_KEY, |key| self.names.intern(key))
    }

    /// Returns the key of a number, and counts one task less.
    pub(super) fn leave(&mut self, key: KeyId) -> Option<Arc<str>> {
        if key == NO_KEY {
            return None;
        }
        self.names.release(key).map(|(key, _)| key)
    }

    /// Counts a ready task of a key, and returns the time of the key.
    pub(super) fn joins(&mut self, priority: i32, id: KeyId) -> u64 {
        let round = self.rounds.entry(priority).or_default();
        let now = round.now;
        let key = round.keys.entry(id).or_insert(Key {
            time: now,
            ready: 0,
        });
        if key.ready == 0 {
            if round.idle.remove(&(key.time, id)) {
                self.names.release(id);
            }
            key.time = key.time.max(now);
        }
        key.ready += 1;
        key.time
    }

    /// Removes a ready task of a key from the count.
    pub(super) fn leaves(&mut self, priority: i32, id: KeyId) {
        let Some(round) = self.rounds.get_mut(&priority) else {
            return;
        };
        let Some(key) = round.keys.get_mut(&id) else {
            return;
        };
        key.ready = key.ready.saturating_sub(1);
        if key.ready > 0 {
            return;
        }
        if key.time > round.now {
            round.idle.insert((key.time, id));
            self.names.use_again(id);
        } else {
            round.keys.remove(&id);
        }
        self.end_if_over(priority);
    }

    /// Returns the time of a key that has ready tasks.
    pub(super) fn time(&self, priority: i32, key: KeyId) -> u64 {
        let round = self.rounds.get(&priority);
        let key = round.and_then(|round| round.keys.get(&key));
        key.map_or(0, |key| key.time)
    }

    /// Returns the time of the tasks without a key.
    pub(super) fn plain(&self, priority: i32) -> u64 {
        let round = self.rounds.get(&priority);
        round.map_or(0, |round| round.plain.max(round.now))
    }

    /// Returns whether a task with a key is ready.
    pub(super) fn has_ready(&self, priority: i32) -> bool {
        let round = self.rounds.get(&priority);
        round.is_some_and(|round| round.ready() > 0)
    }

    /// Records the claim of a task that is no longer among the ready ones: its key has had a turn.
    pub(super) fn claims(&mut self, priority: i32, key: Option<&Arc<str>>) -> Option<Moved> {
        let Some(key) = key else {
            let round = self.rounds.get_mut(&priority)?;
            let at = round.plain.max(round.now);
            round.plain = round.turn(at);
            self.prune(priority);
            return None;
        };
        let round = self.rounds.entry(priority).or_default();
        let id = self.names.intern(key.clone());
        let known = round.keys.get(&id).map(|key| (key.time, key.ready));
        let moved = match known {
            Some((from, ready)) if ready > 0 => {
                let to = round.turn(from);
                round.keys.insert(id, Key { time: to, ready });
                self.names.release(id);
                Some(Moved { key: id, from, to })
            }
            idle => {
                if let Some((time, _)) = idle
                    && round.idle.remove(&(time, id))
                {
                    self.names.release(id);
                }
                let at = idle.map_or(0, |(time, _)| time).max(round.now);
                // During its turn the key counts as ready.
                round.keys.insert(id, Key { time: at, ready: 0 });
                let time = round.turn(at);
                round.keys.insert(id, Key { time, ready: 0 });
                round.idle.insert((time, id));
                None
            }
        };
        self.prune(priority);
        moved
    }

    /// Drops the idle keys whose time has come.
    fn prune(&mut self, priority: i32) {
        let Some(round) = self.rounds.get_mut(&priority) else {
            return;
        };
        while let Some(&(time, id)) = round.idle.first()
            && time <= round.now
        {
            round.idle.pop_first();
            round.keys.remove(&id);
            self.names.release(id);
        }
        self.end_if_over(priority);
    }

    fn end_if_over(&mut self, priority: i32) {
        if (self.rounds.get(&priority)).is_some_and(|round| round.keys.is_empty()) {
            self.rounds.remove(&priority);
        }
    }

    /// Drops a priority without ready tasks.
    pub(super) fn forget(&mut self, priority: i32) {
        let round = self.rounds.remove(&priority);
        for (_, id) in round.into_iter().flat_map(|round| round.idle) {
            self.names.release(id);
        }
    }

    /// Returns the number of keys.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }
}
