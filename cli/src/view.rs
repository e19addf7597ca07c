//! The rows of tables, and texts about a task.

use std::time::Duration;

use comfy_table::{Cell, Color};
use jiff::Timestamp;
use windlass::{
    Client, Kind, Progress, StateKind, TaskStatus,
    client::WaitReason,
    store::{Change, ChangeKind, Shown, Standing, TaskRecord},
    wire::RecordForm,
};

use crate::{exit::Failure, output::Output, remedy::last_error};

/// Why a line of a run waits when the run is not there.
const NOT_RUN: &str =
    "its `windlass run` does not run: repeat it (or `windlass worker --take-runs`)";

/// Returns the name of a task's state.
pub(crate) fn state_name(record: &TaskRecord) -> &'static str {
    match &record.state {
        Ok(state) => state.code().as_str(),
        Err(_) => "quarantined",
    }
}

/// Returns whether a task wakes at this time. The wake-up of a task that waits for others without a
/// deadline is the last second of all; stores cut it to milliseconds.
fn has_time(until: Timestamp) -> bool {
    until.as_second() < Timestamp::MAX.as_second()
}

/// The number of recent changes in which the claim of a task is looked up.
const CLAIM_WITHIN: u32 = 100;

/// Returns when the node of a task claimed it, if that is among the recent changes.
pub(crate) async fn claimed_at(
    client: &Client,
    record: &TaskRecord,
) -> Result<Option<Timestamp>, Failure> {
    if record.node.is_none() {
        return Ok(None);
    }
    let is_claim = |change: &&Change| match change.what {
        ChangeKind::Claimed { fence, .. } => fence == record.fence,
        _ => false,
    };
    let registry = client.store().registry();
    let changes = registry.history(&record.task.id, CLAIM_WITHIN).await?;
    Ok(changes.iter().rev().find(is_claim).map(|change| change.at))
}

/// Prints tasks: a table, or one JSON line per task.
pub(crate) async fn records(
    client: &Client,
    out: &Output,
    records: &[TaskRecord],
) -> Result<(), Failure> {
    let reasons = vec![None; records.len()];
    table(client, out, records, reasons).await
}

/// Prints tasks like [`records`]. The table shows why a task that could run does not, given the
/// live nodes. With `redraw`, clears the screen first.
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
    let mut reasons = Vec::new();
    if let Some(nodes) = nodes {
        reasons = client.wait_reasons(records, &nodes).await?;
    }
    table(client, out, records, reasons).await
}

async fn table(
    client: &Client,
    out: &Output,
    records: &[TaskRecord],
    reasons: Vec<Option<WaitReason>>,
) -> Result<(), Failure> {
    let now = client.now();
    if out.is_json() {
        return records
            .iter()
            .try_for_each(|r| out.json(&RecordForm::at(r, now)));
    }
    let header = [
        "ID", "KIND", "STATE", "FOR", "DUE", "ATTEMPTS", "NODE", "INFO",
    ];
    let rows = records.iter().zip(reasons).map(|(record, reason)| {
        let state = record.state.as_ref().ok();
        let standing = Standing::of(record, now);
        let due = match state.map(|s| &s.status) {
            _ if is_late(&standing) => late_text(&standing),
            // A wait for other tasks without a deadline has no time.
            Some(TaskStatus::Sleeping { until }) if has_time(*until) => due(*until, now),
            _ => "-".into(),
        };
        vec![
            text(&record.task.id),
            text(&record.task.kind),
            state_cell(record),
            text(standing.since.map_or("-".into(), |since| age(since, now))),
            text(due),
            text(state.map_or(0, |s| s.attempts)),
            text(record.node.as_ref().map_or("-", |n| n.as_str())),
            text(match reason {
                // A worker of this program would be such a node.
                Some(WaitReason::NoNode) if record.task.kind.as_str() == Kind::COMMAND => {
                    format!("{} (windlass worker)", WaitReason::NoNode)
                }
                Some(WaitReason::NoNode | WaitReason::Labels(_))
                    if record.task.kind.as_str() == Kind::RUN_LINE =>
                {
                    NOT_RUN.to_owned()
                }
                Some(waits) => match paused_by_command(&standing) {
                    Some(paused) => format!("{paused}; {waits}"),
                    None => waits.to_string(),
                },
                None => info(record, &standing),
            }),
        ]
    });
    let less = ["NODE", "ATTEMPTS", "DUE", "FOR", "KIND"];
    out.narrow_table(&header, &less, rows.collect())
}

/// Returns a cell.
pub(crate) fn text(value: impl std::fmt::Display) -> Cell {
    Cell::new_owned(crate::text::one_line(&value.to_string()))
}

fn state_cell(record: &TaskRecord) -> Cell {
    let cell = text(Shown::of(record));
    match record.state.as_ref().map(windlass::TaskState::code) {
        Ok(code) => cell.fg(color(code)),
        Err(_) => cell.fg(Color::Red),
    }
}

/// Returns the colour of a state.
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

/// Returns whether a task is late by a second or more. Less is the usual time of a claim.
fn is_late(standing: &Standing<'_>) -> bool {
    standing
        .late
        .is_some_and(|late| late >= Duration::from_secs(1))
}

/// Returns how late a task is: `3m 12s late`.
pub(crate) fn late_text(standing: &Standing<'_>) -> String {
    match standing.late {
        Some(late) if is_late(standing) => format!("{} late", human(late)),
        _ => String::new(),
    }
}

/// Returns who paused a task, and why: `paused by alice: the database moves`.
pub(crate) fn paused_text(standing: &Standing<'_>) -> Option<String> {
    standing
        .paused_by
        .map(|paused| format!("paused by {paused}"))
}

/// Returns who paused a task that its handler has not paused, and why: such a pause and a wait for a signal last at the same time.
fn paused_by_command(standing: &Standing<'_>) -> Option<String> {
    let is_command = standing.paused_by.is_some_and(|of| of.command.is_some());
    paused_text(standing).filter(|_| is_command)
}

/// Returns a short note on a task: its error, progress, or who paused it.
fn info(record: &TaskRecord, standing: &Standing<'_>) -> String {
    let state = match &record.state {
        Ok(state) => state,
        Err(e) => return e.to_string(),
    };
    // `get` shows errors before a retry, and before a success.
    let went_wrong = match state.code() {
        StateKind::Completed => false,
        StateKind::Failed | StateKind::Killed => true,
        _ => state.attempts > 0,
    };
    if let Some(paused) = paused_text(standing) {
        return paused;
    }
    if went_wrong && let Some(error) = last_error(state) {
        return error;
    }
    match &state.progress {
        Some(progress) if state.code() == StateKind::Runnable => progress_text(progress),
        _ => String::new(),
    }
}

/// Formats progress: `42 % halfway there`.
pub(crate) fn progress_text(progress: &Progress) -> String {
    match progress.fraction {
        Some(fraction) => format!("{:.0} % {}", fraction * 100.0, progress.text),
        None => progress.text.clone(),
    }
}

/// Returns a change as a line, with the task's id or without.
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
        ChangeKind::MalformedCommand { command, text } => {
            format!("command {command} cannot be read and is rejected: {text}")
        }
        ChangeKind::Retried => "retried".into(),
        ChangeKind::Rescheduled { from, to, kind } => {
            let kind = kind
                .as_ref()
                .map_or(String::new(), |kind| format!(", now of kind {kind}"));
            format!("{from} → {to} by a reschedule{kind}")
        }
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
    let note = change.note.as_ref();
    let note = note.map_or_else(String::new, |note| format!(": {note}"));
    format!(
        "{:.3}  {:>6}  {id}{}",
        change.at,
        change.seq,
        crate::text::one_line(&(what + &by + &note))
    )
}

/// Returns a duration in its two greatest units: `3m 12s`.
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

/// Returns the time since this moment.
pub(crate) fn age(since: Timestamp, now: Timestamp) -> String {
    human(now.duration_since(since).try_into().unwrap_or_default())
}

/// Returns the time until this moment.
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
