//! Submits: of one task, of an array and of lines.

use axum::http::StatusCode;
use serde::Serialize;
use windlass::{
    StateKind, TaskId,
    store::{Done, IfExists, Operation, Submit, Submitted},
};

use crate::{app::App, change::Change, problem::Problem};

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

/// Reads the body of a submit. A task without an id gets this one, or a UUID.
pub(super) fn read(app: &App, id: Option<&str>, body: &[u8]) -> Result<Submit, Problem> {
    match crate::body::operation("submit", (None, id), body, app.client.now())? {
        Operation::Submit(submit) => Ok(submit),
        _ => Err(Problem::invalid("body", "is not a task")),
    }
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
    let sees_everything = change.sees_everything();
    let mut done = change.submits(good, key).await.into_iter();
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
