//! Failed tasks in groups.

use axum::response::Response;
use windlass::{
    Kind, StateKind,
    client::Failures,
    jiff::Timestamp,
    store::{FailedTasks, Filter, Order, Query, TaskRecord},
    wire::FailuresForm,
};

use super::json;
use crate::{access::Reader, params::Params, problem::Problem};

/// How many groups an answer has, by default and at most.
const GROUPS: u32 = 50;
const MOST: u32 = 500;
/// How many tasks are read for a caller whose scope has labels: no store counts by label.
const READ: u32 = 1000;

/// Returns the failed tasks in groups by the fingerprint of their last error.
pub(super) async fn list(by: Reader, mut params: Params) -> Result<Response, Problem> {
    let kind: Option<Kind> = params.get("kind")?;
    let since = params.since("since", by.client().now())?;
    let limit = params.number("limit", (1, MOST))?.unwrap_or(GROUPS) as usize;
    params.end()?;
    let mut all = groups(&by, since, kind.as_ref()).await?;
    all.groups.retain(|group| {
        by.scope.has_kind(&group.kind) && kind.as_ref().is_none_or(|kind| group.kind == *kind)
    });
    let hiding = by.hiding().await?;
    let hides = |kind: &Kind| hiding.hides_errors_of(kind);
    let mut found: Failures = by.client().failures_of(all, limit, hides).await?;
    if !by.scope.is_everything() {
        found
            .groups
            .iter_mut()
            .for_each(|group| group.nodes.clear());
    }
    json(&FailuresForm::from(&found))
}

async fn groups(
    by: &Reader,
    since: Option<Timestamp>,
    kind: Option<&Kind>,
) -> Result<FailedTasks, Problem> {
    if let Some(since) = since {
        // Only so many tasks are read: of this kind alone, if one is asked for.
        let mut filter = Filter::new();
        filter.kind = kind.cloned();
        by.scope.narrow(&mut filter);
        let kept = |record: &TaskRecord| by.scope.has_record(record);
        return Ok(by.client().failed_since(since, &filter, kept).await?);
    }
    if by.scope.labels.is_empty() {
        return Ok(by
            .client()
            .store()
            .registry()
            .failures(10 * MOST as usize)
            .await?);
    }
    let mut filter = Filter::new().states([StateKind::Failed]);
    by.scope.narrow(&mut filter);
    let mut query = Query::new(filter).order(Order::Ended).limit(READ);
    query.without_props = true;
    let mut page = by.client().page(&query, None).await?;
    page.tasks.retain(|record| by.scope.has_record(record));
    Ok(FailedTasks::of(
        &page.tasks,
        MOST as usize,
        page.next.is_none(),
    ))
}
