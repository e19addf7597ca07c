//! The search: a task by its id, or tasks by the beginning of their ids, by kind and by label.

use std::time::Duration;

use axum::http::StatusCode;
use maud::{Markup, html};
use tokio::time::timeout;

use super::{
    Answer, Failure, cli,
    form::{Fields, encoded},
    frame::{Page, Place},
    record::{Record, Records},
    rows,
};

/// How many tasks each part of the answer has.
const EACH: &str = "10";

/// How long a part may take. A store has no index of labels: without a match it compares every task.
const PATIENCE: Duration = Duration::from_millis(300);

/// A part of the answer.
struct Part {
    title: &'static str,
    query: Fields,
    /// The tasks; `None` when they were not found in time.
    records: Option<Records>,
}

pub(super) async fn show(page: Page) -> Answer {
    let text = page.query()?.get("q").unwrap_or_default().to_owned();
    if text.is_empty() {
        return Ok(page.to("/tasks"));
    }
    // An id has no '/', a kind and a label may.
    if !text.contains('/') {
        let path = format!("/tasks/{}", encoded(&text));
        match page.api.get::<Record>(&format!("/v1{path}")).await {
            Ok(_) => return Ok(page.to(&path)),
            Err(failure) if is_miss(failure.status()) => {}
            Err(failure) => return Err(failure),
        }
    }
    let mut parts = Vec::new();
    for (title, name, value) in asked(&text) {
        let query = Fields::default().with(name, &value);
        let part = read(&page, title, query).await?;
        let is_found = part
            .records
            .as_ref()
            .is_none_or(|found| !found.tasks.is_empty());
        parts.extend(is_found.then_some(part));
    }
    let line = match parts.first() {
        Some(part) => cli::list("list", &part.query.0),
        None => cli::on("get", &text),
    };
    let body = html! {
        h1 data-still="" { "Search: " (super::text::name(&text)) }
        @if parts.is_empty() {
            p.none { "No task has this id, kind or label, and no id or kind begins so." }
        }
        @for part in &parts { (section(&page, part)) }
    };
    Ok(page.show((Place::None, "Search"), &line, &body))
}

/// Returns the filters of a text: title, parameter and value.
fn asked(text: &str) -> Vec<(&'static str, &'static str, String)> {
    let mut asked = Vec::new();
    if !text.contains('=') {
        if !text.contains('/') {
            asked.push(("Ids that begin so", "prefix", text.to_owned()));
        }
        asked.push(("Tasks of this kind", "kind", text.to_owned()));
        if !text.ends_with('*') {
            asked.push(("Kinds that begin so", "kind", format!("{text}*")));
        }
    }
    asked.push(("Tasks with this label", "label", text.to_owned()));
    asked
}

async fn read(page: &Page, title: &'static str, query: Fields) -> Result<Part, Failure> {
    let mut asked = query.with("limit", EACH).with("props", "false");
    if query.get("prefix").is_some() {
        // The order in which a store finds the beginning of an id.
        asked = asked.with("order", "id");
    }
    let path = format!("/v1/tasks{}", asked.query());
    let none = Records {
        tasks: Vec::new(),
        next: None,
        previous: None,
    };
    let records = match timeout(PATIENCE, page.api.get::<Records>(&path)).await {
        Ok(Ok(records)) => Some(records),
        // A text that is no kind is no error: it may be a label.
        Ok(Err(failure)) if is_miss(failure.status()) => Some(none),
        Ok(Err(failure)) => return Err(failure),
        Err(_) => None,
    };
    Ok(Part {
        title,
        query,
        records,
    })
}

fn is_miss(status: StatusCode) -> bool {
    matches!(status, StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST)
}

fn section(page: &Page, part: &Part) -> Markup {
    let all = format!("{}/tasks{}", page.base, part.query.query());
    html! {
        section {
            h2 { (part.title) }
            @match &part.records {
                Some(records) => {
                    (rows::table(page, &records.tasks))
                    @if records.next.is_some() { p { a href=(all) { "All of them" } } }
                },
                None => p {
                    "None was found in " (PATIENCE.as_millis()) " ms, and not every task was compared: "
                    a href=(all) { "compare all" }
                },
            }
        }
    }
}
