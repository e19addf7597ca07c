//! The forms of a task: stable JSON, and the rows of tables.

use std::time::Duration;

use comfy_table::{Cell, Color};
use jiff::Timestamp;
use serde::Serialize;
use windlass::{
    Client, ErrorEntry, Fence, Json, Kind, Labels, Limit, Meta, NodeName, Progress, Retry,
    StateKind, TaskId, TaskStatus, Unique, Waits,
    client::WaitReason,
    statemachine::state::LastCommand,
    store::{Change, ChangeKind, LimitedBy, TaskRecord},
};

use crate::{exit::Failure, output::Output, unblocked::unblocked};

/// How many tasks a table reads to find out whether its tasks still wait for them.
const READS: usize = 200;

/// The JSON form of a task. Its names are stable; an absent value is null.
#[derive(Debug, Serialize)]
pub(crate) struct View<'a> {
    pub(crate) id: &'a TaskId,
    pub(crate) kind: &'a Kind,
    /// The state's name, or `quarantined`.
    pub(crate) state: &'static str,
    pub(crate) since: Option<Timestamp>,
    pub(crate) until: Option<Timestamp>,
    pub(crate) due: Option<Timestamp>,
    pub(crate) attempts: u32,
    pub(crate) attempts_left: Option<u32>,
    pub(crate) claims: u64,
    pub(crate) incarnation: u32,
    pub(crate) node: Option<&'a NodeName>,
    pub(crate) fence: Fence,
    pub(crate) commands_waiting: u64,
    pub(crate) progress: Option<&'a Progress>,
    pub(crate) priority: i32,
    pub(crate) labels: &'a Labels,
    pub(crate) start_at: Option<Timestamp>,
    pub(crate) retry: Option<&'a Retry>,
    pub(crate) start_by: Option<Timestamp>,
    pub(crate) end_by: Option<Timestamp>,
    pub(crate) unique: Option<&'a Unique>,
    pub(crate) limits: &'a [Limit],
    pub(crate) meta: &'a Meta,
    pub(crate) limited_by: Option<&'a LimitedBy>,
    pub(crate) props: &'a Json,
    pub(crate) data: Option<&'a Json>,
    pub(crate) data_version: Option<u32>,
    pub(crate) result: Option<&'a Json>,
    pub(crate) errors: &'a [ErrorEntry],
    pub(crate) errors_total: u64,
    /// The fingerprint of the last error.
    pub(crate) fingerprint: Option<String>,
    pub(crate) last_command: Option<&'a LastCommand>,
    /// The tasks that it waits for, or has waited for.
    pub(crate) waits_for: Option<&'a Waits>,
    /// Why the record cannot be read, for one that is quarantined.
    pub(crate) quarantined: Option<String>,
    pub(crate) order: u64,
    pub(crate) submitted_at: Timestamp,
}

/// The name of a task's state.
pub(crate) fn state_name(record: &TaskRecord) -> &'static str {
    match &record.state {
        Ok(state) => state.code().as_str(),
        Err(_) => "quarantined",
    }
}

/// Whether a task wakes at this time: one that waits for others without a deadline has the last second of all.
/// Stores cut it to milliseconds.
fn has_time(until: Timestamp) -> bool {
    until.as_second() < Timestamp::MAX.as_second()
}

impl<'a> From<&'a TaskRecord> for View<'a> {
    fn from(record: &'a TaskRecord) -> Self {
        let task = &record.task;
        let state = record.state.as_ref().ok();
        Self {
            id: &task.id,
            kind: &task.kind,
            state: state_name(record),
            since: state.map(|s| s.since),
            until: state.and_then(|s| match s.status {
                // A wait without a deadline has no time.
                TaskStatus::Sleeping { until } => Some(until).filter(|u| has_time(*u)),
                _ => None,
            }),
            due: state.and_then(windlass::TaskState::due),
            attempts: state.map_or(0, |s| s.attempts),
            attempts_left: state.and_then(|s| s.attempts_left),
            claims: state.map_or(0, |s| s.claims),
            incarnation: state.map_or(0, |s| s.incarnation),
            node: record.node.as_ref(),
            fence: record.fence,
            commands_waiting: record.commands,
            progress: state.and_then(|s| s.progress.as_ref()),
            priority: task.priority,
            labels: &task.labels,
            start_at: task.start_at,
            retry: task.retry.as_ref(),
            start_by: task.start_by,
            end_by: task.end_by,
            unique: task.unique.as_ref(),
            limits: &task.limits,
            meta: &task.meta,
            limited_by: record.limited_by.as_ref(),
            props: &task.props,
            data: state.and_then(|s| s.data.as_ref()),
            data_version: state.and_then(|s| s.data.as_ref().map(|_| s.data_version)),
            result: state.and_then(|s| match &s.status {
                TaskStatus::Completed { result } => result.as_ref(),
                _ => None,
            }),
            errors: state.map_or(&[], |s| s.errors.entries()),
            errors_total: state.map_or(0, |s| s.errors.total()),
            fingerprint: record.fingerprint(),
            last_command: state.and_then(|s| s.last_command.as_ref()),
            waits_for: state.and_then(|s| s.waits.as_deref()),
            quarantined: record.state.as_ref().err().map(ToString::to_string),
            order: record.order,
            submitted_at: record.submitted_at,
        }
    }
}

/// Prints tasks: a table, or one JSON line per task.
pub(crate) fn records(out: &Output, records: &[TaskRecord], now: Timestamp) -> Result<(), Failure> {
    table(out, records, now, vec![None; records.len()])
}

/// As [`records`]; the table says of a task that could run why it does not, given the live nodes.
/// On a screen that is wiped before if `redraw`.
pub(crate) async fn records_of(
    client: &Client,
    out: &Output,
    records: &[TaskRecord],
    redraw: bool,
) -> Result<(), Failure> {
    let nodes = match out.is_json() || records.is_empty() {
        true => None,
        false => Some(client.nodes().await?),
    };
    if redraw {
        out.bytes(b"\x1b[H\x1b[2J")?;
    }
    let now = client.store().clock().now();
    let mut reasons = Vec::new();
    if let Some(nodes) = nodes {
        let unblocked = unblocked(client, records, READS).await?;
        reasons.extend(
            unblocked
                .iter()
                .map(|record| WaitReason::of(record, &nodes, now)),
        );
    }
    table(out, records, now, reasons)
}

fn table(
    out: &Output,
    records: &[TaskRecord],
    now: Timestamp,
    reasons: Vec<Option<WaitReason>>,
) -> Result<(), Failure> {
    if out.is_json() {
        return records.iter().try_for_each(|r| out.json(&View::from(r)));
    }
    let header = [
        "ID", "KIND", "STATE", "FOR", "DUE", "ATTEMPTS", "NODE", "INFO",
    ];
    let rows = records.iter().zip(reasons).map(|(record, reason)| {
        let state = record.state.as_ref().ok();
        let due = match state.map(|s| &s.status) {
            // A wait for other tasks without a deadline has no time.
            Some(TaskStatus::Sleeping { until }) if has_time(*until) => due(*until, now),
            _ => "-".into(),
        };
        vec![
            text(&record.task.id),
            text(&record.task.kind),
            state_cell(record),
            text(state.map_or("-".into(), |s| age(s.since, now))),
            text(due),
            text(state.map_or(0, |s| s.attempts)),
            text(record.node.as_ref().map_or("-", |n| n.as_str())),
            text(match reason {
                Some(waits) => waits.to_string(),
                None => info(record),
            }),
        ]
    });
    let less = ["NODE", "ATTEMPTS", "DUE", "FOR", "KIND"];
    out.narrow_table(&header, &less, rows.collect())
}

/// A cell.
pub(crate) fn text(value: impl std::fmt::Display) -> Cell {
    Cell::new_owned(crate::text::one_line(&value.to_string()))
}

fn state_cell(record: &TaskRecord) -> Cell {
    let cell = text(state_name(record));
    match record.state.as_ref().map(windlass::TaskState::code) {
        Ok(code) => cell.fg(color(code)),
        Err(_) => cell.fg(Color::Red),
    }
}

/// The colour of a state.
pub(crate) fn color(code: StateKind) -> Color {
    match code {
        StateKind::Runnable => Color::Cyan,
        StateKind::Sleeping => Color::Blue,
        StateKind::Paused => Color::Yellow,
        StateKind::Fault => Color::Magenta,
        StateKind::Completed => Color::Green,
        StateKind::Failed => Color::Red,
        StateKind::Killed => Color::DarkGrey,
    }
}

/// A short note on a task: its error, progress or wake-up.
fn info(record: &TaskRecord) -> String {
    let state = match &record.state {
        Ok(state) => state,
        Err(e) => return e.to_string(),
    };
    // What went wrong before a retry, or before it went well again, is in `get`.
    let went_wrong = match state.code() {
        StateKind::Completed => false,
        StateKind::Failed | StateKind::Killed => true,
        _ => state.attempts > 0,
    };
    if went_wrong && let Some(last) = state.errors.last() {
        return last.error.clone();
    }
    match &state.progress {
        Some(progress) if state.code() == StateKind::Runnable => progress_text(progress),
        _ => String::new(),
    }
}

/// `42 % halfway there`.
pub(crate) fn progress_text(progress: &Progress) -> String {
    match progress.fraction {
        Some(fraction) => format!("{:.0} % {}", fraction * 100.0, progress.text),
        None => progress.text.clone(),
    }
}

/// A change as a line, with the task's id or without.
pub(crate) fn change_text(change: &Change, with_id: bool) -> String {
    let what = match &change.what {
        ChangeKind::Submitted { state } => format!("submitted ({state})"),
        ChangeKind::Claimed {
            node,
            fence,
            abandoned,
        } => {
            let lost = if *abandoned {
                ", the claim before was lost"
            } else {
                ""
            };
            format!("claimed by {node} (fence {fence}{lost})")
        }
        ChangeKind::Moved {
            message,
            from,
            to,
            fence,
            command,
        } => {
            let by = command.map_or(String::new(), |c| format!(", command {c}"));
            format!("{from} → {to} by {message} (fence {fence}{by})")
        }
        ChangeKind::Checkpointed { fence } => format!("checkpoint (fence {fence})"),
        ChangeKind::Dropped { fence } => format!("claim released (fence {fence})"),
        ChangeKind::Lost { fence } => format!("claim lost (fence {fence})"),
        ChangeKind::Commanded { command } => format!("command {command} sent"),
        ChangeKind::Retried => "retried".into(),
        ChangeKind::Rescheduled { from, to } => format!("{from} → {to} by a reschedule"),
        ChangeKind::Quarantined => "quarantined: its record cannot be read".into(),
        ChangeKind::Deleted => "deleted".into(),
        // A newer library may have more kinds of changes than this program knows.
        other => format!("{other:?}"),
    };
    let id = if with_id {
        format!("{}  ", change.task)
    } else {
        String::new()
    };
    let by = change.by.as_ref();
    let by = by.map_or_else(String::new, |by| format!(", by {by}"));
    format!(
        "{:.3}  {:>6}  {id}{}",
        change.at,
        change.seq,
        crate::text::one_line(&(what + &by))
    )
}

/// A duration in its two greatest units: `3m 12s`.
pub(crate) fn human(wait: Duration) -> String {
    let seconds = wait.as_secs();
    let two = |a: u64, x: &str, b: u64, y: &str| {
        if b == 0 {
            format!("{a}{x}")
        } else {
            format!("{a}{x} {b}{y}")
        }
    };
    match seconds {
        0 => format!("{}ms", wait.as_millis()),
        1..60 => format!("{seconds}s"),
        60..3600 => two(seconds / 60, "m", seconds % 60, "s"),
        3600..86_400 => two(seconds / 3600, "h", seconds % 3600 / 60, "m"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
    }
}

/// The time since then.
pub(crate) fn age(since: Timestamp, now: Timestamp) -> String {
    human(now.duration_since(since).try_into().unwrap_or_default())
}

/// How long it is until then.
pub(crate) fn due(until: Timestamp, now: Timestamp) -> String {
    match Duration::try_from(until.duration_since(now)) {
        Ok(wait) if !wait.is_zero() => format!("in {}", human(wait)),
        _ => "now".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_for_people() {
        for (seconds, text) in [
            (5, "5s"),
            (60, "1m"),
            (192, "3m 12s"),
            (5400, "1h 30m"),
            (700_000, "8d 2h"),
        ] {
            assert_eq!(human(Duration::from_secs(seconds)), text);
        }
        assert_eq!(human(Duration::from_millis(40)), "40ms");
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(due(now, now), "now");
        assert_eq!(due(Timestamp::MAX, now).split(' ').count(), 3);
    }
}
