//! What an operator can do with a task, and the proof that it was done.

use axum::extract::Path;
use jiff::Timestamp;
use maud::{Markup, html};
use serde_json::{json, value::RawValue};

use super::{
    Answer, cli,
    form::{Fields, encoded},
    frame::Page,
    record::{Change, Record, Sending, Sent},
    schema_form::json_or_text,
    seen::Seen,
    text, value,
};
use crate::problem::Problem;

/// The most bytes of a value that is edited on a page.
const EDITED: usize = 8000;

/// The commands that a page sends.
const COMMANDS: [&str; 3] = ["run", "pause", "kill"];

/// Sends a command.
pub(super) async fn command(
    page: Page,
    Path((id, command)): Path<(String, String)>,
    fields: Fields,
) -> Answer {
    if !COMMANDS.contains(&command.as_str()) {
        let what = format!(
            "'{}' is not a command of this page",
            text::cut(&command, 80)
        );
        return Err(Problem::invalid("command", what).into());
    }
    let id = encoded(&id);
    let path = format!("/v1/tasks/{id}/commands?{}", page.wait());
    let mut body = json!({ "command": command });
    if let Some(note) = fields.note() {
        body["note"] = note.into();
    }
    let body = body.to_string();
    let sent: Sending = page.api.post(&path, body).await?;
    Ok(page.to(&format!("/tasks/{id}?sent={}", sent.order)))
}

/// Sends a signal. Its payload is JSON, or a text without quotes.
pub(super) async fn signal(page: Page, Path(id): Path<String>, fields: Fields) -> Answer {
    let Some(name) = fields.get("name") else {
        return Err(Problem::invalid("name", "is empty; give the name of the signal").into());
    };
    let payload = fields.get("payload").map(json_or_text).transpose();
    let payload = payload.map_err(|reason| Problem::invalid("payload", reason))?;
    let id = encoded(&id);
    let path = format!("/v1/tasks/{id}/signals/{}?{}", encoded(name), page.wait());
    let sent: Sending = page.api.post(&path, payload.unwrap_or_default()).await?;
    Ok(page.to(&format!("/tasks/{id}?sent={}", sent.order)))
}

/// Starts an ended task again, with other props and data if the form has them.
pub(super) async fn retry(page: Page, Path(id): Path<String>, fields: Fields) -> Answer {
    let mut members = Vec::new();
    for name in ["props", "data"] {
        let Some(text) = fields.get(name) else {
            continue;
        };
        let json = serde_json::from_str::<&RawValue>(text).map_err(|error| {
            let what = format!("is not JSON: {error}; go back, and correct it");
            Problem::invalid(name, what)
        })?;
        // As text, so that every digit stays.
        members.push(format!("\"{name}\":{}", json.get()));
    }
    let id = encoded(&id);
    let body = format!("{{{}}}", members.join(","));
    page.api
        .post::<serde_json::Value>(&format!("/v1/tasks/{id}/retry"), body)
        .await?;
    Ok(page.to(&format!("/tasks/{id}?sent=retry")))
}

/// Shows the actions that the caller may take now.
pub(super) fn offer(page: &Page, task: &Record) -> Markup {
    let path = page.path_of(&task.id);
    let button = |command: &str, text: &str| {
        html! { form method="post" action={ (path) "/commands/" (command) } { button { (text) } } }
    };
    html! {
        @if page.may_operate() {
            div.actions #actions role="group" aria-label="Actions" {
                @if task.has_ended() || task.is_quarantined() {
                    @if task.state == "completed" {
                        details data-key="retry" {
                            summary { "Retry…" }
                            form.box method="post" action={ (path) "/retry" } {
                                p { "Runs 1 task again that has completed: " (text::name(&task.id)) "." }
                                button { "Run it again" }
                            }
                        }
                    } @else {
                        form method="post" action={ (path) "/retry" } { button { "Retry" } }
                    }
                    @if !task.is_quarantined() { (edited(&path, task)) }
                } @else {
                    @if task.state == "paused" { (button("run", "Resume")) } @else {
                        (button("pause", "Pause"))
                        details data-key="pause" {
                            summary { "Pause with a note…" }
                            form.box method="post" action={ (path) "/commands/pause" } {
                                @if task.state == "sleeping" { p { "A resume will run it at once: it skips its sleep or its wait." } }
                                label { "Why " input name="note" required autocomplete="off"; }
                                button { "Pause it" }
                            }
                        }
                    }
                    @if matches!(task.state.as_str(), "sleeping" | "fault") { (button("run", "Run now")) }
                    details data-key="signal" {
                        summary { "Signal…" }
                        form.box method="post" action={ (path) "/signal" } {
                            label { "Name " input name="name" required maxlength="64" autocomplete="off"; }
                            label { "Payload (JSON) " textarea name="payload" rows="3" spellcheck="false" {} }
                            button { "Send the signal" }
                        }
                    }
                    details data-key="kill" {
                        summary.danger { "Kill…" }
                        form.box method="post" action={ (path) "/commands/kill" } {
                            p { "Kills 1 task: " (text::name(&task.id)) ". Its handler is stopped, and only a retry starts it again." }
                            label { "Why (not required) " input name="note" autocomplete="off"; }
                            button.danger { "Kill it" }
                        }
                    }
                }
            }
        } @else {
            p.dim #actions { "Your role is " (page.caller().role.as_str()) ": it changes no task." }
        }
    }
}

/// Shows the form of a retry with other values. A masked value cannot be edited: it is not known here.
fn edited(path: &str, task: &Record) -> Markup {
    let is_masked =
        |json: &Option<Box<RawValue>>| json.as_ref().is_some_and(|json| value::is_masked(json));
    let is_large =
        |json: &Option<Box<RawValue>>| json.as_ref().is_some_and(|json| json.get().len() > EDITED);
    let text = |json: &Option<Box<RawValue>>| {
        json.as_ref().map_or_else(String::new, |json| {
            let indented = value::indented(json.get(), 4 * EDITED);
            indented.unwrap_or_else(|| json.get().to_owned())
        })
    };
    html! {
        details data-key="edited" {
            summary { "Retry with edited values…" }
            form.box method="post" action={ (path) "/retry" } {
                @for (name, title, json) in [("props", "Props", &task.props), ("data", "Data", &task.data)] {
                    @if is_large(json) {
                        p.dim { (title) " are too large to be edited here: " code { (cli::on(&format!("retry --{name} @FILE"), &task.id)) } }
                    } @else if is_masked(json) { p.dim { (title) " are masked, and stay as they are." } } @else {
                        label { (title) " (JSON) " textarea name=(name) rows="8" spellcheck="false" { (text(json)) } }
                    }
                }
                button { "Retry with these" }
            }
        }
    }
}

/// Shows the outcome of the action that led to the page.
pub(super) fn proof(page: &Page, seen: &Seen, sent: Option<&str>) -> Markup {
    let shown = match sent {
        Some("retry") => Some(retried(page, seen)),
        Some(order) => {
            let order = order.parse::<u64>().ok();
            let found = seen.commands.iter().find(|sent| Some(sent.order) == order);
            found.map(|sent| html! { strong { (sent.command.message) ": " } (outcome(seen, sent)) })
        }
        None => None,
    };
    html! { @if let Some(shown) = shown { p.proof #proof role="status" { (shown) } } }
}

fn retried(page: &Page, seen: &Seen) -> Markup {
    let last = seen.changes.iter().rfind(|change| change.what == "retried");
    html! {
        strong { "retry: " }
        @match last {
            Some(change) => { "started again " (page.moment(change.at)) @if let Some(by) = &change.by { " by " bdi { (by) } } ", incarnation " (seen.task.incarnation) },
            None => { "started again, incarnation " (seen.task.incarnation) },
        }
    }
}

/// Shows the outcome of a command: what it did, how long after it was sent, and under which fence.
pub(super) fn outcome(seen: &Seen, sent: &Sent) -> Markup {
    // What came after it in the history: the clocks of its sender and of the node may differ.
    let is_its_own = |change: &&Change| change.command == Some(sent.order);
    let mut later = seen.changes.iter();
    later.find(|change| change.what == "commanded" && is_its_own(change));
    let later = later.as_slice();
    let effect = later
        .iter()
        .rfind(|change| change.what == "moved" && is_its_own(change));
    // A task without an owner is claimed for the command.
    let claim = effect.and_then(|effect| {
        let is_claim = |change: &&Change| change.what == "claimed" && change.fence == effect.fence;
        later.iter().rfind(is_claim)
    });
    let Some(outcome) = &sent.outcome else {
        let waits = match &seen.task.node {
            Some(_) => "its node has the task; the handler has not answered yet",
            None => "waits for a node that claims the task",
        };
        return html! { span.waiting { (waits) } };
    };
    let verb = match (sent.command.message.as_str(), outcome.outcome.as_str()) {
        ("pause", "applied") => "stopped",
        ("kill", "applied") => "killed",
        (_, "applied") => "applied",
        (_, other) => other,
    };
    let received = seen.task.deliveries.iter();
    let received = received
        .map(|delivery| (delivery.order, delivery.at))
        .find(|(order, at)| *order == sent.order && *at >= sent.sent_at);
    html! {
        span class={ "outcome " (outcome.outcome) } { (verb) }
        @if let Some(change) = effect { " after " (after(sent, change.at)) }
        @if claim.is_some() || received.is_some() {
            " ("
            @if let Some(claim) = claim { "claimed after " (after(sent, claim.at)) }
            @if claim.is_some() && received.is_some() { ", " }
            @if let Some((_, at)) = received { "delivered after " (after(sent, at)) }
            ")"
        }
        @if let Some(change) = effect {
            @if let Some(fence) = change.fence { ", fence " (fence) }
        }
        @if let (Some(from), Some(to)) = (&outcome.from, &outcome.to) { ", " (from) " → " (to) }
        @if let Some(by) = &outcome.by { " by the handler's " (by) }
        @if let Some(reason) = &outcome.reason { ": " bdi { (text::cut(reason, 300)) } }
        @if let Some(reply) = &outcome.reply { ": " code { bdi { (text::cut(reply.get(), 300)) } } }
    }
}

/// Returns how long after a command was sent something happened.
fn after(sent: &Sent, at: Timestamp) -> String {
    match at.as_millisecond() - sent.sent_at.as_millisecond() {
        ms if ms < 10_000 => format!("{} ms", ms.max(0)),
        ms => text::length(ms / 1000),
    }
}
