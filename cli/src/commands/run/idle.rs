//! [`Idle`]: decides when a run reports what it waits for.

use std::time::Duration;

use tokio::time::Instant;
/// How long nothing must run before the run reports what it waits for.
const AFTER: Duration = Duration::from_secs(5);
/// The shortest time between two such lines.
const AGAIN: Duration = Duration::from_secs(30);
/// When a task of the run last changed, and when the run last reported what it waits for.
pub(super) struct Idle {
    changed: Instant,
    said: Option<Instant>,
}

impl Idle {
    pub(super) fn new(now: Instant) -> Self {
        let said = None;
        Self { changed: now, said }
    }

    /// Notes that a task of the run has changed, or that one runs.
    pub(super) fn changed(&mut self, now: Instant) {
        self.changed = now;
    }

    /// Returns whether to report what the run waits for.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let is_due =
            now - self.changed >= AFTER && self.said.is_none_or(|said| now - said >= AGAIN);
        if is_due {
            self.said = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_named_after_a_while_and_not_often() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut idle = Idle::new(start);
        assert!(!idle.is_due(at(4)));
        idle.changed(at(4));
        assert!(!idle.is_due(at(8)));
        assert!(idle.is_due(at(9)));
        assert!(!idle.is_due(at(20)));
        idle.changed(at(30));
        assert!(!idle.is_due(at(34)));
        assert!(!idle.is_due(at(38)), "not more often than every 30 s");
        assert!(idle.is_due(at(39)));
    }
}
