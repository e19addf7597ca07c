//! Failed tasks, grouped by the fingerprint of their last error.

use jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use windlass::statemachine::wire::read_since;

use super::{
    Answer, cli,
    form::{Fields, encoded},
    frame::{Page, Place},
    text,
};

/// The most groups of the page.
const GROUPS: usize = 50;
/// How many kinds of a group a row names.
const KINDS: usize = 4;

#[derive(Deserialize)]
struct Failures {
    failures: Vec<Failure>,
    is_complete: bool,
}

/// Tasks whose last errors are the same except for numbers, ids and paths.
#[derive(Deserialize)]
struct Failure {
    fingerprint: Option<String>,
    tasks: u64,
    kinds: Vec<FailedKind>,
    first: Timestamp,
    last: Timestamp,
    sample: String,
    error: Option<String>,
    nodes: Vec<Node>,
    data_versions: Vec<Version>,
}

#[derive(Deserialize)]
struct Node {
    node: String,
    tasks: u64,
}

#[derive(Deserialize)]
struct Version {
    version: u32,
    tasks: u64,
}

#[derive(Deserialize)]
struct FailedKind {
    kind: String,
}

pub(super) async fn show(page: Page) -> Answer {
    let asked = page.query()?;
    let kind = asked.get("kind");
    let mut query = Fields::default();
    if let Some(kind) = kind {
        query = query.with("kind", kind);
    }
    let of_kind = query.clone();
    let since = asked.get("since");
    if let Some(since) = since {
        query = query.with("since", since);
    }
    let groups = query.with("limit", &GROUPS.to_string()).query();
    let read: Failures = page.api.get(&format!("/v1/failures{groups}")).await?;
    let tasks: u64 = read.failures.iter().map(|group| group.tasks).sum();
    let mut all = of_kind.with("state", "failed").with("order", "ended");
    if let Some(since) = since {
        all = all.with("ended_from", since);
    }
    // The lists and operations of a group have the same bound, as a time that does not move on.
    let from = since.and_then(|since| read_since("since", since, &page.local_now()).ok());
    let from = from.map(|from| from.to_string());
    let body = html! {
        h1 { "Failures" }
        p.dim #read {
            (text::grouped(tasks)) (if tasks == 1 { " failed task in " } else { " failed tasks in " }) (read.failures.len())
            (if read.failures.len() == 1 { " group" } else { " groups" })
            @if let Some(kind) = kind { " of the kind " (text::name(kind)) }
            @if let Some(since) = since { " since " bdi { (text::cut(since, 60)) } }
            ". "
            @if !read.is_complete { "There are more: " }
            a href={ (page.base) "/tasks" (all.query()) } { "All failed tasks, the newest first" }
        }
        form.filter action={ (page.base) "/failures" } aria-label="Since" {
            @if let Some(kind) = kind { input type="hidden" name="kind" value=(kind); }
            label { "Failed since"
                input name="since" value=(since.unwrap_or_default()) placeholder="1h ago" maxlength="60" autocomplete="off";
                (page.typed_zone())
            }
            button { "Show" }
        }
        @if read.failures.is_empty() { p.none { "No task has failed for good."
            @if page.may_select(&[("error", "")]) { " " a href={ (page.base) "/tasks?error=" } { "Tasks with an error" } " may be tried again." }
        } } @else { (table(&page, &read.failures, (kind, from.as_deref()))) }
    };
    Ok(page.show(
        (Place::Failures, "Failures"),
        &cli::list("failures", &cli::in_any_zone(&query.0, &page.local_now())),
        &body,
    ))
}

fn table(page: &Page, groups: &[Failure], asked: Asked<'_>) -> Markup {
    html! {
        table.rows {
            thead { tr { th.number { "Tasks" } th { "Error" } th.w { "Kinds" } th.w { "First" } th { "Last" } } }
            tbody { @for group in groups { (row(page, group, asked)) } }
        }
    }
}

/// The kind that is asked for, and the time since when.
type Asked<'a> = (Option<&'a str>, Option<&'a str>);

/// Shows on which nodes, and with which versions, the newest tasks of a group have failed.
fn places(page: &Page, group: &Failure) -> Markup {
    html! {
        @if !group.nodes.is_empty() {
            ". The newest failed on "
            @for (at, of) in group.nodes.iter().take(KINDS).enumerate() {
                @if at > 0 { ", " }
                a href={ (page.base) "/tasks?node=" (encoded(&of.node)) } { (text::name(&of.node)) } " (" (of.tasks) ")"
            }
            @if group.nodes.len() > KINDS { " and " (group.nodes.len() - KINDS) " more" }
        }
        @if group.data_versions.iter().any(|of| of.version > 1) {
            ", data version "
            @for (at, of) in group.data_versions.iter().enumerate() { @if at > 0 { ", " } (of.version) " (" (of.tasks) ")" }
        }
    }
}

/// Shows a kind of a group, as a link to its tasks of the group.
fn name(page: &Page, group: &Failure, (kind, from): (&str, Option<&str>)) -> Markup {
    let print = group.fingerprint.as_deref().unwrap_or_default();
    let mut pairs = vec![("state", "failed"), ("fingerprint", print), ("kind", kind)];
    let is_link = group.fingerprint.is_some() && page.may_select(&pairs);
    pairs.extend(from.map(|from| ("ended_from", from)));
    html! {
        @if is_link { a href={ (page.base) "/tasks" (Fields::of(&pairs).query()) } { (text::name(kind)) } }
        @else { (text::name(kind)) }
    }
}

fn row(page: &Page, group: &Failure, (kind, from): Asked<'_>) -> Markup {
    let text = match (&group.error, &group.fingerprint) {
        (Some(error), _) => error,
        (None, None) => "a mask hides the errors of this kind",
        (None, Some(_)) => "no error is kept",
    };
    let own = group.kinds.first().map_or("", |of| &of.kind);
    let by = match &group.fingerprint {
        Some(print) => ("fingerprint", print.as_str()),
        None => ("kind", own),
    };
    let mut pairs = vec![("state", "failed"), by];
    // A mask of another kind does not concern a list of this one.
    let only = (group.kinds.len() == 1 && !page.may_select(&pairs)).then_some(own);
    if let Some(kind) = kind.or(only).filter(|_| by.0 != "kind") {
        pairs.push(("kind", kind));
    }
    let may_list = page.may_select(&pairs);
    pairs.extend(from.map(|from| ("ended_from", from)));
    html! {
        tr data-key=(by.1) {
            td.number { (page.count(group.tasks, &pairs)) }
            td {
                pre.sample { bdi { (text::cut(text, 300)) } }
                p.dim {
                    "Last: " (page.task(&group.sample))
                    (places(page, group))
                    @if page.may_operate() && may_list { " · " (super::bulk::retry(page, &Fields::of(&pairs))) }
                }
            }
            td.w { @for of in group.kinds.iter().take(KINDS) { (name(page, group, (&of.kind, from))) " " } @if group.kinds.len() > KINDS { "+" (group.kinds.len() - KINDS) } }
            td.w { (page.ago(group.first)) }
            td { (page.ago(group.last)) }
        }
    }
}
