//! What an operator can do with a schedule.

use axum::extract::Path;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;

use super::{
    Answer, Failure,
    form::{Fields, encoded},
    frame::Page,
    schedules::Record,
    text,
};
use crate::problem::Problem;

/// How many runs a page names.
const NAMED: usize = 20;

/// What was done.
#[derive(Deserialize)]
struct Done {
    action: String,
    #[serde(default)]
    runs: Vec<String>,
}

/// Returns the body of a backfill.
fn backfill(fields: &Fields, dry_run: bool) -> Result<String, Failure> {
    let from = fields.get("from");
    let from = from
        .ok_or_else(|| Problem::invalid("from", "is empty; give the first time, such as 2d ago"))?;
    let all = fields.get("all").is_some();
    Ok(json!({ "from": from, "to": fields.get("to"), "all": all, "dry_run": dry_run }).to_string())
}

/// Sends what a form asks for.
pub(super) async fn send(
    page: Page,
    Path((id, action)): Path<(String, String)>,
    fields: Fields,
) -> Answer {
    let body = match action.as_str() {
        "trigger" | "skip" | "resume" => "{}".to_owned(),
        "pause" => json!({ "note": fields.note() }).to_string(),
        "backfill" => backfill(&fields, false)?,
        other => {
            let what = format!("'{}' is not an action of this page", text::cut(other, 80));
            return Err(Problem::invalid("action", what).into());
        }
    };
    let id = encoded(&id);
    let done: Done = page
        .api
        .post(&format!("/v1/schedules/{id}/{action}"), body)
        .await?;
    let text = match done.runs.len() {
        0 => done.action,
        1 => format!("{}: 1 run", done.action),
        more => format!("{}: {more} runs", done.action),
    };
    let mut shown = Fields::default().with("done", &text);
    shown.0.extend(
        done.runs
            .into_iter()
            .take(NAMED)
            .map(|run| ("run".to_owned(), run)),
    );
    Ok(page.to(&format!("/schedules/{id}{}", shown.query())))
}

/// Shows the runs that a backfill would submit, with the button that submits them.
pub(super) async fn preview(page: &Page, id: &str, fields: &Fields) -> Result<Markup, Failure> {
    let path = format!("/v1/schedules/{}/backfill", encoded(id));
    let done: Done = page.api.post(&path, backfill(fields, true)?).await?;
    let runs = done.runs;
    Ok(html! {
        section #preview data-still="" {
            h2 { "Backfill: " (runs.len()) @if runs.len() == 1 { " run" } @else { " runs" } }
            @if runs.is_empty() { p.none { "No time in this range lacks a run." } } @else {
                ul { @for run in runs.iter().take(NAMED) { li { (text::name(run)) } } }
                @if runs.len() > NAMED { p.dim { "and " (runs.len() - NAMED) " more" } }
                form method="post" action={ (page.base) "/schedules/" (encoded(id)) "/backfill" } {
                    @for name in ["from", "to", "all"] {
                        @if let Some(value) = fields.get(name) { input type="hidden" name=(name) value=(value); }
                    }
                    button { "Submit " (runs.len()) @if runs.len() == 1 { " run" } @else { " runs" } }
                }
            }
        }
    })
}

/// Shows the actions.
pub(super) fn offer(page: &Page, record: &Record) -> Markup {
    let path = format!("{}/schedules/{}", page.base, encoded(&record.id));
    let button = |action: &str, text: &str| {
        html! { form method="post" action={ (path) "/" (action) } { button { (text) } } }
    };
    let is_paused = record.state.as_deref() == Some("paused");
    html! {
        div.actions #actions role="group" aria-label="Actions" {
            (button("trigger", "Trigger a run now"))
            @if is_paused { (button("resume", "Resume")) } @else {
                form.row method="post" action={ (path) "/pause" } {
                    button { "Pause" }
                    input name="note" aria-label="Why it is paused" placeholder="why, for others" autocomplete="off";
                }
                @if record.next.is_some() { (button("skip", "Skip the next time")) }
            }
            details data-key="backfill" {
                summary { "Backfill…" }
                form.box action=(path) {
                    label { "From " input name="from" required placeholder="2d ago" maxlength="64" autocomplete="off"; (page.typed_zone()) }
                    label { "To " input name="to" placeholder="now" maxlength="64" autocomplete="off"; (page.typed_zone()) }
                    label { input type="checkbox" name="all" value="true"; " also times whose run has ended" }
                    button { "Show the runs" }
                }
            }
        }
    }
}
