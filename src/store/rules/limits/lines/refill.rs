//! [`refill`]: decides which tasks of a line are reported.

use jiff::{SignedDuration, Timestamp};
use windlass_statemachine::Limit;

use super::{Fresh, Place, Report, Reported};
use crate::store::rules::limits::Free;

/// Times of reports that differ by less than this are the same: stores may keep them in different
/// units.
const SAME: SignedDuration = SignedDuration::from_millis(1);

/// The reason for an examination of a line, and its time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct When {
    pub(crate) now: Timestamp,
    /// Whether no node has claimed the reported tasks of the line for [`PATIENCE`](super::PATIENCE), or a
    /// reported time comes from a wrong clock.
    pub(crate) is_stuck: bool,
}

impl When {
    /// Returns the reason for a line that may have changed: a slot of the pool may be free, or a
    /// task has joined or left.
    pub(crate) fn changed(now: Timestamp) -> Self {
        let is_stuck = false;
        Self { now, is_stuck }
    }

    /// Returns the reason for a line of [`Lines::stuck`](super::super::lines_in_memory::Lines::stuck).
    pub(crate) fn stuck(now: Timestamp) -> Self {
        let is_stuck = true;
        Self { now, is_stuck }
    }
}

/// A task that is reported in advance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Advance {
    pub(crate) limit: Limit,
    pub(crate) place: Place,
    pub(crate) until: Timestamp,
}

/// A task of a line.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    pub(crate) limit: Limit,
    pub(crate) place: Place,
    pub(crate) reported: Reported,
}

impl Waiting {
    /// Returns whether no node can claim the task now.
    fn waits(&self, now: Timestamp) -> bool {
        self.reported.report == Report::Silent || self.reported.is_advance(now)
    }
}

/// A line as a store keeps it.
pub(crate) trait Line {
    type Error;

    /// Returns each limit that holds back a silent task of the line.
    fn limits(&mut self) -> Result<Vec<Limit>, Self::Error>;

    /// Returns the number of tasks that a node may be about to claim, as defined by [`Fresh`].
    fn fresh(&mut self, fresh: &Fresh) -> Result<u32, Self::Error>;

    /// Returns the last of these tasks in the order of the line, if its priority is below this one.
    fn last_fresh(
        &mut self,
        fresh: &Fresh,
        below: i32,
    ) -> Result<Option<(Limit, Place)>, Self::Error>;

    /// Returns the number of reported tasks, without those that are reported in advance.
    fn reported(&mut self, now: Timestamp) -> Result<u32, Self::Error>;

    /// Returns the task that is reported in advance.
    fn advance(&mut self, now: Timestamp) -> Result<Option<Advance>, Self::Error>;

    /// Returns the first silent task of a limit.
    fn first(&mut self, limit: &Limit) -> Result<Option<Place>, Self::Error>;

    /// Returns the free slots of a limit for the tasks of the line. A slot that is
    /// [kept](crate::store::rules::limits::reserve) for the reserver counts as free only for the
    /// reserver itself.
    fn free(&mut self, limit: &Limit, for_reserver: bool) -> Result<Free, Self::Error>;

    /// Returns the reserver, if it waits in this line.
    fn reserver(&mut self) -> Result<Option<Waiting>, Self::Error>;

    /// Changes how a task is reported.
    fn report(
        &mut self,
        limit: &Limit,
        place: Place,
        reported: Reported,
    ) -> Result<(), Self::Error>;
}

/// Reports the next tasks of a line: one for each free slot, minus the tasks that were just reported and may
/// take a slot. A task that was just reported goes back into the line for one of a higher priority. If no slot
/// of a limit on starts is free, the task that gets the next one is reported in advance. This decision is made
/// again each time: another task, or another limit, may be the next.
///
/// In a stuck line, as many additional tasks as were reported before are reported while a slot is free: the
/// number doubles each time, so that tasks which no node can claim do not block those behind them.
pub(crate) fn refill<L: Line>(line: &mut L, when: When) -> Result<(), L::Error> {
    let (now, fresh) = (when.now, Fresh::at(when.now));
    let limits = line.limits()?;
    let advance = line.advance(now)?;
    if limits.is_empty() && advance.is_none() {
        return Ok(());
    }
    let reserver = line.reserver()?;
    let is_about_to_be_claimed = |one: &Waiting| fresh.includes(&one.reported);
    // The reserver takes the slot that is kept for it, and none of the others.
    let own = u32::from(reserver.as_ref().is_some_and(is_about_to_be_claimed));
    let mut look = Look {
        reported: line.fresh(&fresh)?.saturating_sub(own),
        at_least: match when.is_stuck {
            true => line.reported(now)?,
            false => 0,
        },
        open: Vec::with_capacity(limits.len() + 1),
        advance,
        reserver: None,
        line,
        fresh,
    };
    look.report_reserver(reserver)?;
    for limit in limits {
        look.open(limit)?;
    }
    if let Some(advance) = &look.advance {
        look.open(advance.limit.clone())?;
    }
    look.fill()?;
    while look.replace()? {
        look.fill()?;
    }
    look.report_in_advance()
}

/// One examination of a line.
struct Look<'a, L> {
    line: &'a mut L,
    fresh: Fresh,
    /// How many reported tasks nodes may be about to claim.
    reported: u32,
    /// How many reported tasks the line should have, if it is stuck.
    at_least: u32,
    /// The limits of tasks that could be reported.
    open: Vec<(Limit, Free)>,
    /// The task that is reported in advance. It counts as silent here.
    advance: Option<Advance>,
    /// The reserver, if it waits in this line.
    reserver: Option<Waiting>,
}

impl<L: Line> Look<'_, L> {
    fn open(&mut self, limit: Limit) -> Result<(), L::Error> {
        if self.open.iter().all(|(known, _)| *known != limit) {
            let free = self.line.free(&limit, false)?;
            self.open.push((limit, free));
        }
        Ok(())
    }

    /// Returns the first task of a limit that is silent, or reported in advance.
    fn first_of(&mut self, limit: &Limit) -> Result<Option<Place>, L::Error> {
        let advance = self.advance.as_ref();
        let advance = advance.filter(|advance| advance.limit == *limit);
        let advance = advance.map(|advance| advance.place);
        Ok(self.line.first(limit)?.into_iter().chain(advance).min())
    }

    /// Returns the first such task of the limits for which `may` holds.
    fn first(
        &mut self,
        may: impl Fn(&Self, &Free) -> bool,
    ) -> Result<Option<(Limit, Place)>, L::Error> {
        let mut best: Option<(usize, Place)> = None;
        for at in 0..self.open.len() {
            let Some((limit, free)) = self.open.get(at).cloned() else {
                continue;
            };
            if may(self, &free)
                && let Some(place) = self.first_of(&limit)?
                && best.is_none_or(|(_, best)| place < best)
            {
                best = Some((at, place));
            }
        }
        Ok(best.and_then(|(at, place)| Some((self.open.get(at)?.0.clone(), place))))
    }

    fn is_reserver(&self, place: Place) -> bool {
        (self.reserver.as_ref()).is_some_and(|reserver| reserver.place == place)
    }

    fn report_now(&mut self, limit: &Limit, place: Place) -> Result<(), L::Error> {
        self.advance = self.advance.take().filter(|one| one.place != place);
        let now = Reported::now(self.fresh.now);
        self.line.report(limit, place, now)
    }

    /// Reports the task for which a slot is kept, whatever its position is.
    fn report_reserver(&mut self, reserver: Option<Waiting>) -> Result<(), L::Error> {
        let Some(mut one) = reserver else {
            return Ok(());
        };
        if one.waits(self.fresh.now) && self.line.free(&one.limit, true)?.slots > 0 {
            one.reported = Reported::now(self.fresh.now);
            self.report_now(&one.limit, one.place)?;
        }
        self.reserver = Some(one);
        Ok(())
    }

    /// Reports one task for each free slot.
    fn fill(&mut self) -> Result<(), L::Error> {
        while let Some((limit, place)) = self.first(|look, free| {
            free.slots > look.reported || (free.slots > 0 && look.reported < look.at_least)
        })? {
            self.report_now(&limit, place)?;
            self.reported += 1;
        }
        Ok(())
    }

    /// Puts a task that was just reported back into the line, in favour of one of a higher priority. Returns
    /// whether it did. A task that is only older is not a reason: a task that was just released joins the line
    /// behind the tasks that have waited in the meantime.
    fn replace(&mut self) -> Result<bool, L::Error> {
        let Some((limit, place)) = self.first(|_, free| free.slots > 0)? else {
            return Ok(false);
        };
        match self.line.last_fresh(&self.fresh, place.priority())? {
            Some((of, last)) if !self.is_reserver(last) => {
                self.line.report(&of, last, Reported::SILENT)?;
                self.open(of)?;
                self.report_now(&limit, place)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Reports the task that gets the next slot, if no slot is free.
    fn report_in_advance(&mut self) -> Result<(), L::Error> {
        let next = self.next()?;
        let before = self.advance.take();
        let is_same = |before: &Advance, next: &Advance| {
            before.place == next.place && before.until.duration_since(next.until).abs() < SAME
        };
        match (&before, &next) {
            (Some(before), Some(next)) if is_same(before, next) => return Ok(()),
            (Some(before), Some(next)) if before.place == next.place => {}
            (Some(before), _) => {
                self.line
                    .report(&before.limit, before.place, Reported::SILENT)?;
            }
            // A task that was just reported takes a slot first.
            (None, _) if self.reported > 0 => return Ok(()),
            (None, _) => {}
        }
        match next {
            Some(next) => (self.line).report(&next.limit, next.place, Reported::at(next.until)),
            None => Ok(()),
        }
    }

    /// Returns the task that gets the next slot. The limit with the earliest slot decides first, then the order
    /// of the line. The reserver goes before others.
    fn next(&mut self) -> Result<Option<Advance>, L::Error> {
        let mut best: Option<Advance> = None;
        for (limit, free) in self.open.clone() {
            let Some(until) = free.until else { continue };
            let reserver = self.reserver.as_ref().filter(|one| one.limit == limit);
            let reserver = reserver.filter(|one| one.waits(self.fresh.now));
            let place = match reserver {
                Some(reserver) => Some(reserver.place),
                None => self.first_of(&limit)?,
            };
            let Some(place) = place else { continue };
            let rank = |until, place| (until, !self.is_reserver(place), place);
            let before = best.as_ref();
            if before.is_none_or(|best| rank(until, place) < rank(best.until, best.place)) {
                best = Some(Advance {
                    limit,
                    place,
                    until,
                });
            }
        }
        Ok(best)
    }
}
