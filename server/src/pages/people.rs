//! Tasks that wait for a signal which their handler has declared, each with the form that sends it.

use axum::extract::Path;
use maud::{Markup, html};
use sha2::{Digest, Sha256};

use super::{
    Answer, cli,
    form::{Fields, encoded},
    frame::{Page, Place},
    record::{Awaited, Record, Records, Sending},
    schema_form::{Form, Schema},
    text,
};
use crate::problem::Problem;

/// How many tasks a page has.
const TASKS: usize = 20;
/// The most characters of a text.
const TEXT: usize = 1000;

pub(super) async fn show(page: Page) -> Answer {
    let asked = page.query()?;
    let mut filter = Fields::default();
    for name in ["kind", "label", "cursor"] {
        if let Some(value) = asked.get(name) {
            filter = filter.with(name, value);
        }
    }
    let listed = filter
        .with("waits", "signal")
        .with("reversed", "true")
        .with("limit", &TASKS.to_string())
        .with("props", "false");
    let read: Records = page
        .api
        .get(&format!("/v1/tasks{}", listed.query()))
        .await?;
    let more = |cursor: &str| {
        format!(
            "{}/people{}",
            page.base,
            filter.with("cursor", cursor).query()
        )
    };
    let body = html! {
        h1 { "Waiting for people" }
        @if let Some(id) = asked.get("sent") {
            p.proof #proof role="status" { "Sent to " (page.task(id)) ": its page shows the reply." }
        }
        @if read.tasks.is_empty() {
            p.none { "No task waits for a signal that its handler has declared." }
        }
        @for task in &read.tasks {
            @if let Some(signal) = &task.awaits_signal {
                section.asked data-key=(task.id) {
                    p { (page.task(&task.id)) " " span.dim { "of kind " (text::name(&task.kind))
                        @if let Some(since) = task.shown_since { ", " (page.ago(since)) }
                        @if let Some(until) = task.until.into_iter().chain(task.end_by).min() { ", until " (page.moment(until)) } }
                    }
                    (form(&page, task, signal, "people"))
                }
            }
        }
        nav.pages aria-label="More tasks" {
            @if let Some(previous) = &read.previous { a href=(more(previous)) { "Earlier" } }
            @if let Some(next) = &read.next { a href=(more(next)) { "Later" } }
        }
    };
    let line = cli::list("list --waits signal", &filter.without("cursor").0);
    Ok(page.show((Place::People, "Waiting for people"), &line, &body))
}

/// Shows what a task asks, with the form of the signal if the caller may send it. `back` is the page that follows.
pub(super) fn form(page: &Page, task: &Record, signal: &Awaited, back: &str) -> Markup {
    let schema = signal
        .schema
        .as_ref()
        .and_then(|schema| Schema::read(schema.get()));
    html! {
        @if !signal.text.is_empty() { p.question { bdi { (text::cut(&signal.text, TEXT)) } } }
        @if page.may_operate() {
            form.box method="post" action={ (page.path_of(&task.id)) "/answer" } {
                input type="hidden" name="name" value=(signal.name);
                input type="hidden" name="asked" value=(asked(task, signal));
                input type="hidden" name="back" value=(back);
                (Form::of(schema.as_ref()).show())
                button { "Send the signal " (text::name(&signal.name)) }
            }
        } @else {
            p.dim { "It waits for the signal " (text::name(&signal.name)) ", which your role does not send." }
        }
    }
}

/// Returns what distinguishes a question from the next one of the same task, whose form may have the same fields.
fn asked(task: &Record, signal: &Awaited) -> String {
    let schema = signal.schema.as_ref().map_or("", |schema| schema.get());
    let whole = (
        &task.id,
        task.incarnation,
        task.version,
        &signal.name,
        &signal.text,
        schema,
    );
    let text = serde_json::to_string(&whole).unwrap_or_default();
    let hash = Sha256::digest(text.as_bytes());
    hash.iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Sends the signal that a task waits for, with the payload of the form.
pub(super) async fn answer(page: Page, Path(id): Path<String>, fields: Fields) -> Answer {
    let id = encoded(&id);
    let task: Record = page.api.get(&format!("/v1/tasks/{id}")).await?;
    // Names may begin and end with spaces.
    let name = fields.0.iter().find(|(known, _)| known == "name");
    let name = name.map_or("", |(_, name)| name);
    let is_same = |signal: &&Awaited| {
        signal.name == name && fields.get("asked") == Some(&asked(&task, signal))
    };
    let signal = task.awaits_signal.as_ref().filter(is_same);
    let Some(signal) = signal else {
        let what = format!(
            "the task does not ask this any more (signal '{}'); look at it again",
            text::cut(name, 80)
        );
        return Err(Problem::invalid("name", what).into());
    };
    let schema = signal
        .schema
        .as_ref()
        .and_then(|schema| Schema::read(schema.get()));
    let payload = Form::of(schema.as_ref()).read(&fields)?;
    // A question has one answer: one that is sent again, or by somebody else, is the same signal.
    let path = format!(
        "/v1/tasks/{id}/signals/{}?id=answer-{}&{}",
        encoded(name),
        asked(&task, signal),
        page.wait()
    );
    let sent: Sending = page.api.post(&path, payload.unwrap_or_default()).await?;
    Ok(match fields.get("back") {
        Some("people") => page.to(&format!("/people?sent={id}")),
        _ => page.to(&format!("/tasks/{id}?sent={}", sent.order)),
    })
}
