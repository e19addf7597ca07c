//! [`Budget`]: the capacity of one write of a schedule.

use windlass_statemachine::Task;

use crate::store::Limits;

/// The remaining capacity of one write. Work that does not fit continues in the next write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    operations: usize,
    bytes: usize,
}

impl Budget {
    /// Returns the room of a write, from the limits of the store. Half of the bytes are reserved for the schedule
    /// itself.
    pub(crate) fn of(limits: &Limits) -> Self {
        Self {
            operations: limits.max_operations.max(1),
            bytes: limits.max_bytes / 2,
        }
    }

    /// Returns the room that remains next to this many other operations and guards: at least one
    /// operation.
    pub(crate) fn beside(self, operations: usize) -> Self {
        Self {
            operations: self.operations.saturating_sub(operations).max(1),
            ..self
        }
    }

    /// Returns the room of an attempt after this many failed ones: half of the previous attempt's, because a server
    /// may accept less than its store reports.
    pub(crate) fn after(self, failed: u32) -> Self {
        let half = |room: usize| room.checked_shr(failed).unwrap_or(0);
        Self {
            operations: half(self.operations).max(1),
            bytes: half(self.bytes),
        }
    }

    /// Returns the remaining number of operations.
    pub(crate) fn operations(self) -> usize {
        self.operations
    }

    /// Takes the operations and the bytes of a part from the room. Returns whether they fit.
    pub(crate) fn take(&mut self, operations: usize, bytes: usize) -> bool {
        let left = (
            self.operations.checked_sub(operations),
            self.bytes.checked_sub(bytes),
        );
        let (Some(operations), Some(bytes)) = left else {
            return false;
        };
        *self = Self { operations, bytes };
        true
    }

    /// Takes the operations of the first part of a write, whatever its size in bytes is: no smaller write could do
    /// it. Returns whether they fit.
    pub(crate) fn take_first(&mut self, operations: usize, bytes: usize) -> bool {
        self.bytes = self.bytes.max(bytes);
        self.take(operations, bytes)
    }
}

/// Returns the approximate size in bytes of the submit of a run.
pub(crate) fn bytes_of(run: &Task) -> usize {
    // Ids, labels and the names of the keys.
    const REST: usize = 500;
    let waits = run.waits.iter().flat_map(|waits| &waits.tasks);
    // A store keeps the list in the state of the run, and may keep a second copy next to the state.
    let waits: usize = waits.map(|id| 2 * (id.as_str().len() + 3)).sum();
    run.props.len() + waits + REST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_does_not_fit_takes_nothing() {
        let limits = Limits {
            max_operations: 5,
            max_bytes: 200,
            ..Limits::default()
        };
        let mut room = Budget::of(&limits).beside(2);
        assert_eq!(room.operations(), 3);
        assert!(!room.take(4, 1) && !room.take(1, 101));
        assert!(room.take(2, 100) && !room.take(1, 1));
        assert!(room.take(1, 0) && !room.take(1, 0));
        assert_eq!(Budget::of(&limits).beside(9).operations(), 1);
        let halved = [0, 1, 2, 99].map(|failed| Budget::of(&limits).after(failed).operations());
        assert_eq!(halved, [5, 2, 1, 1]);
    }

    #[test]
    fn the_first_part_of_a_write_may_have_more_bytes() {
        let limits = Limits {
            max_operations: 5,
            max_bytes: 200,
            ..Limits::default()
        };
        let mut room = Budget::of(&limits);
        assert!(!room.take_first(6, 1000), "no write takes six operations");
        assert!(room.take_first(1, 1000) && !room.take(1, 1));
    }
}
