//! [`Report`]: medians, ratios, the table, JSON.

use std::{fmt::Write, time::Duration};

use serde_json::{Value, json};

use super::rounds::Pair;

/// How long a second worker has for the tasks of a killed one. A time that was not reached is infinite.
pub(super) const NOT_DONE: Duration = Duration::from_secs(60);

/// One measure of windlass and a peer, with a value for each round.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) peer: &'static str,
    pub(super) slots: usize,
    pub(super) measure: &'static str,
    pub(super) windlass: Vec<f64>,
    pub(super) other: Vec<f64>,
}

impl Row {
    /// The ratio windlass/peer of each round.
    fn ratios(&self) -> Vec<f64> {
        let pairs = self.windlass.iter().zip(&self.other);
        let ratio = |(ours, theirs): (&f64, &f64)| ours / theirs;
        // A time that was not reached has no ratio.
        let known = |ratio: f64| {
            if ratio > 0.0 && ratio.is_finite() {
                ratio
            } else {
                f64::NAN
            }
        };
        pairs.map(ratio).map(known).collect()
    }
}

/// The rows in the order of the measurement, what was read back, and what is missing.
#[derive(Debug, Default)]
pub(super) struct Report {
    rows: Vec<Row>,
    notes: Vec<(&'static str, String)>,
    left_out: Vec<(String, String)>,
}

impl Report {
    /// Adds the measures of a peer with this many slots.
    pub(super) fn rows(
        &mut self,
        peer: &'static str,
        slots: usize,
        measures: impl IntoIterator<Item = (&'static str, Pair)>,
    ) {
        for (measure, [windlass, other]) in measures {
            self.row(Row {
                peer,
                slots,
                measure,
                windlass,
                other,
            });
        }
    }

    pub(super) fn row(&mut self, row: Row) {
        eprintln!(
            "    {}, {} at once: windlass {}, peer {}, ratio {}",
            row.measure,
            row.slots,
            figure(median(&row.windlass)),
            figure(median(&row.other)),
            figure(median(&row.ratios())),
        );
        self.rows.push(row);
    }

    /// Keeps a fact about a peer once.
    pub(super) fn note(&mut self, peer: &'static str, text: &str) {
        let note = (peer, text.to_owned());
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Names what could not be run, and why.
    pub(super) fn leave_out(&mut self, what: &str, why: &str) {
        eprintln!("==> {what}: LEFT OUT: {why}");
        self.left_out.push((what.to_owned(), why.to_owned()));
    }

    pub(super) fn json(&self) -> String {
        let spread = |values: &[f64]| {
            let (least, greatest) = spread(values);
            json!({"median": median(values), "least": least, "greatest": greatest})
        };
        let rows = self.rows.iter().map(|row| {
            json!({
                "peer": row.peer,
                "at_once": row.slots,
                "measure": row.measure,
                "windlass": spread(&row.windlass),
                "other": spread(&row.other),
                "ratio": spread(&row.ratios()),
            })
        });
        let notes = self.notes.iter();
        let notes = notes.map(|(peer, text)| json!({"peer": peer, "note": text}));
        let left_out = self.left_out.iter();
        let left_out = left_out.map(|(what, why)| json!({"what": what, "why": why}));
        let all = json!({
            "rows": rows.collect::<Value>(),
            "notes": notes.collect::<Value>(),
            "could_not_be_had": left_out.collect::<Value>(),
        });
        format!("{all:#}")
    }

    pub(super) fn table(&self) -> String {
        let head = ["measure", "at once", "windlass", "peer", "windlass/peer"];
        let mut text = String::new();
        let mut peers: Vec<&str> = self.rows.iter().map(|row| row.peer).collect();
        peers.dedup();
        for peer in peers {
            let _ = writeln!(text, "**{peer}**\n");
            let mut lines = vec![head.map(String::from)];
            for row in self.rows.iter().filter(|row| row.peer == peer) {
                lines.push([
                    row.measure.to_owned(),
                    grouped(&row.slots.to_string()),
                    with_spread(&row.windlass),
                    with_spread(&row.other),
                    with_spread(&row.ratios()),
                ]);
            }
            text.push_str(&aligned(&lines));
            let notes = self.notes.iter().filter(|(of, _)| *of == peer);
            text.push('\n');
            for (_, note) in notes {
                let _ = writeln!(text, "- {note}");
            }
            text.push('\n');
        }
        text.push_str("**could not be run**\n\n");
        if self.left_out.is_empty() {
            text.push_str("- nothing was left out\n");
        }
        for (what, why) in &self.left_out {
            let _ = writeln!(text, "- {what}: {why}");
        }
        text
    }
}

/// A table of Markdown with columns of equal width.
fn aligned(lines: &[[String; 5]]) -> String {
    let width = |column: usize| {
        let widths = lines.iter().map(|line| line[column].chars().count());
        widths.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..5).map(width).collect();
    let mut text = String::new();
    for (at, line) in lines.iter().enumerate() {
        let cells = line.iter().zip(&widths);
        let cells: Vec<String> = cells.map(|(cell, w)| format!("{cell:<w$}")).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
        if at == 0 {
            let rule: Vec<String> = widths.iter().map(|w| "-".repeat(w + 2)).collect();
            let _ = writeln!(text, "|{}|", rule.join("|"));
        }
    }
    text
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len(), sorted.len() / 2) {
        (0, _) => f64::NAN,
        (len, middle) if len.is_multiple_of(2) => f64::midpoint(sorted[middle - 1], sorted[middle]),
        (_, middle) => sorted[middle],
    }
}

/// The least and the greatest value.
fn spread(values: &[f64]) -> (f64, f64) {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (least, greatest)
}

fn with_spread(values: &[f64]) -> String {
    let (least, greatest) = spread(values);
    let middle = figure(median(values));
    match values.len() {
        0 | 1 => middle,
        // Times that were not reached, and ratios to them.
        _ if !least.is_finite() => middle,
        _ => format!("{middle} ({} to {})", figure(least), figure(greatest)),
    }
}

/// Three digits: the others would be noise. A dash is what has no value, such as a ratio to zero.
fn figure(value: f64) -> String {
    if value.is_nan() {
        return "–".to_owned();
    }
    if value.is_infinite() {
        return format!("not done after {} s", NOT_DONE.as_secs());
    }
    if value > 0.0 && value < 0.001 {
        return "< 0.001".to_owned();
    }
    let decimals = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.decimals$}");
    if decimals == 0 { grouped(&text) } else { text }
}

/// Digits in groups of three, behind a sign if there is one.
fn grouped(number: &str) -> String {
    let digits = number.trim_start_matches('-');
    let mut text = number[..number.len() - digits.len()].to_owned();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut report = Report::default();
        report.row(Row {
            peer: "peer 1.0",
            slots: 1000,
            measure: "drained a second",
            windlass: vec![30_000.0, 10_000.0, 20_000.0],
            other: vec![1_000.0, 2_000.0, 1_000.0],
        });
        report.note("peer 1.0", "windlass: synchronous FULL");
        report.note("peer 1.0", "windlass: synchronous FULL");
        report
    }

    #[test]
    fn a_difference_below_zero_has_its_sign_before_the_digits() {
        let figures = [-320.0, -1_320.0, 12_345.0, -0.5].map(figure);
        assert_eq!(figures, ["-320", "-1,320", "12,345", "-0.500"]);
    }

    #[test]
    fn the_ratio_is_the_median_of_the_rounds() {
        let table = report().table();
        let row = "| drained a second | 1,000   | 20,000 (10,000 to 30,000) | 1,000 (1,000 to 2,000) | 20.0 (5.00 to 30.0) |";
        assert!(table.contains(row), "{table}");
        assert_eq!(table.matches("synchronous FULL").count(), 1, "{table}");
        assert!(table.ends_with("- nothing was left out\n"), "{table}");
    }

    #[test]
    fn what_is_missing_comes_last_with_the_reason() {
        let mut report = report();
        report.leave_out("peer 2.0", "it could not be built");
        assert!(
            report
                .table()
                .ends_with("**could not be run**\n\n- peer 2.0: it could not be built\n")
        );
    }

    #[test]
    fn json_has_the_rows_and_what_is_missing() -> Result<(), serde_json::Error> {
        let mut report = report();
        report.leave_out("peer 2.0", "it could not be built");
        let value: Value = serde_json::from_str(&report.json())?;
        assert_eq!(value["rows"][0]["ratio"]["median"], 20.0);
        assert_eq!(value["rows"][0]["other"]["greatest"], 2000.0);
        assert_eq!(value["could_not_be_had"][0]["what"], "peer 2.0");
        Ok(())
    }

    #[test]
    fn the_median_of_an_even_number_is_the_middle() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(&[5.0]), 5.0);
        assert_eq!(figure(1_234_567.0), "1,234,567");
        assert_eq!(figure(99.0), "99.0");
        assert_eq!(figure(0.000_4), "< 0.001");
    }

    #[test]
    fn a_time_that_was_not_reached_has_no_ratio() {
        let row = Row {
            peer: "peer 1.0",
            slots: 64,
            measure: "from a kill until all are done, s",
            windlass: vec![0.5, 1.5, 1.0],
            other: vec![f64::INFINITY; 2],
        };
        assert_eq!(with_spread(&row.windlass), "1.00 (0.500 to 1.50)");
        assert_eq!(with_spread(&row.other), "not done after 60 s");
        assert_eq!(with_spread(&row.ratios()), "–");
        assert_eq!(
            with_spread(&[1.0, f64::INFINITY, 2.0]),
            "2.00 (1.00 to not done after 60 s)"
        );
    }
}
