//! [`Limited`]: the slots of limits, and the lines of tasks that wait for one.

use std::collections::HashMap;

use jiff::Timestamp;
use windlass_statemachine::Limit;

use crate::store::rules::limits::{self, Pool, Taken, Used, lines_in_memory::Lines};

/// The limits of a namespace. Empty while no task has one.
#[derive(Default)]
pub(super) struct Limited {
    pub(super) slots: HashMap<Pool, Used>,
    /// The limit of the last start of each pool.
    pub(super) last: HashMap<Pool, Limit>,
    /// The slots that each claimed task holds until its claim ends.
    pub(super) held: HashMap<u64, Vec<(Pool, u32)>>,
    pub(super) lines: Lines,
    /// When the lines were last examined for tasks that no node claims.
    pub(super) looked: Option<Timestamp>,
}

impl Limited {
    pub(super) fn free(&self, limit: &Limit, now: Timestamp) -> limits::Free {
        limits::free(limit, used(&self.slots, &Pool::of(limit)), now)
    }

    pub(super) fn take(&mut self, order: u64, of: &[Limit], slots: Vec<u32>, now: Timestamp) {
        for (limit, slot) in of.iter().zip(slots) {
            let pool = Pool::of(limit);
            let taken = match pool.within {
                Some(_) => Taken::Began(now),
                None => Taken::Held,
            };
            let used = self.slots.entry(pool.clone()).or_default();
            used.insert(slot, taken);
            if taken == Taken::Held {
                self.held.entry(order).or_default().push((pool, slot));
            } else {
                self.last.insert(pool, limit.clone());
            }
        }
    }

    /// Frees the slots that a claimed task holds, and returns their pools.
    pub(super) fn free_slots_of(&mut self, order: u64) -> Vec<Pool> {
        let mut pools = Vec::new();
        for (pool, slot) in self.held.remove(&order).unwrap_or_default() {
            if let Some(used) = self.slots.get_mut(&pool) {
                used.remove(&slot);
                if used.is_empty() {
                    self.slots.remove(&pool);
                }
            }
            pools.push(pool);
        }
        pools
    }
}

/// Returns the slots of a pool that are in use or were once used.
pub(super) fn used(slots: &HashMap<Pool, Used>, pool: &Pool) -> Vec<(u32, Taken)> {
    let used = slots.get(pool).into_iter().flatten();
    used.map(|(slot, taken)| (*slot, *taken)).collect()
}
