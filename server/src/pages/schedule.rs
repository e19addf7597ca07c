//! A schedule: its next times, the times that submitted no run and why, and what can be done.

use axum::extract::Path;
use maud::{Markup, html};

use super::{
    Answer, cli,
    form::encoded,
    frame::{Page, Place},
    schedule_actions,
    schedules::Record,
    text,
};

/// How many live runs the page has.
const RUNS: usize = 20;

pub(super) async fn show(page: Page, Path(id): Path<String>) -> Answer {
    let query = page.query()?;
    let record: Record = page
        .api
        .get(&format!("/v1/schedules/{}", encoded(&id)))
        .await?;
    let state = record.state.as_deref().unwrap_or("quarantined");
    let preview = match query.get("from") {
        Some(_) if may_change(&page) => {
            Some(schedule_actions::preview(&page, &record.id, &query).await?)
        }
        _ => None,
    };
    let body = html! {
        h1 { (text::state(state)) " " (text::name(&record.id)) }
        @if let Some(spec) = &record.spec {
            p { bdi { (text::cut(&spec.words(), 400)) } ", runs of kind " (text::name(&spec.run.kind)) }
            @if let Some(text) = &spec.description { p.dim { bdi { (text::cut(text, 400)) } } }
        }
        @if let Some(done) = query.get("done") {
            p.proof #proof role="status" { strong { bdi { (text::cut(done, 200)) } }
                @for run in query.0.iter().filter(|(name, _)| name == "run").take(RUNS) { " " (page.task(&run.1)) }
            }
        }
        @for (text, what) in [(&record.waits, "It waits: "), (&record.note, "Paused: "), (&record.wrong, "Its fields cannot be read: ")] {
            @if let Some(text) = text { div.why.held { p { strong { (what) } bdi { (text::cut(text, 400)) } } } }
        }
        @if may_change(&page) { (schedule_actions::offer(&page, &record)) }
        @if let Some(preview) = &preview { (preview) }
        section #next { h2 { "Next times" } (upcoming(&page, &record)) }
        section #left-out { h2 { "Times without a run" } (left_out(&page, &record)) }
        section #runs { h2 { "Runs" } (runs(&page, &record)) }
        p { a href=(page.path_of(&record.id)) { "The task of the schedule" } }
    };
    let line = match preview {
        Some(_) => {
            let of_backfill =
                |(name, _): &&(String, String)| ["from", "to"].contains(&name.as_str());
            let mut options: Vec<_> = query.0.iter().filter(of_backfill).cloned().collect();
            options.retain(|(_, value)| !value.trim().is_empty());
            let mut options = cli::in_any_zone(&options, &page.local_now());
            options.push(("id".to_owned(), record.id.clone()));
            let all = if query.get("all").is_some() {
                " --all"
            } else {
                ""
            };
            cli::list(&format!("schedule backfill --dry-run{all}"), &options)
        }
        None => cli::on("schedule get", &record.id),
    };
    Ok(page.show((Place::Schedules, &record.id), &line, &body))
}

/// Returns whether the caller may change schedules: they start tasks of any kind.
fn may_change(page: &Page) -> bool {
    page.may_operate() && page.sees_everything()
}

fn upcoming(page: &Page, record: &Record) -> Markup {
    let times = record.upcoming.as_deref().unwrap_or_default();
    html! {
        @if times.is_empty() { p.none { "None." } } @else {
            table.rows {
                thead { tr { th { "Due" } th { "In its zone" } th.w { "Time" } } }
                tbody { @for time in times {
                    tr { td { (page.ago(time.due)) } td { bdi { (time.local) } } td.w { (page.moment(time.nominal)) } }
                } }
            }
        }
        @if !record.skipped.is_empty() {
            p.dim { "To be skipped: " @for at in record.skipped.iter().take(RUNS) { (page.moment(*at)) " " } }
        }
    }
}

fn left_out(page: &Page, record: &Record) -> Markup {
    html! {
        @if record.left_out.is_empty() { p.none { "None." } } @else {
            table.rows {
                thead { tr { th.number { "Times" } th { "From" } th { "To" } th { "Reason" } } }
                tbody { @for out in record.left_out.iter().rev() {
                    tr {
                        td.number { (text::grouped(out.times)) }
                        td { (page.moment(out.first)) }
                        td { (page.moment(out.last)) }
                        td { bdi { (text::cut(&reason(&out.why), 200)) } }
                    }
                } }
            }
        }
    }
}

/// Returns why times submitted no run, in words.
fn reason(why: &serde_json::Value) -> String {
    match why.as_str() {
        Some("overlapped") => "an earlier run was live, or a later time replaced it".to_owned(),
        Some("missed") => "no node was there to decide it soon enough".to_owned(),
        Some("skipped") => "an operator skipped it, or the schedule was paused".to_owned(),
        Some("refused") => "another task has the id of the run".to_owned(),
        Some(other) => other.to_owned(),
        None => why.to_string(),
    }
}

fn runs(page: &Page, record: &Record) -> Markup {
    html! {
        p { @for (name, number) in &record.counts { span.label { (name) " " (text::grouped(*number)) } " " } }
        @if let Some(run) = &record.last_run {
            p { "Last: " (text::state(&run.shown)) " " (page.task(&run.id))
                @if let Some(error) = &run.error { span.error { " " bdi { (text::cut(error, 300)) } } }
            }
        }
        @if !record.runs.is_empty() { p { "Runs of its last time: " @for id in record.runs.iter().take(RUNS) { (page.task(id)) " " } } }
        p { a href={ (page.base) "/tasks?label=" (encoded(&format!("schedule={}", record.id))) } { "All runs that are kept" } }
    }
}
