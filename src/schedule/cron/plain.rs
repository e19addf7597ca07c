//! Writes the words of an expression as the parser takes them: short names, no range that wraps around, no step from
//! a single value.

use super::field::Field;

/// The full names, whose first three letters are the short ones.
const FULL: [&str; 18] = [
    "JANUARY",
    "FEBRUARY",
    "MARCH",
    "APRIL",
    "JUNE",
    "JULY",
    "AUGUST",
    "SEPTEMBER",
    "OCTOBER",
    "NOVEMBER",
    "DECEMBER",
    "SUNDAY",
    "MONDAY",
    "TUESDAY",
    "WEDNESDAY",
    "THURSDAY",
    "FRIDAY",
    "SATURDAY",
];

/// Returns a word with short names in the place of full ones.
pub(super) fn short(word: &str) -> String {
    let mut plain = String::with_capacity(word.len());
    let mut rest = word;
    while !rest.is_empty() {
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (name, behind) = rest.split_at(letters);
        let is_full = FULL.iter().any(|full| full.eq_ignore_ascii_case(name));
        plain.push_str(if is_full {
            name.get(..3).unwrap_or(name)
        } else {
            name
        });
        let others = behind
            .bytes()
            .take_while(|byte| !byte.is_ascii_alphabetic())
            .count();
        let (between, next) = behind.split_at(others);
        plain.push_str(between);
        rest = next;
    }
    plain
}

impl Field {
    /// Returns a checked word in the form that the parser takes.
    pub(super) fn plain(&self, word: &str) -> String {
        let (plus, list) = match word.strip_prefix('+') {
            Some(list) => ("+", list),
            None => ("", word),
        };
        let parts = list.split(',').map(|part| self.plain_part(part));
        format!("{plus}{}", parts.collect::<Vec<_>>().join(","))
    }

    fn plain_part(&self, part: &str) -> String {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, step.parse::<u32>().ok()),
            None => (part, Some(1)),
        };
        let Some(step) = step.filter(|step| *step > 0) else {
            return part.to_owned();
        };
        if part.contains('/')
            && let Some(from) = self.value(range)
        {
            return format!("{}-{}/{step}", self.place(from), self.last());
        }
        match self.bounds(range) {
            Some((from, to)) if to < from && self.wraps => {
                let values = (self.place(from)..=self.last()).chain(self.least..=to);
                // The day 7 is the day 0.
                let values: Vec<u32> = match self.place(from) <= to {
                    true => (self.place(from)..=to).collect(),
                    false => values.collect(),
                };
                let values = values.iter().step_by(step as usize);
                values.map(u32::to_string).collect::<Vec<_>>().join(",")
            }
            // The parser reads SUN-SUN as the whole week.
            Some((from, to)) if from == to => self.place(from).to_string(),
            _ => part.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use jiff::civil::date;
    use proptest::prelude::*;

    use super::{
        super::{Expression, field::FIELDS},
        *,
    };

    #[test]
    fn words_are_written_as_the_parser_takes_them() {
        for (at, word, expected) in [
            (5, "MONDAY-friday", "MON-fri"),
            (5, "Sunday#1,SAT", "Sun#1,SAT"),
            (4, "JANUARY,May,SEPTEMBER", "JAN,May,SEP"),
            (5, "FRI-MON", "5,6,0,1"),
            (5, "+FRI-MON/2", "+5,0"),
            (5, "7-1", "0,1"),
            (5, "SUN-SUN", "0"),
            (5, "0-7", "0-7"),
            (5, "1/2", "1-6/2"),
            (5, "7/3", "0-6/3"),
            (1, "5/10", "5-59/10"),
            (2, "22-2", "22,23,0,1,2"),
            (4, "NOV-FEB", "11,12,1,2"),
            (4, "MAR/2", "3-12/2"),
            (3, "L,1-5/2,15W", "L,1-5/2,15W"),
        ] {
            assert_eq!(FIELDS[at].plain(&short(word)), expected, "{word}");
        }
    }

    proptest! {
        /// A walk around the week from day to day.
        #[test]
        fn a_range_of_weekdays_that_wraps_has_the_days_of_a_walk(from in 0u32..7, to in 0u32..7, step in 1u32..4) {
            let names = ["SUNDAY", "MON", "TUESDAY", "WED", "THU", "FRIDAY", "SAT"];
            let mut walked = vec![from];
            while walked.last() != Some(&to) {
                walked.push((walked[walked.len() - 1] + 1) % 7);
            }
            prop_assume!(step as usize <= walked.len());
            let expected: BTreeSet<u32> = walked.into_iter().step_by(step as usize).collect();
            let text = format!("0 0 * * {}-{}/{step}", names[from as usize], names[to as usize]);
            let expression = Expression::parse("cron", &text).unwrap();
            // 2030-09-01 is a Sunday.
            let days = (1..=7).filter(|day| expression.has_day(date(2030, 9, *day)));
            let days: BTreeSet<u32> = days.map(|day| u32::from(day.unsigned_abs()) - 1).collect();
            prop_assert_eq!(days, expected, "{}", text);
        }
    }
}
