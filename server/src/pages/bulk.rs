//! Bulk operations: the tasks that a filter selects are counted, and a person starts what was counted.

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use windlass::Kind;

use super::{
    Answer, cli,
    form::{Fields, encoded},
    frame::{Page, Place},
    record::Records,
};
use crate::{bulk::BulkAction, problem::Problem};

/// The parameters of a list that are no filter.
const OF_LIST: [&str; 5] = ["order", "limit", "cursor", "reversed", "props"];
/// The fields of the forms that are no filter.
const OF_FORM: [&str; 3] = ["action", "tasks", "key"];
/// How many of the tasks the count shows.
const SHOWN: &str = "10";

/// What a dry run has counted.
#[derive(Deserialize)]
struct Counted {
    tasks: u64,
    skipping: u64,
    key: String,
}

#[derive(Deserialize)]
struct Started {
    id: String,
}

/// Returns the pairs of a query that select tasks.
fn selecting(fields: &Fields) -> Vec<(String, String)> {
    let is_filter = |name: &str| !OF_LIST.contains(&name) && !OF_FORM.contains(&name);
    let pairs = fields.0.iter();
    let pairs = pairs.filter(|(name, value)| {
        is_filter(name)
            && (!value.trim().is_empty()
                || matches!(name.as_str(), "claimed" | "quarantined" | "error"))
    });
    pairs.cloned().collect()
}

/// Returns the filter of the API for the pairs of a query.
fn filter(pairs: &[(String, String)]) -> Value {
    let mut filter = Map::new();
    for (name, value) in pairs {
        match name.as_str() {
            "state" | "label" | "id" => {
                let several = filter.entry(name.clone()).or_insert_with(|| json!([]));
                let parts: Vec<&str> = match name.as_str() {
                    "state" => value.split(',').collect(),
                    _ => vec![value],
                };
                if let Some(several) = several.as_array_mut() {
                    several.extend(parts.into_iter().map(Value::from));
                }
            }
            "claimed" | "quarantined" => {
                filter.insert(name.clone(), json!(value != "false"));
            }
            _ => {
                filter.insert(name.clone(), json!(value));
            }
        }
    }
    Value::Object(filter)
}

fn action_of(fields: &Fields) -> Result<BulkAction, Problem> {
    let given = fields.get("action").unwrap_or_default();
    let found = BulkAction::ALL
        .into_iter()
        .find(|one| one.as_str() == given);
    found.ok_or_else(|| Problem::invalid("action", "is none of pause, resume, release, complete, kill, retry, delete; choose one on the list of tasks"))
}

/// Lists the operations, the newest first.
async fn operations(page: Page, query: &Fields) -> Answer {
    let list = Fields::default().with("kind", Kind::BULK);
    let mut asked = list.with("limit", "50").with("props", "false");
    if let Some(cursor) = query.get("cursor") {
        asked = asked.with("cursor", cursor);
    }
    let read: Records = page.api.get(&format!("/v1/tasks{}", asked.query())).await?;
    let more = |cursor: &str| format!("{}/bulk?cursor={}", page.base, encoded(cursor));
    let body = html! {
        h1 { "Bulk operations" }
        p.dim { "Each is a task: its page shows what it has changed, what it has refused, and pauses it. "
            a href={ (page.base) "/tasks" } { "A list of tasks" } " starts one." }
        @if read.tasks.is_empty() { p.none { "There are none." } } @else { (super::rows::table(&page, &read.tasks)) }
        nav.pages aria-label="More operations" {
            @if let Some(previous) = &read.previous { a href=(more(previous)) { "Newer" } }
            @if let Some(next) = &read.next { a href=(more(next)) { "Older" } }
        }
    };
    let line = cli::list("list", &list.0);
    Ok(page.show((Place::Tasks, "Bulk operations"), &line, &body))
}

/// Counts the tasks, and shows what would happen.
pub(super) async fn show(page: Page) -> Answer {
    let query = page.query()?;
    if query.get("action").is_none() && selecting(&query).is_empty() {
        return operations(page, &query).await;
    }
    let action = action_of(&query)?;
    let pairs = selecting(&query);
    let name = action.as_str();
    let is_nothing = |(name, value): &(String, String)| match name.as_str() {
        "claimed" | "quarantined" => value == "false",
        "error" => value.is_empty(),
        "kind" => value == "*",
        _ => false,
    };
    let is_all = pairs.iter().all(is_nothing);
    let has_error = pairs.iter().any(|(name, _)| name == "error");
    let body = json!({"filter": filter(&pairs), "action": action, "all": true}).to_string();
    let counted: Counted = page.api.post("/v1/bulk", body).await?;
    let mut list = Fields(pairs.clone());
    // As in the count.
    let states = action.states();
    let names_states = |(name, value): &(String, String)| match name.as_str() {
        "quarantined" => value != "false",
        name => name == "state",
    };
    if !list.0.iter().any(names_states) && !states.is_empty() {
        let names: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
        list = list.with("state", &names.join(","));
    }
    let asked = list.with("limit", SHOWN).with("props", "false");
    let records: Records = page.api.get(&format!("/v1/tasks{}", asked.query())).await?;
    let number = match counted.tasks {
        1 => "1 task".to_owned(),
        tasks => format!("{tasks} tasks"),
    };
    let body = html! {
        h1 { (title(action)) " " (number) "?" }
        section #preview data-still="" {
            @if counted.tasks == 0 { p.none { "No task matches." } } @else {
                @if is_all && has_error { p.error { "These are all tasks of the store that it may change and that had any error." } }
                @else if is_all { p.error { "No filter is given: these are all tasks of the store that it may change." } }
                @if counted.skipping > 0 { p { (counted.skipping) " of them sleep until a time, or wait for tasks or a signal, or did so \
                     when they were paused. A resume runs them at once." } }
                p { "A task in the background does it: it can be paused, goes on after a crash, and names each task that it could not \
                     change. Tasks that are submitted from now on are left alone." }
                form method="post" action={ (page.base) "/bulk" } {
                    @for (name, value) in &pairs { input type="hidden" name=(name) value=(value); }
                    input type="hidden" name="action" value=(name);
                    input type="hidden" name="tasks" value=(counted.tasks);
                    input type="hidden" name="key" value=(counted.key);
                    button.danger[matches!(action, BulkAction::Kill | BulkAction::Delete)] { (title(action)) " " (number) }
                }
                p { a href={ (page.base) "/tasks" (list.query()) } { "All of them" } ", or the first:" }
                (super::rows::table(&page, &records.tasks))
            }
        }
    };
    let all = if is_all { " --all" } else { "" };
    let line = cli::list(&format!("bulk {name}{all}"), &pairs);
    Ok(page.show((Place::Tasks, "Bulk operation"), &line, &body))
}

/// Starts the operation, and shows its task.
pub(super) async fn start(page: Page, fields: Fields) -> Answer {
    let action = action_of(&fields)?;
    let tasks = fields
        .get("tasks")
        .and_then(|tasks| tasks.parse::<u64>().ok());
    let tasks =
        tasks.ok_or_else(|| Problem::invalid("tasks", "is no number; count the tasks again"))?;
    let pairs = selecting(&fields);
    let body = json!({
        "filter": filter(&pairs),
        // A person has seen the number.
        "all": true,
        "action": action,
        "tasks": tasks,
        "key": fields.get("key"),
    });
    let started: Started = page.api.post("/v1/bulk", body.to_string()).await?;
    Ok(page.to(&format!("/tasks/{}", encoded(&started.id))))
}

fn title(action: BulkAction) -> &'static str {
    match action {
        BulkAction::Pause => "Pause",
        BulkAction::Resume => "Resume",
        BulkAction::Release => "Release",
        BulkAction::Complete => "Complete",
        BulkAction::Kill => "Kill",
        BulkAction::Retry => "Retry",
        BulkAction::Delete => "Delete",
    }
}

/// Offers an action on every task that a query selects.
pub(super) fn offer(page: &Page, query: &Fields) -> Markup {
    // What a list can select by, and a bulk operation cannot.
    let is_other = |(name, value): &(String, String)| match name.as_str() {
        "waits" | "props_at" => true,
        // Such a list leaves out tasks that the filters select.
        "order" => match value.as_str() {
            "late" => true,
            "due" => query.get("state") != Some("sleeping"),
            "ended" => !matches!(query.get("state"), Some("completed" | "failed" | "killed")),
            _ => false,
        },
        "submitted_from" | "submitted_until" | "ended_from" | "ended_until" => {
            value.parse::<jiff::Timestamp>().is_err()
        }
        _ => false,
    };
    html! {
        @if page.may_operate() && !query.0.iter().any(is_other) {
            details data-key="bulk" {
                summary { "Change all that match…" }
                form.box action={ (page.base) "/bulk" } {
                    @for (name, value) in selecting(query) { input type="hidden" name=(name) value=(value); }
                    label { "Action "
                        select name="action" { @for one in BulkAction::ALL { option value=(one.as_str()) { (title(one)) } } }
                    }
                    button { "Count the tasks" }
                }
                p.dim { a href={ (page.base) "/bulk" } { "Bulk operations" } " are tasks of their own." }
            }
        }
    }
}

/// Returns the link that counts the tasks of a query for a retry.
pub(super) fn retry(page: &Page, query: &Fields) -> Markup {
    let query = query.with("action", "retry");
    html! { a href={ (page.base) "/bulk" (query.query()) } { "Retry all…" } }
}
