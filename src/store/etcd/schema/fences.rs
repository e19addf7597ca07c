//! Fences: the revision that wrote a claim, plus an offset if tasks came from another store.
//!
//! A task from another store may have had greater fences than this etcd has revisions. So the
//! namespace stores marks: the offset that is added from a revision on. Offsets only grow, so
//! fences grow too.

use std::sync::{Arc, PoisonError, RwLock};

use serde::{Deserialize, Serialize};
use windlass_statemachine::Fence;

/// Revisions, and the offset that applies from each on, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Marks(Vec<(i64, u64)>);

/// The marks of a namespace. Clones share their state.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fences(Arc<RwLock<Marks>>);

fn number(revision: i64) -> u64 {
    u64::try_from(revision).unwrap_or(0)
}

impl Marks {
    /// Makes the fence of a claim at this revision greater than `fence`, by adding a mark if
    /// necessary. Returns whether it was greater already.
    pub(crate) fn raise(&mut self, revision: i64, fence: Fence) -> bool {
        let is_above = self.fence(revision) > fence;
        if !is_above {
            self.0.push((revision, fence.0));
        }
        is_above
    }

    fn fence(&self, revision: i64) -> Fence {
        let passed = self.0.iter().rev().find(|(from, _)| *from <= revision);
        let base = passed.map_or(0, |(_, base)| *base);
        Fence(number(revision).saturating_add(base))
    }

    fn revision(&self, fence: Fence) -> i64 {
        let mut marks = self.0.iter().rev();
        let passed = marks.find(|(from, base)| number(*from).saturating_add(*base) <= fence.0);
        let base = passed.map_or(0, |(_, base)| *base);
        i64::try_from(fence.0 - base.min(fence.0)).unwrap_or(i64::MAX)
    }
}

impl Fences {
    /// Returns the fence of the claim that was written at this revision.
    pub(crate) fn of(&self, revision: i64) -> Fence {
        let marks = self.0.read().unwrap_or_else(PoisonError::into_inner);
        marks.fence(revision)
    }

    /// Returns the revision that wrote the claim with this fence.
    pub(crate) fn revision(&self, fence: Fence) -> i64 {
        let marks = self.0.read().unwrap_or_else(PoisonError::into_inner);
        marks.revision(fence)
    }

    pub(crate) fn set(&self, marks: Marks) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = marks;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_grow_from_mark_to_mark_and_lead_back() {
        let marks = Marks(vec![(10, 1000), (20, 5000)]);
        let mut last = Fence(0);
        for revision in 1..40 {
            let fence = marks.fence(revision);
            assert!(fence > last);
            assert_eq!(marks.revision(fence), revision);
            last = fence;
        }
        assert_eq!(marks.fence(9), Fence(9));
        assert_eq!(marks.fence(10), Fence(1010));
        assert_eq!(marks.fence(20), Fence(5020));
    }

    #[test]
    fn fences_are_raised_above_those_of_another_store_and_no_further() {
        let mut marks = Marks::default();
        assert!(marks.raise(10, Fence(9)), "the next claim has 10");
        assert!(!marks.raise(10, Fence(50)));
        assert!(marks.fence(10) > Fence(50));
        assert!(marks.raise(11, Fence(50)));
    }
}
