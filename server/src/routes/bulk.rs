//! Bulk operations: the dry run, and the start.

use axum::{
    body::Body,
    extract::{Request, State},
    http::StatusCode,
    response::Response,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use windlass::{Note, TaskId};

use super::{json, json_with};
use crate::{
    access::Operator,
    app::App,
    bulk::{BulkAction, BulkFilter, dry_run, start},
    params::{Params, read_form, whole},
    problem::Problem,
};

/// The body of a bulk operation: without `key` a dry run.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct BulkForm {
    /// Which tasks.
    filter: BulkFilter,
    /// What to do to each.
    action: BulkAction,
    /// Selects every task, with an empty filter.
    #[serde(default)]
    all: bool,
    /// How many tasks the dry run has counted.
    #[serde(default)]
    tasks: Option<u64>,
    /// Why: the note of each command, one line of up to 500 bytes. `retry` and `delete` send no command and
    /// take none. A dry run checks it.
    #[serde(default)]
    note: Option<Note>,
    /// The key that the dry run has returned.
    #[serde(default)]
    key: Option<String>,
}

/// What a dry run has counted.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct CountForm {
    /// How many tasks match.
    tasks: u64,
    /// How many of them sleep until a time, or wait for tasks or a signal, or did when they were paused: a resume runs these at
    /// once. 0 for an action that neither pauses nor resumes.
    skipping: u64,
    /// Starts the operation, together with `tasks`.
    key: String,
    /// When they were counted. The key is valid for ten minutes.
    at: Timestamp,
}

/// The task of a bulk operation.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct StartedForm {
    /// Its id: the task shows the progress and the outcome.
    id: TaskId,
}

/// Counts the tasks of a bulk operation, or starts it.
pub(super) async fn bulk(
    State(app): State<Arc<App>>,
    by: Operator,
    params: Params,
    request: Request<Body>,
) -> Result<Response, Problem> {
    params.end()?;
    crate::key::refuse_key(request.headers())?;
    let body = whole(request, &app).await?;
    let like = r#"{"filter":{"kind":"mail","state":["failed"]},"action":"retry"}"#;
    let form: BulkForm = read_form(&body, like)?;
    let filter = form.filter.to_filter()?;
    form.action.check_note(form.note.as_ref())?;
    if filter.is_all() && !form.all {
        let what = "selects every task; give a field, or \"all\":true for every task";
        return Err(Problem::invalid("filter", what));
    }
    if form.action == BulkAction::Retry && by.max_tasks.is_some() {
        return Err(Problem::forbidden(
            "the token has a quota of live tasks, which a bulk retry does not count; retry the tasks themselves",
        ));
    }
    by.hiding().await?.check_filter(&filter, &by.scope.kinds)?;
    match (form.key, form.tasks) {
        (None, None) => {
            let count = dry_run(by.client(), &form.filter, form.action, &by.scope).await?;
            json(&CountForm {
                tasks: count.tasks,
                skipping: count.skipping,
                key: count.key,
                at: count.at,
            })
        }
        (Some(key), Some(tasks)) => {
            let what = (form.filter, form.action);
            let of_caller = (&by.scope, by.token());
            let client = by.client().clone().with_note(form.note);
            let id = start(&client, what, (tasks, &key), of_caller).await?;
            json_with(StatusCode::CREATED, &StartedForm { id })
        }
        (None, Some(_)) => Err(Problem::invalid(
            "key",
            "is missing; give that of the dry run",
        )),
        (Some(_), None) => Err(Problem::invalid(
            "tasks",
            "is missing; give the count of the dry run",
        )),
    }
}
