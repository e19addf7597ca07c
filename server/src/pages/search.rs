//! The search: a task by its id, or tasks by the beginning of their ids, by kind and by label.

use std::time::Duration;

use axum::http::StatusCode;
use futures::{StreamExt, stream::FuturesUnordered};
use maud::{Markup, html};
use tokio::time::{Instant, timeout_at};

use super::{
    Answer, Failure, cli,
    form::{Fields, encoded},
    frame::{Page, Place},
    record::{Record, Records},
    rows,
};

/// How many tasks each part of the answer has.
const EACH: &str = "10";

/// How long a part may take while no other part has a task. A store has no index of labels: without a match it compares
/// every task.
const PATIENCE: Duration = Duration::from_millis(300);

/// How long a part may take once another part has tasks: mostly, they are those that were meant.
const GRACE: Duration = Duration::from_millis(30);

/// A part of the answer.
struct Part {
    title: &'static str,
    query: Fields,
    /// The tasks; `None` until they are read.
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
    let mut parts = read_all(&page, &text).await?;
    parts.retain(|part| !part.is_empty());
    let lines = parts.iter().map(|part| cli::list("list", &part.query.0));
    let line = match parts.is_empty() {
        false => lines.collect::<Vec<_>>().join("; "),
        true => cli::on("get", &text),
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

/// Returns the parts of the answer for a text, without records.
fn asked(text: &str) -> Vec<Part> {
    let part = |title, name, value: &str| Part {
        title,
        query: Fields::default().with(name, value),
        records: None,
    };
    let mut asked = Vec::new();
    if !text.contains('=') {
        if !text.contains('/') {
            let mut ids = part("Ids that begin so", "prefix", text);
            // The order in which a store finds the beginning of an id.
            ids.query = ids.query.with("order", "id");
            asked.push(ids);
        }
        asked.push(part("Tasks of this kind", "kind", text));
        if !text.ends_with('*') {
            asked.push(part("Kinds that begin so", "kind", &format!("{text}*")));
        }
    }
    asked.push(part("Tasks with this label", "label", text));
    asked
}

impl Part {
    /// Returns whether no task matches.
    fn is_empty(&self) -> bool {
        let records = self.records.as_ref();
        records.is_some_and(|records| records.tasks.is_empty())
    }

    fn has_tasks(&self) -> bool {
        let records = self.records.as_ref();
        records.is_some_and(|records| !records.tasks.is_empty())
    }
}

/// Reads all parts at the same time, and leaves those that take too long without records.
async fn read_all(page: &Page, text: &str) -> Result<Vec<Part>, Failure> {
    let begun = Instant::now();
    let mut parts = asked(text);
    let queries: Vec<Fields> = parts.iter().map(|part| part.query.clone()).collect();
    let reads = queries.into_iter().enumerate();
    let reads = reads.map(|(n, query)| async move { (n, read(page, query).await) });
    let mut reads: FuturesUnordered<_> = reads.collect();
    loop {
        let patience = match parts.iter().any(Part::has_tasks) {
            true => GRACE,
            false => PATIENCE,
        };
        match timeout_at(begun + patience, reads.next()).await {
            Ok(Some((n, records))) => parts[n].records = Some(records?),
            Ok(None) | Err(_) => return Ok(parts),
        }
    }
}

/// Reads the first tasks of a part.
async fn read(page: &Page, query: Fields) -> Result<Records, Failure> {
    let asked = query.with("limit", EACH).with("props", "false");
    match page.api.get(&format!("/v1/tasks{}", asked.query())).await {
        // A text that is no kind is no error: it may be a label.
        Err(failure) if is_miss(failure.status()) => Ok(Records {
            tasks: Vec::new(),
            next: None,
            previous: None,
        }),
        other => other,
    }
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
                    "None was found at once, and not every task was compared: "
                    a href=(all) { "compare all" }
                },
            }
        }
    }
}
