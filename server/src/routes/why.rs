//! What holds tasks back, and what an autoscaler needs to know.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    response::Response,
};
use serde::Serialize;
use windlass::{
    Kind, TaskId,
    client::{Cause, NotRun, Stats, WaitReason},
    store::NodeRecord,
    wire::{StatsForm, TaskWhyForm, WhyForm},
};

use super::json;
use crate::{
    access::{Reader, name},
    app::App,
    params::{Params, encoded},
    problem::Problem,
};

/// Returns the request that shows or resolves what holds tasks of a kind back.
fn request(kind: &Kind, reason: &WaitReason) -> String {
    match reason {
        WaitReason::NotClaiming(nodes) => {
            let node = nodes.first().map_or("NODE", |node| node.as_str());
            let node = encoded(node);
            format!(r#"POST /v1/nodes/{node}/commands {{"command":"unfreeze"}}"#)
        }
        WaitReason::Copied(_) => "GET /v1/doctor".to_owned(),
        reason => {
            let kind = encoded(kind.as_str());
            format!("GET /v1/tasks?kind={kind}&waits={}", reason.kind())
        }
    }
}

/// Returns the request that shows or resolves why tasks are not run.
fn resolve(one: &NotRun<'_>) -> String {
    let kind = &one.of.kind;
    let named = encoded(kind.as_str());
    match one.cause {
        Cause::Reason(reason) => request(kind, reason),
        Cause::Quarantined => format!("GET /v1/tasks?kind={named}&quarantined=true"),
        // Paused ones, and causes that a later version adds.
        cause => format!("GET /v1/tasks?kind={named}&state={}", cause.as_str()),
    }
}

/// Returns how many tasks there are by kind, and why tasks are not run.
pub(super) async fn stats(by: Reader, params: Params) -> Result<Response, Problem> {
    params.end()?;
    by.check_unscoped()?;
    let mut stats = by.client().stats().await?;
    by.hiding().await?.stats(&mut stats);
    json(&StatsForm::new(&stats, |of, reason| {
        request(&of.kind, reason)
    }))
}

/// Returns what holds tasks back, by reason.
pub(super) async fn why(
    State(app): State<Arc<App>>,
    by: Reader,
    params: Params,
) -> Result<Response, Problem> {
    params.end()?;
    by.check_unscoped()?;
    let mut stats = Stats::clone(&*app.stats().await?);
    by.hiding().await?.stats(&mut stats);
    // A reason may quote the operation, of which nothing is masked.
    stats.refused_rows.reason = None;
    let form = WhyForm::new(&stats, app.client.write_error().await, resolve);
    let form = form.with_pausers(by.client().pausers(&stats).await?);
    json(&form.with_refused(&stats.refused_rows, "GET /v1/doctor"))
}

/// Returns what the tasks do, counted since the first request for it. The numbers are of every kind, and kinds are all that they
/// name.
pub(super) async fn activity(
    State(app): State<Arc<App>>,
    by: Reader,
    params: Params,
) -> Result<Response, Problem> {
    params.end()?;
    by.check_unscoped()?;
    json(&app.activity.summary(&app.client, &app.stop).await?)
}

/// Returns why a task is not run.
pub(super) async fn of_task(
    by: Reader,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, Problem> {
    params.end()?;
    let id: TaskId = name(&id)?;
    let record = by.task(&id).await?;
    let nodes = by.client().nodes().await?;
    let records = std::slice::from_ref(&record);
    let reasons = by.client().wait_reasons(records, &nodes).await?;
    let reason = reasons.into_iter().next().flatten();
    let hiding = by.hiding().await?;
    let reason = reason.map(|reason| hiding.reason(&record.task.kind, &record.task.limits, reason));
    let sees_errors = !hiding.hides_errors_of(&record.task.kind);
    let sees_everything = by.scope.is_everything();
    let (sees, now) = ((sees_everything, sees_errors), by.client().now());
    let mut form = TaskWhyForm::new(&record, reason.as_ref(), now, sees);
    if sees_everything {
        let error = by.client().write_error().await;
        form.no_writes = error.map(|error| error.to_string());
    }
    json(&form)
}

/// What an autoscaler needs to know of a kind.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct ScaleForm {
    kind: Kind,
    /// How many tasks could run at once now: those that run, and those that are due and that no limit holds back.
    wanted: u64,
    /// Tasks that are due, and that no node has claimed.
    available: u64,
    /// Those of them that wait for a slot of a limit: more nodes would not help. A task waits for a slot once a node has tried to
    /// claim it.
    limited: u64,
    /// Tasks that a node has claimed.
    claimed: u64,
    /// The slots of the live nodes that have a handler for the kind.
    slots: u64,
    /// How long the first available task has been due, in whole seconds; `null` without one.
    oldest_due_age_seconds: Option<i64>,
}

/// Returns how many tasks of a kind could run.
pub(super) async fn scale(
    State(app): State<Arc<App>>,
    by: Reader,
    mut params: Params,
) -> Result<Response, Problem> {
    let kind: Option<Kind> = params.get("kind")?;
    params.end()?;
    let kind =
        kind.ok_or_else(|| Problem::invalid("kind", "is missing; give the kind of the tasks"))?;
    by.check_counted()?;
    by.check_kind("kind", &kind)?;
    let stats = app.stats().await?;
    let of = stats.kinds.iter().find(|of| of.kind == kind);
    let nodes = by.client().nodes().await?;
    let handle = nodes.iter().filter(|node| node.spec.runs(&kind));
    let limited = of.map_or(0, |of| of.limited);
    let available = of.map_or(0, |of| of.available);
    let claimed = of.map_or(0, |of| of.claimed);
    let due = of.and_then(|of| of.oldest_due);
    json(&ScaleForm {
        wanted: claimed + available.saturating_sub(limited),
        available,
        limited,
        claimed,
        slots: handle.map(|node| slots(node, &kind)).sum(),
        oldest_due_age_seconds: due.map(|due| stats.at.duration_since(due).as_secs().max(0)),
        kind,
    })
}

/// Returns how many tasks of a kind a node runs at once.
fn slots(node: &NodeRecord, kind: &Kind) -> u64 {
    let of_kind = node.spec.slots_of.get(kind);
    of_kind
        .map_or(node.spec.slots, |of| (*of).min(node.spec.slots))
        .into()
}
