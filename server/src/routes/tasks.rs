//! Submits and lists of tasks.

use std::sync::Arc;

use axum::{
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::value::RawValue;
use windlass::{
    Invalid,
    client::SameRequest,
    store::{Cursor, Operation, Query, TaskRecord},
};

use super::{
    export, json, json_with, lines,
    submits::{SubmittedForm, read, replaces, submit_each},
    write_record,
};
use crate::{
    access::{Operator, Reader},
    app::App,
    body::ALLOW_MISSING,
    change::{Asked, Change},
    params::{Params, whole},
    problem::Problem,
};

/// How many tasks an array has, at most.
const MOST_SUBMITS: usize = 10_000;
/// How many tasks are read at first for a page.
const FIRST: u32 = 5;
/// How many tasks are read at once for a page, and how often at most: the scope of a caller may have few of them.
const STEP: u32 = 25;
const MOST_STEPS: u32 = 800;
/// How many tasks a page has by default, and at most.
const PAGE: u32 = 100;
const MOST: u32 = 10_000;
/// A page ends with the task with which it has this many bytes.
const PAGE_BYTES: usize = 4 << 20;

/// Submits one task, an array of tasks, or lines of tasks.
pub(super) async fn submit(
    State(app): State<Arc<App>>,
    by: Operator,
    mut params: Params,
    headers: HeaderMap,
    request: Request<Body>,
) -> Result<Response, Problem> {
    let allow_missing = params.flag(ALLOW_MISSING)?;
    params.end()?;
    let key = crate::key::key_of(&headers, &by.key())?;
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.starts_with(export::LINES) {
        if key.is_some() {
            let what = "is not for lines of tasks; give each task an id and \"if_exists\":\"same\" instead";
            return Err(Problem::invalid(crate::key::KEY, what));
        }
        return Ok(lines::submit(app, by, allow_missing, request.into_body()));
    }
    let body = whole(request, &app).await?;
    match body.iter().find(|b| !b.is_ascii_whitespace()) {
        Some(b'[') => several((&app, &by), allow_missing, &body, key.as_deref()).await,
        _ => one((&app, &by), allow_missing, &body, key.as_deref()).await,
    }
}

async fn one(
    (app, by): (&Arc<App>, &Operator),
    allow_missing: bool,
    body: &[u8],
    key: Option<&str>,
) -> Result<Response, Problem> {
    // The same id in each repetition.
    let own = key.map(|key| format!("key-{key}"));
    let asked = [read(app, (own.as_deref(), allow_missing), body)?];
    let change = Change::new(app, by).sent(body);
    let key_of = |_| key.map(str::to_owned);
    let missing = change.missing(&asked, SameRequest::All, key_of).await;
    if let Some(problem) = missing.into_iter().flatten().next() {
        return Err(problem);
    }
    let [Asked { submit, .. }] = asked;
    let (id, replaces) = (submit.task.id.clone(), replaces(&submit));
    let done = change.one(Operation::Submit(submit), key).await?;
    let form = SubmittedForm::new(id, replaces, done);
    let status = match form.is_new() {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    };
    json_with(status, &form)
}

async fn several(
    (app, by): (&Arc<App>, &Operator),
    allow_missing: bool,
    body: &[u8],
    key: Option<&str>,
) -> Result<Response, Problem> {
    let bodies: Vec<&RawValue> =
        serde_json::from_slice(body).map_err(|error| Problem::invalid("body", error))?;
    if bodies.len() > MOST_SUBMITS {
        let detail = format!(
            "the array has {} tasks, and one request takes at most {MOST_SUBMITS}; send several requests, or lines \
             (application/x-ndjson)",
            bodies.len()
        );
        return Err(Problem::too_large("body", detail));
    }
    let change = Change::new(app, by).sent(body);
    if let Some(key) = key {
        // Each task is a transaction of its own, and another array may have more of them.
        change.take(key).await?;
    }
    let read = bodies.iter().enumerate().map(|(n, body)| {
        let own = key.map(|key| format!("key-{key}-{n}"));
        read(app, (own.as_deref(), allow_missing), body.get().as_bytes())
    });
    let results = submit_each(change, read.collect(), SameRequest::All, key).await;
    json(&results)
}

/// The cursors of a page.
#[derive(Serialize)]
struct CursorsForm {
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
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let mut filter = params.filter(app.client.now())?;
    by.scope.narrow(&mut filter);
    let order = match params.text("order")?.as_deref() {
        None => app.client.order_of_newest(),
        Some(text) => {
            let wrong = |error: Invalid| Problem::invalid("order", error.reason());
            text.parse().map_err(wrong)?
        }
    };
    let asks_for_lines = export::asks_for_lines(&headers);
    let most = if asks_for_lines { u32::MAX } else { MOST };
    let limit = params.number("limit", (1, most))?;
    let mut query = Query::new(filter).order(order);
    if params.flag("reversed")? {
        query = query.reversed();
    }
    match params.text("props")?.as_deref() {
        None | Some("" | "true") => {}
        Some("false") => query = query.without_props(),
        Some(other) => {
            let what = format!("'{other}' is not true or false; false leaves the props out");
            return Err(Problem::invalid("props", what));
        }
    }
    if let Some(reason) = params.get("waits")? {
        query = query.waits(reason);
    }
    let mut cursor: Option<Cursor> = params.get("cursor")?;
    params.end()?;
    let hiding = by.hiding().await?;
    hiding.check_filter(&query.filter, &by.scope.kinds)?;
    if asks_for_lines {
        return Ok(export::lines((app, by), query, limit, cursor));
    }
    let room = by.room(&app, PAGE_BYTES).await?;
    let is_backwards = cursor.as_ref().is_some_and(Cursor::is_backwards);
    let mut listed = Listed::default();
    let mut left = limit.unwrap_or(PAGE);
    // Tasks may be large, so that as many are read as have room if they are like the largest one so far.
    let (mut fitting, mut largest) = (FIRST, 1);
    for read in 0.. {
        let free = PAGE_BYTES.saturating_sub(listed.bytes());
        let step = query.clone().limit(left.min(fitting)).max_bytes(free);
        let page = by.client().page(&step, cursor.as_ref()).await?;
        let (back, on) = match is_backwards {
            true => (page.next, page.previous),
            false => (page.previous, page.next),
        };
        if read == 0 {
            listed.back = back;
        }
        listed.steps.push(Vec::new());
        largest = page
            .tasks
            .iter()
            .map(TaskRecord::bytes)
            .fold(largest, usize::max);
        for record in page
            .tasks
            .iter()
            .filter(|record| by.scope.has_record(record))
            .filter(|record| hiding.may_find(&query.filter, record))
        {
            listed.add(&hiding.record(record, app.client.now()))?;
            left = left.saturating_sub(1);
        }
        cursor = on;
        let is_full = left == 0 || listed.bytes() >= PAGE_BYTES;
        let free = PAGE_BYTES.saturating_sub(listed.bytes()) / largest;
        fitting = u32::try_from(free).unwrap_or(STEP).clamp(1, STEP);
        if cursor.is_none() || is_full || read + 1 == MOST_STEPS {
            break;
        }
    }
    let response = listed.answer(cursor, is_backwards)?;
    Ok(room.keep(response))
}

/// The tasks of a page, as JSON.
#[derive(Default)]
struct Listed {
    /// The tasks of each step, in the order of the list.
    steps: Vec<Vec<u8>>,
    /// The cursor of the page from whose end the steps lead away.
    back: Option<Cursor>,
}

impl Listed {
    fn bytes(&self) -> usize {
        self.steps.iter().map(Vec::len).sum()
    }

    /// Adds a task to the last step.
    fn add(&mut self, record: &impl Serialize) -> Result<(), Problem> {
        let Some(step) = self.steps.last_mut() else {
            return Ok(());
        };
        if !step.is_empty() {
            step.push(b',');
        }
        write_record(step, record)
    }

    /// Returns the page. `on` is the cursor of the page to which the steps lead.
    fn answer(mut self, on: Option<Cursor>, is_backwards: bool) -> Result<Response, Problem> {
        let (mut previous, mut next) = (self.back, on);
        if is_backwards {
            // Each step is before the one that was read before it.
            self.steps.reverse();
            (previous, next) = (next, previous);
        }
        self.steps.retain(|step| !step.is_empty());
        let mut text = br#"{"tasks":["#.to_vec();
        text.extend(self.steps.join(&b','));
        text.extend_from_slice(b"],");
        let cursors = CursorsForm {
            next: next.map(|cursor| cursor.to_string()),
            previous: previous.map(|cursor| cursor.to_string()),
        };
        let cursors = serde_json::to_string(&cursors).unwrap_or_default();
        text.extend_from_slice(cursors.trim_start_matches('{').as_bytes());
        Ok((
            [(header::CONTENT_TYPE, "application/json")],
            Bytes::from(text),
        )
            .into_response())
    }
}
