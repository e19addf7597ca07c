//! The overview: what holds tasks back, what the tasks do now, their numbers, and the oldest due. Every number is a link to its tasks.

use std::{collections::BTreeMap, sync::Arc};

use axum::extract::State;
use maud::{Markup, html};
use serde::Deserialize;
use windlass::client::{Stats, activity::Summary};

use super::{
    Answer,
    form::encoded,
    frame::{Page, Place},
    text,
};
use crate::app::App;

/// The most kinds, and the most reasons, of the page.
const KINDS: usize = 60;
const REASONS: usize = 40;

#[derive(Deserialize)]
struct Counts {
    counts: Vec<Count>,
}

#[derive(Deserialize)]
struct Count {
    kind: String,
    state: String,
    tasks: u64,
    claimed: u64,
}

impl Count {
    /// Returns the numbers by the states that lists show: a runnable task is running or queued.
    fn shown(&self) -> [(&str, u64); 2] {
        match self.state.as_str() {
            "runnable" => [
                ("running", self.claimed),
                ("queued", self.tasks.saturating_sub(self.claimed)),
            ],
            state => [(state, self.tasks), (state, 0)],
        }
    }
}

/// What holds tasks back.
#[derive(Deserialize)]
struct Why {
    refused_rows: Option<RefusedRows>,
    waiting: Vec<Waiting>,
}

/// The rows of the inbox that were refused.
#[derive(Deserialize)]
struct RefusedRows {
    text: String,
}

#[derive(Deserialize)]
struct Waiting {
    kind: String,
    reason: String,
    tasks: u64,
    at_least: bool,
    text: String,
}

pub(super) async fn show(State(app): State<Arc<App>>, page: Page) -> Answer {
    // Tasks are not counted by label.
    if !page.caller().scope.labels.is_empty() {
        return Ok(page.to("/tasks"));
    }
    let counts: Counts = page.api.get("/v1/counts").await?;
    let is_empty = counts.counts.iter().all(|count| count.tasks == 0);
    let (stats, why, rates) = match page.sees_everything() {
        true => {
            let rates: Summary = page.api.get("/v1/activity").await?;
            let why: Why = page.api.get("/v1/why").await?;
            let stats = app.stats().await.map_err(crate::problem::Problem::from)?;
            (Some(stats), Some(why), Some(rates))
        }
        false => (None, None, None),
    };
    let body = html! {
        h1 { "Overview" }
        @if let Some(rows) = why.as_ref().and_then(|why| why.refused_rows.as_ref()) {
            div #refused-rows.why.held { p { bdi { (rows.text) } " " a href={ (page.base) "/doctor" } { "The doctor names the reasons." } } }
        }
        @if is_empty { (first_contact(&page)) } @else {
            @if let Some(why) = &why { section #waiting data-settle="" { h2 { "What waits, and why" } (waiting(&page, &why.waiting)) } }
            @if let Some(rates) = &rates { section #rates { h2 { "Now" } (super::rates::show(&page, rates)) } }
            section #counts { h2 { "Tasks" } (table(&page, &counts.counts, stats.as_deref())) }
        }
    };
    Ok(page.show(
        (Place::Overview, "Overview"),
        "windlass top; windlass why; windlass stats",
        &body,
    ))
}

/// Says what to do with an empty store.
pub(super) fn first_contact(page: &Page) -> Markup {
    html! {
        section.first {
            p { "There are no tasks yet. Three commands make one, run it, and show it:" }
            @if let Some(line) = page.store_line() { pre.command { (line) } }
            pre.command { "windlass submit --id hello -- echo hello" }
            pre.command { "windlass worker --until-idle" }
            pre.command { "windlass get hello --history" }
        }
    }
}

fn waiting(page: &Page, all: &[Waiting]) -> Markup {
    html! {
        @if all.is_empty() { p.none { "Nothing is held back." } } @else {
            table.rows {
                thead { tr { th.number { "Tasks" } th { "Kind" } th { "Reason" } } }
                tbody { @for one in all.iter().take(REASONS) {
                    tr data-key={ (one.kind) " " (one.reason) } {
                        td.number { @if one.at_least { "≥ " } (page.count(one.tasks, &filter(one))) }
                        td.k { (text::name(&one.kind)) }
                        td { bdi { (text::cut(words(one), 300)) } }
                    }
                } }
            }
            @if all.len() > REASONS { p.dim { (all.len() - REASONS) " more reasons: " code { "windlass why" } } }
        }
    }
}

/// Returns the reason in words. Those of the API name requests where pages have buttons.
fn words(one: &Waiting) -> &str {
    match one.reason.as_str() {
        "paused" => "paused: the list resumes all of them, and the page of a task resumes one",
        "quarantined" => "its record cannot be read: the page of a task retries it",
        _ => &one.text,
    }
}

/// Returns the query of the tasks that are held back for a reason.
fn filter(one: &Waiting) -> [(&str, &str); 2] {
    let by = match one.reason.as_str() {
        "paused" => ("state", "paused"),
        "quarantined" => ("quarantined", "true"),
        reason => ("waits", reason),
    };
    [("kind", &one.kind), by]
}

fn table(page: &Page, counts: &[Count], stats: Option<&Stats>) -> Markup {
    let mut kinds: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
    for count in counts {
        let of = kinds.entry(&count.kind).or_default();
        for (state, tasks) in count.shown() {
            *of.entry(state).or_default() += tasks;
        }
    }
    let total = |state: &str| -> u64 { kinds.values().filter_map(|of| of.get(state)).sum() };
    // In this order.
    let states = text::STATE_WORDS.into_iter().chain(["quarantined"]);
    let shown_states: Vec<&str> = states.filter(|state| total(state) > 0).collect();
    let oldest = |kind: &str| {
        let of = stats?.kinds.iter().find(|of| of.kind.as_str() == kind)?;
        of.oldest_due
    };
    html! {
        div.scroll tabindex="0" role="region" aria-label="Tasks by kind and state" {
            table.rows.numbers {
                thead { tr {
                    th { "Kind" }
                    @for state in &shown_states { th.number { (text::state(state)) } }
                    @if stats.is_some() { th.number { "Oldest due" } }
                } }
                tbody { @for (kind, of) in kinds.iter().take(KINDS) {
                    tr data-key=(kind) {
                        td { a href={ (page.base) "/tasks?kind=" (encoded(kind)) } { (text::name(kind)) } }
                        @for state in &shown_states {
                            td.number { (page.count(of.get(state).copied().unwrap_or(0), &of_state(kind, state))) }
                        }
                        @if stats.is_some() {
                            td.number { @if let Some(due) = oldest(kind) {
                                a href={ (page.base) "/tasks?order=late&kind=" (encoded(kind)) } { (page.ago(due)) }
                            } }
                        }
                    }
                } }
            }
        }
        @if kinds.len() > KINDS { p.dim { (kinds.len() - KINDS) " more kinds: " code { "windlass stats" } } }
    }
}

fn of_state<'a>(kind: &'a str, state: &'a str) -> [(&'static str, &'a str); 2] {
    match state {
        "quarantined" => [("kind", kind), ("quarantined", "true")],
        state => [("kind", kind), ("state", state)],
    }
}
