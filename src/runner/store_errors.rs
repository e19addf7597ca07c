//! [`Errors`]: the failures of the store in a row, and how many of them end the node.

use crate::store::Error;

/// The failures of the store in a row, and how many of them end the node.
#[derive(Debug)]
pub(super) struct Errors {
    /// 0 for no limit.
    most: u32,
    in_row: u32,
}

impl Errors {
    pub(super) fn new(most: u32) -> Self {
        Self { most, in_row: 0 }
    }

    /// Counts a failure. Returns why the node ends, if the limit is reached.
    pub(super) fn count(&mut self, reason: impl std::fmt::Display) -> Option<Error> {
        self.in_row = self.in_row.saturating_add(1);
        let failed = self.in_row;
        (self.most > 0 && failed >= self.most).then(|| {
            let reason = format!(
                "the store has failed {failed} times in a row, which ends the node; the last time: {reason}"
            );
            Error::unavailable("keep the lease", reason)
        })
    }

    pub(super) fn succeeded(&mut self) {
        self.in_row = 0;
    }
}
