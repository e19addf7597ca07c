//! [`GroupReturns`]: decides whether the engine waits a moment for handlers that return together.

/// With more handlers than this, enough writes are under way anyway.
const FEW: u32 = 128;

/// Handlers that were started together often return together. The first of them wakes the engine, and
/// its write would go to the store alone. So the engine lets the other handlers run once before it
/// continues.
#[derive(Debug, Default)]
pub(super) struct GroupReturns {
    has_started: bool,
}

impl GroupReturns {
    /// Records the start of a handler.
    pub(super) fn started(&mut self) {
        self.has_started = true;
    }

    /// Returns whether to wait for handlers that may return at once: `ended` of `running` handlers
    /// have returned. Returns true once for handlers that were started together.
    pub(super) fn waits(&mut self, ended: usize, running: u32) -> bool {
        let few = running <= FEW && ended < running as usize;
        let waits = self.has_started && few && ended > 0;
        self.has_started &= !waits;
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_waits_once_for_handlers_that_were_started_together() {
        let mut group_returns = GroupReturns::default();
        assert!(!group_returns.waits(1, 10), "they run since long");
        group_returns.started();
        assert!(!group_returns.waits(0, 10), "none has returned");
        assert!(group_returns.waits(1, 10));
        assert!(!group_returns.waits(1, 9), "the others may run for long");
        group_returns.started();
        assert!(!group_returns.waits(1, 1), "there is no other");
        assert!(!group_returns.waits(1, FEW + 1));
        assert!(group_returns.waits(1, FEW));
    }
}
