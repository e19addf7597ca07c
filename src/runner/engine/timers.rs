//! [`Timers`]: the timers of the slots. A wake-up follows the wall clock, which may be set; all other waits follow the
//! monotonic clock.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use tokio::time::Instant;

use windlass_statemachine::{
    StopReason,
    machine::{Input, Timer},
};

use super::Engine;
use crate::runner::{due::Moment, input::SlotId};

/// A wait of a slot on the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Wait {
    /// The handler's grace ends.
    Grace,
    /// The wait ends before the next run of a handler that runs again and again without any effect.
    Resume,
    /// An aborted handler has not ended.
    Stuck,
    /// The handler's reported progress is to be stored.
    Progress,
    /// The lines that the handler has logged are to be written.
    Log,
}

/// A timer that has fired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fired {
    Wake(SlotId),
    Over(SlotId, Wait),
}

/// The timers of one slot, stored in the slot.
#[derive(Debug, Default)]
pub(super) struct Set {
    wake: Option<Timestamp>,
    waits: BTreeMap<Wait, Instant>,
}

/// The timers of all slots, in order, and the time that the machines count.
#[derive(Debug)]
pub(super) struct Timers {
    started: Instant,
    wakes: BTreeSet<(Timestamp, SlotId)>,
    waits: BTreeSet<(Instant, SlotId, Wait)>,
}

impl Timers {
    pub(super) fn new(started: Instant) -> Self {
        Self {
            started,
            wakes: BTreeSet::new(),
            waits: BTreeSet::new(),
        }
    }

    /// Returns the elapsed time of the machines.
    pub(super) fn elapsed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.started)
    }

    /// Returns the moment of an elapsed time; `None` when it is out of range.
    pub(super) fn moment(&self, elapsed: Duration) -> Option<Instant> {
        self.started.checked_add(elapsed)
    }

    /// Sets the wake-up of a slot, replacing an earlier one.
    pub(super) fn wake_at(&mut self, slot: SlotId, set: &mut Set, at: Timestamp) {
        self.no_wake(slot, set);
        set.wake = Some(at);
        self.wakes.insert((at, slot));
    }

    /// Drops the wake-up of a slot.
    pub(super) fn no_wake(&mut self, slot: SlotId, set: &mut Set) {
        if let Some(at) = set.wake.take() {
            self.wakes.remove(&(at, slot));
        }
    }

    /// Sets a wait of a slot, replacing an earlier one.
    pub(super) fn wait_until(&mut self, slot: SlotId, set: &mut Set, wait: Wait, at: Instant) {
        self.no_wait(slot, set, wait);
        set.waits.insert(wait, at);
        self.waits.insert((at, slot, wait));
    }

    /// Drops a wait of a slot.
    pub(super) fn no_wait(&mut self, slot: SlotId, set: &mut Set, wait: Wait) {
        if let Some(at) = set.waits.remove(&wait) {
            self.waits.remove(&(at, slot, wait));
        }
    }

    /// Drops every timer of a slot.
    pub(super) fn clear(&mut self, slot: SlotId, set: &mut Set) {
        self.no_wake(slot, set);
        for (wait, at) in std::mem::take(&mut set.waits) {
            self.waits.remove(&(at, slot, wait));
        }
    }

    /// Takes out the first timer whose time has come.
    pub(super) fn pop(&mut self, now: Moment) -> Option<Fired> {
        if let Some(&(at, slot, wait)) = self.waits.first()
            && at <= now.at
        {
            self.waits.pop_first();
            return Some(Fired::Over(slot, wait));
        }
        let (at, slot) = *self.wakes.first()?;
        (at <= now.clock).then(|| {
            self.wakes.pop_first();
            Fired::Wake(slot)
        })
    }

    /// Returns the time until the next timer, unless the clock is set.
    pub(super) fn next_in(&self, now: Moment) -> Option<Duration> {
        let wake = self.wakes.first().map(|(at, _)| {
            Duration::try_from(at.duration_since(now.clock)).unwrap_or(Duration::ZERO)
        });
        let wait = self.waits.first();
        let wait = wait.map(|(at, ..)| at.saturating_duration_since(now.at));
        wake.into_iter().chain(wait).min()
    }
}

impl Set {
    /// Removes a timer that has fired.
    pub(super) fn fired(&mut self, fired: Fired) {
        match fired {
            Fired::Wake(_) => self.wake = None,
            Fired::Over(_, wait) => {
                self.waits.remove(&wait);
            }
        }
    }
}

impl Engine {
    /// Feeds the timers that have fired to their machines.
    pub(super) fn run_timers(&mut self) {
        let now = self.moment();
        while let Some(fired) = self.timers.pop(now) {
            let (Fired::Wake(slot) | Fired::Over(slot, _)) = fired;
            if let Some(slot) = self.slots.get_mut(slot) {
                slot.timers.fired(fired);
            }
            match fired {
                Fired::Wake(slot) | Fired::Over(slot, Wait::Resume) if !self.has_room_for(slot) => {
                    // Every slot is in use: the task is released, and waits among the ready ones.
                    self.feed(slot, Input::Stop(StopReason::Balance));
                }
                Fired::Wake(slot) | Fired::Over(slot, Wait::Resume) => {
                    self.feed(slot, Input::Timer(Timer::Wake));
                }
                Fired::Over(slot, Wait::Grace) => self.feed(slot, Input::Timer(Timer::Grace)),
                Fired::Over(slot, Wait::Stuck) => self.stuck(slot),
                Fired::Over(slot, Wait::Progress) => self.keep_progress(slot),
                Fired::Over(slot, Wait::Log) => self.write_log(slot),
            }
        }
    }

    /// Sets a wait of an existing slot.
    pub(super) fn wait_until(&mut self, id: SlotId, wait: Wait, at: Instant) {
        if let Some(slot) = self.slots.get_mut(id) {
            self.timers.wait_until(id, &mut slot.timers, wait, at);
        }
    }

    /// Drops a wait of a slot.
    pub(super) fn no_wait(&mut self, id: SlotId, wait: Wait) {
        if let Some(slot) = self.slots.get_mut(id) {
            self.timers.no_wait(id, &mut slot.timers, wait);
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn a_wake_up_follows_the_clock_and_a_wait_does_not() {
        let (mut timers, mut set) = (Timers::new(Instant::now()), Set::default());
        let (start, clock) = (Instant::now(), Timestamp::UNIX_EPOCH);
        let moment = |clock_set: i64, passed: u64| Moment {
            clock: clock + SignedDuration::from_secs(clock_set),
            at: start + Duration::from_secs(passed),
        };
        timers.wake_at(1, &mut set, clock + SignedDuration::from_secs(60));
        timers.wait_until(1, &mut set, Wait::Grace, start + Duration::from_secs(2));
        assert_eq!(timers.next_in(moment(0, 0)), Some(Duration::from_secs(2)));
        assert_eq!(timers.pop(moment(-3600, 1)), None);
        assert_eq!(
            timers.pop(moment(3600, 1)),
            Some(Fired::Wake(1)),
            "the clock leapt, and no time has passed"
        );
        assert_eq!(timers.pop(moment(3600, 1)), None, "the grace is not over");
        assert_eq!(
            timers.pop(moment(-3600, 2)),
            Some(Fired::Over(1, Wait::Grace))
        );
        assert_eq!(timers.next_in(moment(0, 2)), None);
    }

    #[test]
    fn a_slot_forgets_a_timer_that_went_off() {
        let (mut timers, mut set) = (Timers::new(Instant::now()), Set::default());
        let (at, clock) = (Instant::now(), Timestamp::UNIX_EPOCH);
        timers.wake_at(1, &mut set, clock);
        timers.wait_until(1, &mut set, Wait::Grace, at);
        while let Some(fired) = timers.pop(Moment { clock, at }) {
            set.fired(fired);
        }
        assert!(set.wake.is_none() && set.waits.is_empty());
    }

    #[test]
    fn nothing_is_left_of_what_was_set_again_or_dropped() {
        let (mut timers, mut set) = (Timers::new(Instant::now()), Set::default());
        let (now, clock) = (Instant::now(), Timestamp::UNIX_EPOCH);
        for second in 1..4 {
            let at = now + Duration::from_secs(second);
            timers.wake_at(
                7,
                &mut set,
                clock + SignedDuration::from_secs(second as i64),
            );
            timers.wait_until(7, &mut set, Wait::Stuck, at);
            timers.wait_until(7, &mut set, Wait::Grace, at);
        }
        assert_eq!((timers.wakes.len(), timers.waits.len()), (1, 2));
        timers.no_wait(7, &mut set, Wait::Grace);
        assert_eq!((timers.wakes.len(), timers.waits.len()), (1, 1));
        timers.clear(7, &mut set);
        assert_eq!((timers.wakes.len(), timers.waits.len()), (0, 0));
        assert!(set.wake.is_none() && set.waits.is_empty());
    }
}
