//! Failed tasks, grouped by the fingerprint of their last error.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use maud::{Markup, html};

use super::{
    Answer, cli,
    form::Fields,
    frame::{Page, Place},
    record::{Record, Records},
    text,
};

/// How many failed tasks are grouped: the store keeps no counts by fingerprint.
const READ: usize = 500;
/// The most groups of the page.
const GROUPS: usize = 50;

/// Tasks whose last errors are the same except for numbers, ids and paths.
struct Group<'a> {
    tasks: Vec<&'a Record>,
    kinds: BTreeSet<&'a str>,
    first: Timestamp,
    last: Timestamp,
}

pub(super) async fn show(page: Page) -> Answer {
    let mut query = Fields::default();
    if let Some(kind) = page.query()?.get("kind") {
        query = query.with("kind", kind);
    }
    let query = query.with("state", "failed").with("order", "ended");
    let asked = query
        .with("limit", &READ.to_string())
        .with("props", "false");
    let read: Records = page.api.get(&format!("/v1/tasks{}", asked.query())).await?;
    let groups = groups(&read.tasks);
    let body = html! {
        h1 { "Failures" }
        p.dim #read {
            @if read.next.is_some() {
                "Groups of the newest " (read.tasks.len()) " failed tasks. There are more: "
                a href={ (page.base) "/tasks" (query.query()) } { "all failed tasks" }
            } @else {
                "Groups of all " (read.tasks.len()) " failed tasks."
            }
        }
        @if groups.is_empty() { p.none { "No task has failed." } } @else { (table(&page, &groups)) }
        @if groups.len() > GROUPS { p.dim { (groups.len() - GROUPS) " more groups." } }
    };
    Ok(page.show(
        (Place::Failures, "Failures"),
        &cli::list("list", &query.0),
        &body,
    ))
}

/// Groups tasks by fingerprint, the group with the most tasks first. Tasks whose errors are masked are one group of each kind.
fn groups(tasks: &[Record]) -> Vec<(Option<&str>, Group<'_>)> {
    let mut groups: BTreeMap<(Option<&str>, &str), Group<'_>> = BTreeMap::new();
    for task in tasks {
        let at = task.since.unwrap_or(task.submitted_at);
        let print = task.fingerprint.as_deref();
        let kind = if print.is_none() {
            task.kind.as_str()
        } else {
            ""
        };
        let group = groups.entry((print, kind)).or_insert_with(|| Group {
            tasks: Vec::new(),
            kinds: BTreeSet::new(),
            first: at,
            last: at,
        });
        group.first = group.first.min(at);
        group.last = group.last.max(at);
        group.kinds.insert(&task.kind);
        group.tasks.push(task);
    }
    let mut groups: Vec<_> = groups
        .into_iter()
        .map(|((print, _), group)| (print, group))
        .collect();
    groups.sort_by_key(|(_, group)| {
        (
            std::cmp::Reverse(group.tasks.len()),
            std::cmp::Reverse(group.last),
        )
    });
    groups
}

fn table(page: &Page, groups: &[(Option<&str>, Group<'_>)]) -> Markup {
    html! {
        table.rows {
            thead { tr { th.number { "Tasks" } th { "Error" } th.w { "Kinds" } th.w { "First" } th { "Last" } } }
            tbody { @for (print, group) in groups.iter().take(GROUPS) { (row(page, *print, group)) } }
        }
    }
}

fn row(page: &Page, print: Option<&str>, group: &Group<'_>) -> Markup {
    let sample = group.tasks.first();
    let text = sample
        .and_then(|task| task.errors.last())
        .map_or("no error is kept", |entry| &entry.error);
    let kind = group.kinds.first().copied().unwrap_or_default();
    let by = match print {
        Some(print) => ("fingerprint", print),
        None => ("kind", kind),
    };
    let pairs = [
        ("state".to_owned(), "failed".to_owned()),
        (by.0.to_owned(), by.1.to_owned()),
    ];
    html! {
        tr data-key=(by.1) {
            td.number { (page.count(group.tasks.len() as u64, &[("state", "failed"), by])) }
            td {
                pre.sample { bdi { (text::cut(text, 300)) } }
                p.dim {
                    @if let Some(task) = sample { "Sample " (page.task(&task.id)) }
                    @if page.may_operate() { " · " (super::bulk::retry(page, &pairs)) }
                }
            }
            td.w { @for kind in group.kinds.iter().take(4) { (text::name(kind)) " " } @if group.kinds.len() > 4 { "+" (group.kinds.len() - 4) } }
            td.w { (page.ago(group.first)) }
            td { (page.ago(group.last)) }
        }
    }
}
