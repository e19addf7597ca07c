//! The list of tasks. Its URL is the query: the parameters are those of `GET /v1/tasks`.

use maud::{Markup, html};

use super::{
    Answer, cli,
    form::Fields,
    frame::{Page, Place},
    record::Records,
    rows, text,
};
use crate::problem::Problem;

/// How many tasks a page has by default: a screen of them, which is drawn in less than 100 ms.
const LIMIT: &str = "25";
/// How many tasks a page has at most: a row has about 2 KiB.
const MOST: u32 = 500;

pub(super) async fn show(page: Page) -> Answer {
    let mut query = page.query()?;
    // A form sends its empty fields too.
    query
        .0
        .retain(|(name, value)| !value.trim().is_empty() || is_flag(name) || name == "error");
    if let Some(limit) = query
        .get("limit")
        .and_then(|limit| limit.parse::<u32>().ok())
        && limit > MOST
    {
        let what = format!(
            "'{limit}' is more than {MOST}, the most tasks of a page; GET /v1/tasks returns up to 10,000 at once"
        );
        return Err(Problem::invalid("limit", what).into());
    }
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
            (super::overview::first_contact(&page))
        } @else {
            @if !records.tasks.is_empty() { (super::bulk::offer(&page, &without_cursor)) }
            (rows::table(&page, &records.tasks))
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
    Ok(page.show(
        (Place::Tasks, "Tasks"),
        &cli::list("list", &cli::in_any_zone(&asked.0, &page.local_now())),
        &body,
    ))
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
                    @if !state.is_empty() && !text::STATE_WORDS.contains(&state) { option selected { (state) } }
                    @for one in text::STATE_WORDS { option selected[one == state] { (one) } }
                }
            }
            (text("kind", "Kind", "mail or mail/*"))
            (text("label", "Label", "team=billing"))
            (text("prefix", "Id begins with", ""))
            label { "Order"
                select name="order" {
                    option value="" { "newest" }
                    @for (one, name) in [("late", "late first"), ("due", "wake-up (sleeping tasks)"), ("ended", "ended"), ("id", "id")] {
                        option value=(one) selected[query.get("order") == Some(one)] { (name) }
                    }
                }
            }
            @for (name, value) in kept.chain(labels) { input type="hidden" name=(name) value=(value); }
            button { "Filter" }
            @if !query.0.is_empty() { a href={ (page.base) "/tasks" } { "Clear" } }
        }
        @let more: Vec<String> = query.0.iter().filter(|(name, _)| !of_form.contains(&name.as_str()) && name != "limit")
            .map(|(name, value)| format!("{name}={}", text::cut(value, 80))).collect();
        @if !more.is_empty() { p.dim { "Also filtered by " bdi { (more.join(", ")) } } }
    }
}
