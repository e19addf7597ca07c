//! [`Tally`]: counts the nominal times of a span without visiting each of them.
//!
//! Most local days of a span are alike: a day is computed only once for each set of expressions that
//! includes it.

use std::{collections::HashMap, ops::ControlFlow};

use jiff::{SignedDuration, Timestamp, tz::Offset};

use super::{
    cron::Expression,
    excluded::between,
    left_out::{LeftOut, Why},
    seconds::{DAY, Seconds},
    times::{Times, before},
    zone::{Clocks, Fold},
};

const SECOND: i64 = 1_000_000_000;

/// The nominal times of a span.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) times: u64,
    pub(crate) last: Option<Timestamp>,
    /// The time before the last.
    pub(crate) before_last: Option<Timestamp>,
}

impl Tally {
    /// Counts the times of a schedule from `first` to `to`, both included.
    pub(crate) fn of(times: &Times, first: Timestamp, to: Timestamp) -> Self {
        let spec = times.spec();
        let first = spec.start.map_or(first, |start| start.max(first));
        let to = spec.end.map_or(to, |end| end.min(to));
        if to < first {
            return Self::default();
        }
        match times.single_interval() {
            Some(every) => Self::of_interval(every, first, to),
            None => {
                let mut tally = Self::default();
                Days::new(times).visit((first, to), |zero, day| {
                    tally.add(zero, day);
                    ControlFlow::Continue(())
                });
                tally
            }
        }
    }

    /// Returns the first time of a schedule from `first` to `to`.
    pub(crate) fn first(times: &Times, first: Timestamp, to: Timestamp) -> Option<Timestamp> {
        let mut found = None;
        Days::new(times).visit((first, to), |zero, day| match day.first {
            Some(nanos) => {
                found = instant(zero, nanos);
                ControlFlow::Break(())
            }
            None => ControlFlow::Continue(()),
        });
        found
    }

    /// Counts the times of an interval.
    fn of_interval(
        (anchor, interval): (Timestamp, SignedDuration),
        first: Timestamp,
        to: Timestamp,
    ) -> Self {
        let (anchor, interval) = (anchor.as_nanosecond(), interval.as_nanos());
        let number = |at: i128| (at - anchor).div_euclid(interval);
        let (before, last) = (
            number(first.as_nanosecond() - 1),
            number(to.as_nanosecond()),
        );
        let at = |number: i128| {
            let at = anchor + number * interval;
            Timestamp::from_nanosecond(at)
                .ok()
                .filter(|_| number > before)
        };
        Self {
            times: u64::try_from(last - before).unwrap_or(0),
            last: at(last),
            before_last: at(last - 1),
        }
    }

    /// Returns the times as one entry of left-out times; `None` when there are none.
    pub(crate) fn left_out(&self, first: Timestamp, why: Why) -> Option<LeftOut> {
        let last = self.last?;
        let times = self.times;
        Some(LeftOut {
            first,
            last,
            times,
            why,
        })
    }

    /// Adds the times of a later day, which begins at `zero`.
    fn add(&mut self, zero: i64, day: &Day) {
        self.times += day.times;
        for nanos in day.last_two.into_iter().flatten() {
            self.before_last = self.last;
            self.last = instant(zero, nanos);
        }
    }
}

/// The times of a day, or of a part of it: their number, and the first one and the last two as nanoseconds of
/// the day.
#[derive(Debug, Clone, Default)]
struct Day {
    times: u64,
    first: Option<i64>,
    /// The last two times, oldest first.
    last_two: [Option<i64>; 2],
}

/// A part of a local day in which the clocks do not change.
struct Part {
    /// The second at which the day begins by the clocks of this part.
    zero: i64,
    /// The span, as nanoseconds of the day: start (included) and end (excluded).
    span: (i64, i64),
    /// The seconds of the day that the clocks show for the second time.
    repeated: (i64, i64),
    /// For each expression, whether the part begins with the first instant after a gap.
    after_gap: Vec<bool>,
}

impl Part {
    /// Returns whether the part is a whole day without a change of the clocks.
    fn is_ordinary(&self) -> bool {
        let is_whole = self.span == (0, DAY * SECOND);
        let (from, to) = self.repeated;
        is_whole && from >= to && !self.after_gap.contains(&true)
    }
}

/// The days of a schedule that are computed already.
struct Days<'a> {
    times: &'a Times,
    crons: Vec<(&'a Expression, Seconds)>,
    except: Vec<(&'a Expression, Seconds)>,
    /// The ordinary days, by the expressions that include them and the phase of each interval.
    known: HashMap<Vec<i64>, Day>,
}

impl<'a> Days<'a> {
    fn new(times: &'a Times) -> Self {
        let seconds = |all: &'a [Expression]| {
            let each = all.iter().map(|one| (one, Seconds::of(one)));
            each.collect::<Vec<_>>()
        };
        Self {
            times,
            crons: seconds(times.crons()),
            except: seconds(times.except().crons()),
            known: HashMap::new(),
        }
    }

    /// Calls the visitor with each day from `first` to `to`, and the second at which it begins, until
    /// the visitor stops.
    fn visit(
        mut self,
        (first, to): (Timestamp, Timestamp),
        mut see: impl FnMut(i64, &Day) -> ControlFlow<()>,
    ) {
        let clocks = self.times.clocks();
        let mut from = first;
        while from <= to {
            let change = clocks.zone.following(from).next();
            let change = change.map(|change| change.timestamp());
            // The clocks change only at whole seconds.
            let until = change.filter(|change| *change <= to);
            let end = until.map_or(to.as_nanosecond() + 1, Timestamp::as_nanosecond);
            let offset = clocks.zone.to_offset(from);
            let since = Since::new(clocks, from);
            let zero = day_of(offset, from);
            for day in 0.. {
                let zero = zero + day * DAY;
                let nanos = i128::from(zero) * i128::from(SECOND);
                let within = |at: i128| (at - nanos).clamp(0, i128::from(DAY * SECOND)) as i64;
                let span = (within(from.as_nanosecond()), within(end));
                if i128::from(zero) * i128::from(SECOND) >= end {
                    break;
                }
                let part = since.part(&self.crons, (zero, span));
                if see(zero, &self.day(&part, offset)).is_break() {
                    return;
                }
            }
            match until {
                Some(change) => from = change,
                None => break,
            }
        }
    }

    /// Returns the times of a part of a day.
    fn day(&mut self, part: &Part, offset: Offset) -> Day {
        let Ok(begin) = Timestamp::from_second(part.zero) else {
            return Day::default();
        };
        let date = offset.to_datetime(begin).date();
        let except = self.times.except();
        if except.has_day(date) {
            return Day::default();
        }
        let nanos = i128::from(part.zero) * i128::from(SECOND);
        let in_part = |at: &Timestamp| {
            let at = i64::try_from(at.as_nanosecond() - nanos).ok()?;
            (part.span.0..part.span.1).contains(&at).then_some(at)
        };
        let span = (
            nanos + i128::from(part.span.0),
            nanos + i128::from(part.span.1),
        );
        let single = between(self.times.at(), span).iter();
        let mut points: Vec<i64> = single.filter_map(in_part).collect();
        points.extend(self.months_in(part).iter().filter_map(in_part));
        let removed = between(except.at(), span).iter();
        let removed: Vec<i64> = removed.filter_map(in_part).collect();
        let mut key: Vec<i64> = Vec::new();
        let expressions = self.crons.iter().chain(&self.except);
        key.extend(expressions.map(|(one, _)| i64::from(one.has_day(date))));
        let phases = self.times.every().iter().map(|(anchor, interval)| {
            let phase = (anchor.as_nanosecond() - nanos).rem_euclid(interval.as_nanos());
            // An interval of several days has no time on most days.
            i64::try_from(phase).map_or(DAY * SECOND, |phase| phase.min(DAY * SECOND))
        });
        key.extend(phases);
        let is_ordinary = part.is_ordinary() && points.is_empty() && removed.is_empty();
        if is_ordinary && let Some(day) = self.known.get(&key) {
            return day.clone();
        }
        let day = self.compute(part, &key, (&points, &removed));
        if is_ordinary {
            self.known.insert(key, day.clone());
        }
        day
    }

    /// Returns the times of a part of a day that are months apart.
    fn months_in(&self, part: &Part) -> Vec<Timestamp> {
        let (Some(from), Some(to)) = (
            instant(part.zero, part.span.0),
            instant(part.zero, part.span.1),
        ) else {
            return Vec::new();
        };
        let clocks = self.times.clocks();
        let mut found = Vec::new();
        for monthly in self.times.monthly() {
            let mut last = before(from);
            while let Some(at) = monthly.next(clocks, last)
                && at < to
            {
                found.push(at);
                last = at;
            }
        }
        found
    }

    /// Computes a part of a day. The key names the expressions that include the day, and the phases of the
    /// intervals; then follow the single times and the excluded ones.
    fn compute(&self, part: &Part, key: &[i64], (points, removed): (&[i64], &[i64])) -> Day {
        let (from, to) = part.span;
        let mut seconds = Seconds::none();
        let mut fractions: Vec<i64> = Vec::new();
        let mut key = key.iter();
        for ((expression, of_it), after_gap) in self.crons.iter().zip(&part.after_gap) {
            let mut of_it = match key.next() {
                Some(1) => of_it.clone(),
                _ => Seconds::none(),
            };
            let (again, until) = part.repeated;
            if again < until && !expression.steps() {
                of_it.clear(again, until);
            }
            of_it.set(from / SECOND, *after_gap || of_it.has(from / SECOND));
            seconds.add(&of_it);
        }
        let excluded: Vec<bool> = self.except.iter().map(|_| key.next() == Some(&1)).collect();
        let mut take = |at: i64| match at % SECOND {
            0 => seconds.set(at / SECOND, true),
            _ => fractions.push(at),
        };
        points.iter().copied().for_each(&mut take);
        for ((_, interval), phase) in self.times.every().iter().zip(key) {
            let step = i64::try_from(interval.as_nanos()).unwrap_or(i64::MAX);
            let mut at = *phase;
            while at < to {
                take(at);
                at = at.saturating_add(step);
            }
        }
        let except = self.except.iter().zip(excluded);
        for ((_, of_it), _) in except.filter(|(_, has_day)| *has_day) {
            seconds.remove(of_it);
        }
        seconds.clear(0, from.div_euclid(SECOND) + i64::from(from % SECOND > 0));
        seconds.clear(to.div_euclid(SECOND) + i64::from(to % SECOND > 0), DAY);
        for at in removed.iter().filter(|at| *at % SECOND == 0) {
            seconds.set(at / SECOND, false);
        }
        // The excluded times are sorted.
        fractions.retain(|at| (from..to).contains(at) && removed.binary_search(at).is_err());
        fractions.sort_unstable();
        fractions.dedup();
        let mut last: Vec<i64> = seconds.latest().take(2).map(|s| s * SECOND).collect();
        last.extend(fractions.iter().rev().take(2));
        last.sort_unstable_by(|a, b| b.cmp(a));
        let first = seconds.earliest().map(|second| second * SECOND);
        Day {
            times: seconds.count() + fractions.len() as u64,
            first: first.into_iter().chain(fractions.first().copied()).min(),
            last_two: [last.get(1).copied(), last.first().copied()],
        }
    }
}

/// The last change of the clocks.
struct Since<'a> {
    clocks: &'a Clocks,
    /// When the clocks changed, and by how many seconds they went forward.
    change: Option<(Timestamp, i64)>,
}

impl<'a> Since<'a> {
    fn new(clocks: &'a Clocks, from: Timestamp) -> Self {
        let after = Timestamp::from_nanosecond(from.as_nanosecond() + 1).unwrap_or(from);
        let change = clocks.zone.preceding(after).next().map(|change| {
            let at = change.timestamp();
            (at, clocks.forward_at(at))
        });
        Self { clocks, change }
    }

    /// Returns the part of a day after the change.
    fn part(&self, crons: &[(&Expression, Seconds)], (zero, span): (i64, (i64, i64))) -> Part {
        let (mut repeated, mut after_gap) = ((0, 0), vec![false; crons.len()]);
        if let Some((change, forward)) = self.change {
            let since = change.as_second() - zero;
            if forward < 0 && self.clocks.fold == Fold::First {
                repeated = (since.max(0), (since - forward).min(DAY));
            }
            if since * SECOND == span.0 {
                let gaps = crons.iter();
                let gaps = gaps.map(|(one, _)| self.clocks.after_a_gap(one, change).is_some());
                after_gap = gaps.collect();
            }
        }
        Part {
            zero,
            span,
            repeated,
            after_gap,
        }
    }
}

/// Returns the instant that is this many nanoseconds after the second at which a day begins.
fn instant(zero: i64, nanos: i64) -> Option<Timestamp> {
    let at = i128::from(zero) * i128::from(SECOND) + i128::from(nanos);
    Timestamp::from_nanosecond(at).ok()
}

/// Returns the second at which the local day of an instant begins, by clocks with this offset.
fn day_of(offset: Offset, at: Timestamp) -> i64 {
    let second = at.as_nanosecond().div_euclid(i128::from(SECOND)) as i64;
    let offset = i64::from(offset.seconds());
    (second + offset).div_euclid(DAY) * DAY - offset
}

#[cfg(test)]
#[path = "tally_tests.rs"]
mod tests;
