//! The list of tasks. Its URL is the query: the parameters are those of `GET /v1/tasks`.

use maud::{Markup, html};

use super::{
    Answer, cli,
    form::Fields,
    frame::{Page, Place},
    record::{Record, Records},
    text,
};

/// How many tasks a page has by default: few enough for a page below 60 kB.
const LIMIT: &str = "50";
/// The most characters of a label in a row.
const LABEL: usize = 32;
/// How many labels of a task a row has.
const LABELS: usize = 3;

pub(super) async fn show(page: Page) -> Answer {
    let mut query = page.query()?;
    // A form sends its empty fields too.
    query
        .0
        .retain(|(name, value)| !value.trim().is_empty() || is_flag(name));
    let mut asked = query.clone();
    asked = asked.with("props", "false");
    if asked.get("limit").is_none() {
        asked = asked.with("limit", LIMIT);
    }
    let records: Records = page.api.get(&format!("/v1/tasks{}", asked.query())).await?;
    let without_cursor = query.without("cursor");
    let is_first = query.get("cursor").is_none();
    let body = html! {
        h1 { "Tasks" }
        (filter(&page, &without_cursor))
        @if records.tasks.is_empty() && is_first && without_cursor.0.is_empty() {
            (super::overview::first_contact())
        } @else {
            @if !records.tasks.is_empty() { (super::bulk::offer(&page, &without_cursor)) }
            (table(&page, &records.tasks))
            nav.pages aria-label="Pages of the list" {
                @if let Some(cursor) = &records.previous {
                    a rel="prev" href={ (page.base) "/tasks" (without_cursor.with("cursor", cursor).query()) } { "← Before" }
                }
                @if !is_first {
                    a href={ (page.base) "/tasks" (without_cursor.query()) } { "First page" }
                }
                @if let Some(cursor) = &records.next {
                    a rel="next" href={ (page.base) "/tasks" (without_cursor.with("cursor", cursor).query()) } { "After →" }
                }
            }
        }
    };
    Ok(page.show((Place::Tasks, "Tasks"), &cli::list("list", &query.0), &body))
}

fn is_flag(name: &str) -> bool {
    matches!(name, "claimed" | "quarantined" | "reversed")
}

/// Shows the filters that are asked for most; the others stay as they are.
fn filter(page: &Page, query: &Fields) -> Markup {
    let of_form = ["state", "kind", "label", "prefix", "order"];
    let kept = query
        .0
        .iter()
        .filter(|(name, _)| !of_form.contains(&name.as_str()));
    // A second label has no field.
    let labels = query.0.iter().filter(|(name, _)| name == "label").skip(1);
    let state = query.get("state").unwrap_or_default();
    let text = |name: &'static str, label: &'static str, like: &'static str| {
        html! {
            label { (label)
                input name=(name) value=(query.get(name).unwrap_or_default()) placeholder=(like) maxlength="300" autocomplete="off";
            }
        }
    };
    html! {
        form.filter action={ (page.base) "/tasks" } aria-label="Filter" {
            label { "State"
                select name="state" {
                    option value="" { "any" }
                    @if !state.is_empty() && !text::STATES.contains(&state) { option selected { (state) } }
                    @for one in text::STATES { option selected[one == state] { (one) } }
                }
            }
            (text("kind", "Kind", "mail or mail/*"))
            (text("label", "Label", "team=billing"))
            (text("prefix", "Id begins with", ""))
            label { "Order"
                select name="order" {
                    option value="" { "newest" }
                    @for one in ["due", "ended", "id"] {
                        option selected[query.get("order") == Some(one)] { (one) }
                    }
                }
            }
            @for (name, value) in kept.chain(labels) { input type="hidden" name=(name) value=(value); }
            button { "Filter" }
            @if !query.0.is_empty() { a href={ (page.base) "/tasks" } { "Clear" } }
        }
        @let more: Vec<String> = query.0.iter().filter(|(name, _)| !of_form.contains(&name.as_str()))
            .map(|(name, value)| format!("{name}={}", text::cut(value, 80))).collect();
        @if !more.is_empty() { p.dim { "Also filtered by " bdi { (more.join(", ")) } } }
    }
}

/// Shows tasks as dense rows.
pub(super) fn table(page: &Page, tasks: &[Record]) -> Markup {
    html! {
        @if tasks.is_empty() { p.none { "No task matches." } } @else {
            table.rows #tasks {
                thead { tr {
                    th { "State" } th { "Id" } th { "Kind" } th.w { "Owner" } th.w.number { "Failed runs" } th { "Since" } th.w { "Next" } th.w { "Labels" }
                } }
                tbody { @for task in tasks { (row(page, task)) } }
            }
        }
    }
}

fn row(page: &Page, task: &Record) -> Markup {
    let state = if task.is_quarantined() {
        "quarantined"
    } else {
        &task.state
    };
    html! {
        tr data-key=(task.id) {
            td { (text::state(state)) }
            td { (page.task(&task.id)) @if let Some(error) = last_error(task) { p.error { bdi { (error) } } } }
            td.k { (text::name(&task.kind)) }
            td.w { @if let Some(node) = &task.node { @if page.sees_everything() { (text::name(node)) } @else { "a node" } } }
            td.w.number { @if task.attempts > 0 { (task.attempts) } }
            td { @if let Some(since) = task.since { (page.ago(since)) } }
            td.w { @if let (Some(due), false) = (next(task), task.has_ended()) { (page.ago(due)) } }
            td.w { (labels(task)) }
        }
    }
}

/// Returns when a task continues by itself.
fn next(task: &Record) -> Option<jiff::Timestamp> {
    match task.node {
        None if task.state == "sleeping" => task.until,
        None if task.state == "runnable" => task.due,
        _ => None,
    }
}

/// Returns the beginning of the last error of a task that an error has stopped or delays.
fn last_error(task: &Record) -> Option<String> {
    let is_shown = task.attempts > 0 || task.state == "failed";
    let error = task.errors.last().filter(|_| is_shown)?;
    let line = error.error.lines().next().unwrap_or_default();
    Some(text::cut(line, 140))
}

fn labels(task: &Record) -> Markup {
    let all = task.labels.iter();
    html! {
        @for (name, value) in all.take(LABELS) {
            span.label { bdi { (text::cut(name, LABEL)) "=" (text::cut(value, LABEL)) } } " "
        }
        @if task.labels.len() > LABELS { span.dim { "+" (task.labels.len() - LABELS) } }
    }
}
