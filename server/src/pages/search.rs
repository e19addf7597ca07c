//! The search: a task by its id, or tasks by the beginning of their ids, by kind and by label.

use axum::http::StatusCode;
use maud::{Markup, html};

use super::{
    Answer, cli,
    form::{Fields, encoded},
    frame::{Page, Place},
    record::{Record, Records},
    tasks,
};

/// How many tasks each part of the answer has.
const EACH: &str = "10";

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
    let label = text.contains('=');
    let parts = [
        (
            "Ids that begin so",
            "prefix",
            text.clone(),
            !label && !text.contains('/'),
        ),
        ("Tasks of this kind", "kind", text.clone(), !label),
        (
            "Kinds that begin so",
            "kind",
            format!("{text}*"),
            !label && !text.ends_with('*'),
        ),
        ("Tasks with this label", "label", text.clone(), true),
    ];
    let mut found = Vec::new();
    for (title, name, value, _) in parts.into_iter().filter(|part| part.3) {
        let query = Fields::default().with(name, &value);
        let asked = query.with("limit", EACH).with("props", "false");
        match page
            .api
            .get::<Records>(&format!("/v1/tasks{}", asked.query()))
            .await
        {
            Ok(records) if records.tasks.is_empty() => {}
            Ok(records) => found.push((title, query, records)),
            // A text that is no kind is no error: it may be a label.
            Err(failure) if is_miss(failure.status()) => {}
            Err(failure) => return Err(failure),
        }
    }
    let lines: Vec<String> = found
        .iter()
        .map(|(_, query, _)| cli::list("list", &query.0))
        .collect();
    let line = match lines.first() {
        Some(line) => line.clone(),
        None => cli::on("get", &text),
    };
    let body = html! {
        h1 { "Search: " (super::text::name(&text)) }
        @if found.is_empty() {
            p.none { "No task has this id, kind or label, and no id or kind begins so." }
        }
        @for (title, query, records) in &found { (part(&page, title, query, records)) }
    };
    Ok(page.show((Place::None, "Search"), &line, &body))
}

fn is_miss(status: StatusCode) -> bool {
    matches!(status, StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST)
}

fn part(page: &Page, title: &str, query: &Fields, records: &Records) -> Markup {
    html! {
        section {
            h2 { (title) }
            (tasks::table(page, &records.tasks))
            @if records.next.is_some() {
                p { a href={ (page.base) "/tasks" (query.query()) } { "All of them" } }
            }
        }
    }
}
