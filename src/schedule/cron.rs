//! [`Expression`]: a cron expression, as a pattern of local times without a time zone.

mod field;

use croner::{
    Cron, Weekday,
    parser::{CronParser, Seconds, Year},
};
use jiff::civil::{Date, DateTime, date};
use windlass_statemachine::Invalid;

use self::field::{FIELDS, empty_field, wrong_field};

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

/// A cron expression: a pattern of local times.
#[derive(Debug, Clone)]
pub(crate) struct Expression {
    cron: Cron,
    /// Whether the times are steps through the day, which follow elapsed time when the clocks
    /// change.
    steps: bool,
}

impl Expression {
    /// Reads an expression with 5 or 6 fields (the first of 6 is the second), or a name such as `@daily`.
    ///
    /// # Errors
    ///
    /// [`Invalid`] that names `field`, also for an expression without any times.
    pub(crate) fn parse(field: &'static str, text: &str) -> Result<Self, Invalid> {
        let wrong = |reason: &str| {
            let reason = format!(
                "'{text}' is not a cron expression: {reason}; write it like '30 2 * * MON-FRI' \
                 (minute, hour, day of the month, month, day of the week), with a field for the \
                 second before them if you need one, or as @daily"
            );
            Invalid::new(field, reason)
        };
        let fields = match text.trim() {
            name if name.starts_with('@') => {
                let named = NAMED.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
                let Some((_, fields)) = named else {
                    let names: Vec<_> = NAMED.iter().map(|(name, _)| *name).collect();
                    return Err(wrong(&format!("the names are {}", names.join(", "))));
                };
                (*fields).to_owned()
            }
            other if other.split_whitespace().count() == 5 => format!("0 {other}"),
            other => other.to_owned(),
        };
        let words: Vec<&str> = fields.split_whitespace().collect();
        let [second, minute, hour, day, month, weekday] = words.as_slice() else {
            return Err(wrong(&format!("it has {} fields", words.len())));
        };
        for (field, word) in FIELDS.iter().zip(&words) {
            field.check(word).map_err(|reason| wrong(&reason))?;
        }
        let cron = parser()
            .parse(&fields)
            .map_err(|e| match wrong_field(&words) {
                Some(reason) => wrong(&reason),
                None => wrong(&e.to_string()),
            })?;
        if let Some(reason) = empty_field(&cron, &words) {
            return Err(wrong(&reason));
        }
        let stepped = |word: &str| word.contains(['*', '/', '?']);
        let every_hour = ["*", "?", "*/1", "0-23"].contains(hour);
        let expression = Self {
            steps: stepped(second) || stepped(minute) || every_hour,
            cron,
        };
        let no_such_day = "no year has such a day; change the day of the month or the month";
        if !expression.ever_comes() {
            let reason = format!("'{text}' never comes: {no_such_day}");
            return Err(Invalid::new(field, reason));
        }
        // When either of two days is enough, the weekday hides that the other day never occurs.
        let is_any = |word: &str| word == "*" || word == "?";
        if !is_any(day) && !is_any(weekday) && !weekday.starts_with('+') {
            let alone = format!("0 0 0 {day} {month} *");
            let alone = parser()
                .parse(&alone)
                .map(|cron| Self { cron, steps: false });
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
        self.cron.find_next_occurrence(&from, true).ok()
    }

    /// Returns whether the expression has this local time.
    pub(crate) fn matches(&self, at: DateTime) -> bool {
        at.subsec_nanosecond() == 0 && self.cron.is_time_matching(&at).unwrap_or(false)
    }

    fn ever_comes(&self) -> bool {
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
        let pattern = &self.cron.pattern;
        pattern.month_match(month).unwrap_or(false)
            && pattern
                .day_match(year, month, day.day().unsigned_abs().into(), weekday)
                .unwrap_or(false)
    }
}

fn parser() -> CronParser {
    CronParser::builder()
        .seconds(Seconds::Required)
        .year(Year::Disallowed)
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(text: &str, from: DateTime) -> DateTime {
        let expression = Expression::parse("cron", text).unwrap();
        expression.at_or_after(from).unwrap()
    }

    #[test]
    fn five_fields_six_fields_and_names_are_read() {
        let from = date(2030, 1, 1).at(0, 0, 1, 0);
        assert_eq!(first("30 2 * * *", from), date(2030, 1, 1).at(2, 30, 0, 0));
        assert_eq!(
            first("15 30 2 * * *", from),
            date(2030, 1, 1).at(2, 30, 15, 0)
        );
        assert_eq!(first("@weekly", from), date(2030, 1, 6).at(0, 0, 0, 0));
        assert_eq!(first(" @Midnight ", from), date(2030, 1, 2).at(0, 0, 0, 0));
        assert_eq!(
            first("0 9 * * MON-FRI", from),
            date(2030, 1, 1).at(9, 0, 0, 0)
        );
        assert_eq!(first("0 0 L * *", from), date(2030, 1, 31).at(0, 0, 0, 0));
        assert_eq!(first("0 0 * * 5#L", from), date(2030, 1, 25).at(0, 0, 0, 0));
    }

    #[test]
    fn a_day_of_the_month_or_of_the_week_is_enough() {
        // As in other crons: two restricted days are alternatives.
        let from = date(2030, 1, 1).at(0, 0, 0, 0);
        let expression = Expression::parse("cron", "0 0 13 * FRI").unwrap();
        let friday = expression.at_or_after(from).unwrap();
        assert_eq!(friday, date(2030, 1, 4).at(0, 0, 0, 0));
        assert!(expression.matches(date(2030, 1, 13).at(0, 0, 0, 0)));
    }

    #[test]
    fn an_expression_that_never_comes_is_refused() {
        for text in ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 0 31 4 ?"] {
            let refused = Expression::parse("cron", text).unwrap_err();
            assert_eq!(refused.field(), "cron");
            assert!(refused.reason().contains("never comes"), "{refused}");
        }
    }

    #[test]
    fn the_29_of_february_comes_in_leap_years() {
        let from = date(2097, 1, 1).at(0, 0, 0, 0);
        // 2100 is not a leap year.
        assert_eq!(first("0 0 29 2 *", from), date(2104, 2, 29).at(0, 0, 0, 0));
        // On a Monday this date occurs every 28 years, and after 40 years across 2100.
        let from = date(2072, 3, 1).at(0, 0, 0, 0);
        assert_eq!(
            first("0 0 29 2 +MON", from),
            date(2112, 2, 29).at(0, 0, 0, 0)
        );
    }

    #[test]
    fn wrong_expressions_are_refused_with_an_example() {
        for text in [
            "",
            "* * * *",
            "61 * * * *",
            "* 25 * * *",
            "a b c d e",
            "@reboot",
            "0 0 32 * *",
            "0 0 0 1 1 * 2030",
            "0 0 * 13 *",
            "*/0 * * * *",
            "5-1 * * * *",
        ] {
            let refused = Expression::parse("cron", text).unwrap_err();
            assert_eq!(refused.field(), "cron", "{text}");
            assert!(refused.reason().contains("@daily"), "{refused}");
        }
    }

    #[test]
    fn steps_of_an_hour_or_less_are_known() {
        for (text, steps) in [
            ("30 2 * * *", false),
            ("0,30 2,3 * * *", false),
            ("0 */2 * * *", false),
            ("@daily", false),
            ("@hourly", true),
            ("15 * * * *", true),
            ("*/15 9-17 * * *", true),
            ("*/10 30 2 * * *", true),
        ] {
            let expression = Expression::parse("cron", text).unwrap();
            assert_eq!(expression.steps(), steps, "{text}");
        }
    }
}
