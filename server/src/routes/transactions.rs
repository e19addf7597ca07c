//! Several changes in one atomic step.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Request, State},
    response::Response,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use windlass::{
    TransactionId,
    store::{Done, Line},
};

use super::{json, tasks::whole};
use crate::{
    access::Operator,
    app::App,
    change::{self, Change},
    params::Params,
    problem::Problem,
};

/// The body of a transaction. The lines are those of `windlass apply`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TransactionForm {
    /// The id: repeating the transaction within an hour has no further effect.
    #[serde(default)]
    id: Option<TransactionId>,
    /// Only checks, and changes nothing.
    #[serde(default)]
    dry_run: bool,
    /// The operations and guards.
    lines: Vec<Box<RawValue>>,
}

/// The result of a transaction.
#[derive(Serialize)]
struct AppliedForm<'a> {
    /// The result of each operation, in order.
    operations: &'a [Done],
    dry_run: bool,
}

/// Applies a transaction.
pub(super) async fn apply(
    State(app): State<Arc<App>>,
    by: Operator,
    params: Params,
    request: Request<Body>,
) -> Result<Response, Problem> {
    params.end()?;
    let key = change::key(request.headers(), &by)?;
    let body = whole(request, &app).await?;
    let read = serde_json::from_slice::<TransactionForm>(&body);
    let form = read.map_err(|error| Problem::invalid("body", error))?;
    let id = match (form.id, key) {
        (Some(_), Some(_)) => {
            let what = "is given together with 'Idempotency-Key'; give one of the two";
            return Err(Problem::invalid("id", what));
        }
        (id, key) => key.map(TransactionId::new).transpose()?.or(id),
    };
    let now = app.client.now();
    let mut lines: Vec<Line> = Vec::with_capacity(form.lines.len());
    for (n, line) in form.lines.iter().enumerate() {
        let read = change::line_of(line.get(), now);
        lines.push(read.map_err(|problem| problem.within(&format!("lines[{n}]")))?);
    }
    let applied = Change::new(&app, &by).all(id, lines, form.dry_run).await?;
    json(&AppliedForm {
        operations: applied.done(),
        dry_run: form.dry_run,
    })
}
