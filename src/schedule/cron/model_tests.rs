//! Random expressions against a model that reads them by itself.

use jiff::civil::{Date, Weekday, date};

use super::Expression;

/// How many random expressions are compared.
const EXPRESSIONS: usize = 2300;

/// Random numbers that are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        u32::try_from((self.0 >> 33) % most).unwrap()
    }

    fn range(&mut self, from: u32, to: u32) -> u32 {
        from + self.below(u64::from(to - from + 1))
    }

    fn list(&mut self, part: impl Fn(&mut Self) -> String) -> String {
        let parts = (0..self.range(1, 3))
            .map(|_| part(self))
            .collect::<Vec<_>>();
        parts.join(",")
    }

    /// A value, a range or steps.
    fn numbers(&mut self, from: u32, to: u32) -> String {
        let first = self.range(from, to - 1);
        let last = self.range(first + 1, to);
        match self.below(4) {
            0 => format!("{first}-{last}"),
            1 => format!("{first}-{last}/{}", self.range(1, last - first)),
            2 => format!("*/{}", self.range(1, to - from)),
            _ => first.to_string(),
        }
    }

    fn day(&mut self) -> String {
        if self.below(4) == 0 {
            return "*".to_owned();
        }
        self.list(|random| match random.below(7) {
            0 => "L".to_owned(),
            1 => "LW".to_owned(),
            2 => format!("L-{}", random.range(1, 30)),
            3 | 4 => format!("{}W", random.range(1, 31)),
            _ => random.numbers(1, 31),
        })
    }

    fn weekday(&mut self) -> String {
        if self.below(3) == 0 {
            return "*".to_owned();
        }
        let plus = if self.below(3) == 0 { "+" } else { "" };
        let list = self.list(|random| match random.below(4) {
            0 => format!("{}#{}", random.range(0, 7), random.range(1, 5)),
            1 => format!("{}L", random.range(0, 7)),
            _ => random.numbers(0, 6),
        });
        format!("{plus}{list}")
    }

    fn month(&mut self) -> String {
        match self.below(3) {
            0 => self.list(|random| random.numbers(1, 12)),
            _ => "*".to_owned(),
        }
    }
}

/// Returns whether a value is among numbers, ranges and steps.
fn has_number(part: &str, value: u32) -> bool {
    let (range, step) = part.split_once('/').unwrap_or((part, "1"));
    let step: u32 = step.parse().unwrap();
    let (from, to) = match range.split_once('-') {
        Some((from, to)) => (from.parse().unwrap(), to.parse().unwrap()),
        None => (range.parse().unwrap(), range.parse().unwrap()),
    };
    (from..=to).contains(&value) && (value - from).is_multiple_of(step)
}

/// Returns whether a value is among numbers, ranges and steps of a field whose first value this is.
fn has(part: &str, least: u32, value: u32) -> bool {
    match part.strip_prefix("*/") {
        Some(step) => (value - least).is_multiple_of(step.parse().unwrap()),
        None => has_number(part, value),
    }
}

fn is_working(day: Date) -> bool {
    !matches!(day.weekday(), Weekday::Saturday | Weekday::Sunday)
}

/// Returns the working day next to a day, in the same month: that before a Saturday, that after a Sunday.
fn nearest(day: Date) -> Date {
    let in_month = |other: Date| other.month() == day.month() && is_working(other);
    let away = |days: i32| day.checked_add(jiff::Span::new().days(days)).unwrap();
    let mut others = [0, -1, 1, 2, -2].map(away).into_iter();
    others.find(|other| in_month(*other)).unwrap()
}

fn has_day(part: &str, day: Date) -> bool {
    let last = day.last_of_month();
    let number = |date: Date| u32::from(date.day().unsigned_abs());
    if part == "L" {
        return day == last;
    }
    if part == "LW" {
        let mut days = (0..3).map(|n| last.checked_sub(jiff::Span::new().days(n)).unwrap());
        return days.find(|day| is_working(*day)) == Some(day);
    }
    if let Some(before) = part.strip_prefix("L-") {
        return number(day) + before.parse::<u32>().unwrap() == number(last);
    }
    if let Some(of) = part.strip_suffix('W') {
        let of: i8 = of.parse().unwrap();
        return Date::new(day.year(), day.month(), of).is_ok_and(|of| nearest(of) == day);
    }
    has(part, 1, number(day))
}

fn has_weekday(part: &str, day: Date) -> bool {
    let weekday = u32::from(day.weekday().to_sunday_zero_offset().unsigned_abs());
    let is = |text: &str| text.parse::<u32>().unwrap() % 7 == weekday;
    if let Some((of, nth)) = part.split_once('#') {
        let place = (u32::from(day.day().unsigned_abs()) - 1) / 7 + 1;
        return is(of) && nth.parse::<u32>().unwrap() == place;
    }
    if let Some(of) = part.strip_suffix('L') {
        return is(of) && day.day() + 7 > day.days_in_month();
    }
    has(part, 0, weekday)
}

/// Returns whether the fields select a day, as docs/reference/schedules.md says.
fn selects([days, months, weekdays]: [&str; 3], day: Date) -> bool {
    let month = u32::from(day.month().unsigned_abs());
    if months != "*" && !months.split(',').any(|part| has(part, 1, month)) {
        return false;
    }
    let both = weekdays.strip_prefix('+');
    let by_day = days
        .split(',')
        .any(|part| days == "*" || has_day(part, day));
    let list = both.unwrap_or(weekdays).split(',');
    let by_weekday = weekdays == "*" || list.into_iter().any(|part| has_weekday(part, day));
    match (days == "*", weekdays == "*") {
        (true, _) | (_, true) => by_day && by_weekday,
        _ if both.is_some() => by_day && by_weekday,
        _ => by_day || by_weekday,
    }
}

/// Regression: `LW,L` never fired on a last day that is a Saturday or a Sunday. Each accepted combination is evaluated.
#[test]
fn an_accepted_expression_has_the_days_that_its_parts_name() {
    let mut random = Random(42);
    // A leap year, whose months end on each kind of day, and a February of 28 days.
    let (first, last) = (date(2028, 1, 1), date(2029, 2, 28));
    let days: Vec<Date> = first
        .series(jiff::Span::new().days(1))
        .take_while(|day| *day <= last)
        .filter(|day| day.year() == 2028 || day.month() == 2)
        .collect();
    let (mut compared, mut refused) = (0, 0);
    while compared < EXPRESSIONS {
        let fields = [random.day(), random.month(), random.weekday()];
        let [day, month, weekday] = &fields;
        let text = format!("0 0 {day} {month} {weekday}");
        let Ok(expression) = Expression::parse("cron", &text) else {
            refused += 1;
            assert!(refused < EXPRESSIONS, "most expressions are accepted");
            continue;
        };
        compared += 1;
        let fields = [day, month, weekday].map(String::as_str);
        for day in &days {
            assert_eq!(
                expression.has_day(*day),
                selects(fields, *day),
                "{text} on {day}"
            );
        }
    }
}

#[test]
fn the_last_day_and_the_last_working_day_go_together() {
    for text in ["0 0 LW,L * *", "0 0 L,LW * *", "0 0 l,lw,1 * +0-6"] {
        let expression = Expression::parse("cron", text).unwrap();
        // 2026-01-31 is a Saturday, 2026-05-31 a Sunday.
        for day in [
            date(2026, 1, 31),
            date(2026, 1, 30),
            date(2026, 5, 31),
            date(2026, 5, 29),
        ] {
            assert!(expression.has_day(day), "{text} on {day}");
        }
        assert!(!expression.has_day(date(2026, 5, 30)), "{text}");
    }
}
