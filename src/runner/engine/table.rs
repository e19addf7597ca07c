//! [`SlotTable`]: the claimed tasks of this node, by slot and by id.

use windlass_statemachine::TaskId;

use super::slot::{Run, Slot};
use crate::hash::HashMap;
use crate::runner::input::SlotId;

/// The slots of a node, and how many of their handlers run.
#[derive(Default)]
pub(super) struct SlotTable {
    slots: HashMap<SlotId, Slot>,
    by_task: HashMap<TaskId, SlotId>,
    next_slot: SlotId,
    next_run: u64,
    running: u32,
}

impl SlotTable {
    /// Returns a slot number that is not in the table, and is never reused.
    pub(super) fn reserve(&mut self) -> SlotId {
        let id = self.next_slot;
        self.next_slot += 1;
        id
    }

    pub(super) fn insert(&mut self, slot: Slot) -> SlotId {
        let id = self.reserve();
        self.by_task.insert(slot.task.id.clone(), id);
        self.slots.insert(id, slot);
        id
    }

    pub(super) fn remove(&mut self, id: SlotId) -> Option<Slot> {
        let slot = self.slots.remove(&id)?;
        self.by_task.remove(&slot.task.id);
        self.running -= u32::from(slot.run.is_some());
        Some(slot)
    }

    pub(super) fn get(&self, id: SlotId) -> Option<&Slot> {
        self.slots.get(&id)
    }

    /// Returns the slot, to change everything but its run. A run begins and ends by
    /// [`begin_run`](Self::begin_run) and [`end_run`](Self::end_run).
    pub(super) fn get_mut(&mut self, id: SlotId) -> Option<&mut Slot> {
        self.slots.get_mut(&id)
    }

    /// Returns the slot of a task.
    pub(super) fn of(&self, task: &TaskId) -> Option<SlotId> {
        self.by_task.get(task).copied()
    }

    pub(super) fn ids(&self) -> Vec<SlotId> {
        self.slots.keys().copied().collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.slots.values()
    }

    /// Returns the slots whose handlers have returned, and whose release is being stored.
    pub(super) fn unstored(&self) -> impl Iterator<Item = &Slot> {
        let ends = |slot: &&Slot| slot.run.is_none() && slot.machine.is_ending();
        self.slots.values().filter(ends)
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns how many handlers run.
    pub(super) fn running(&self) -> u32 {
        self.running
    }

    /// Returns the number of the next run.
    pub(super) fn next_run(&mut self) -> u64 {
        let number = self.next_run;
        self.next_run += 1;
        number
    }

    /// Sets the run of a slot that has none.
    pub(super) fn begin_run(&mut self, id: SlotId, run: Run) {
        if let Some(slot) = self.slots.get_mut(&id)
            && slot.run.replace(run).is_none()
        {
            self.running += 1;
        }
    }

    /// Takes out the run of a slot: the one with this number, or any.
    pub(super) fn end_run(&mut self, id: SlotId, number: Option<u64>) -> Option<Run> {
        let run = &mut self.slots.get_mut(&id)?.run;
        let ends = |run: &mut Run| number.is_none_or(|number| run.number == number);
        let run = run.take_if(ends)?;
        self.running -= 1;
        Some(run)
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
