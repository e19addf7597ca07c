//! The fields of a cron expression: the values of each, and the errors of its parts.

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
    least: u32,
    most: u32,
    /// The number of values. The days of the week 0 and 7 are the same.
    count: u32,
    /// The values in the plural, and the unit that contains them.
    of: (&'static str, &'static str),
    /// The unit in which an interval of such steps is written.
    unit: Option<char>,
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
    },
    Field {
        name: "day of the month",
        takes: "1 to 31",
        names: &[],
        least: 1,
        most: 31,
        count: 31,
        of: ("days", "a month"),
        unit: Some('d'),
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
    },
    Field {
        name: "day of the week",
        takes: "0 to 7, or SUN to SAT",
        names: &DAYS,
        least: 0,
        most: 7,
        count: 7,
        of: ("days", "a week"),
        unit: Some('d'),
    },
];

impl Field {
    /// Returns the error of a word that is valid but probably not what the user meant, with what to write instead.
    /// The parser reports other errors of a word.
    pub(super) fn check(&self, word: &str) -> Result<(), String> {
        let word = word.strip_prefix('+').unwrap_or(word);
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
            match part.split_once('/') {
                Some((range, step)) => self.check_step(range, step)?,
                None => self.check_range(part).map(drop)?,
            }
        }
        Ok(())
    }

    /// Checks that a range begins before it ends, and returns the number of its values.
    fn check_range(&self, range: &str) -> Result<Option<u32>, String> {
        let bounds = range.split_once('-');
        let bounds = bounds.and_then(|(from, to)| Some((self.value(from)?, self.value(to)?)));
        let Some((from, to)) = bounds else {
            return Ok(["*", "?"].contains(&range).then_some(self.count));
        };
        if to < from && to >= self.least && from <= self.most {
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
        let Self { name, most, .. } = self;
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
            return Err(match most.checked_sub(from) {
                Some(after) if number <= after + 1 => {
                    format!("the {name} is {range}/{step}; write {range}-{most}/{step}")
                }
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

    /// Returns the number for a text, which may be a name.
    fn value(&self, text: &str) -> Option<u32> {
        let named = || {
            let mut names = self.names.iter();
            let at = names.position(|name| name.eq_ignore_ascii_case(text))?;
            Some(self.least + u32::try_from(at).ok()?)
        };
        text.parse().ok().or_else(named)
    }
}
