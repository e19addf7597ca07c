//! [`Expression`]: a cron expression, as a pattern of local times without a time zone.

mod field;

use croner::{
    Cron, Weekday,
    parser::{CronParser, Seconds, Year},
};
use jiff::civil::{Date, DateTime, date};
use windlass_statemachine::Invalid;

use self::field::FIELDS;

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
                    "'{text}' has a day of the month that never comes beside its day of the week: {no_such_day}, \
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

/// Returns the error of the first field that is invalid on its own: `the day of the month is 32; write 1 to 31`.
fn wrong_field(words: &[&str]) -> Option<String> {
    let alone = |at: usize| {
        let words = words.iter().enumerate();
        let words = words.map(|(n, word)| if n == at { *word } else { "*" });
        words.collect::<Vec<_>>().join(" ")
    };
    let is_wrong = |at: &usize| parser().parse(&alone(*at)).is_err();
    let at = (0..words.len()).find(is_wrong)?;
    let (field, word) = (FIELDS.get(at)?, words.get(at)?);
    Some(format!(
        "the {} is {word}; write {}",
        field.name, field.takes
    ))
}

/// Returns the first field that the parser accepted without a value, such as `L` for the hour: the
/// expression would never fire.
fn empty_field(cron: &Cron, words: &[&str]) -> Option<String> {
    let pattern = &cron.pattern;
    let parts = [
        &pattern.seconds,
        &pattern.minutes,
        &pattern.hours,
        &pattern.months,
    ];
    let places = [0, 1, 2, 4];
    let (_, at) = (parts.iter().zip(places)).find(|(part, _)| part.values().is_empty())?;
    let (field, word) = (FIELDS.get(at)?, words.get(at)?);
    Some(format!(
        "the {} is {word}; write {}",
        field.name, field.takes
    ))
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
    fn the_wrong_field_is_named_in_words() {
        for (text, says) in [
            ("61 * * * *", "the minute is 61; write 0 to 59"),
            ("* 25 * * *", "the hour is 25; write 0 to 23"),
            ("0 0 32 * *", "the day of the month is 32; write 1 to 31"),
            (
                "0 0 * 13 *",
                "the month is 13; write 1 to 12, or JAN to DEC",
            ),
            ("0 0 * * 9", "the day of the week is 9; write 0 to 7"),
            ("0 0 * * FUN", "the day of the week is FUN; write 0 to 7"),
            ("61 0 0 1 1 *", "the second is 61; write 0 to 59"),
            ("a b c d e", "the minute is a; write"),
            ("0-70 * * * *", "the minute is 0-70; write 0 to 59"),
            ("0 L * * *", "the hour is L; write 0 to 23"),
            ("0 0 * L *", "the month is L; write 1 to 12"),
        ] {
            let refused = Expression::parse("cron", text).unwrap_err();
            assert!(refused.reason().contains(says), "{text}: {refused}");
        }
    }

    #[test]
    fn a_word_that_means_less_than_it_says_is_refused_with_what_to_write() {
        for (text, says) in [
            (
                "*/90 * * * *",
                "the step of the minute is 90, but an hour has 60 minutes, so that only 0 would be left; give \
                 'every' an interval of 90m instead, or write 0",
            ),
            ("*/61 * * * * *", "'every' an interval of 61s"),
            ("0 */36 * * *", "'every' an interval of 36h"),
            (
                "0 0 */40 * *",
                "a month has 31 days, so that only 1 would be left; give 'every' an interval of 40d",
            ),
            (
                "0 0 1 */18 *",
                "a year has 12 months, so that only 1 would be left; write the months, as in 1,7",
            ),
            (
                "0 0 * * */8",
                "a week has 7 days, so that only 0 would be left",
            ),
            ("0 0 * * +*/8", "a week has 7 days"),
            ("1,*/90 * * * *", "an interval of 90m"),
            (
                "0-30/45 * * * *",
                "but 0-30 has 31 minutes, so that only 0 would be left",
            ),
            (
                "0 0 * * MON-WED/4",
                "but MON-WED has 3 days, so that only MON would be left",
            ),
            (
                "*/0 * * * *",
                "the step of the minute is 0; write 1 or more",
            ),
            (
                "0 1-5/0 * * *",
                "the step of the hour is 0; write 1 or more",
            ),
            ("/5 * * * *", "the minute is /5; write */5"),
            ("5/15 * * * *", "the minute is 5/15; write 5-59/15"),
            (
                "5/60 * * * *",
                "the minute is 5/60, which leaves only 5; give 'every' an interval of 60m instead, or write 5",
            ),
            ("0 0 * MAR/2 *", "the month is MAR/2; write MAR-12/2"),
            (
                "5-1 * * * *",
                "which ends before it begins; write it as two: 5-59,0-1",
            ),
            ("0 22-6 * * *", "write it as two: 22-23,0-6"),
            ("0 0 * * FRI-MON", "write it as two: FRI-7,0-MON"),
            (
                "1,,2 * * * *",
                "the list of the minute, 1,,2, has an empty part; write 1,2",
            ),
            ("0 , * * *", "has an empty part; write 0 to 23"),
            (
                "0 0 31 2 MON",
                "has a day of the month that never comes beside its day of the week",
            ),
        ] {
            let refused = Expression::parse("cron", text).unwrap_err();
            assert!(refused.reason().contains(says), "{text}: {refused}");
        }
        // Texts that are accepted: a step of the whole field means what it says.
        for text in [
            "*/60 * * * *",
            "0 */24 * * *",
            "0 0 */31 * *",
            "0 0 1 */12 *",
            "0 0 * * */7",
            "0 0 * * FRI-7,0-MON",
            "5-59/15 * * * *",
            "0 0 * MAR-12/2 *",
            "0 0 31 4,5 MON",
        ] {
            let read = Expression::parse("cron", text);
            assert!(read.is_ok(), "{text}: {read:?}");
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
