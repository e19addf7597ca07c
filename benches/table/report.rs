//! [`Report`]: the rows of the table, and what they are printed as.

use std::fmt::Write;

use serde::Serialize;

/// What a figure has to be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal {
    /// This much or more.
    Least(f64),
    /// This much or less.
    Most(f64),
}

impl Goal {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::Least(least) => value >= least,
            Self::Most(most) => value <= most,
        }
    }
}

#[derive(Debug, Serialize)]
struct Row {
    topic: &'static str,
    what: String,
    value: f64,
    unit: &'static str,
    /// The least and the greatest of the repetitions.
    spread: Option<(f64, f64)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    goal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    met: Option<bool>,
}

/// The rows, in the order in which they were measured.
#[derive(Debug, Default)]
pub(crate) struct Report {
    topic: &'static str,
    rows: Vec<Row>,
}

impl Report {
    pub(crate) fn begin(&mut self, topic: &'static str) {
        self.topic = topic;
    }

    /// A figure that was taken once.
    pub(crate) fn one(
        &mut self,
        what: impl Into<String>,
        value: f64,
        unit: &'static str,
        goal: Option<Goal>,
    ) {
        self.row(what.into(), value, unit, None, goal);
    }

    /// The median of repetitions.
    pub(crate) fn median(
        &mut self,
        what: impl Into<String>,
        values: &[f64],
        unit: &'static str,
        goal: Option<Goal>,
    ) {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        } else {
            sorted[middle]
        };
        let spread = (sorted[0], sorted[sorted.len() - 1]);
        self.row(what.into(), median, unit, Some(spread), goal);
    }

    fn row(
        &mut self,
        what: String,
        value: f64,
        unit: &'static str,
        spread: Option<(f64, f64)>,
        goal: Option<Goal>,
    ) {
        eprintln!("    {what}: {} {unit}", figure(value));
        self.rows.push(Row {
            topic: self.topic,
            what,
            value,
            unit,
            spread,
            met: goal.map(|goal| goal.is_met(value)),
            goal: goal.map(|goal| match goal {
                Goal::Least(least) => format!(">= {}", figure(least)),
                Goal::Most(most) => format!("<= {}", figure(most)),
            }),
        });
    }

    pub(crate) fn json(&self) -> String {
        serde_json::to_string_pretty(&self.rows).unwrap()
    }

    pub(crate) fn table(&self) -> String {
        let mut lines = vec![["topic", "what", "figure", "from .. to", "goal"].map(String::from)];
        let mut before = "";
        for row in &self.rows {
            let topic = if row.topic == before { "" } else { row.topic };
            before = row.topic;
            let spread = row.spread.map_or_else(String::new, |(from, to)| {
                format!("{} .. {}", figure(from), figure(to))
            });
            let goal = match (&row.goal, row.met) {
                (Some(goal), Some(true)) => format!("{goal}  met"),
                (Some(goal), _) => format!("{goal}  MISSED"),
                (None, _) => String::new(),
            };
            let value = format!("{} {}", figure(row.value), row.unit);
            lines.push([topic.into(), row.what.clone(), value, spread, goal]);
        }
        let width = |column: usize| {
            let widths = lines.iter().map(|line| line[column].chars().count());
            widths.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..5).map(width).collect();
        let mut text = String::new();
        for line in &lines {
            let cells = line.iter().zip(&widths);
            let cells: Vec<String> = cells.map(|(cell, w)| format!("{cell:<w$}")).collect();
            let _ = writeln!(text, "{}", cells.join("  ").trim_end());
        }
        text
    }
}

/// Three digits are enough, and more of them would be a lie.
fn figure(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{value:.decimals$}");
    let Some((digits, _)) = text.split_once('.').or(Some((&text, ""))) else {
        return text;
    };
    if digits.len() <= 4 {
        return text;
    }
    let mut grouped = String::new();
    for (at, digit) in text.chars().enumerate() {
        if at > 0 && (text.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
