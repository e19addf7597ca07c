//! Submits: of one task, of an array and of lines.

use axum::http::StatusCode;
use serde::Serialize;
use windlass::{
    StateKind, TaskId,
    client::SameRequest,
    store::{Done, IfExists, Submit, Submitted},
};

use crate::{
    app::App,
    change::{Asked, Change},
    problem::Problem,
};

/// A task to submit, as a body has it.
#[cfg(all(test, feature = "schema"))]
#[derive(schemars::JsonSchema)]
#[allow(
    dead_code,
    reason = "the schema is made of it; the fields are read one by one"
)]
pub(super) struct NewTaskForm {
    #[serde(flatten)]
    task: windlass::statemachine::wire::TaskForm,
    /// What to do when the id is taken; `refuse` by default.
    #[serde(default)]
    if_exists: IfExists,
    /// Whether the tasks of `after` and `after_ok` need not exist: a missing one counts as ended. `false` by default.
    #[serde(default)]
    allow_missing: bool,
}

/// The result of a submit.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

    pub(super) fn is_new(&self) -> bool {
        self.submitted == "new"
    }
}

/// Reads the body of a submit. A task without an id gets this one, or a UUID. `allow_missing` is the parameter of the
/// request.
pub(super) fn read(
    app: &App,
    (id, allow_missing): (Option<&str>, bool),
    body: &[u8],
) -> Result<Asked, Problem> {
    let (submit, allowed) = crate::body::submit(id, body, app.client.now())?;
    Ok(Asked {
        submit,
        allow_missing: allow_missing || allowed,
    })
}

pub(super) fn replaces(submit: &Submit) -> bool {
    submit.if_exists == IfExists::ReplaceWaiting
}

/// The result of one task of several: what was submitted, or a problem document.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(super) enum Outcome {
    Submitted(SubmittedForm),
    #[cfg_attr(feature = "schema", schemars(with = "crate::problem::Form<'static>"))]
    Problem(serde_json::Map<String, serde_json::Value>),
}

impl Outcome {
    pub(super) fn problem(problem: &Problem) -> Self {
        Self::Problem(serde_json::from_slice(&problem.json()).unwrap_or_default())
    }
}

/// Submits the tasks that were read, and returns a result for each.
pub(super) async fn submit_each(
    change: Change<'_>,
    read: Vec<Result<Asked, Problem>>,
    same: SameRequest,
    key: Option<&str>,
) -> Vec<Outcome> {
    let mut good = Vec::new();
    let places: Vec<Result<(TaskId, bool), Problem>> = read
        .into_iter()
        .map(|asked| {
            let asked = asked?;
            let place = (asked.submit.task.id.clone(), replaces(&asked.submit));
            good.push(asked);
            Ok(place)
        })
        .collect();
    let sees_everything = change.sees_everything();
    let mut done = change.submits(good, same, key).await.into_iter();
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
            Err(problem) if sees_everything => Outcome::problem(&problem),
            Err(problem) => Outcome::problem(&problem.without_place()),
        })
        .collect()
}
