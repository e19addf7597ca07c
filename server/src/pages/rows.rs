//! Tasks as dense rows, for every page that lists some.

use maud::{Markup, html};

use super::{frame::Page, record::Record, text};

/// The most characters of a label in a row.
const LABEL: usize = 32;
/// How many labels of a task a row has.
const LABELS: usize = 3;

/// Shows tasks as dense rows.
pub(super) fn table(page: &Page, tasks: &[Record]) -> Markup {
    html! {
        @if tasks.is_empty() { p.none { "No task matches." } } @else {
            table.rows #tasks {
                thead { tr {
                    th { "State" } th { "Id" } th { "Kind" } th.w { "Owner" } th.w.number { "Failed runs" } th { "Since" } th.w { "Late, or next" } th.w { "Labels" }
                } }
                tbody { @for task in tasks { (row(page, task)) } }
            }
        }
    }
}

fn row(page: &Page, task: &Record) -> Markup {
    html! {
        tr data-key=(task.id) {
            td { (text::state(&task.shown)) }
            td { (page.task(&task.id)) @if let Some(paused) = paused(task) { p.dim { bdi { (paused) } } }
                @if let Some(error) = last_error(task) { p.error { bdi { (error) } } } }
            td.k { (text::name(&task.kind)) }
            td.w { @if let Some(node) = &task.node { @if page.sees_everything() { (text::name(node)) } @else { "a node" } } }
            td.w.number { @if task.attempts > 0 { (task.attempts) } }
            td { @if let Some(since) = task.shown_since { (page.ago(since)) } }
            td.w { (next(page, task)) }
            td.w { (labels(task)) }
        }
    }
}

/// Shows how late a task without a claim is, or when it continues by itself.
fn next(page: &Page, task: &Record) -> Markup {
    html! {
        @match (late(task), task.until) {
            (Some(late), _) => strong { (late) },
            (None, Some(until)) if task.node.is_none() => (page.ago(until)),
            _ => {}
        }
    }
}

/// Returns how late a task is: `3 min 12 s late`. Less than a second is the usual time of a claim.
pub(super) fn late(task: &Record) -> Option<String> {
    let late = task.late_seconds.filter(|late| *late > 0)?;
    let late = i64::try_from(late).unwrap_or(i64::MAX);
    Some(format!("{} late", text::length(late)))
}

/// Returns who paused a task, and why: `paused by alice: the database moves`.
pub(super) fn paused(task: &Record) -> Option<String> {
    let paused = task.paused_by.as_ref()?;
    let who = match (&paused.by, paused.command) {
        (Some(by), _) => by.clone(),
        (None, Some(command)) => format!("command {command}"),
        (None, None) => "its handler".to_owned(),
    };
    let note = paused.note.as_ref();
    let note = note.map_or_else(String::new, |note| format!(": {note}"));
    Some(format!("paused by {who}{note}"))
}

/// Returns the beginning of the last error of a task that an error has stopped or delays.
fn last_error(task: &Record) -> Option<String> {
    let is_shown = task.attempts > 0 || task.state == "failed";
    let error = task.errors.last().filter(|_| is_shown)?;
    let line = error.error.lines().next().unwrap_or_default();
    Some(text::cut(line, 140))
}

fn labels(task: &Record) -> Markup {
    let all = task.labels.iter();
    html! {
        @for (name, value) in all.take(LABELS) {
            span.label { bdi { (text::cut(name, LABEL)) "=" (text::cut(value, LABEL)) } } " "
        }
        @if task.labels.len() > LABELS { span.dim { "+" (task.labels.len() - LABELS) } }
    }
}
