//! [`Times`]: the nominal times of a checked schedule, and when each run is due.

use jiff::{SignedDuration, Timestamp, ToSpan, Zoned, civil::DateTime, tz::TimeZone};
use windlass_statemachine::Invalid;

use super::{
    check,
    cron::{END as CRON_END, Expression, interval_of, is_reboot},
    cursor::Known,
    data::Data,
    deadlines::Within,
    excluded::{Excluded, sorted},
    hash::hash,
    interval::{Interval, Monthly},
    span::Length,
    spec::Schedule,
    tally::Tally,
    zone::Clocks,
};

/// How many excluded times in a row are visited. Further ones are skipped day by day.
const MOST_EXCLUDED: usize = 1_000;

/// How far ahead times are searched day by day. If all of them are excluded, the schedule has no
/// more times.
const SEARCHED: SignedDuration = SignedDuration::from_hours(100 * 366 * 24);

/// How many of the first times the jitter is compared with.
const COMPARED: usize = 50;

pub(crate) use super::cursor::Cursor;

/// One time of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Time {
    /// The nominal time, as the expressions define it. It names the run.
    pub nominal: Timestamp,
    /// When the run is due: the nominal time plus offset and jitter.
    pub due: Timestamp,
    /// The nominal time in the zone of the schedule.
    pub local: Zoned,
    /// The time by which the run has to start, if the schedule sets one.
    pub start_by: Option<Timestamp>,
    /// The time by which the run has to end, if the schedule sets one.
    pub end_by: Option<Timestamp>,
}

/// The nominal times of a checked schedule.
#[derive(Debug, Clone)]
pub(crate) struct Times {
    id: String,
    crons: Vec<Expression>,
    every: Vec<(Timestamp, SignedDuration)>,
    monthly: Vec<Monthly>,
    at: Vec<Timestamp>,
    except: Excluded,
    spec: Schedule,
    clocks: Clocks,
    offset: SignedDuration,
    jitter: SignedDuration,
    within: Within,
    known: Known,
}

impl Schedule {
    /// Checks every field.
    ///
    /// # Errors
    ///
    /// [`Invalid`] with the field: `run.kind`, `run.labels`, `description`, `cron`, `every`, `at`, `except.cron`, `start`, `end`, `count`,
    /// `zone`, `offset`, `jitter`, `start_within`, `end_within`, `overlap`, `missed.within`; `schedule` when it has no times; `id` for an id
    /// that is not valid for a task, or too long for the ids of its runs.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{NewTask, schedule::Schedule};
    ///
    /// let now = "2030-01-01T00:00:00Z".parse()?;
    /// let never = Schedule::new(NewTask::new("report")).cron("0 0 30 2 *");
    /// assert_eq!(never.check("monthly", now).unwrap_err().field(), "cron");
    /// # Ok::<(), windlass::BoxError>(())
    /// ```
    pub fn check(&self, id: &str, now: Timestamp) -> Result<(), Invalid> {
        self.check_size()?;
        let times = Times::new(id, self)?;
        let from = self.since.unwrap_or(now).max(self.start.unwrap_or(now));
        times.check_first(from)
    }

    /// Returns the next `count` times after `after`; no more than the runs of [`count`](Self::count).
    ///
    /// # Errors
    ///
    /// The errors of [`check`](Self::check); field `limit` for more times than [`most_times`](Self::most_times).
    pub fn preview(&self, id: &str, after: Timestamp, count: usize) -> Result<Vec<Time>, Invalid> {
        self.check_size()?;
        self.check_times(count)?;
        let times = Times::new(id, self)?;
        let data = Data {
            last: Some(after),
            ..Data::default()
        };
        let coming = data.coming(&times, after, count);
        Ok(coming.into_iter().map(|at| times.time(at)).collect())
    }
}

impl Times {
    /// Reads the fields, and checks each.
    pub(crate) fn new(id: &str, spec: &Schedule) -> Result<Self, Invalid> {
        check::id(id)?;
        check::run(spec)?;
        let expressions = |field, texts: &[String]| -> Result<Vec<_>, Invalid> {
            let each = texts.iter().map(|text| Expression::parse(field, text));
            each.collect()
        };
        let is_pattern = |text: &&String| interval_of(text).is_none() && !is_reboot(text);
        let patterns: Vec<String> = spec.cron.iter().filter(is_pattern).cloned().collect();
        let crons = expressions("cron", &patterns)?;
        let except = Excluded::new(&spec.except, expressions("except.cron", &spec.except.cron)?);
        let zone = TimeZone::get(&spec.zone).map_err(|_| {
            let reason = format!(
                "'{}' is not a time zone that this machine knows; write its IANA name, like Europe/Berlin or UTC",
                spec.zone
            );
            Invalid::new("zone", reason)
        })?;
        check::description(spec)?;
        check::bounds(spec)?;
        let clocks = Clocks {
            zone,
            gap: spec.gap,
            fold: spec.fold,
        };
        let (mut every, mut monthly) = (Vec::new(), Vec::new());
        for (interval, anchor) in check::intervals(spec)? {
            match interval {
                Interval::Fixed(Length(length)) => {
                    every.push((anchor.unwrap_or(Timestamp::UNIX_EPOCH), length));
                }
                Interval::Months(months) => monthly.push(Monthly::new(months, anchor, &clocks)),
            }
        }
        Ok(Self {
            id: id.to_owned(),
            crons,
            every,
            monthly,
            at: sorted(&spec.at),
            except,
            clocks,
            offset: spec.offset.check("offset")?,
            jitter: spec.jitter.check("jitter")?,
            within: Within::new(spec)?,
            known: Known::default(),
            spec: spec.clone(),
        })
    }

    /// Checks that the schedule has a time, and that the jitter fits between two times.
    fn check_first(&self, from: Timestamp) -> Result<(), Invalid> {
        let before = before(from);
        let Some(mut last) = self.next(before.into()) else {
            if self.at_boot() {
                return Ok(());
            }
            let crons_end =
                !self.crons.is_empty() && from.to_zoned(TimeZone::UTC).year() >= CRON_END;
            let reason = match self.has_times() {
                false => "has no times; give 'cron', 'every' or 'at'".to_owned(),
                true if crons_end => format!(
                    "fires at no time after {from}: a cron expression gives times before the year {CRON_END}; \
                     give 'every' or 'at' for later ones, or an earlier 'start'"
                ),
                true => format!(
                    "fires at no time after {from}: each is excluded, after 'end', or past; change \
                     'except', 'end', 'start' or 'at'"
                ),
            };
            return Err(Invalid::new("schedule", reason));
        };
        if self.jitter.is_zero() {
            return Ok(());
        }
        for _ in 0..COMPARED {
            let Some(next) = self.next(last.into()) else {
                return Ok(());
            };
            let interval = next.duration_since(last);
            if self.jitter > interval {
                let reason = format!(
                    "{} is longer than the {interval:#} between {last} and {next}; give a shorter one",
                    self.spec.jitter
                );
                return Err(Invalid::new("jitter", reason));
            }
            last = next;
        }
        Ok(())
    }

    fn has_times(&self) -> bool {
        self.repeats() || !self.at.is_empty()
    }

    fn repeats(&self) -> bool {
        !(self.crons.is_empty() && self.every.is_empty() && self.monthly.is_empty())
    }

    /// Returns the last time of a schedule that has only single times.
    fn last_single(&self) -> Option<Timestamp> {
        self.at.last().copied().filter(|_| !self.repeats())
    }

    /// Returns the spec of these times.
    pub(crate) fn spec(&self) -> &Schedule {
        &self.spec
    }

    /// Returns the cron expressions.
    pub(crate) fn crons(&self) -> &[Expression] {
        &self.crons
    }

    /// Returns the anchor and the length of each interval.
    pub(crate) fn every(&self) -> &[(Timestamp, SignedDuration)] {
        &self.every
    }

    /// Returns the times that are months apart.
    pub(crate) fn monthly(&self) -> &[Monthly] {
        &self.monthly
    }

    /// Returns whether each start of a machine submits a run, too.
    pub(crate) fn at_boot(&self) -> bool {
        self.spec.is_at_boot()
    }

    /// Returns whether a start of a machine may still submit a run.
    pub(crate) fn awaits_boot(&self, now: Timestamp) -> bool {
        self.at_boot() && self.spec.end.is_none_or(|end| now < end)
    }

    /// Returns the single times, in their order.
    pub(crate) fn at(&self) -> &[Timestamp] {
        &self.at
    }

    /// Returns the excluded times.
    pub(crate) fn except(&self) -> &Excluded {
        &self.except
    }

    /// Returns the rules by which local times become instants.
    pub(crate) fn clocks(&self) -> &Clocks {
        &self.clocks
    }

    /// Returns the interval of a schedule that has no other times and excludes none.
    pub(crate) fn single_interval(&self) -> Option<(Timestamp, SignedDuration)> {
        let has_others = !self.crons.is_empty() || !self.at.is_empty() || !self.monthly.is_empty();
        match self.every.as_slice() {
            [every] if !has_others && self.spec.except.is_empty() => Some(*every),
            _ => None,
        }
    }

    /// Returns the longest time between a nominal time and its due time.
    pub(crate) fn delay(&self) -> SignedDuration {
        self.offset.saturating_add(self.jitter)
    }

    /// Returns the deadlines of its runs.
    pub(crate) fn within(&self) -> Within {
        self.within
    }

    /// Returns the id of the schedule.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Returns the first nominal time after those that are decided.
    pub(crate) fn next(&self, cursor: Cursor) -> Option<Timestamp> {
        let past = match cursor.local {
            Some(local) => self.clocks.past(cursor.last, local),
            None => cursor.last,
        };
        let first = self.spec.start.map(before);
        let (mut last, mut past) = match first {
            Some(first) => (cursor.last.max(first), past.max(first)),
            None => (cursor.last, past),
        };
        for _ in 0..MOST_EXCLUDED {
            let next = self.candidate(last, past)?;
            if self.spec.end.is_some_and(|end| next > end) {
                return None;
            }
            if !self.is_excluded(next) {
                return Some(next);
            }
            (last, past) = (next, past.max(next));
        }
        let first = last.checked_add(1.nanosecond()).ok()?;
        let to = first.checked_add(SEARCHED).unwrap_or(Timestamp::MAX);
        let end = self
            .spec
            .end
            .unwrap_or(to)
            .min(self.last_single().unwrap_or(to));
        Tally::first(self, first, to.min(end))
    }

    /// Returns the first time after `last`, whether it is excluded or not. Fixed local times must
    /// come after `past`.
    fn candidate(&self, last: Timestamp, past: Timestamp) -> Option<Timestamp> {
        let crons = self.crons.iter().enumerate().filter_map(|(n, cron)| {
            let after = if cron.steps() { last } else { past };
            self.known.next(n, after, || self.clocks.next(cron, after))
        });
        let every = self.every.iter().filter_map(|every| next_of(*every, last));
        let at = self.at.get(self.at.partition_point(|at| *at <= last));
        let monthly = self.monthly.iter();
        let monthly = monthly.filter_map(|monthly| monthly.next(&self.clocks, past));
        crons.chain(every).chain(monthly).chain(at.copied()).min()
    }

    fn is_excluded(&self, nominal: Timestamp) -> bool {
        self.except.has(nominal, self.local(nominal))
    }

    /// Returns a nominal time with its due time and its local form.
    pub(crate) fn time(&self, nominal: Timestamp) -> Time {
        let (start_by, end_by) = self.within.deadlines(nominal);
        Time {
            nominal,
            start_by,
            end_by,
            due: self.due(nominal),
            local: nominal.to_zoned(self.clocks.zone.clone()),
        }
    }

    /// Returns the local time of an instant.
    pub(crate) fn local(&self, nominal: Timestamp) -> DateTime {
        self.clocks.zone.to_datetime(nominal)
    }

    /// Returns when the run of a nominal time is due.
    pub(crate) fn due(&self, nominal: Timestamp) -> Timestamp {
        let jitter = self.jitter_of(nominal);
        let due = nominal.checked_add(self.offset);
        let due = due.and_then(|due| due.checked_add(jitter));
        due.unwrap_or(Timestamp::MAX)
    }

    /// Returns the jitter of a nominal time, in milliseconds. It follows from the schedule's id and
    /// the nominal time.
    fn jitter_of(&self, nominal: Timestamp) -> SignedDuration {
        if self.jitter.is_zero() {
            return SignedDuration::ZERO;
        }
        let next = self.next(nominal.into());
        let room = next.map_or(self.jitter, |next| next.duration_since(nominal));
        let most = self.jitter.min(room).as_millis();
        match u64::try_from(most) {
            Ok(most) if most > 0 => {
                let key = format!("{}@{nominal}", self.id);
                let part = hash(key.as_bytes()) % most;
                SignedDuration::from_millis(i64::try_from(part).unwrap_or(0))
            }
            _ => SignedDuration::ZERO,
        }
    }
}

/// Returns the instant before, so that a search after it includes `at`.
pub(crate) fn before(at: Timestamp) -> Timestamp {
    at.checked_sub(1.nanosecond()).unwrap_or(Timestamp::MIN)
}

fn next_of((anchor, interval): (Timestamp, SignedDuration), after: Timestamp) -> Option<Timestamp> {
    let (anchor, interval) = (anchor.as_nanosecond(), interval.as_nanos());
    let passed = (after.as_nanosecond() - anchor).div_euclid(interval);
    Timestamp::from_nanosecond(anchor + (passed + 1) * interval).ok()
}

#[cfg(test)]
#[path = "times_tests.rs"]
mod tests;
