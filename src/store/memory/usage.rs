//! The limits that tasks use at present, for operators.

use super::world::World;
use crate::store::{LimitUse, rules::limits::usage::Usage};

impl World {
    /// Returns the limits with a slot in use or a task in their line.
    pub(super) fn limits_in_use(&self) -> Vec<LimitUse> {
        let mut usage = Usage::default();
        for (pool, used) in &self.limited.slots {
            for (slot, taken) in used {
                usage.slot(pool.clone(), *slot, *taken);
            }
            let last = self.limited.last.get(pool);
            last.into_iter().for_each(|limit| usage.limit(limit));
        }
        for order in self.limited.held.keys() {
            let row = self.by_order.get(order).and_then(|id| self.tasks.get(id));
            let limits = row.into_iter().flat_map(|row| &row.task.limits);
            limits.for_each(|limit| usage.limit(limit));
        }
        for limit in self.limited.lines.limits() {
            usage.waiting(limit, 1);
        }
        usage.list(self.now)
    }
}
