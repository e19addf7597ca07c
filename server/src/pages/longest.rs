//! The tasks that have run longest. A handler that stands still keeps its claim as long as its node lives, so that nothing
//! else shows it.

use maud::{Markup, html};

use super::{
    api::Failure,
    form::encoded,
    frame::Page,
    record::{Record, Records},
    text,
};

/// How many running tasks are read, the first that were submitted, and how many are shown.
const READ: usize = 1000;
const SHOWN: usize = 10;

pub(super) async fn show(page: &Page) -> Result<Markup, Failure> {
    let path = format!("/v1/tasks?state=running&reversed=true&props=false&limit={READ}");
    let found: Records = page.api.get(&path).await?;
    let is_part = found.next.is_some();
    let running = longest(found.tasks);
    Ok(html! {
        @if !running.is_empty() {
            h2 { "Longest running" }
            div.scroll tabindex="0" role="region" aria-label="Longest running" {
                table.rows {
                    thead { tr { th { "Task" } th { "Kind" } th { "Node" } th { "Runs since" } th.w { "Last change of data" } th.w { "Progress" } } }
                    tbody { @for one in &running { (row(page, one)) } }
                }
            }
            p.dim {
                @if is_part { "Of the " (READ) " running tasks that were submitted first. " }
                "A handler that stands still keeps its task while its node lives: the page of the task stops it."
            }
        }
    })
}

/// Returns those whose runs go on for the longest time.
fn longest(mut tasks: Vec<Record>) -> Vec<Record> {
    tasks.sort_by(|one, other| (one.shown_since, &one.id).cmp(&(other.shown_since, &other.id)));
    tasks.truncate(SHOWN);
    tasks
}

fn row(page: &Page, task: &Record) -> Markup {
    let node = task.node.as_deref().unwrap_or_default();
    html! {
        tr data-key={ "running-" (task.id) } {
            td { (page.task(&task.id)) }
            td.k { (text::name(&task.kind)) }
            td { a href={ (page.base) "/tasks?node=" (encoded(node)) } { (text::name(node)) } }
            td { @if let Some(since) = task.shown_since { (page.ago(since)) } }
            td.w { @if let Some(last) = task.earlier_data.last() { (page.ago(last.until)) } }
            td.w { @if let Some(progress) = &task.progress {
                @if let Some(fraction) = progress.fraction { (format!("{:.0} % ", fraction * 100.0)) }
                @if let Some(said) = &progress.text { bdi { (text::cut(said, 80)) } }
            } }
        }
    }
}
