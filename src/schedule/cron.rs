//! [`Expression`]: a cron expression, as a pattern of local times without a time zone.

mod field;
mod from_last;
mod plain;
mod years;

use croner::{
    Cron, Weekday,
    errors::CronError,
    parser::{CronParser, Seconds, Year},
};
use jiff::{
    ToSpan,
    civil::{Date, DateTime, Time, date},
};
use windlass_statemachine::Invalid;

use self::{
    field::{FIELDS, empty_field, wrong_field},
    plain::short,
    years::Years,
};

/// Names for common expressions, each with its expression of six fields.
const NAMED: [(&str, &str); 7] = [
    ("@yearly", "0 0 0 1 1 *"),
    ("@annually", "0 0 0 1 1 *"),
    ("@monthly", "0 0 0 1 * *"),
    ("@weekly", "0 0 0 * * 0"),
    ("@daily", "0 0 0 * * *"),
    ("@midnight", "0 0 0 * * *"),
    ("@hourly", "0 0 * * * *"),
];

/// The year from which on an expression has no times.
pub(crate) const END: i16 = 5000;

/// The number of years after which the calendar repeats: a date that does not occur within them
/// never occurs.
const CALENDAR: i16 = 400;

/// The prefix of an interval among the expressions: `@every 15m`.
const EVERY: &str = "@every";

/// The expression for the start of a machine, which is not a local time.
const REBOOT: &str = "@reboot";

/// The lengths of the months, from the shortest on.
const LENGTHS: [u32; 4] = [28, 29, 30, 31];

/// Returns the interval of an expression such as `@every 15m`.
pub(crate) fn interval_of(text: &str) -> Option<&str> {
    let text = text.trim();
    let name = text.get(..EVERY.len())?;
    let interval = text.get(EVERY.len()..)?;
    let is_every = name.eq_ignore_ascii_case(EVERY);
    let ends = interval.is_empty() || interval.starts_with(char::is_whitespace);
    (is_every && ends).then(|| interval.trim())
}

/// Returns whether an expression is the start of a machine.
pub(crate) fn is_reboot(text: &str) -> bool {
    text.trim().eq_ignore_ascii_case(REBOOT)
}

/// A cron expression: a pattern of local times.
#[derive(Debug, Clone)]
pub(crate) struct Expression {
    cron: Cron,
    /// The days of the months of each length, where some are counted from the last: `None` for no such day.
    by_length: Option<Box<[Option<Cron>; 4]>>,
    /// The years; `None` for every year.
    years: Option<Years>,
    /// Whether the times are steps through the day, which follow elapsed time when the clocks
    /// change.
    steps: bool,
}

impl Expression {
    /// Reads an expression with 5, 6 or 7 fields, or a name such as `@daily`. The first of 6 and of 7 fields is the second,
    /// and the last of 7 is the year.
    ///
    /// # Errors
    ///
    /// [`Invalid`] that names `field`, also for an expression without any times.
    pub(crate) fn parse(field: &'static str, text: &str) -> Result<Self, Invalid> {
        let wrong = |reason: &str| {
            let reason = format!(
                "'{text}' is not a cron expression: {reason}; write it like '30 2 * * MON-FRI' \
                 (minute, hour, day of the month, month, day of the week), with a field for the \
                 second before them if you need one, and then one for the year behind them, or as @daily"
            );
            Invalid::new(field, reason)
        };
        let first = text.split_whitespace().next().unwrap_or_default();
        if let Some((name @ ("CRON_TZ" | "TZ"), zone)) = first.split_once('=') {
            let reason = format!(
                "'{text}' begins with a time zone, which no cron expression has; leave out '{name}={zone}', and give '{zone}' \
                 as the zone of the schedule ('zone' in JSON, --zone on the command line)"
            );
            return Err(Invalid::new(field, reason));
        }
        if interval_of(text).is_some() || is_reboot(text) {
            let reason =
                format!("'{text}' is no pattern of times; it can only add times, in 'cron'");
            return Err(Invalid::new(field, reason));
        }
        let fields = match text.trim() {
            name if name.starts_with('@') => {
                let named = NAMED.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
                let Some((_, fields)) = named else {
                    let names: Vec<_> = NAMED.iter().map(|(name, _)| *name).collect();
                    let names = names.join(", ");
                    return Err(wrong(&format!(
                        "the names are {names}, {REBOOT} and {EVERY} with an interval, such as {EVERY} 15m"
                    )));
                };
                (*fields).to_owned()
            }
            other if other.split_whitespace().count() == 5 => format!("0 {other}"),
            other => other.to_owned(),
        };
        let mut words: Vec<String> = fields.split_whitespace().map(short).collect();
        let years = match words.len() {
            6 => None,
            7 => words.pop(),
            many => return Err(wrong(&format!("it has {many} fields"))),
        };
        let years = years.as_deref().map(Years::parse).transpose();
        let years = years.map_err(|reason| wrong(&reason))?.flatten();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        for (field, word) in FIELDS.iter().zip(&words) {
            field.check(word).map_err(|reason| wrong(&reason))?;
        }
        let plain = FIELDS.iter().zip(&words);
        let plain: Vec<String> = plain.map(|(field, word)| field.plain(word)).collect();
        let [second, minute, hour, day, month, weekday] = plain.as_slice() else {
            return Err(wrong(&format!("it has {} fields", plain.len())));
        };
        let stepped = |word: &str| word.contains(['*', '/', '?']);
        let every_hour = ["*", "?", "*/1", "0-23", "0-23/1"].contains(&hour.as_str());
        let read = |words: [&str; 6]| -> Result<Self, CronError> {
            let [.., day, _, weekday] = words;
            let mut words = words.map(str::to_owned);
            let mut by_length = None;
            if from_last::is_in(day) {
                let of_length = |length| {
                    let day = from_last::in_month_of(length, day, weekday)?;
                    Some(parser().parse(&format!("0 0 0 {day} * {weekday}")))
                };
                let mut all = [None, None, None, None];
                for (days, length) in all.iter_mut().zip(LENGTHS) {
                    *days = of_length(length).transpose()?;
                }
                by_length = Some(Box::new(all));
                // The days are those of the patterns by length.
                words[3] = "*".to_owned();
                words[5] = "*".to_owned();
            }
            Ok(Self {
                cron: parser().parse(&words.join(" "))?,
                by_length,
                years: years.clone(),
                steps: false,
            })
        };
        let given = [second, minute, hour, day, month, weekday].map(String::as_str);
        let expression = read(given).map_err(|e| match wrong_field(&words, &plain) {
            Some(reason) => wrong(&reason),
            None => wrong(&e.to_string()),
        })?;
        if let Some(reason) = empty_field(&expression.cron, &words) {
            return Err(wrong(&reason));
        }
        let expression = Self {
            steps: words.iter().take(2).any(|word| stepped(word)) || every_hour,
            ..expression
        };
        let no_such_day = match years {
            None => "no year has such a day; change the day of the month or the month",
            Some(_) => {
                "none of its years has such a day; change the day of the month, the month or the year"
            }
        };
        if !expression.ever_comes() {
            let reason = format!("'{text}' never comes: {no_such_day}");
            return Err(Invalid::new(field, reason));
        }
        // When either of two days is enough, the weekday hides that the other day never occurs.
        let is_any = |word: &str| word == "*" || word == "?";
        if !is_any(day) && !is_any(weekday) && !weekday.starts_with('+') {
            let alone = read(["0", "0", "0", day, month, "*"]);
            if alone.is_ok_and(|alone| !alone.ever_comes()) {
                let reason = format!(
                    "'{text}' has a day of the month that never occurs, together with a day of the week: {no_such_day}, \
                     or write * for the day of the month"
                );
                return Err(Invalid::new(field, reason));
            }
        }
        Ok(expression)
    }

    /// Returns whether the times are steps of an hour or less, which follow elapsed time.
    pub(crate) fn steps(&self) -> bool {
        self.steps
    }

    /// Returns the first local time at or after `from`; `None` when there is none before the year 5000.
    pub(crate) fn at_or_after(&self, from: DateTime) -> Option<DateTime> {
        match self.by_length.is_some() || self.years.is_some() {
            true => self.walk(from),
            false => self.cron.find_next_occurrence(&from, true).ok(),
        }
    }

    /// Returns the time like [`at_or_after`](Self::at_or_after), day by day: for days and years that the
    /// parser does not know.
    fn walk(&self, from: DateTime) -> Option<DateTime> {
        let whole = match from.subsec_nanosecond() {
            0 => from,
            nanos => from
                .checked_add((1_000_000_000 - nanos).nanoseconds())
                .ok()?,
        };
        let (mut day, mut time) = (whole.date(), whole.time());
        while day.year() < END {
            let next = self.next_day(day)?;
            if next > day {
                (day, time) = (next, Time::midnight());
            } else if self.has_day(day)
                && let Some(time) = self.time_from(time)
            {
                return Some(day.to_datetime(time));
            } else {
                (day, time) = (day.tomorrow().ok()?, Time::midnight());
            }
        }
        None
    }

    /// Returns the day itself, or the first one after it in a month and a year of the expression, if this is not
    /// one.
    fn next_day(&self, day: Date) -> Option<Date> {
        let year = match &self.years {
            None => day.year(),
            Some(years) => years.from(day.year())?,
        };
        if year > day.year() {
            return Date::new(year, 1, 1).ok();
        }
        match self.has_month(day) {
            true => Some(day),
            false => day.first_of_month().checked_add(1.month()).ok(),
        }
    }

    fn has_month(&self, day: Date) -> bool {
        let month = day.month().unsigned_abs().into();
        self.cron.pattern.month_match(month).unwrap_or(false)
    }

    /// Returns the first time of the day from this one on.
    fn time_from(&self, from: Time) -> Option<Time> {
        let pattern = &self.cron.pattern;
        let number = |n: i8| u32::from(n.unsigned_abs());
        for hour in from.hour()..24 {
            if !pattern.hour_match(number(hour)).unwrap_or(false) {
                continue;
            }
            let is_first = hour == from.hour();
            for minute in if is_first { from.minute() } else { 0 }..60 {
                if !pattern.minute_match(number(minute)).unwrap_or(false) {
                    continue;
                }
                let is_first = is_first && minute == from.minute();
                for second in if is_first { from.second() } else { 0 }..60 {
                    if pattern.second_match(number(second)).unwrap_or(false) {
                        return Time::new(hour, minute, second, 0).ok();
                    }
                }
            }
        }
        None
    }

    /// Returns whether the expression has this local time.
    pub(crate) fn matches(&self, at: DateTime) -> bool {
        let time = [at.hour(), at.minute(), at.second()].map(|n| u32::from(n.unsigned_abs()));
        at.subsec_nanosecond() == 0 && self.has_time(time) && self.has_day(at.date())
    }

    fn ever_comes(&self) -> bool {
        if self.years.is_some() {
            return self.walk(date(1, 1, 1).at(0, 0, 0, 0)).is_some();
        }
        let mut day = date(2000, 1, 1);
        let end = date(2000 + CALENDAR, 1, 1);
        while day < end {
            if self.has_day(day) {
                return true;
            }
            match day.tomorrow() {
                Ok(next) => day = next,
                Err(_) => return false,
            }
        }
        false
    }

    /// Returns whether the expression has this time of the day (hour, minute, second), on the days that it includes.
    pub(crate) fn has_time(&self, [hour, minute, second]: [u32; 3]) -> bool {
        let pattern = &self.cron.pattern;
        pattern.hour_match(hour).unwrap_or(false)
            && pattern.minute_match(minute).unwrap_or(false)
            && pattern.second_match(second).unwrap_or(false)
    }

    /// Returns whether the expression includes this day.
    pub(crate) fn has_day(&self, day: Date) -> bool {
        let (year, month) = (i32::from(day.year()), day.month().unsigned_abs().into());
        let weekday = day.weekday().to_sunday_zero_offset().unsigned_abs().into();
        let weekday = Weekday::from_days_from_sunday(weekday);
        if !self.has_month(day)
            || self
                .years
                .as_ref()
                .is_some_and(|years| !years.has(day.year()))
        {
            return false;
        }
        let days = match &self.by_length {
            None => Some(&self.cron),
            Some(by_length) => {
                let length = u32::from(day.days_in_month().unsigned_abs());
                let mut all = by_length.iter().zip(LENGTHS);
                all.find(|(_, of)| *of == length)
                    .and_then(|(days, _)| days.as_ref())
            }
        };
        let day = day.day().unsigned_abs().into();
        days.is_some_and(|days| {
            days.pattern
                .day_match(year, month, day, weekday)
                .unwrap_or(false)
        })
    }
}

fn parser() -> CronParser {
    CronParser::builder()
        .seconds(Seconds::Required)
        .year(Year::Disallowed)
        .build()
}

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;
