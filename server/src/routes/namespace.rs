//! The namespace as a whole: counts, limits, its history, and whether the server works.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windlass::{
    StateKind,
    store::{
        AuditEntry, LimitUse, Purge,
        examine::{Examination, Finding, Verdict},
    },
};

use super::json;
use crate::{
    access::{Admin, Reader},
    app::App,
    mask::HIDDEN,
    params::{Form, Formed, Params, read_time},
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

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct ServersForm {
    servers: Vec<ServerForm>,
}

/// A server of the namespace.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct ServerForm {
    /// The URLs by which clients reach it, with its base path.
    urls: Vec<String>,
    /// Its version of windlass.
    version: String,
}

/// Returns the servers of the namespace.
pub(super) async fn servers(
    State(app): State<Arc<App>>,
    _by: Reader,
    params: Params,
) -> Result<Response, Problem> {
    params.end()?;
    let all = app.keyring.servers().into_iter();
    let servers = all.map(|(_, at)| ServerForm {
        urls: at.urls,
        version: at.version,
    });
    json(&ServersForm {
        servers: servers.collect(),
    })
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct TimeForm {
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct CountForm {
    kind: String,
    /// The state; `quarantined` for tasks whose record cannot be read.
    state: &'static str,
    tasks: u64,
    /// How many of them a node has claimed: of the runnable ones, those that run.
    claimed: u64,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct CountsForm {
    counts: Vec<CountForm>,
}

/// Returns how many tasks there are by kind and state.
pub(super) async fn counts(by: Reader, params: Params) -> Result<Response, Problem> {
    params.end()?;
    by.check_counted()?;
    let counts = by.client().counts().await?;
    let counts = counts
        .into_iter()
        .filter(|count| by.scope.has_kind(&count.kind));
    let form = |count: windlass::store::TaskCount| CountForm {
        kind: count.kind.to_string(),
        state: count.state.map_or("quarantined", StateKind::as_str),
        tasks: count.tasks,
        claimed: count.claimed,
    };
    json(&CountsForm {
        counts: counts.map(form).collect(),
    })
}

/// The results of an examination.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct DoctorForm {
    /// The worst verdict.
    verdict: Verdict,
    /// The finding of each check.
    findings: Vec<Finding>,
}

/// Examines the store, and repairs nothing.
pub(super) async fn doctor(by: Admin, mut params: Params) -> Result<Response, Problem> {
    let mut how = Examination::default();
    how.full = params.flag("full")?;
    params.end()?;
    by.check_unscoped()?;
    let mut findings = by.client().examine(&how).await?;
    if !by.hiding().await?.is_nothing() {
        // Why a record cannot be read may quote a value.
        let wrong = findings
            .iter_mut()
            .filter(|finding| finding.verdict != Verdict::Ok);
        wrong.for_each(|finding| HIDDEN.clone_into(&mut finding.found));
    }
    let verdict = findings.iter().map(|finding| finding.verdict).max();
    json(&DoctorForm {
        verdict: verdict.unwrap_or(Verdict::Ok),
        findings,
    })
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct LimitsForm {
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct AuditForm {
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct PurgeForm {
    /// The states in which the tasks ended.
    states: Vec<StateKind>,
    /// How long ago, at least.
    older_than: String,
    /// The most tasks to delete; 1,000 by default.
    #[serde(default)]
    limit: Option<u32>,
}

impl Formed for PurgeForm {
    const LIKE: &str = r#"{"states":["completed"],"older_than":"30d"}"#;
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct PurgedForm {
    /// How many tasks were deleted.
    deleted: u64,
}

/// Deletes ended tasks by their age.
pub(super) async fn purge(
    State(app): State<Arc<App>>,
    by: Admin,
    Form(form): Form<PurgeForm>,
) -> Result<Response, Problem> {
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
