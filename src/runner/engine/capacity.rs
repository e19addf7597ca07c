//! [`Capacity`]: how many tasks this node takes, in total and of each kind.

use std::collections::{BTreeMap, BTreeSet};

use windlass_statemachine::Kind;

use crate::hash::HashMap;
use crate::telemetry::SlotsOfKind;

/// How many commanded tasks are claimed beyond the slots: a kill need not wait for a slot.
const COMMANDED_EXTRA: u32 = 64;

/// The slots of a node and of its kinds, and how many are in use by tasks that run, are being stored,
/// or are being claimed.
#[derive(Debug)]
pub(super) struct Capacity {
    slots: u32,
    /// The kinds with their own handler, and the slots of each.
    of_kind: HashMap<Kind, u32>,
    /// The kinds whose tasks do not count against the slots of the node.
    apart: Vec<Kind>,
    /// The slots of every other kind.
    of_others: u32,
    active: u32,
    active_of: HashMap<Kind, u32>,
}

impl Capacity {
    /// Returns the capacity of a node. `of_kind` are the limits of kinds with their own handler,
    /// `of_others` is that of the default handler. `None` means only the limit of the node.
    pub(super) fn new(
        slots: u32,
        of_kind: impl Iterator<Item = (Kind, Option<u32>)>,
        of_others: Option<u32>,
    ) -> Self {
        let limit = |slots: Option<u32>| slots.unwrap_or(u32::MAX);
        Self {
            slots,
            of_kind: of_kind.map(|(kind, slots)| (kind, limit(slots))).collect(),
            of_others: limit(of_others),
            apart: Vec::new(),
            active: 0,
            active_of: HashMap::default(),
        }
    }

    /// Exempts the tasks of these kinds from the slots of the node.
    pub(super) fn with_apart(mut self, kinds: impl Iterator<Item = Kind>) -> Self {
        self.apart = kinds.collect();
        self
    }

    /// Sets the slots of the node. Slots in use stay in use.
    pub(super) fn set_slots(&mut self, slots: u32) {
        self.slots = slots;
    }

    /// Sets the slots of a kind; `None` means only the limit of the node.
    pub(super) fn set_slots_of(&mut self, kind: Kind, slots: Option<u32>) {
        self.of_kind.insert(kind, slots.unwrap_or(u32::MAX));
    }

    /// Removes the limit of a kind whose handler was removed.
    pub(super) fn forget_kind(&mut self, kind: &Kind) {
        self.of_kind.remove(kind);
    }

    /// Returns the slots of the node.
    pub(super) fn slots(&self) -> u32 {
        self.slots
    }

    /// Returns the slots of each kind with a limit, except the exempt kinds.
    pub(super) fn slots_of(&self) -> BTreeMap<Kind, u32> {
        let limited = self.of_kind.iter().filter(|(_, slots)| **slots < u32::MAX);
        let counted = limited.filter(|(kind, _)| !self.apart.contains(kind));
        counted
            .map(|(kind, slots)| (kind.clone(), *slots))
            .collect()
    }

    /// Returns how many slots are in use.
    pub(super) fn active(&self) -> u32 {
        self.active
    }

    /// Returns whether one more task of this kind fits.
    pub(super) fn has_room(&self, kind: &Kind) -> bool {
        !self.exceeds(kind, 1)
    }

    /// Returns whether a task with a command is claimed even if every slot is in use.
    pub(super) fn has_room_for_command(&self) -> bool {
        self.active < self.slots.saturating_add(COMMANDED_EXTRA)
    }

    /// Returns whether `more` tasks of this kind would exceed a limit.
    pub(super) fn exceeds(&self, kind: &Kind, more: u32) -> bool {
        let of_kind = self.active_of.get(kind).copied().unwrap_or(0);
        let limit = self.of_kind.get(kind).copied().unwrap_or(self.of_others);
        let is_full = self.active + more > self.slots && !self.apart.contains(kind);
        is_full || of_kind.saturating_add(more) > limit
    }

    /// Returns the kinds whose own slots are all in use.
    pub(super) fn full(&self) -> impl Iterator<Item = &Kind> + Clone {
        let used = |kind: &Kind| self.active_of.get(kind).copied().unwrap_or(0);
        let full = self.of_kind.iter();
        let full = full.filter(move |(kind, slots)| used(kind) >= **slots);
        full.map(|(kind, _)| kind)
    }

    /// Returns the slots of each kind with its own handler or an active task, except the exempt kinds.
    pub(super) fn usage(&self) -> impl Iterator<Item = SlotsOfKind> {
        let kinds: BTreeSet<&Kind> = self.of_kind.keys().chain(self.active_of.keys()).collect();
        let counted = kinds.into_iter().filter(|kind| !self.apart.contains(kind));
        counted.map(|kind| {
            let used = self.active_of.get(kind).copied().unwrap_or(0);
            let limit = self.of_kind.get(kind).copied().unwrap_or(self.of_others);
            let free = self.slots.saturating_sub(self.active);
            SlotsOfKind {
                kind: kind.clone(),
                used,
                free: free.min(limit.saturating_sub(used)),
            }
        })
    }

    pub(super) fn take(&mut self, kind: &Kind) {
        self.active += u32::from(!self.apart.contains(kind));
        *self.active_of.entry(kind.clone()).or_default() += 1;
    }

    pub(super) fn release(&mut self, kind: &Kind) {
        let counted = u32::from(!self.apart.contains(kind));
        self.active = self.active.saturating_sub(counted);
        if let Some(of_kind) = self.active_of.get_mut(kind) {
            *of_kind = of_kind.saturating_sub(1);
            if *of_kind == 0 {
                self.active_of.remove(kind);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str) -> Kind {
        name.parse().unwrap()
    }

    fn capacity() -> Capacity {
        let of_kind = [(kind("one"), Some(1)), (kind("free"), None)];
        Capacity::new(3, of_kind.into_iter(), Some(2))
    }

    #[test]
    fn the_slots_of_a_kind_are_those_in_use_and_those_that_fit() {
        let mut capacity = capacity().with_apart([kind("apart")].into_iter());
        capacity.take(&kind("one"));
        capacity.take(&kind("other"));
        capacity.take(&kind("apart"));
        let usage = capacity
            .usage()
            .map(|of| (of.kind.to_string(), of.used, of.free));
        let expected = [("free", 0, 1), ("one", 1, 0), ("other", 1, 1)];
        let expected = expected.map(|(kind, used, free)| (kind.to_owned(), used, free));
        assert_eq!(usage.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_limits_of_a_kind_and_of_the_node_both_hold() {
        let mut capacity = capacity();
        capacity.take(&kind("one"));
        assert!(!capacity.has_room(&kind("one")), "its own limit");
        assert!(capacity.has_room(&kind("free")));
        capacity.take(&kind("other"));
        capacity.take(&kind("other"));
        assert!(!capacity.has_room(&kind("free")), "that of the node");
        assert_eq!(capacity.active(), 3);
        capacity.release(&kind("one"));
        assert!(capacity.has_room(&kind("one")));
        assert!(
            !capacity.has_room(&kind("other")),
            "that of the default handler"
        );
        assert!(capacity.has_room(&kind("free")));
    }

    #[test]
    fn a_kind_apart_neither_takes_nor_needs_a_slot_of_the_node() {
        let mut capacity = capacity().with_apart([kind("one")].into_iter());
        capacity.take(&kind("one"));
        assert_eq!(capacity.active(), 0);
        assert!(!capacity.has_room(&kind("one")), "its own limit");
        capacity.release(&kind("one"));
        for _ in 0..3 {
            capacity.take(&kind("free"));
        }
        assert!(!capacity.has_room(&kind("free")));
        assert!(capacity.has_room(&kind("one")));
    }

    #[test]
    fn a_command_is_taken_beyond_the_slots_up_to_a_bound() {
        let mut capacity = capacity();
        for _ in 0..3 + COMMANDED_EXTRA {
            assert!(capacity.has_room_for_command());
            capacity.take(&kind("free"));
        }
        assert!(!capacity.has_room_for_command());
        assert!(capacity.exceeds(&kind("free"), 0), "it counts already");
    }

    #[test]
    fn a_lower_limit_leaves_what_is_in_use() {
        let mut capacity = capacity();
        capacity.take(&kind("free"));
        capacity.take(&kind("free"));
        capacity.set_slots_of(kind("free"), Some(0));
        assert_eq!(capacity.active(), 2);
        assert!(!capacity.has_room(&kind("free")));
        assert!(capacity.has_room(&kind("one")));
        capacity.set_slots(2);
        assert!(!capacity.has_room(&kind("one")));
        capacity.release(&kind("free"));
        assert!(capacity.has_room(&kind("one")));
        let of = [(kind("free"), 0), (kind("one"), 1)];
        assert_eq!(capacity.slots_of(), of.into());
        capacity.forget_kind(&kind("free"));
        assert_eq!(capacity.slots_of(), [(kind("one"), 1)].into());
    }

    #[test]
    fn what_was_released_is_not_counted_twice() {
        let mut capacity = capacity();
        capacity.take(&kind("free"));
        capacity.release(&kind("free"));
        capacity.release(&kind("free"));
        assert_eq!(capacity.active(), 0);
        assert!(capacity.active_of.is_empty());
    }
}
