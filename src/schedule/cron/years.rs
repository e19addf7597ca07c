//! [`Years`]: the field of the year in a cron expression.

use super::END;

/// The first year of an expression.
const FIRST: i16 = 1970;

/// The years of an expression, as ranges with steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Years(Vec<Part>);

/// The years from `first` on to `last`, `step` apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    first: i16,
    last: i16,
    step: i16,
}

impl Years {
    /// Reads the field; `None` for every year.
    ///
    /// # Errors
    ///
    /// What is wrong with it, and what to write.
    pub(super) fn parse(word: &str) -> Result<Option<Self>, String> {
        if word == "*" || word == "?" {
            return Ok(None);
        }
        let wrong = |part: &str| {
            format!(
                "the year is {part}; write {FIRST} to {}, as in 2030, 2030-2035, 2030,2032 or 2030/4",
                END - 1
            )
        };
        let parts = word.split(',');
        let parts: Option<Vec<Part>> = parts.map(Part::parse).collect();
        parts.map(Self).map(Some).ok_or_else(|| wrong(word))
    }

    pub(super) fn has(&self, year: i16) -> bool {
        self.0.iter().any(|part| part.from(year) == Some(year))
    }

    /// Returns the first of the years that is not before this one.
    pub(super) fn from(&self, year: i16) -> Option<i16> {
        self.0.iter().filter_map(|part| part.from(year)).min()
    }
}

impl Part {
    fn parse(text: &str) -> Option<Self> {
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (range, Some(step.parse::<i16>().ok()?)),
            None => (text, None),
        };
        let (first, last) = match (range.split_once('-'), step) {
            (Some((first, last)), _) => (year(first)?, year(last)?),
            (None, Some(_)) if range == "*" => (FIRST, END - 1),
            (None, Some(_)) => (year(range)?, END - 1),
            (None, None) => (year(range)?, year(range)?),
        };
        let step = step.unwrap_or(1);
        let part = Self { first, last, step };
        (first <= last && step > 0).then_some(part)
    }

    fn from(self, year: i16) -> Option<i16> {
        if year <= self.first {
            return Some(self.first);
        }
        let behind = (year - self.first) % self.step;
        let next = match behind {
            0 => year,
            behind => year.checked_add(self.step - behind)?,
        };
        (next <= self.last).then_some(next)
    }
}

fn year(text: &str) -> Option<i16> {
    let year = text.parse().ok()?;
    (FIRST..END).contains(&year).then_some(year)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn years_are_single_ones_ranges_and_steps() {
        for (word, from, expected) in [
            ("2030", 1970, Some(2030)),
            ("2030", 2031, None),
            ("2030-2032", 2031, Some(2031)),
            ("2030-2032,2040", 2033, Some(2040)),
            ("2030/4", 2031, Some(2034)),
            ("2030-2036/4", 2035, None),
            ("*/10", 2031, Some(2040)),
            ("1970", 1, Some(1970)),
        ] {
            let years = Years::parse(word).unwrap().unwrap();
            assert_eq!(years.from(from), expected, "{word} from {from}");
            assert_eq!(years.has(from), expected == Some(from), "{word} {from}");
        }
        assert_eq!(Years::parse("*"), Ok(None));
    }

    #[test]
    fn a_wrong_year_says_what_to_write() {
        for word in [
            "30",
            "5000",
            "1969",
            "2031-2030",
            "2030/0",
            "x",
            "2030,",
            "L",
        ] {
            let wrong = Years::parse(word).unwrap_err();
            assert!(
                wrong.starts_with(&format!("the year is {word}; write 1970 to 4999")),
                "{wrong}"
            );
        }
    }
}
