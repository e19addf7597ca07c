//! The lines of a page, from its data. Pure.

use std::{cmp::Reverse, time::Duration};

use ratatui::text::Line;
use windlass::{
    client::activity::{KindActivity, Summary, Window},
    store::NodeRecord,
};

use super::{
    data::{Data, Why},
    text::{Tone, cut, left, line, right, wrapped},
};
use crate::{commands::nodes, view::human};

/// The width of a page without a terminal.
pub(super) const WIDTH: usize = 100;
/// The width of a column of numbers.
const NUMBER: usize = 8;
/// The width from which a page has every column.
const WIDE: usize = 72;

/// The order of kinds and nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    Number,
    Name,
}

impl Sort {
    pub(super) fn other(self) -> Self {
        match self {
            Self::Number => Self::Name,
            Self::Name => Self::Number,
        }
    }
}

/// Returns the whole page with its name, for an output without a terminal.
pub(super) fn all(data: &Data, (name, sort): (&str, Sort), width: usize) -> Vec<Line<'static>> {
    let mut lines = vec![line(name, Tone::Title, width)];
    lines.extend(body(data, sort, width));
    lines
}

/// Returns the lines below the first one.
pub(super) fn body(data: &Data, sort: Sort, width: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    if let Some(error) = &data.why.no_writes {
        let text = format!("the store takes no writes, so no task makes progress: {error}");
        lines.extend(wrapped(&text, Tone::Bad, ("   ", width)));
        lines.push(Line::default());
    }
    lines.extend(rates(&data.activity, width));
    let mut section = |title: &str, more: Vec<Line<'static>>| {
        lines.push(Line::default());
        lines.push(line(title, Tone::Title, width));
        lines.extend(more);
    };
    let counted = counted(&data.activity);
    let failing = format!("FAILING KINDS, last {counted}");
    section(&failing, kinds(&data.activity, sort, width));
    let late = data.activity.at.duration_since(data.why.at).as_secs();
    let waiting = match late {
        ..5 => "NOT RUN".to_owned(),
        late => format!(
            "NOT RUN, {} ago",
            human(Duration::from_secs(late.unsigned_abs()))
        ),
    };
    section(&waiting, not_run(&data.why, width));
    let used: u64 = data
        .nodes
        .iter()
        .map(|node| u64::from(node.status.running))
        .sum();
    let slots: u64 = data
        .nodes
        .iter()
        .map(|node| u64::from(node.spec.slots))
        .sum();
    let nodes = format!("NODES {}, slots {used}/{slots}", data.nodes.len());
    section(&nodes, node_lines(data, sort, width));
    lines
}

/// Returns the time of which the longest window has counts.
fn counted(activity: &Summary) -> String {
    let seconds = activity.windows.last().map_or(0.0, |window| window.seconds);
    human(Duration::from_secs(seconds as u64))
}

fn rates(activity: &Summary, width: usize) -> Vec<Line<'static>> {
    // On a narrow screen the window that says the least is left out.
    let windows = activity.windows.iter();
    let windows: Vec<&Window> = windows
        .filter(|window| width >= WIDE || window.name != "10m")
        .collect();
    let label = width.saturating_sub(windows.len() * NUMBER).min(24);
    let row = |name: &str, tone: Tone, cell: &dyn Fn(&Window) -> String| {
        let cells = windows.iter().map(|window| right(&cell(window), NUMBER));
        line(
            &format!("{}{}", left(name, label), cells.collect::<String>()),
            tone,
            width,
        )
    };
    let seconds = |seconds: Option<f64>| seconds.map_or_else(|| "-".to_owned(), late);
    // Just after the start all windows cover the same time: only the shortest one has counts then.
    let has_more = |window: &Window| {
        let shorter = windows.iter().take_while(|of| of.name != window.name);
        shorter.last().is_none_or(|of| of.seconds < window.seconds)
    };
    let counted = |window: &Window, cell: &dyn Fn(&Window) -> String| match has_more(window) {
        true => cell(window),
        false => "-".to_owned(),
    };
    let failed = windows.iter().any(|window| window.failed_attempts > 0);
    let bad = if failed { Tone::Bad } else { Tone::Plain };
    let mut lines = vec![
        row("PER SECOND", Tone::Title, &|window| window.name.clone()),
        row("started", Tone::Plain, &|window| {
            counted(window, &|window| rate(window.per_second.started))
        }),
        row("completed", Tone::Plain, &|window| {
            counted(window, &|window| rate(window.per_second.completed))
        }),
        row("failed attempts", bad, &|window| {
            counted(window, &|window| rate(window.per_second.failed_attempts))
        }),
        row("lateness p50", Tone::Plain, &|window| {
            counted(window, &|window| seconds(window.lateness.p50_seconds))
        }),
        row("lateness p99", Tone::Plain, &|window| {
            counted(window, &|window| seconds(window.lateness.p99_seconds))
        }),
    ];
    if let Some(last) = activity.windows.last()
        && last.lateness.measured < last.started
    {
        let of = format!(
            "lateness of {} of {} starts",
            last.lateness.measured, last.started
        );
        lines.push(line(&of, Tone::Faint, width));
    }
    lines
}

/// Returns a rate with three digits.
fn rate(rate: f64) -> String {
    match rate {
        0.0 => "0".to_owned(),
        ..0.01 => "<0.01".to_owned(),
        ..9.995 => format!("{rate:.2}"),
        ..99.95 => format!("{rate:.1}"),
        ..9_999_999.0 => format!("{rate:.0}"),
        rate => format!("{rate:.1e}"),
    }
}

/// Returns a lateness with two digits, or in words of at most seven letters.
fn late(seconds: f64) -> String {
    let ms = seconds * 1000.0;
    match seconds {
        ..0.001 => "<1ms".to_owned(),
        ..0.01 => format!("{ms:.1}ms"),
        ..0.995 => format!("{ms:.0}ms"),
        ..9.95 => format!("{seconds:.1}s"),
        ..100.0 => format!("{seconds:.0}s"),
        ..6000.0 => format!("{:.0}m", seconds / 60.0),
        ..86_400.0 => format!("{:.1}h", seconds / 3600.0),
        _ => ">1d".to_owned(),
    }
}

fn kinds(activity: &Summary, sort: Sort, width: usize) -> Vec<Line<'static>> {
    let kinds = activity
        .windows
        .last()
        .map_or(&[][..], |window| &window.kinds);
    let fails = |of: &&KindActivity| of.failed_attempts + of.failed + of.lost > 0;
    let mut failing: Vec<&KindActivity> = kinds.iter().filter(fails).collect();
    if failing.is_empty() {
        return vec![line("none", Tone::Faint, width)];
    }
    if sort == Sort::Name {
        failing.sort_by_key(|of| (of.kind.is_none(), of.kind.clone()));
    }
    // On a narrow screen the columns that say the least are left out.
    let columns = if width >= WIDE { 4 } else { 2 };
    let name = width.saturating_sub(columns * NUMBER).min(48);
    let row = |kind: &str, cells: [&str; 4], tone| {
        let cells = cells.iter().take(columns).map(|cell| right(cell, NUMBER));
        let cells: String = cells.collect();
        line(&format!("{}{cells}", left(kind, name)), tone, width)
    };
    let header = ["attempts", "failed", "lost", "starts"];
    let mut lines = vec![row("kind", header, Tone::Faint)];
    lines.extend(failing.into_iter().map(|of| {
        let kind = of.kind.as_ref().map_or("(others)", |kind| kind.as_str());
        let numbers = [of.failed_attempts, of.failed, of.lost, of.started];
        let [a, b, c, d] = numbers.map(|n| n.to_string());
        row(kind, [&a, &b, &c, &d], Tone::Bad)
    }));
    lines
}

fn not_run(why: &Why, width: usize) -> Vec<Line<'static>> {
    if why.waiting.is_empty() && why.refused_rows.is_none() {
        if why.no_writes.is_some() {
            return Vec::new();
        }
        let none = "every task that is due runs, or will be claimed";
        return wrapped(none, Tone::Faint, ("", width));
    }
    let mut lines = Vec::new();
    if let Some(rows) = &why.refused_rows {
        lines.extend(wrapped(&rows.text, Tone::Plain, ("   ", width)));
        let remedy = format!("   try: {}", rows.remedy);
        lines.extend(wrapped(&remedy, Tone::Faint, ("   ", width)));
    }
    for one in &why.waiting {
        let more = if one.at_least { "+" } else { "" };
        let text = format!("{}{more} {}: {}", one.tasks, one.kind, one.text);
        lines.extend(wrapped(&text, Tone::Plain, ("   ", width)));
        let remedy = format!("   try: {}", one.remedy);
        lines.extend(wrapped(&remedy, Tone::Faint, ("   ", width)));
    }
    lines
}

fn node_lines(data: &Data, sort: Sort, width: usize) -> Vec<Line<'static>> {
    if data.nodes.is_empty() {
        return wrapped(
            "no node lives; `windlass worker` starts one. One that runs and cannot write to the store is not listed: \
             `windlass doctor` says whether the store takes writes",
            Tone::Bad,
            ("", width),
        );
    }
    let mut nodes: Vec<&NodeRecord> = data.nodes.iter().collect();
    nodes.sort_by(|one, other| one.spec.name.cmp(&other.spec.name));
    if sort == Sort::Number {
        nodes.sort_by_key(|node| Reverse(node.status.running));
    }
    let is_wide = width >= WIDE;
    let kinds = if is_wide { width / 4 } else { 0 };
    let name = width.saturating_sub(kinds + 9 + 10 + if is_wide { 10 + 9 } else { 0 });
    let row = |cells: [&str; 6], tone| {
        let [node, slots, mode, program, lease, of] = cells;
        let mut text = format!("{}{}  {}", left(node, name), right(slots, 9), left(mode, 8));
        if is_wide {
            text.push_str(&format!(
                "{}{} {}",
                left(program, 10),
                right(lease, 8),
                cut(of, kinds)
            ));
        }
        line(&text, tone, width)
    };
    let header = ["node", "slots", "mode", "program", "lease", "kinds"];
    let mut lines = vec![row(header, Tone::Faint)];
    lines.extend(nodes.into_iter().map(|node| {
        let slots = format!("{}/{}", node.status.running, node.spec.slots);
        let worker = node.spec.worker.as_ref();
        let program = worker.map_or("windlass", |worker| match worker.sdk.as_str() {
            "" => "remote",
            sdk => sdk,
        });
        let mode = nodes::mode(node);
        let tone = if mode == "working" {
            Tone::Plain
        } else {
            Tone::Bad
        };
        let lease = human(Duration::from_millis(node.lease_left_ms));
        let kinds = node.spec.kinds.as_ref().map_or_else(
            || "every kind".to_owned(),
            |kinds| {
                kinds
                    .iter()
                    .map(|kind| kind.as_str())
                    .collect::<Vec<_>>()
                    .join(", ")
            },
        );
        row(
            [
                node.spec.name.as_str(),
                &slots,
                mode,
                program,
                &lease,
                &kinds,
            ],
            tone,
        )
    }));
    lines
}
