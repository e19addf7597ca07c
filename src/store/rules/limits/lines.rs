//! The lines of tasks that wait for a slot, and which of them nodes may claim.
//!
//! A task whose claim finds no slot is held back: it is in the line of the first limit that is full, and nodes
//! do not see it as claimable. When a slot is free, the first of the line is reported: one task for each free
//! slot. Of the line of a limit on starts, the first is reported in advance, as asleep until a slot is free.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    convert::Infallible,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use windlass_statemachine::{Bound, Limit};

use super::{Free, Pool};
use crate::store::TaskView;

/// After this time, a reported task that no node has claimed no longer keeps the next of its line back: no node
/// may have its kind.
pub(crate) const PATIENCE: SignedDuration = SignedDuration::from_secs(5);

/// The place of a task in its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    priority: Reverse<i32>,
    due: Option<Timestamp>,
    /// The submit order of the task, which names it.
    pub(crate) order: u64,
}

impl Place {
    pub(crate) fn new(priority: i32, due: Option<Timestamp>, order: u64) -> Self {
        let priority = Reverse(priority);
        Self {
            priority,
            due,
            order,
        }
    }

    #[cfg(feature = "sqlite")]
    pub(crate) fn priority(&self) -> i32 {
        self.priority.0
    }

    #[cfg(feature = "sqlite")]
    pub(crate) fn due(&self) -> Option<Timestamp> {
        self.due
    }
}

/// How nodes see a task of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Report {
    /// Asleep without a wake-up.
    Silent,
    /// As it would be without limits.
    Now,
    /// Asleep until this time.
    At(Timestamp),
}

impl Report {
    /// Makes the view of a task that is held back the one that nodes see. `has_order` returns whether a command
    /// that needs no handler waits for it: such a task is claimed without a slot.
    pub(crate) fn apply(self, view: &mut TaskView, has_order: impl FnOnce() -> bool) {
        match self {
            Self::Now => {}
            Self::At(until) => (view.sleeping, view.due) = (true, Some(until)),
            Self::Silent => {
                (view.sleeping, view.due) = (true, None);
                view.commanded = view.commanded && has_order();
            }
        }
    }
}

/// How a task of a line is reported.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reported {
    pub(crate) report: Report,
    /// From when on nodes can claim it.
    pub(crate) from: Timestamp,
}

/// A task that is held back.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    /// The limit in whose line it is.
    pub(crate) limit: Limit,
    pub(crate) report: Report,
    place: Place,
    /// From when on a node could claim it, when it is reported.
    from: Timestamp,
}

/// The tasks of a pool that are held back.
#[derive(Debug, Default)]
struct Tasks {
    /// Those that are silent, by the number and the period of their limits.
    silent: BTreeMap<(u32, Duration), BTreeSet<Place>>,
    /// Those that are reported, by [`Held::from`].
    reported: BTreeSet<(Timestamp, u64)>,
}

/// All lines of a namespace.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    lines: HashMap<Pool, Tasks>,
    held: HashMap<u64, Held>,
}

fn group(limit: &Limit) -> (u32, Duration) {
    match limit.bound() {
        Bound::AtOnce(most) => (most, Duration::ZERO),
        Bound::Starts { most, within } => (most, within),
    }
}

fn limit_of(pool: &Pool, (most, within): (u32, Duration)) -> Option<Limit> {
    let key = pool.key.as_str();
    let limit = match pool.starts {
        true => Limit::starts(key, most, within),
        false => Limit::at_once(key, most),
    };
    limit.ok()
}

impl Lines {
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Returns the task with this submit order, if it is held back.
    pub(crate) fn get(&self, order: u64) -> Option<&Held> {
        self.held.get(&order)
    }

    /// Returns the limit that each task is held back by.
    pub(crate) fn limits(&self) -> impl Iterator<Item = &Limit> {
        self.held.values().map(|held| &held.limit)
    }

    /// Puts a task into the line of a limit, silent. Returns whether nodes see it in another way now.
    pub(crate) fn join(&mut self, limit: &Limit, place: Place) -> bool {
        let was = self.held.get(&place.order);
        if was.is_some_and(|held| {
            held.report == Report::Silent && held.limit == *limit && held.place == place
        }) {
            return false;
        }
        self.leave(place.order);
        let line = self.lines.entry(Pool::of(limit)).or_default();
        line.silent.entry(group(limit)).or_default().insert(place);
        let held = Held {
            limit: limit.clone(),
            report: Report::Silent,
            place,
            from: Timestamp::MIN,
        };
        self.held.insert(place.order, held);
        true
    }

    /// Takes a task out of its line, and returns the pool of that; `None` when it was in none.
    pub(crate) fn leave(&mut self, order: u64) -> Option<Pool> {
        let held = self.held.remove(&order)?;
        let pool = Pool::of(&held.limit);
        if let Some(line) = self.lines.get_mut(&pool) {
            line.reported.remove(&(held.from, order));
            if let Some(silent) = line.silent.get_mut(&group(&held.limit)) {
                silent.remove(&held.place);
                if silent.is_empty() {
                    line.silent.remove(&group(&held.limit));
                }
            }
            if line.silent.is_empty() && line.reported.is_empty() {
                self.lines.remove(&pool);
            }
        }
        Some(pool)
    }

    /// Reports the next tasks of the line of a pool, by [`refill`]. Returns those that nodes see in another way
    /// now. `free` returns the free slots of a limit.
    pub(crate) fn refill(
        &mut self,
        pool: &Pool,
        when: When,
        free: impl Fn(&Limit) -> Free,
    ) -> Vec<u64> {
        let Some(line) = self.lines.get_mut(pool) else {
            return Vec::new();
        };
        let mut view = InMemory {
            pool,
            line,
            held: &mut self.held,
            free,
            changed: Vec::new(),
        };
        match refill(&mut view, when) {
            Ok(()) => view.changed,
            Err(never) => match never {},
        }
    }

    /// Returns the pools with silent tasks where no node has claimed the reported ones. Call it every second
    /// or so, and [`refill`](Self::refill) each of them.
    pub(crate) fn stuck(&self, now: Timestamp) -> Vec<Pool> {
        let stuck = self.lines.iter().filter(|(_, line)| {
            !line.silent.is_empty() && !line.reported.is_empty() && line.fresh(now) == 0
        });
        stuck.map(|(pool, _)| pool.clone()).collect()
    }
}

/// Why a line is looked at, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct When {
    pub(crate) now: Timestamp,
    /// No node has claimed the reported tasks of the line for [`PATIENCE`].
    pub(crate) is_stuck: bool,
}

impl When {
    /// Some slot of the pool may be free, or a task has joined or left the line.
    pub(crate) fn changed(now: Timestamp) -> Self {
        let is_stuck = false;
        Self { now, is_stuck }
    }

    /// The line is one of [`Lines::stuck`].
    pub(crate) fn stuck(now: Timestamp) -> Self {
        let is_stuck = true;
        Self { now, is_stuck }
    }
}

/// A line as a store keeps it.
pub(crate) trait Line {
    type Error;

    /// Returns each limit that a silent task of the line is held back by.
    fn limits(&mut self) -> Result<Vec<Limit>, Self::Error>;

    /// Returns the number of reported tasks that a node could claim later than at `since` for the first time.
    fn reported(&mut self, since: Timestamp) -> Result<u32, Self::Error>;

    /// Returns the first silent task of a limit.
    fn first(&mut self, limit: &Limit) -> Result<Option<Place>, Self::Error>;

    /// Returns the free slots of a limit.
    fn free(&mut self, limit: &Limit) -> Result<Free, Self::Error>;

    /// Reports a silent task of a limit.
    fn report(
        &mut self,
        limit: &Limit,
        place: Place,
        reported: Reported,
    ) -> Result<(), Self::Error>;
}

/// Reports the next tasks of a line: one for each free slot that no other task may take which was just
/// reported. If no slot of a limit on starts is free, the first is reported in advance.
///
/// In a line that is stuck, as many tasks as were reported before are reported beside them while a slot is free:
/// twice as many each time, so that tasks that no node can claim do not block those behind them.
pub(crate) fn refill<L: Line>(line: &mut L, when: When) -> Result<(), L::Error> {
    let When { now, is_stuck } = when;
    let limits = line.limits()?;
    if limits.is_empty() {
        return Ok(());
    }
    let old = now.saturating_sub(PATIENCE).unwrap_or(Timestamp::MIN);
    let mut reported = line.reported(old)?;
    let at_least = match is_stuck {
        true => line.reported(Timestamp::MIN)?,
        false => 0,
    };
    let mut open = Vec::with_capacity(limits.len());
    for limit in limits {
        let free = line.free(&limit)?;
        open.push((limit, free));
    }
    while let Some((place, limit)) = first(line, &open, |free| {
        free.slots > reported || (free.slots > 0 && reported < at_least)
    })? {
        let (report, from) = (Report::Now, now);
        line.report(limit, place, Reported { report, from })?;
        reported += 1;
    }
    if reported > 0 {
        return Ok(());
    }
    let until = |limit: &Limit| {
        let of = open.iter().find(|(other, _)| other == limit);
        of.and_then(|(_, free)| free.until)
    };
    if let Some((place, limit)) = first(line, &open, |free| free.until.is_some())?
        && let Some(until) = until(limit)
    {
        let (report, from) = (Report::At(until), until);
        line.report(limit, place, Reported { report, from })?;
    }
    Ok(())
}

/// Returns the first silent task of the limits that `may` accepts.
fn first<'a, L: Line>(
    line: &mut L,
    open: &'a [(Limit, Free)],
    may: impl Fn(&Free) -> bool,
) -> Result<Option<(Place, &'a Limit)>, L::Error> {
    let mut best: Option<(Place, &Limit)> = None;
    for (limit, _) in open.iter().filter(|(_, free)| may(free)) {
        if let Some(place) = line.first(limit)?
            && best.is_none_or(|(best, _)| place < best)
        {
            best = Some((place, limit));
        }
    }
    Ok(best)
}

impl Tasks {
    /// Returns how many tasks were reported later than `since`, or are reported in advance.
    fn reported_since(&self, since: Timestamp) -> u32 {
        let fresh = self.reported.range((since, u64::MAX)..).count();
        u32::try_from(fresh).unwrap_or(u32::MAX)
    }

    fn fresh(&self, now: Timestamp) -> u32 {
        self.reported_since(now.saturating_sub(PATIENCE).unwrap_or(Timestamp::MIN))
    }
}

/// A line of [`Lines`].
struct InMemory<'a, F> {
    pool: &'a Pool,
    line: &'a mut Tasks,
    held: &'a mut HashMap<u64, Held>,
    free: F,
    changed: Vec<u64>,
}

impl<F: Fn(&Limit) -> Free> Line for InMemory<'_, F> {
    type Error = Infallible;

    fn limits(&mut self) -> Result<Vec<Limit>, Infallible> {
        let groups = self.line.silent.keys();
        Ok(groups
            .filter_map(|group| limit_of(self.pool, *group))
            .collect())
    }

    fn reported(&mut self, since: Timestamp) -> Result<u32, Infallible> {
        Ok(self.line.reported_since(since))
    }

    fn first(&mut self, limit: &Limit) -> Result<Option<Place>, Infallible> {
        let silent = self.line.silent.get(&group(limit));
        Ok(silent.and_then(|silent| silent.first().copied()))
    }

    fn free(&mut self, limit: &Limit) -> Result<Free, Infallible> {
        Ok((self.free)(limit))
    }

    fn report(
        &mut self,
        limit: &Limit,
        place: Place,
        Reported { report, from }: Reported,
    ) -> Result<(), Infallible> {
        if let Some(silent) = self.line.silent.get_mut(&group(limit)) {
            silent.remove(&place);
            if silent.is_empty() {
                self.line.silent.remove(&group(limit));
            }
        }
        self.line.reported.insert((from, place.order));
        if let Some(held) = self.held.get_mut(&place.order) {
            (held.report, held.from) = (report, from);
        }
        self.changed.push(place.order);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
