//! One task: what it is, what has happened to it, and what it logged.

use std::sync::Arc;

use axum::{
    body::{Body, Bytes},
    extract::{FromRequest, FromRequestParts, Path, Request, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use jiff::Timestamp;
use serde::Serialize;
use windlass::{
    TaskId,
    store::{
        Change as Happened, DamagedPart, Delete, Done, Guard, LogLine, LogQuery, Operation,
        Require, Reschedule,
    },
};

use super::json;
use crate::{
    access::{Operator, Reader, name},
    app::App,
    change::Change,
    mask::HIDDEN,
    params::{Params, whole},
    patch::{Patch, Patched},
    problem::Problem,
    wait::{wait_for, wait_of},
};

/// The type of a JSON Patch.
const PATCH: &str = "application/json-patch+json";

/// Returns a task; with `wait`, when it has ended, or as it is after that time.
pub(super) async fn get(
    State(app): State<Arc<App>>,
    by: Reader,
    Path(id): Path<String>,
    mut params: Params,
) -> Result<Response, Problem> {
    let id: TaskId = name(&id)?;
    let wait = wait_of(&mut params, &app)?;
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
        // The answer shows an error of the wait, too.
        wait_for(&app, &by, wait, by.client().wait(&id)).await?;
        record = by.task(&id).await?;
    }
    json(&by.hiding().await?.record(&record, app.client.now()))
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

/// A change of a task: its path, and the body that says what changes.
pub(super) struct Edit {
    app: Arc<App>,
    by: Operator,
    id: TaskId,
    key: Option<String>,
    body: Bytes,
}

impl FromRequest<Arc<App>> for Edit {
    type Rejection = Problem;

    async fn from_request(request: Request<Body>, app: &Arc<App>) -> Result<Self, Problem> {
        let (mut head, body) = request.into_parts();
        let by = Operator::from_request_parts(&mut head, app).await?;
        let path = Path::<String>::from_request_parts(&mut head, app).await;
        let Path(id) = path.map_err(|error| Problem::invalid("path", error.body_text()))?;
        Params::from_request_parts(&mut head, app).await?.end()?;
        let key = crate::key::key_of(&head.headers, &by.key())?;
        let body = whole(Request::from_parts(head, body), app).await?;
        Ok(Self {
            app: app.clone(),
            by,
            id: name(&id)?,
            key,
            body,
        })
    }
}

impl Edit {
    async fn apply(self, op: &'static str) -> Result<Response, Problem> {
        let Self { app, by, id, .. } = &self;
        let now = app.client.now();
        let operation = crate::body::operation(op, (Some(id), None), &self.body, now)?;
        let done = Change::new(app, by)
            .sent(&self.body)
            .one(operation, self.key.as_deref())
            .await?;
        json(&Changed {
            id,
            done: Some(&done),
        })
    }
}

/// Starts an ended task again.
pub(super) async fn retry(edit: Edit) -> Result<Response, Problem> {
    edit.apply("retry").await
}

/// Changes a live task that no node has claimed.
pub(super) async fn reschedule(edit: Edit) -> Result<Response, Problem> {
    edit.apply("reschedule").await
}

/// Changes props and data of a live task that no node has claimed, by a JSON Patch (RFC 6902).
pub(super) async fn patch(
    State(app): State<Arc<App>>,
    by: Operator,
    Path(id): Path<String>,
    params: Params,
    request: Request<Body>,
) -> Result<Response, Problem> {
    params.end()?;
    let id: TaskId = name(&id)?;
    // A repetition would be another change: of what the first one has written.
    crate::key::refuse_key(request.headers())?;
    let kind = request.headers().get(header::CONTENT_TYPE);
    if kind.is_none_or(|kind| !kind.as_bytes().starts_with(PATCH.as_bytes())) {
        let detail =
            format!("the body is not a JSON Patch; send the header 'Content-Type: {PATCH}'");
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Err(Problem::new(status, "media_type", detail));
    }
    let body = whole(request, &app).await?;
    let patch = Patch::read(&body)?;
    let record = by.task(&id).await?;
    let (hiding, kind) = (by.hiding().await?, &record.task.kind);
    if let Some(place) = patch.places().find(|place| hiding.touches(kind, place)) {
        let what = format!(
            "'{place}' is masked for tasks of kind '{kind}', or an element beside it is: a patch could compare or move it; give \
             the whole value by POST /v1/tasks/ID/reschedule"
        );
        return Err(Problem::masked("path", what));
    }
    let state = record.state?;
    if state.code().is_terminal() {
        // Also for a patch that would change nothing.
        return Err(windlass::store::Error::finished(&id).into());
    }
    let before = Patched {
        props: record.task.props,
        data: state.data,
    };
    let most = app.settings.body_bytes;
    let key = by.key();
    let patched = app.compute(&key, move || {
        let after = patch.apply(&before, most)?;
        Ok::<_, Problem>((before, after))
    });
    let (before, after) = patched.await??;
    let mut change = Reschedule::new(id.clone());
    if after.props != before.props {
        change = change.props(after.props);
    }
    if let Some(data) = after.data
        && before.data.as_ref() != Some(&data)
    {
        change = change.data(data);
    }
    if change.is_empty() {
        return json(&Changed {
            id: &id,
            done: None,
        });
    }
    let version = Guard {
        task: id.clone(),
        require: Require::Version(state.version),
    };
    let change = Operation::Reschedule(change);
    let done = Change::new(&app, &by)
        .one_if(change, vec![version], None)
        .await
        .map_err(Problem::of_one)?;
    json(&Changed {
        id: &id,
        done: Some(&done),
    })
}

/// The result of a change of one task.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Changed<'a> {
    id: &'a TaskId,
    /// What was done; `null` for a patch that changes nothing.
    done: Option<&'a Done>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct HistoryForm {
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
    let read = by.begin_masked_read(&id).await?;
    let changes = by.client().history(&id, limit).await?;
    let (hiding, kind) = by.end_masked_read(read).await?;
    let changes = changes.into_iter();
    json(&HistoryForm {
        changes: changes
            .map(|change| hiding.change(kind.as_ref(), change))
            .collect(),
    })
}

/// A line that a handler has logged.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct LineForm {
    number: u64,
    attempt: u32,
    at: Timestamp,
    text: String,
}

/// A part of the log that cannot be read.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct DamagedForm {
    part: u64,
    attempt: u32,
    /// Why it cannot be read.
    reason: String,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct LogForm {
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
    let read = by.begin_masked_read(&id).await?;
    let page = by.client().log_lines(&id, &query).await?;
    let (hiding, kind) = by.end_masked_read(read).await?;
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
