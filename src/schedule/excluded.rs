//! [`Excluded`]: the times that a schedule excludes.

use jiff::{
    Timestamp,
    civil::{Date, DateTime},
};

use super::{clause::Except, cron::Expression};

/// The times that a schedule excludes, sorted once: each time and each day of a search asks for some of them.
#[derive(Debug, Clone)]
pub(crate) struct Excluded {
    crons: Vec<Expression>,
    at: Vec<Timestamp>,
    dates: Vec<Date>,
}

impl Excluded {
    /// Returns the excluded times of a spec, whose expressions are already read.
    pub(crate) fn new(except: &Except, crons: Vec<Expression>) -> Self {
        Self {
            crons,
            at: sorted(&except.at),
            dates: sorted(&except.dates),
        }
    }

    /// Returns the expressions of excluded times.
    pub(crate) fn crons(&self) -> &[Expression] {
        &self.crons
    }

    /// Returns the single excluded times, in their order.
    pub(crate) fn at(&self) -> &[Timestamp] {
        &self.at
    }

    /// Returns whether all times of a local day are excluded.
    pub(crate) fn has_day(&self, date: Date) -> bool {
        self.dates.binary_search(&date).is_ok()
    }

    /// Returns whether a time is excluded.
    pub(crate) fn has(&self, nominal: Timestamp, local: DateTime) -> bool {
        self.at.binary_search(&nominal).is_ok()
            || self.has_day(local.date())
            || self.crons.iter().any(|cron| cron.matches(local))
    }
}

/// Returns the parts of a spec in their order, each once.
pub(crate) fn sorted<T: Ord + Copy>(all: &[T]) -> Vec<T> {
    let mut all = all.to_vec();
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns the times from `from` (included) to `to` (excluded), of sorted ones.
pub(crate) fn between(sorted: &[Timestamp], span: (i128, i128)) -> &[Timestamp] {
    part(sorted, |at| at.as_nanosecond(), span)
}

/// Returns the entries whose number is from `from` (included) to `to` (excluded).
fn part<T>(sorted: &[T], number: impl Fn(&T) -> i128, (from, to): (i128, i128)) -> &[T] {
    let first = |least: i128| sorted.partition_point(|one| number(one) < least);
    sorted.get(first(from)..first(to)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn the_excluded_times_of_a_day_are_found_without_a_look_at_each() {
        let all: Vec<i128> = (0..10_000).collect();
        let looked = Cell::new(0);
        let number = |one: &i128| {
            looked.set(looked.get() + 1);
            *one
        };
        assert_eq!(part(&all, number, (5_000, 5_003)), [5_000, 5_001, 5_002]);
        assert!(part(&all, number, (20_000, 30_000)).is_empty());
        assert!(part(&all, number, (-9, 0)).is_empty());
        assert!(looked.get() < 100, "{}", looked.get());
    }
}
