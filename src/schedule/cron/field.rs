//! The fields of a cron expression: the values of each, and the errors of its parts.

use croner::Cron;

use super::{from_last, parser};

/// The name of the field that may be counted from the last day.
const DAY: &str = "day of the month";

/// The names of the months, starting at the value 1.
const MONTHS: [&str; 12] = [
    "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
];
/// The names of the days of the week, starting at the value 0.
const DAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// A field of an expression.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    /// The allowed values, as errors say them.
    pub(super) takes: &'static str,
    /// The names of the values, starting at the smallest.
    names: &'static [&'static str],
    pub(super) least: u32,
    most: u32,
    /// The number of values. The days of the week 0 and 7 are the same.
    count: u32,
    /// The values in the plural, and the unit that contains them.
    of: (&'static str, &'static str),
    /// The unit in which an interval of such steps is written.
    unit: Option<char>,
    /// Whether a range may go around the end, as the night and the weekend do: `22-2`, `FRI-MON`.
    pub(super) wraps: bool,
}

/// The fields, with the second first.
pub(super) const FIELDS: [Field; 6] = [
    Field {
        name: "second",
        takes: "0 to 59",
        names: &[],
        least: 0,
        most: 59,
        count: 60,
        of: ("seconds", "a minute"),
        unit: Some('s'),
        wraps: false,
    },
    Field {
        name: "minute",
        takes: "0 to 59",
        names: &[],
        least: 0,
        most: 59,
        count: 60,
        of: ("minutes", "an hour"),
        unit: Some('m'),
        wraps: false,
    },
    Field {
        name: "hour",
        takes: "0 to 23",
        names: &[],
        least: 0,
        most: 23,
        count: 24,
        of: ("hours", "a day"),
        unit: Some('h'),
        wraps: true,
    },
    Field {
        name: "day of the month",
        takes: "1 to 31, L for the last, or L-3 for the third before it",
        names: &[],
        least: 1,
        most: 31,
        count: 31,
        of: ("days", "a month"),
        unit: Some('d'),
        wraps: false,
    },
    Field {
        name: "month",
        takes: "1 to 12, or JAN to DEC",
        names: &MONTHS,
        least: 1,
        most: 12,
        count: 12,
        of: ("months", "a year"),
        unit: None,
        wraps: true,
    },
    Field {
        name: "day of the week",
        takes: "0 to 7, or SUN to SAT; 5L for the last Friday of a month",
        names: &DAYS,
        least: 0,
        most: 7,
        count: 7,
        of: ("days", "a week"),
        unit: Some('d'),
        wraps: true,
    },
];

impl Field {
    /// Returns the error of a word that is valid but probably not what the user meant, with what to write instead.
    /// The parser reports other errors of a word.
    pub(super) fn check(&self, word: &str) -> Result<(), String> {
        let word = word.strip_prefix('+').unwrap_or(word);
        if self.name == DAY {
            from_last::check(word)?;
        }
        for part in word.split(',') {
            if part.is_empty() {
                let parts: Vec<&str> = word.split(',').filter(|part| !part.is_empty()).collect();
                let write = match parts.is_empty() {
                    true => self.takes.to_owned(),
                    false => parts.join(","),
                };
                return Err(format!(
                    "the list of the {}, {word}, has an empty part; write {write}",
                    self.name
                ));
            }
            // The parser accepts an L in every list, and ignores it in those of other fields.
            if part.eq_ignore_ascii_case("L") && self.name != DAY {
                return Err(format!("the {} is {word}; write {}", self.name, self.takes));
            }
            match part.split_once('/') {
                Some((range, step)) => self.check_step(range, step)?,
                None => self.check_range(part).map(drop)?,
            }
        }
        Ok(())
    }

    /// Checks that a range begins before it ends, and returns the number of its values.
    fn check_range(&self, range: &str) -> Result<Option<u32>, String> {
        let Some((from, to)) = self.bounds(range) else {
            return Ok(["*", "?"].contains(&range).then_some(self.count));
        };
        if to < from && to >= self.least && from <= self.most {
            if self.wraps {
                let (from, count) = (self.place(from), self.count);
                return Ok(Some((to + count - from) % count + 1));
            }
            let (first, last) = range.split_once('-').unwrap_or_default();
            return Err(format!(
                "the {} has the range {range}, which ends before it begins; write it as two: {first}-{},{}-{last}",
                self.name, self.most, self.least
            ));
        }
        Ok((to >= from).then(|| to - from + 1))
    }

    fn check_step(&self, range: &str, step: &str) -> Result<(), String> {
        let Ok(number) = step.parse::<u32>() else {
            return Ok(());
        };
        let name = self.name;
        if number == 0 {
            return Err(format!(
                "the step of the {name} is 0; write 1 or more, as in */5"
            ));
        }
        if range.is_empty() {
            return Err(format!("the {name} is /{step}; write */{step}"));
        }
        let instead = match self.unit {
            Some(unit) => format!("give 'every' an interval of {number}{unit} instead"),
            None => "write the months, as in 1,7".to_owned(),
        };
        if let Some(from) = self.value(range) {
            let after = self.last().checked_sub(self.place(from));
            let is_in = from >= self.least && from <= self.most;
            return Err(match after.filter(|_| is_in) {
                // The values from this one on.
                Some(after) if number <= after => return Ok(()),
                Some(_) => format!(
                    "the {name} is {range}/{step}, which leaves only {range}; {instead}, or write {range}"
                ),
                None => format!("the {name} is {range}/{step}; write {}", self.takes),
            });
        }
        let Some(count) = self.check_range(range)?.filter(|count| number > *count) else {
            return Ok(());
        };
        let (values, whole) = self.of;
        let whole = match range {
            "*" | "?" => whole,
            range => range,
        };
        let first = match range.split_once('-') {
            Some((first, _)) => first.to_owned(),
            None => self.least.to_string(),
        };
        Err(format!(
            "the step of the {name} is {number}, but {whole} has {count} {values}, so that only {first} would be \
             left; {instead}, or write {first}"
        ))
    }

    /// Returns the two values of a range.
    pub(super) fn bounds(&self, range: &str) -> Option<(u32, u32)> {
        let (from, to) = range.split_once('-')?;
        Some((self.value(from)?, self.value(to)?))
    }

    /// Returns the last of the values. Of the days of the week, it is the 6.
    pub(super) fn last(&self) -> u32 {
        self.least + self.count - 1
    }

    /// Returns the value itself, or the 0 for the day 7 of the week.
    pub(super) fn place(&self, value: u32) -> u32 {
        match value > self.last() {
            true => self.least,
            false => value,
        }
    }

    /// Returns the number for a text, which may be a name.
    pub(super) fn value(&self, text: &str) -> Option<u32> {
        let named = || {
            let mut names = self.names.iter();
            let at = names.position(|name| name.eq_ignore_ascii_case(text))?;
            Some(self.least + u32::try_from(at).ok()?)
        };
        text.parse().ok().or_else(named)
    }
}

/// Returns the error of the first field that is invalid on its own: `the day of the month is 32; write 1 to 31`.
pub(super) fn wrong_field(words: &[&str], plain: &[String]) -> Option<String> {
    let is_wrong = |at: &usize| {
        let words = plain.iter().enumerate().map(|(n, word)| match n == *at {
            // A long month has each day that is counted from its last.
            true => from_last::in_month_of(31, word, "*").unwrap_or_default(),
            false => "*".to_owned(),
        });
        let words: Vec<String> = words.collect();
        parser().parse(&words.join(" ")).is_err()
    };
    let at = (0..plain.len()).find(is_wrong)?;
    let (field, word) = (FIELDS.get(at)?, words.get(at)?);
    let is_year = at == 5 && word.len() == 4 && word.bytes().all(|byte| byte.is_ascii_digit());
    let year = match is_year {
        true => "; a year needs 7 fields: the second first, and the year last",
        false => "",
    };
    Some(format!(
        "the {} is {word}; write {}{year}",
        field.name, field.takes
    ))
}

/// Returns the first field that the parser accepted without a value, such as `L` for the hour: the
/// expression would never fire.
pub(super) fn empty_field(cron: &Cron, words: &[&str]) -> Option<String> {
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
mod tests;
