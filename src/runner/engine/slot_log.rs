//! [`SlotLog`]: the lines that the handlers of one claim have logged.

use std::sync::Arc;

use crate::{handler::Waiting, store::Logged};

/// The lines of a slot that the store has not acknowledged.
#[derive(Default)]
pub(super) struct SlotLog {
    pub(super) lines: Waiting,
    /// The number of the last line of the earlier runs of this claim.
    pub(super) last: u64,
    /// The number of the last line in the transition under way.
    pub(super) in_commit: Option<u64>,
    /// The number of the last line in the separate write under way.
    pub(super) in_write: Option<u64>,
}

impl SlotLog {
    /// Returns all lines, and the number of the last one.
    pub(super) fn all(&self) -> Option<(Arc<[Logged]>, u64)> {
        let last = self.lines.iter().last()?.n;
        Some((self.lines.iter().cloned().collect(), last))
    }
}
