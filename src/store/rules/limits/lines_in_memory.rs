//! [`Lines`]: the lines of a namespace, in memory.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    convert::Infallible,
};

use jiff::Timestamp;
use windlass_statemachine::Limit;

use super::{
    Free, Pool,
    lines::{Advance, Fresh, Line, Place, Report, Reported, Waiting, When, refill},
    numbers,
    reserve::{TURNS, Waited, turns},
};

/// A task that is held back.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    /// The limit in whose line the task is.
    pub(crate) limit: Limit,
    reported: Reported,
    place: Place,
    /// How often it was the task's turn while another of its limits was full.
    turns: u32,
}

impl Held {
    pub(crate) fn report(&self) -> Report {
        self.reported.report
    }
}

/// The tasks of a pool that are held back.
#[derive(Debug, Default)]
struct Tasks {
    /// The silent tasks, by the number of their limits.
    silent: BTreeMap<u32, BTreeSet<Place>>,
    /// The reported tasks, by [`Reported::from`].
    reported: BTreeMap<(Timestamp, u64), Report>,
}

/// All lines of a namespace.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    lines: HashMap<Pool, Tasks>,
    held: HashMap<u64, Held>,
    /// The tasks that may reserve slots, oldest first.
    reserving: BTreeSet<u64>,
}

impl Lines {
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Returns how many pools have a line.
    #[cfg(test)]
    pub(super) fn pools(&self) -> usize {
        self.lines.len()
    }

    /// Returns the task with this submit order, if it is held back.
    pub(crate) fn get(&self, order: u64) -> Option<&Held> {
        self.held.get(&order)
    }

    /// Returns the limits that hold tasks back.
    pub(crate) fn limits(&self) -> impl Iterator<Item = &Limit> {
        self.held.values().map(|held| &held.limit)
    }

    /// Puts a task into the line of a limit, silent, because its claim found that limit full. Returns whether nodes
    /// now see it differently.
    pub(crate) fn join(&mut self, limit: &Limit, place: Place) -> bool {
        let was = self.held.get(&place.order);
        if was.is_some_and(|held| {
            held.report() == Report::Silent && held.limit == *limit && held.place == place
        }) {
            return false;
        }
        let pool = Pool::of(limit);
        let before = was.map(|held| (Pool::of(&held.limit), held.reported, held.turns));
        let before = before.as_ref().map(|(pool, reported, turns)| Waited {
            pool,
            reported: *reported,
            turns: *turns,
        });
        let turns = turns(before, &pool);
        self.leave(place.order);
        if turns >= TURNS {
            self.reserving.insert(place.order);
        }
        let line = self.lines.entry(pool).or_default();
        line.put(limit, place, Reported::SILENT);
        let held = Held {
            limit: limit.clone(),
            reported: Reported::SILENT,
            place,
            turns,
        };
        self.held.insert(place.order, held);
        true
    }

    /// Removes a task from its line, and returns the pool of the line; `None` when the task was in no line. If the
    /// task is the [reserver](Self::reserver), the slots that were kept for it become free: [`refill`](Self::refill)
    /// the pool of each of its limits.
    pub(crate) fn leave(&mut self, order: u64) -> Option<Pool> {
        let held = self.held.remove(&order)?;
        self.reserving.remove(&order);
        let pool = Pool::of(&held.limit);
        if let Some(line) = self.lines.get_mut(&pool) {
            line.take(&held);
            if line.silent.is_empty() && line.reported.is_empty() {
                self.lines.remove(&pool);
            }
        }
        Some(pool)
    }

    /// Returns the task for which slots are kept.
    pub(crate) fn reserver(&self) -> Option<u64> {
        self.reserving.first().copied()
    }

    /// Ends the reservations of tasks that no node claims. Returns these tasks, like [`leave`](Self::leave).
    pub(crate) fn give_up(&mut self, now: Timestamp) -> Vec<u64> {
        let fresh = Fresh::at(now);
        let is_unclaimed =
            |one: &Held| one.report() != Report::Silent && !fresh.stands(&one.limit, &one.reported);
        let reserving = self.reserving.iter().copied();
        let over = reserving.filter(|order| self.held.get(order).is_some_and(is_unclaimed));
        let over: Vec<u64> = over.collect();
        for order in &over {
            self.reserving.remove(order);
            if let Some(held) = self.held.get_mut(order) {
                held.turns = 0;
            }
        }
        over
    }

    /// Reports the next tasks of a pool's line, by [`refill`]. Returns the tasks that nodes now see
    /// differently. `free` takes a limit and whether the slots are for the [reserver](Self::reserver), and
    /// returns the limit's free slots.
    pub(crate) fn refill(
        &mut self,
        pool: &Pool,
        when: When,
        free: impl Fn(&Limit, bool) -> Free,
    ) -> Vec<u64> {
        let Some(line) = self.lines.get_mut(pool) else {
            return Vec::new();
        };
        let mut view = InMemory {
            pool,
            line,
            held: &mut self.held,
            reserver: self.reserving.first().copied(),
            free,
            changed: Vec::new(),
        };
        match refill(&mut view, when) {
            Ok(()) => view.changed,
            Err(never) => match never {},
        }
    }

    /// Returns the pools with silent tasks in which no node has claimed the reported tasks, and those in which a
    /// task is reported in advance for a time that only a wrong clock can have produced. Call it about every
    /// second, and [`refill`](Self::refill) each of these pools.
    pub(crate) fn stuck(&self, now: Timestamp) -> Vec<Pool> {
        let fresh = Fresh::at(now);
        let lines = self.lines.iter();
        let stuck = lines.filter(|(_, line)| line.is_stuck(&fresh, &self.held));
        stuck.map(|(pool, _)| pool.clone()).collect()
    }
}

impl Tasks {
    fn put(&mut self, limit: &Limit, place: Place, reported: Reported) {
        match reported.report {
            Report::Silent => {
                self.silent
                    .entry(numbers(limit).0)
                    .or_default()
                    .insert(place);
            }
            _ => {
                let at = (reported.from, place.order);
                self.reported.insert(at, reported.report);
            }
        }
    }

    fn take(&mut self, held: &Held) {
        self.reported
            .remove(&(held.reported.from, held.place.order));
        let (most, _) = numbers(&held.limit);
        if let Some(silent) = self.silent.get_mut(&most) {
            silent.remove(&held.place);
            if silent.is_empty() {
                self.silent.remove(&most);
            }
        }
    }

    /// Returns the tasks that are reported for a time after this one, earliest first.
    fn reported_after(
        &self,
        after: Timestamp,
    ) -> impl DoubleEndedIterator<Item = (u64, Reported)> + '_ {
        let later = self.reported.range((after, u64::MAX)..);
        later.map(|((from, order), report)| {
            let (from, report) = (*from, *report);
            (*order, Reported { report, from })
        })
    }

    /// Returns the tasks that a node may be about to claim.
    fn fresh<'a>(&'a self, fresh: &'a Fresh) -> impl Iterator<Item = u64> + 'a {
        let recent = self.reported_after(fresh.after);
        let included = recent.filter(|(_, reported)| fresh.includes(reported));
        included.map(|(order, _)| order)
    }

    /// Returns the tasks that are reported in advance.
    fn in_advance(&self, now: Timestamp) -> impl DoubleEndedIterator<Item = u64> + '_ {
        let later = self.reported_after(now);
        let advances = later.filter(move |(_, reported)| reported.is_advance(now));
        advances.map(|(order, _)| order)
    }

    fn is_stuck(&self, fresh: &Fresh, held: &HashMap<u64, Held>) -> bool {
        if self.reported.is_empty() || self.fresh(fresh).next().is_some() {
            return false;
        }
        let mut advances = self
            .in_advance(fresh.now)
            .filter_map(|order| held.get(&order));
        match advances.next_back() {
            Some(advance) => !fresh.expects(&advance.limit, &advance.reported),
            None => !self.silent.is_empty(),
        }
    }
}

/// A line of [`Lines`].
struct InMemory<'a, F> {
    pool: &'a Pool,
    line: &'a mut Tasks,
    held: &'a mut HashMap<u64, Held>,
    reserver: Option<u64>,
    free: F,
    changed: Vec<u64>,
}

impl<F: Fn(&Limit, bool) -> Free> Line for InMemory<'_, F> {
    type Error = Infallible;

    fn limits(&mut self) -> Result<Vec<Limit>, Infallible> {
        let numbers = self.line.silent.keys();
        Ok(numbers.filter_map(|most| self.pool.limit(*most)).collect())
    }

    fn fresh(&mut self, fresh: &Fresh) -> Result<u32, Infallible> {
        let count = self.line.fresh(fresh).count();
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }

    fn last_fresh(
        &mut self,
        fresh: &Fresh,
        below: i32,
    ) -> Result<Option<(Limit, Place)>, Infallible> {
        let fresh = self.line.fresh(fresh);
        let tasks = fresh.filter_map(|order| self.held.get(&order));
        let tasks = tasks.filter(|one| one.place.priority() < below);
        let last = tasks.max_by_key(|one| one.place);
        Ok(last.map(|one| (one.limit.clone(), one.place)))
    }

    fn reported(&mut self, now: Timestamp) -> Result<u32, Infallible> {
        let in_advance = self.line.in_advance(now).count();
        let count = self.line.reported.len() - in_advance;
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }

    fn advance(&mut self, now: Timestamp) -> Result<Option<Advance>, Infallible> {
        let last = self.line.in_advance(now).next_back();
        let last = last.and_then(|order| self.held.get(&order));
        Ok(last.map(|one| Advance {
            limit: one.limit.clone(),
            place: one.place,
            until: one.reported.from,
        }))
    }

    fn first(&mut self, limit: &Limit) -> Result<Option<Place>, Infallible> {
        let silent = self.line.silent.get(&numbers(limit).0);
        Ok(silent.and_then(|silent| silent.first().copied()))
    }

    fn free(&mut self, limit: &Limit, for_reserver: bool) -> Result<Free, Infallible> {
        Ok((self.free)(limit, for_reserver))
    }

    fn reserver(&mut self) -> Result<Option<Waiting>, Infallible> {
        let held = self.reserver.and_then(|order| self.held.get(&order));
        let held = held.filter(|held| Pool::of(&held.limit) == *self.pool);
        Ok(held.map(|held| Waiting {
            limit: held.limit.clone(),
            place: held.place,
            reported: held.reported,
        }))
    }

    fn report(
        &mut self,
        limit: &Limit,
        place: Place,
        reported: Reported,
    ) -> Result<(), Infallible> {
        if let Some(held) = self.held.get_mut(&place.order) {
            self.line.take(held);
            held.reported = reported;
            self.line.put(limit, place, reported);
        }
        self.changed.push(place.order);
        Ok(())
    }
}
