//! The requests of remote workers (docs/reference/workers.md).
//!
//! What a worker gets is not masked: it runs the task.

mod effects;
mod masked;
mod waited;

use std::{pin::pin, sync::Arc};

use axum::{
    Extension,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use windlass::{
    NodeName,
    workers::{
        WorkerError,
        protocol::{Exchange, Leave, Register, ReportItems, Start},
    },
};

pub(super) use self::waited::waited;
use super::json;
use crate::{
    access::{Worker, name},
    app::App,
    guard,
    in_work::Crowded,
    params::{Form, Formed},
    problem::Problem,
};

impl Formed for Register {
    const LIKE: &str = r#"{"name":"py-1","secret":"16 random characters or more","kinds":{"thumbnail":{"slots":4}}}"#;
    const HAS_SECRET: bool = true;
}

impl Formed for Exchange {
    const LIKE: &str = r#"{"secret":"…","seq":1,"held":[],"wait_ms":10000}"#;
    const HAS_SECRET: bool = true;
}

impl Formed for ReportItems {
    const LIKE: &str = r#"{"secret":"…","seq":2,"items":[{"id":"a","fence":1,"run":2,"n":1,"return":{"message":"complete"}}]}"#;
    const HAS_SECRET: bool = true;
}

impl Formed for Leave {
    const LIKE: &str = r#"{"secret":"…"}"#;
    const HAS_SECRET: bool = true;
}

/// Registers a worker whose every task is in the scope of the caller.
pub(super) async fn register(
    State(app): State<Arc<App>>,
    by: Worker,
    Form(worker): Form<Register>,
) -> Result<Response, Problem> {
    for kind in worker.kinds.keys() {
        by.check_worked("kinds", (kind, &worker.labels))?;
    }
    json(&app.workers.register(worker).await?)
}

/// Renews the lease of a worker, and waits for something to answer. The wait ends with the token of the caller.
pub(super) async fn exchange(
    State(app): State<Arc<App>>,
    by: Worker,
    Path(worker): Path<String>,
    crowded: Option<Extension<Crowded>>,
    Form(mut request): Form<Exchange>,
) -> Result<Response, Problem> {
    let worker = name(&worker)?;
    check_worker(&app, &by, &worker).await?;
    if crowded.is_some() {
        request.wait_ms = 0;
    }
    let exchange = pin!(app.workers.exchange(&worker, request));
    let mut answer = tokio::select! {
        answer = exchange => answer?,
        refused = app.keyring.ends(by.caller()) => return Err(guard::refusal(refused)),
    };
    check_claims(&by, &answer.claims)?;
    answer.servers = app.servers_for_workers();
    json(&answer)
}

/// Applies reports of a worker.
pub(super) async fn report(
    State(app): State<Arc<App>>,
    by: Worker,
    Path(worker): Path<String>,
    Form(mut request): Form<ReportItems>,
) -> Result<Response, Problem> {
    let worker = name(&worker)?;
    check_worker(&app, &by, &worker).await?;
    let refused = masked::refuse(&mut request.items)?;
    effects::keep_within_scope(&app, &by, &mut request.items).await?;
    let mut answer = app.workers.report(&worker, request).await?;
    refused.add_to(&mut answer.results);
    check_claims(&by, &answer.claims)?;
    json(&answer)
}

/// Ends the lease of a worker.
pub(super) async fn leave(
    State(app): State<Arc<App>>,
    by: Worker,
    Path(worker): Path<String>,
    Form(request): Form<Leave>,
) -> Result<Response, Problem> {
    let worker = name(&worker)?;
    check_worker(&app, &by, &worker).await?;
    match app.workers.leave(&worker, request).await {
        Ok(()) | Err(WorkerError::Over(_)) => Ok(StatusCode::NO_CONTENT.into_response()),
        Err(error) => Err(error.into()),
    }
}

/// Refuses a request of a worker that has registered for tasks outside of the scope of the caller: the secret alone lets no
/// other token report for it.
async fn check_worker(app: &App, by: &Worker, worker: &NodeName) -> Result<(), Problem> {
    if by.scope.is_everything() {
        return Ok(());
    }
    // The lease of a worker without a record is over, which the request itself finds.
    let (kinds, labels) = app.workers.offer(worker).await?.unwrap_or_default();
    for kind in &kinds {
        by.check_worked("kinds", (kind, &labels))?;
    }
    Ok(())
}

/// Refuses to show a task outside of the scope, to a worker that registered with another token.
fn check_claims(by: &Worker, claims: &[Start]) -> Result<(), Problem> {
    for claim in claims {
        by.check_worked("claims", (&claim.kind, &claim.labels))?;
    }
    Ok(())
}
