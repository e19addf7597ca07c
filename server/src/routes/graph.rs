//! The tasks around a task that wait for each other.

use axum::{extract::Path, response::Response};
use windlass::{
    StateKind, TaskId,
    client::Graph,
    store::{Cursor, Filter, Order, Query},
    wire::GraphForm,
};

use super::json;
use crate::{
    access::{Reader, name},
    params::Params,
    problem::Problem,
};

/// The most tasks of a graph, and how many it has by default.
const MOST: u32 = 10_000;
const DEFAULT: u32 = 1000;
/// How many sleeping tasks are read for those that wait, at most: pages of this many tasks, and this many pages.
const PAGE: u32 = 200;
const PAGES: usize = 100;
/// After how many waits no more tasks are read: a task may wait for thousands.
const WAITS: usize = 200_000;

/// Returns the tasks that a task waits for, directly or indirectly, and with `waiters` those that wait for it.
pub(super) async fn of_task(
    by: Reader,
    Path(id): Path<String>,
    mut params: Params,
) -> Result<Response, Problem> {
    let id: TaskId = name(&id)?;
    let limit = params.number("limit", (1, MOST))?.unwrap_or(DEFAULT) as usize;
    let waiters = params.flag("waiters")?;
    params.end()?;
    by.task(&id).await?;
    let seen = |record: &windlass::store::TaskRecord| by.scope.has_record(record);
    let mut graph = Graph::read_above(by.client(), (&id, limit), seen).await?;
    let is_whole = match waiters {
        true => add_waiters(&by, &mut graph).await?,
        false => true,
    };
    let mut around = graph.around(&id, limit);
    around.is_cut |= !is_whole;
    json(&GraphForm::new(&graph, &around))
}

/// Adds the live tasks that wait for others. Returns whether these are all.
async fn add_waiters(by: &Reader, graph: &mut Graph) -> Result<bool, Problem> {
    let filter = Filter::new().states([StateKind::Sleeping]);
    // Those without a deadline come first: their time is the last one.
    let query = Query::new(filter).order(Order::Due).reversed();
    let query = query.without_props().limit(PAGE);
    let mut cursor: Option<Cursor> = None;
    for _ in 0..PAGES {
        let page = by.client().page(&query, cursor.as_ref()).await?;
        let seen = page.tasks.iter();
        let seen = seen.filter(|record| by.scope.has_record(record));
        seen.for_each(|record| graph.add(record));
        cursor = page.next;
        if cursor.is_none() {
            return Ok(true);
        }
        if graph.edges() > WAITS {
            break;
        }
    }
    Ok(false)
}
