//! Submits and lists of tasks.

use std::sync::Arc;

use axum::{
    body::{Body, Bytes},
    extract::{FromRequest, Request, State},
    http::{HeaderMap, StatusCode, header},
    response::Response,
};
use serde::Serialize;
use serde_json::value::RawValue;
use windlass::{
    StateKind, TaskId,
    store::{Cursor, Done, IfExists, Operation, Order, Query, Submit, Submitted},
    wire::RecordForm,
};

use super::{json, json_with, lines};
use crate::{
    access::{Operator, Reader},
    app::App,
    change::{self, Change},
    params::Params,
    problem::Problem,
};

/// How many pages are read at most for one page of a caller whose scope a filter cannot express.
const MOST_PAGES: usize = 20;

/// The result of a submit.
#[derive(Serialize)]
pub(super) struct SubmittedForm {
    /// The task.
    id: TaskId,
    /// `new`, `existing`, or `replaced`.
    submitted: &'static str,
    /// The state of an existing task.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<StateKind>,
}

impl SubmittedForm {
    pub(super) fn new(id: TaskId, replaces: bool, done: Done) -> Self {
        let existing = if replaces { "replaced" } else { "existing" };
        let (id, submitted, state) = match done {
            Done::Submitted(Submitted::Existing(state)) => (id, existing, Some(state)),
            Done::Submitted(Submitted::Other { task, state, .. }) => (task, existing, Some(state)),
            _ => (id, "new", None),
        };
        Self {
            id,
            submitted,
            state,
        }
    }

    fn is_new(&self) -> bool {
        self.submitted == "new"
    }
}

/// Reads the body of a submit.
pub(super) fn read(app: &App, body: &[u8]) -> Result<Submit, Problem> {
    match change::operation("submit", None, body, app.client.now())? {
        Operation::Submit(submit) => Ok(submit),
        _ => Err(Problem::invalid("body", "is not a task")),
    }
}

/// Submits one task, an array of tasks, or lines of tasks.
pub(super) async fn submit(
    State(app): State<Arc<App>>,
    by: Operator,
    params: Params,
    headers: HeaderMap,
    request: Request<Body>,
) -> Result<Response, Problem> {
    params.end()?;
    let key = change::key(&headers, &by)?;
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.starts_with("application/x-ndjson") {
        if key.is_some() {
            let what = "is not for lines of tasks; give each task an id and \"if_exists\":\"same\" instead";
            return Err(Problem::invalid("Idempotency-Key", what));
        }
        return Ok(lines::submit(app, by, request.into_body()));
    }
    let body = whole(request, &app).await?;
    match body.iter().find(|b| !b.is_ascii_whitespace()) {
        Some(b'[') => several(&app, &by, &body, key.as_deref()).await,
        _ => one(&app, &by, &body, key.as_deref()).await,
    }
}

/// Reads a whole body.
pub(super) async fn whole(request: Request<Body>, app: &Arc<App>) -> Result<Bytes, Problem> {
    let read = Bytes::from_request(request, app).await;
    read.map_err(|error| {
        let status = error.status();
        let most = app.settings.body_bytes;
        let detail = match status {
            StatusCode::PAYLOAD_TOO_LARGE => {
                format!("the body has more than {most} bytes; send several requests, or lines (application/x-ndjson)")
            }
            _ => error.body_text(),
        };
        Problem::new(status, "body", detail)
    })
}

async fn one(
    app: &Arc<App>,
    by: &Operator,
    body: &[u8],
    key: Option<&str>,
) -> Result<Response, Problem> {
    let submit = read(app, body)?;
    let (id, replaces) = (submit.task.id.clone(), replaces(&submit));
    let done = Change::new(app, by)
        .one(Operation::Submit(submit), key)
        .await?;
    let form = SubmittedForm::new(id, replaces, done);
    let status = match form.is_new() {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    };
    json_with(status, &form)
}

pub(super) fn replaces(submit: &Submit) -> bool {
    submit.if_exists == IfExists::ReplaceWaiting
}

/// The result of one task of several: what was submitted, or a problem document.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Outcome {
    Submitted(SubmittedForm),
    Problem(serde_json::Map<String, serde_json::Value>),
}

impl Outcome {
    pub(super) fn problem(problem: &Problem) -> Self {
        Self::Problem(serde_json::from_slice(&problem.json()).unwrap_or_default())
    }
}

async fn several(
    app: &Arc<App>,
    by: &Operator,
    body: &[u8],
    key: Option<&str>,
) -> Result<Response, Problem> {
    let bodies: Vec<&RawValue> =
        serde_json::from_slice(body).map_err(|error| Problem::invalid("body", error))?;
    let read = bodies.iter().map(|body| read(app, body.get().as_bytes()));
    let results = submit_each(app, by, read.collect(), key).await;
    json(&results)
}

/// Submits the tasks that were read, and returns a result for each.
pub(super) async fn submit_each(
    app: &Arc<App>,
    by: &Operator,
    read: Vec<Result<Submit, Problem>>,
    key: Option<&str>,
) -> Vec<Outcome> {
    let mut good = Vec::new();
    let places: Vec<Result<(TaskId, bool), Problem>> = read
        .into_iter()
        .map(|submit| {
            let submit = submit?;
            let place = (submit.task.id.clone(), replaces(&submit));
            good.push(submit);
            Ok(place)
        })
        .collect();
    let mut done = Change::new(app, by).submits(good, key).await.into_iter();
    let result = |place: Result<(TaskId, bool), Problem>| {
        let (id, replaces) = place?;
        let lost = || Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "lost", "no result");
        let done = done.next().unwrap_or_else(|| Err(lost()))?;
        Ok(SubmittedForm::new(id, replaces, done))
    };
    let results = places.into_iter().map(result);
    results
        .map(|result: Result<_, Problem>| match result {
            Ok(form) => Outcome::Submitted(form),
            Err(problem) => Outcome::problem(&problem),
        })
        .collect()
}

/// A page of a list.
#[derive(Serialize)]
struct PageForm<'a> {
    tasks: Vec<RecordForm<'a>>,
    /// The cursor of the next page.
    next: Option<String>,
    /// The cursor of the page before.
    previous: Option<String>,
}

/// Lists tasks.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    by: Reader,
    mut params: Params,
) -> Result<Response, Problem> {
    let mut filter = params.filter(app.client.now())?;
    by.scope.narrow(&mut filter);
    let order = match params.text("order")?.as_deref() {
        None => app.client.order_of_newest(),
        Some("submitted") => Order::Submitted,
        Some("due") => Order::Due,
        Some("ended") => Order::Ended,
        Some("id") => Order::Id,
        Some(other) => {
            let what = format!("'{other}' is not one of submitted, due, ended, id");
            return Err(Problem::invalid("order", what));
        }
    };
    let limit = params.number("limit", (1, 10_000))?.unwrap_or(100);
    let mut query = Query::new(filter).order(order).limit(limit);
    if params.flag("reversed")? {
        query = query.reversed();
    }
    if let Some("false") = params.text("props")?.as_deref() {
        query = query.without_props();
    }
    if let Some(reason) = params.get("waits")? {
        query = query.waits(reason);
    }
    let mut cursor: Option<Cursor> = params.get("cursor")?;
    params.end()?;
    let mut page = by.client().page(&query, cursor.as_ref()).await?;
    let mut tasks = std::mem::take(&mut page.tasks);
    tasks.retain(|record| by.scope.has_record(record));
    // What the filter cannot say of the scope leaves gaps.
    for _ in 1..MOST_PAGES {
        if !tasks.is_empty() || page.next.is_none() {
            break;
        }
        cursor = page.next.take();
        page = by.client().page(&query, cursor.as_ref()).await?;
        tasks = std::mem::take(&mut page.tasks);
        tasks.retain(|record| by.scope.has_record(record));
    }
    let text = |cursor: Option<Cursor>| cursor.map(|cursor| cursor.to_string());
    json(&PageForm {
        tasks: tasks.iter().map(RecordForm::from).collect(),
        next: text(page.next),
        previous: text(page.previous),
    })
}
