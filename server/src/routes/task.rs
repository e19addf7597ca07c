//! One task: what it is, what has happened to it, and what it logged.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Path, Request, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use jiff::Timestamp;
use serde::Serialize;
use tokio::time::timeout;
use windlass::{
    TaskId,
    store::{Change as Happened, DamagedPart, Delete, Done, LogLine, LogQuery, Operation},
};

use super::{json, tasks::whole};
use crate::{
    access::{Operator, Reader, name},
    app::App,
    change::Change,
    mask::HIDDEN,
    params::Params,
    problem::Problem,
};

/// Returns a task; with `wait`, when it has ended, or as it is after that time.
pub(super) async fn get(
    State(app): State<Arc<App>>,
    by: Reader,
    Path(id): Path<String>,
    mut params: Params,
) -> Result<Response, Problem> {
    let id: TaskId = name(&id)?;
    let wait = params.time("wait")?;
    if let Some(what) = params.text("for")?
        && what != "ended"
    {
        let what = format!("'{what}' is not 'ended', the only thing to wait for");
        return Err(Problem::invalid("for", what));
    }
    params.end()?;
    let mut record = by.task(&id).await?;
    let is_live = |record: &windlass::store::TaskRecord| {
        let state = record.state.as_ref();
        state.is_ok_and(|state| !state.code().is_terminal())
    };
    if let Some(wait) = wait
        && is_live(&record)
    {
        let wait = wait.min(app.settings.longest_wait);
        tokio::select! {
            ended = timeout(wait, by.client().wait(&id)) => {
                // Of an error, the answer below tells.
                drop(ended);
            }
            refused = app.keyring.ends(by.caller()) => return Err(crate::guard::refusal(refused)),
            () = app.stop.cancelled() => {}
        }
        record = by.task(&id).await?;
    }
    json(&by.hiding().await?.record(&record))
}

/// Deletes a task.
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    by: Operator,
    Path(id): Path<String>,
    mut params: Params,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let mut delete = Delete::new(name::<TaskId>(&id)?);
    if params.flag("force")? {
        delete = delete.forced();
    }
    params.end()?;
    let key = crate::key::key_of(&headers, &by.key())?;
    let change = Change::new(&app, &by);
    change
        .one(Operation::Delete(delete), key.as_deref())
        .await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Starts an ended task again.
pub(super) async fn retry(
    state: State<Arc<App>>,
    by: Operator,
    path: Path<String>,
    params: Params,
    request: Request<Body>,
) -> Result<Response, Problem> {
    edit("retry", state, by, path, params, request).await
}

/// Changes a live task that no node has claimed.
pub(super) async fn reschedule(
    state: State<Arc<App>>,
    by: Operator,
    path: Path<String>,
    params: Params,
    request: Request<Body>,
) -> Result<Response, Problem> {
    edit("reschedule", state, by, path, params, request).await
}

async fn edit(
    op: &'static str,
    State(app): State<Arc<App>>,
    by: Operator,
    Path(id): Path<String>,
    params: Params,
    request: Request<Body>,
) -> Result<Response, Problem> {
    params.end()?;
    let id: TaskId = name(&id)?;
    let key = crate::key::key_of(request.headers(), &by.key())?;
    let body = whole(request, &app).await?;
    let operation = crate::body::operation(op, (Some(&id), None), &body, app.client.now())?;
    let done = Change::new(&app, &by)
        .one(operation, key.as_deref())
        .await?;
    json(&Changed {
        id: &id,
        done: &done,
    })
}

/// The result of a change of one task.
#[derive(Serialize)]
struct Changed<'a> {
    id: &'a TaskId,
    done: &'a Done,
}

#[derive(Serialize)]
struct HistoryForm {
    changes: Vec<Happened>,
}

/// Returns the history of a task.
pub(super) async fn history(
    by: Reader,
    Path(id): Path<String>,
    mut params: Params,
) -> Result<Response, Problem> {
    let id: TaskId = name(&id)?;
    let limit = params.number("limit", (1, 100_000))?.unwrap_or(1000);
    params.end()?;
    by.check(&id).await?;
    let veil = by.veil(&id).await?;
    let changes = by.client().history(&id, limit).await?;
    let (hiding, kind) = by.unveil(veil).await?;
    let changes = changes.into_iter();
    json(&HistoryForm {
        changes: changes
            .map(|change| hiding.change(kind.as_ref(), change))
            .collect(),
    })
}

/// A line that a handler has logged.
#[derive(Serialize)]
struct LineForm {
    number: u64,
    attempt: u32,
    at: Timestamp,
    text: String,
}

/// A part of the log that cannot be read.
#[derive(Serialize)]
struct DamagedForm {
    part: u64,
    attempt: u32,
    /// Why it cannot be read.
    reason: String,
}

#[derive(Serialize)]
struct LogForm {
    lines: Vec<LineForm>,
    /// How many lines were deleted to keep the log within its bounds.
    gone: u64,
    damaged: Vec<DamagedForm>,
    /// The position after the last line.
    next: String,
}

/// Returns the lines that the handler of a task has logged.
pub(super) async fn log(
    by: Reader,
    Path(id): Path<String>,
    mut params: Params,
) -> Result<Response, Problem> {
    let id: TaskId = name(&id)?;
    let mut query = LogQuery::default();
    query.after = params.get("after")?.unwrap_or_default();
    params.end()?;
    by.check(&id).await?;
    let veil = by.veil(&id).await?;
    let page = by.client().log_lines(&id, &query).await?;
    let (hiding, kind) = by.unveil(veil).await?;
    let is_hidden = hiding.of(kind.as_ref()).log;
    let text = |text: String| match is_hidden {
        true => HIDDEN.to_owned(),
        false => text,
    };
    let damaged = |part: DamagedPart| DamagedForm {
        part: part.part,
        attempt: part.attempt,
        reason: text(part.reason),
    };
    let line = |line: LogLine| LineForm {
        number: line.number,
        attempt: line.attempt,
        at: line.at,
        text: text(line.text),
    };
    json(&LogForm {
        lines: page.lines.into_iter().map(line).collect(),
        gone: page.gone,
        damaged: page.damaged.into_iter().map(damaged).collect(),
        next: page.next.to_string(),
    })
}
