//! Changes of schedules.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{FromRequest, FromRequestParts, Path, Request},
    http::{StatusCode, request::Parts},
    response::Response,
};
use jiff::Timestamp;
use serde::Deserialize;
use windlass::{
    Json, TaskId,
    schedule::{Backfill, LiveRuns, Schedule, Trigger},
    statemachine::wire::read_past,
    store::Error,
    wire::ScheduleActionForm,
};

use super::{in_spec, shown};
use crate::{
    access::{Operator, name},
    app::App,
    key::refuse_key,
    local::Local,
    mask::{Hiding, refuse_placeholder, without_values},
    params::{Form, Formed, Params},
    problem::Problem,
    routes::json,
};

/// Who changes schedules.
pub(in crate::routes) struct Steerer {
    app: Arc<App>,
    pub(super) by: Operator,
}

impl FromRequestParts<Arc<App>> for Steerer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let by = Operator::from_request_parts(parts, app).await?;
        // A change is repeated until no node was faster, and so is not one transaction.
        refuse_key(&parts.headers)?;
        if !by.scope.is_everything() {
            return Err(Problem::forbidden(
                "a schedule starts tasks of any kind; a token with a scope cannot make or change one",
            ));
        }
        let app = app.clone();
        Ok(Self { app, by })
    }
}

impl Steerer {
    /// Returns an error of a schedule, whose text quotes no prop of its runs if any are masked.
    pub(super) async fn problem(&self, error: Error) -> Problem {
        match self.by.hiding().await {
            Ok(hiding) if hiding.hides_props() => without_values(error).into(),
            Ok(_) => error.into(),
            Err(problem) => problem,
        }
    }

    /// Checks the props of the runs of a schedule.
    pub(super) fn check(&self, spec: &Schedule, hiding: &Hiding) -> Result<(), Problem> {
        let checked = crate::change::check_runs(&self.app, spec, hiding);
        checked.map_err(|problem| problem.within("run").within("spec"))
    }
}

/// A change of a schedule: its path, and a body that may be missing.
pub(in crate::routes) struct Step<T> {
    pub(super) by: Steerer,
    pub(super) id: TaskId,
    pub(super) form: T,
    local: Local,
}

impl<T: Formed> FromRequest<Arc<App>> for Step<T> {
    type Rejection = Problem;

    async fn from_request(request: Request<Body>, app: &Arc<App>) -> Result<Self, Problem> {
        let (mut head, body) = request.into_parts();
        let by = Steerer::from_request_parts(&mut head, app).await?;
        let path = Path::<String>::from_request_parts(&mut head, app).await;
        let Path(id) = path.map_err(|error| Problem::invalid("path", error.body_text()))?;
        let local = Local::of(&head);
        let request = Request::from_parts(head, body);
        let Form(form) = Form::from_request(request, app).await?;
        Ok(Self {
            by,
            id: name(&id)?,
            form,
            local,
        })
    }
}

impl<T> Step<T> {
    fn done(&self, action: &str) -> Result<Response, Problem> {
        json(&ScheduleActionForm::new(&self.id, action, None))
    }

    pub(super) fn schedules(&self) -> windlass::schedule::Schedules {
        self.by.by.client().schedules()
    }
}

/// The body of a new schedule.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::routes) struct NewScheduleForm {
    /// The id of the schedule, with which the ids of its runs begin.
    id: TaskId,
    /// The fields of the schedule.
    #[cfg_attr(feature = "schema", schemars(with = "Schedule"))]
    spec: Json,
    /// Whether it submits no run before it is resumed; false by default.
    #[serde(default)]
    paused: bool,
}

impl Formed for NewScheduleForm {
    const LIKE: &str = r#"{"id":"nightly","spec":{"run":{"kind":"mail"},"cron":["30 2 * * *"]}}"#;
}

/// Creates a schedule.
pub(in crate::routes) async fn create(
    by: Steerer,
    Form(form): Form<NewScheduleForm>,
) -> Result<Response, Problem> {
    let hiding = by.by.hiding().await?;
    refuse_placeholder("spec", &form.spec)?;
    let spec = Schedule::from_json(&form.spec).map_err(in_spec)?;
    by.check(&spec, &hiding)?;
    let schedules = by.by.client().schedules();
    let created = match form.paused {
        true => schedules.create_paused(&form.id, spec).await,
        false => schedules.create(&form.id, spec).await,
    };
    created.map_err(|error| match error {
        Error::AlreadyExists { .. } | Error::AlreadyFinished { .. } => Problem::new(
            StatusCode::CONFLICT,
            "exists",
            format!(
                "task '{}' exists already; PATCH /v1/schedules/ID changes a schedule, or choose another id",
                form.id
            ),
        ),
        Error::Invalid(invalid) => in_spec(invalid),
        error => error.into(),
    })?;
    let mut response = shown(&by.by, &form.id).await?;
    *response.status_mut() = StatusCode::CREATED;
    Ok(response)
}

/// Deletes a schedule.
pub(in crate::routes) async fn delete(
    by: Steerer,
    Path(id): Path<String>,
    mut params: Params,
) -> Result<Response, Problem> {
    let runs = match params.flag("kill_runs")? {
        true => LiveRuns::Kill,
        false => LiveRuns::Keep,
    };
    params.end()?;
    let id: TaskId = name(&id)?;
    let killed = by.by.client().schedules().delete(&id, runs).await?;
    json(&ScheduleActionForm::new(&id, "deleted", Some(&killed)))
}

/// The body of a pause.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::routes) struct PauseForm {
    /// The reason, which the schedule shows.
    #[serde(default)]
    note: Option<String>,
}

impl Formed for PauseForm {
    const LIKE: &str = r#"{"note":"the disk is replaced"}"#;
}

/// Pauses a schedule.
pub(in crate::routes) async fn pause(step: Step<PauseForm>) -> Result<Response, Problem> {
    step.schedules()
        .pause(&step.id, step.form.note.clone())
        .await?;
    step.done("pause sent")
}

/// The body of a resume.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::routes) struct ResumeForm {
    /// Whether the times that have passed count as missed ones, which may run; false by default.
    #[serde(default)]
    catch_up: bool,
}

impl Formed for ResumeForm {
    const LIKE: &str = r#"{"catch_up":true}"#;
}

/// Resumes a schedule.
pub(in crate::routes) async fn resume(step: Step<ResumeForm>) -> Result<Response, Problem> {
    let schedules = step.schedules();
    let resumed = schedules.resume(&step.id, step.form.catch_up).await;
    if let Err(error) = resumed {
        return Err(step.by.problem(error).await);
    }
    step.done("resume sent")
}

/// The body of a trigger.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::routes) struct TriggerForm {
    /// The nominal time of the run, past or to come; the present by default.
    #[serde(default, rename = "for")]
    nominal: Option<Timestamp>,
    /// The priority of the run; one above that of the other runs by default.
    #[serde(default)]
    priority: Option<i32>,
}

impl Formed for TriggerForm {
    const LIKE: &str = r#"{"for":"2030-03-01T02:30:00Z","priority":100}"#;
}

/// Submits a run now.
pub(in crate::routes) async fn trigger(step: Step<TriggerForm>) -> Result<Response, Problem> {
    let mut trigger = Trigger::new();
    if let Some(nominal) = step.form.nominal {
        trigger = trigger.nominal(nominal);
    }
    if let Some(priority) = step.form.priority {
        trigger = trigger.priority(priority);
    }
    let run = step.schedules().trigger_with(&step.id, trigger).await;
    let run = run.map_err(|error| match error {
        Error::AlreadyExists { name, .. } => Err(has_run(&name)),
        Error::AlreadyFinished { task: run, .. } => Err(has_run(run.as_str())),
        error => Ok(error),
    });
    let run = match run {
        Ok(run) => run,
        Err(Ok(error)) => return Err(step.by.problem(error).await),
        Err(Err(problem)) => return Err(problem),
    };
    json(&ScheduleActionForm::new(
        &step.id,
        "triggered",
        Some(&[run]),
    ))
}

fn has_run(run: &str) -> Problem {
    let detail = format!(
        "the time has a run, '{run}': GET /v1/tasks/ID shows it, and POST /v1/tasks/ID/retry runs it again when it has ended"
    );
    Problem::new(StatusCode::CONFLICT, "exists", detail)
}

/// The body of a backfill.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::routes) struct BackfillForm {
    /// The first time: RFC 3339, or a length of time before now (`2d`).
    from: String,
    /// The last time; now by default.
    #[serde(default)]
    to: Option<String>,
    /// Whether times whose run has ended run again; false by default.
    #[serde(default)]
    all: bool,
    /// Whether the runs are only returned, and none is submitted; false by default.
    #[serde(default)]
    dry_run: bool,
}

impl Formed for BackfillForm {
    const LIKE: &str = r#"{"from":"2030-03-01T00:00:00Z","dry_run":true}"#;
}

/// Submits runs for times that have passed.
pub(in crate::routes) async fn backfill(step: Step<BackfillForm>) -> Result<Response, Problem> {
    let form = &step.form;
    let now = step.by.app.client.now();
    let local = step.local.at(now);
    let from = read_past("from", &form.from, &local)?;
    let to = form.to.as_deref().map(|to| read_past("to", to, &local));
    let range = Backfill::new(from, to.transpose()?.unwrap_or(now))
        .all(form.all)
        .dry_run(form.dry_run);
    let _place = step.by.app.computing.take(&step.by.by.key()).await;
    let runs = match step.schedules().backfill(&step.id, range).await {
        Ok(runs) => runs,
        Err(error) => return Err(step.by.problem(error).await),
    };
    let action = match form.dry_run {
        true => "would backfill",
        false => "backfilled",
    };
    json(&ScheduleActionForm::new(&step.id, action, Some(&runs)))
}

/// The body of a skip.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::routes) struct SkipForm {
    /// The nominal time; the next one by default.
    #[serde(default)]
    time: Option<Timestamp>,
}

impl Formed for SkipForm {
    const LIKE: &str = r#"{"time":"2030-03-01T02:30:00Z"}"#;
}

/// Skips one time to come.
pub(in crate::routes) async fn skip(step: Step<SkipForm>) -> Result<Response, Problem> {
    let schedules = step.schedules();
    let time = match step.form.time {
        Some(time) => time,
        None => {
            let next = schedules.preview(&step.id, 1).await?;
            let none = || {
                Problem::new(
                    StatusCode::CONFLICT,
                    "no_time",
                    format!("'{}' has no time to come", step.id),
                )
            };
            next.first().map(|time| time.nominal).ok_or_else(none)?
        }
    };
    schedules.skip(&step.id, time).await?;
    step.done(&format!("skips {time}"))
}
