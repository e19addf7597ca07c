//! The tasks that have run longest. A handler that stands still keeps its claim as long as its node lives, so that nothing
//! else shows it.

use futures::{StreamExt, stream};
use jiff::Timestamp;
use maud::{Markup, html};

use super::{
    api::Failure,
    form::encoded,
    frame::Page,
    record::{Change, History, Record, Records},
    text,
};

/// How many claimed tasks are read, the first that were submitted; of how many of them, those with the oldest claims, the history is
/// read; and how many are shown.
const READ: usize = 1000;
const JUDGED: usize = 30;
const SHOWN: usize = 10;
/// How many histories are read at the same time.
const AT_ONCE: usize = 8;

pub(super) async fn show(page: &Page) -> Result<Markup, Failure> {
    let path =
        format!("/v1/tasks?state=runnable&claimed=true&reversed=true&props=false&limit={READ}");
    let found: Records = page.api.get(&path).await?;
    let is_part = found.next.is_some();
    let judged = stream::iter(oldest_claims(found.tasks)).map(|task| run(page, task));
    let runs: Vec<Run> = judged.buffer_unordered(AT_ONCE).collect().await;
    let running = longest(runs);
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
                @if is_part { "Of the " (READ) " claimed tasks that were submitted first. " }
                "A handler that stands still keeps its task while its node lives: the page of the task stops it."
            }
        }
    })
}

/// A task, and since when its handler runs.
struct Run {
    task: Record,
    since: Option<Timestamp>,
}

/// Returns the tasks whose claims are the oldest: fences only grow.
fn oldest_claims(mut tasks: Vec<Record>) -> Vec<Record> {
    tasks.sort_by_key(|task| task.fence);
    tasks.truncate(JUDGED);
    tasks
}

/// Reads since when a task runs. Without its history, that is since when it could run.
async fn run(page: &Page, task: Record) -> Run {
    let path = format!("/v1/tasks/{}/history?limit=64", encoded(&task.id));
    let history: Option<History> = page.api.get(&path).await.ok();
    let changes = history.map(|history| history.changes);
    let since = began(&task, &changes.unwrap_or_default());
    Run { task, since }
}

/// Returns when a task began to run: with its claim, or when it became runnable under the claim.
fn began(task: &Record, changes: &[Change]) -> Option<Timestamp> {
    let is_claim = |change: &&Change| change.what == "claimed" && change.fence == Some(task.fence);
    let claimed = changes.iter().find(is_claim).map(|change| change.at);
    task.since.max(claimed)
}

/// Returns those that have run longest.
fn longest(mut runs: Vec<Run>) -> Vec<Run> {
    runs.sort_by(|one, other| (one.since, &one.task.id).cmp(&(other.since, &other.task.id)));
    runs.truncate(SHOWN);
    runs
}

fn row(page: &Page, Run { task, since }: &Run) -> Markup {
    let node = task.node.as_deref().unwrap_or_default();
    html! {
        tr data-key={ "running-" (task.id) } {
            td { (page.task(&task.id)) }
            td.k { (text::name(&task.kind)) }
            td { a href={ (page.base) "/tasks?node=" (encoded(node)) } { (text::name(node)) } }
            td { @if let Some(since) = since { (page.ago(*since)) } }
            td.w { @if let Some(last) = task.earlier_data.last() { (page.ago(last.until)) } }
            td.w { @if let Some(progress) = &task.progress {
                @if let Some(fraction) = progress.fraction { (format!("{:.0} % ", fraction * 100.0)) }
                @if let Some(said) = &progress.text { bdi { (text::cut(said, 80)) } }
            } }
        }
    }
}
