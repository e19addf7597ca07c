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
    TaskId, TransactionId,
    store::{Done, Line},
};

use super::json;
use crate::{
    access::Operator,
    app::App,
    change::Change,
    key::{KEY, key_of},
    params::{Params, read_form, whole},
    problem::Problem,
};

/// The body of a transaction. The lines are those of `windlass apply`.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct TransactionForm {
    /// The id: repeating the transaction within an hour has no further effect.
    #[serde(default)]
    id: Option<TransactionId>,
    /// Only checks, and changes nothing.
    #[serde(default)]
    dry_run: bool,
    /// The operations and guards.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Vec<windlass::statemachine::wire::Line>")
    )]
    lines: Vec<Box<RawValue>>,
}

/// The result of a transaction.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct AppliedForm<'a> {
    transaction: Option<&'a TransactionId>,
    dry_run: bool,
    /// The operations, in the order of their lines.
    operations: Vec<DoneForm<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct DoneForm<'a> {
    /// The number of the line, from 0.
    line: usize,
    task: &'a TaskId,
    /// The result; `null` for a transaction that was only checked.
    done: Option<&'a Done>,
}

/// Applies a transaction.
pub(super) async fn apply(
    State(app): State<Arc<App>>,
    by: Operator,
    params: Params,
    request: Request<Body>,
) -> Result<Response, Problem> {
    params.end()?;
    let key = key_of(request.headers(), &by.key())?;
    let body = whole(request, &app).await?;
    let like = r#"{"lines":[{"op":"delete","task":"a"}]}"#;
    let form: TransactionForm = read_form(&body, like)?;
    let most = app.store.registry().limits().max_operations;
    if form.lines.len() > most {
        let what = format!(
            "has {} lines, and the store takes at most {most} operations and guards in one transaction; split it",
            form.lines.len()
        );
        return Err(Problem::invalid("lines", what));
    }
    let mut change = Change::new(&app, &by);
    let has_key = key.is_some();
    let id = match (form.id, key) {
        (Some(_), Some(_)) => {
            let what = "is given together with 'Idempotency-Key'; give one of the two";
            return Err(Problem::invalid("id", what));
        }
        (id, None) => id,
        (None, Some(key)) => {
            change = change.sent(&body);
            Some(TransactionId::new(key)?)
        }
    };
    let now = app.client.now();
    let mut lines: Vec<Line> = Vec::with_capacity(form.lines.len());
    for (n, line) in form.lines.iter().enumerate() {
        let own = id.as_ref().map(|id| format!("{id}-{n}"));
        let read = crate::body::line_of(line.get(), own.as_deref(), now);
        lines.push(read.map_err(|problem| problem.within(&format!("lines[{n}]")))?);
    }
    if lines.is_empty() {
        return Err(Problem::invalid("lines", "has no operation and no guard"));
    }
    let tasks: Vec<(usize, TaskId)> = lines.iter().enumerate().filter_map(operation).collect();
    let applied = change.all(id.clone(), lines, form.dry_run).await;
    let applied = applied.map_err(|problem| match has_key {
        true => problem.key_used(KEY),
        false => problem,
    })?;
    let mut done = applied.done().iter();
    let operations = tasks.iter().map(|(line, task)| DoneForm {
        line: *line,
        task,
        done: done.next(),
    });
    json(&AppliedForm {
        transaction: id.as_ref(),
        dry_run: form.dry_run,
        operations: operations.collect(),
    })
}

/// Returns the task of an operation, with the number of its line.
fn operation((n, line): (usize, &Line)) -> Option<(usize, TaskId)> {
    match line {
        Line::Operation(operation) => Some((n, operation.task().clone())),
        Line::Guards(_) => None,
    }
}
