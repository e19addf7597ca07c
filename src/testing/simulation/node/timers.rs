//! The timers of a [`Node`]: wake-ups follow the virtual time, graces and pauses the time that passes for the test.

use std::time::Duration;

use super::{Node, Slot, SlotId};
use crate::testing::simulation::world::World;

impl Node {
    /// Returns the time until the next wake-up; `None` when there is none.
    pub(in crate::testing::simulation) fn next_in(&self, world: &World) -> Option<Duration> {
        let now = world.moment();
        let wakes = self.slots.values().filter_map(|slot| slot.wake);
        let wakes = wakes
            .map(|at| Duration::try_from(at.duration_since(now.clock)).unwrap_or(Duration::ZERO));
        wakes.chain(self.due.next_due_in(now)).min()
    }

    pub(super) fn due_wakes(&self, world: &World) -> Vec<SlotId> {
        let (now, passed) = (world.moment().clock, self.started.elapsed());
        let is_due = |slot: &Slot| {
            slot.wake.is_some_and(|at| at <= now) || slot.resume.is_some_and(|at| at <= passed)
        };
        let due = self.slots.iter().filter(|(_, slot)| is_due(slot));
        due.map(|(id, _)| *id).collect()
    }

    pub(super) fn due_graces(&self) -> Vec<SlotId> {
        let passed = self.started.elapsed();
        let due = self.slots.iter();
        let due = due.filter(|(_, slot)| slot.grace.is_some_and(|at| at <= passed));
        due.map(|(id, _)| *id).collect()
    }
}
