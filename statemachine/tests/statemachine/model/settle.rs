//! The end of a story: nothing goes wrong any more.

use jiff::SignedDuration;
use windlass_statemachine::TaskStatus;

use super::{
    event::Event,
    world::{Handler, World},
};

impl World {
    /// From here on all goes well: every write is stored, every aborted handler ends, time passes.
    pub(super) fn settle_down(&mut self) {
        for _ in 0..100 {
            if self.done.is_some() {
                return;
            }
            if self.write.is_some() {
                self.stored();
            } else if self.handler == Handler::Ending {
                self.event(Event::Ended);
            } else if self.handler == Handler::Runs {
                if self.waiting.is_empty() && !self.stopping {
                    return;
                }
                let at = self
                    .grace
                    .unwrap_or_else(|| panic!("no grace: {:#?}", self.log));
                // The clock may be set back in the meantime: the grace is as long as it was.
                self.now -= SignedDuration::from_hours(1);
                self.elapsed = self.elapsed.max(at);
                self.go_off();
            } else if let Some(at) = self.resume {
                self.elapsed = self.elapsed.max(at);
                self.go_off();
                assert_eq!(self.resume, None, "{:#?}", self.log);
            } else {
                let TaskStatus::Sleeping { until } = self.durable.status else {
                    panic!("stuck: {:#?}", self.log);
                };
                assert_eq!(self.wake, Some(until), "{:#?}", self.log);
                assert!(self.waiting.is_empty() && !self.stopping, "{:#?}", self.log);
                return;
            }
        }
        panic!("it never settles down: {:#?}", self.log);
    }
}
