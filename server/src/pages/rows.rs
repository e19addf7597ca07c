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
                    th { "State" } th { "Id" } th { "Kind" } th.w { "Owner" } th.w.number { "Failed runs" } th { "Since" } th.w { "Next" } th.w { "Labels" }
                } }
                tbody { @for task in tasks { (row(page, task)) } }
            }
        }
    }
}

fn row(page: &Page, task: &Record) -> Markup {
    let state = if task.is_quarantined() {
        "quarantined"
    } else {
        &task.state
    };
    html! {
        tr data-key=(task.id) {
            td { (text::state(state)) }
            td { (page.task(&task.id)) @if let Some(error) = last_error(task) { p.error { bdi { (error) } } } }
            td.k { (text::name(&task.kind)) }
            td.w { @if let Some(node) = &task.node { @if page.sees_everything() { (text::name(node)) } @else { "a node" } } }
            td.w.number { @if task.attempts > 0 { (task.attempts) } }
            td { @if let Some(since) = task.since { (page.ago(since)) } }
            td.w { @if let (Some(due), false) = (next(task), task.has_ended()) { (page.ago(due)) } }
            td.w { (labels(task)) }
        }
    }
}

/// Returns when a task continues by itself.
fn next(task: &Record) -> Option<jiff::Timestamp> {
    match task.node {
        None if task.state == "sleeping" => task.until,
        None if task.state == "runnable" => task.due,
        _ => None,
    }
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
