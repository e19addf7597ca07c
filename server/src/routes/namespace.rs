//! The namespace as a whole: counts, limits, its history, and whether the server works.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Request, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windlass::{
    StateKind,
    store::{AuditEntry, LimitUse, Purge},
};

use super::{json, tasks::whole};
use crate::{
    access::{Admin, Reader},
    app::App,
    params::{Params, read_form, read_time},
    problem::Problem,
};

/// Answers that the process works.
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// Answers whether the store was read lately. Strangers may ask, so it reads nothing itself.
pub(super) async fn readyz(State(app): State<Arc<App>>) -> (StatusCode, &'static str) {
    match app.keyring.is_confirmed() && !app.stop.is_cancelled() {
        true => (StatusCode::OK, "ok\n"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "not ok\n"),
    }
}

/// Returns the metrics of the process.
pub(super) async fn metrics(
    State(app): State<Arc<App>>,
    by: Reader,
    params: Params,
) -> Result<Response, Problem> {
    params.end()?;
    by.check_unscoped()?;
    let Some(render) = &app.metrics else {
        let detail =
            "this program has no exporter of metrics; give one to the builder of its server";
        return Err(Problem::new(StatusCode::NOT_FOUND, "no_metrics", detail));
    };
    let kind = [(
        header::CONTENT_TYPE,
        "text/plain; version=0.0.4; charset=utf-8",
    )];
    Ok((kind, render()).into_response())
}

#[derive(Serialize)]
struct TimeForm {
    /// The time by the clock of the server.
    now: Timestamp,
}

/// Returns the time.
pub(super) async fn time(
    State(app): State<Arc<App>>,
    _by: Reader,
    params: Params,
) -> Result<Response, Problem> {
    params.end()?;
    let now = app.client.now();
    json(&TimeForm { now })
}

/// The number of tasks of a kind in a state.
#[derive(Serialize)]
struct CountForm {
    kind: String,
    /// The state; `quarantined` for tasks whose record cannot be read.
    state: &'static str,
    tasks: u64,
}

#[derive(Serialize)]
struct CountsForm {
    counts: Vec<CountForm>,
}

/// Returns how many tasks there are by kind and state.
pub(super) async fn counts(by: Reader, params: Params) -> Result<Response, Problem> {
    params.end()?;
    if !by.scope.labels.is_empty() {
        return Err(Problem::forbidden(
            "tasks are not counted by label, and the scope of the token has labels; use a token without",
        ));
    }
    let counts = by.client().counts().await?;
    let counts = counts
        .into_iter()
        .filter(|count| by.scope.has_kind(&count.kind));
    let form = |count: windlass::store::TaskCount| CountForm {
        kind: count.kind.to_string(),
        state: count.state.map_or("quarantined", StateKind::as_str),
        tasks: count.tasks,
    };
    json(&CountsForm {
        counts: counts.map(form).collect(),
    })
}

#[derive(Serialize)]
struct LimitsForm {
    limits: Vec<LimitUse>,
}

/// Returns the limits that tasks use at present.
pub(super) async fn limits(by: Reader, params: Params) -> Result<Response, Problem> {
    params.end()?;
    by.check_unscoped()?;
    let limits = by.client().limits_in_use().await?;
    let hiding = by.hiding().await?;
    let limits = limits.into_iter().map(|limit| hiding.limit(limit));
    json(&LimitsForm {
        limits: limits.collect(),
    })
}

#[derive(Serialize)]
struct AuditForm {
    lines: Vec<AuditEntry>,
}

/// Returns the history of the namespace.
pub(super) async fn audit(by: Reader, mut params: Params) -> Result<Response, Problem> {
    let limit = params.number("limit", (1, 100_000))?.unwrap_or(1000);
    params.end()?;
    by.check_unscoped()?;
    let lines = by.client().audit(limit).await?;
    json(&AuditForm { lines })
}

/// The body of a purge.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PurgeForm {
    /// The states in which the tasks ended.
    states: Vec<StateKind>,
    /// How long ago, at least.
    older_than: String,
    /// The most tasks to delete; 1,000 by default.
    #[serde(default)]
    limit: Option<u32>,
}

#[derive(Serialize)]
struct PurgedForm {
    /// How many tasks were deleted.
    deleted: u64,
}

/// Deletes ended tasks by their age.
pub(super) async fn purge(
    State(app): State<Arc<App>>,
    by: Admin,
    params: Params,
    request: Request<Body>,
) -> Result<Response, Problem> {
    params.end()?;
    let body = whole(request, &app).await?;
    let like = r#"{"states":["completed"],"older_than":"30d"}"#;
    let form: PurgeForm = read_form(&body, like)?;
    if let Some(state) = form.states.iter().find(|state| !state.is_terminal()) {
        let what =
            format!("'{state}' is not a state in which tasks end: completed, failed, killed");
        return Err(Problem::invalid("states", what));
    }
    let age = read_time("older_than", &form.older_than)?;
    let before = app.client.now().checked_sub(age);
    let before = before.map_err(|error| Problem::invalid("older_than", error))?;
    let mut purge = Purge::new(form.states, before);
    if let Some(limit) = form.limit {
        purge = purge.limit(limit);
    }
    purge.by = Some(by.author.clone());
    let deleted = app.store.registry().purge(&purge).await?;
    json(&PurgedForm { deleted })
}
