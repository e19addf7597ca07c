//! Schedules: read, and with their times to come.

mod step;
mod update;

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    extract::{Path, State},
    response::Response,
};
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use windlass::{
    Invalid, Json, TaskId,
    schedule::{Held, KIND, LastRun, Schedule, ScheduleRecord, Time},
    statemachine::plain,
    store::{Error, Page},
    wire::{ScheduleForm, TimeForm},
};

use super::json;
use crate::{
    access::{Access, Reader, name},
    app::App,
    mask::without_values,
    params::{Form, Formed, Params},
    problem::Problem,
};

#[cfg(all(test, feature = "schema"))]
pub(super) use step::{
    BackfillForm, NewScheduleForm, PauseForm, ResumeForm, SkipForm, TriggerForm,
};
pub(super) use step::{backfill, create, delete, pause, resume, skip, trigger};
pub(super) use update::update;

/// How many times of a schedule are shown with it.
const UPCOMING: usize = 5;
/// How many last runs are read at the same time.
const READ_AT_ONCE: usize = 32;
/// The most times of one preview.
const MOST_TIMES: u32 = 10_000;
/// How many times a preview has by default.
const TIMES: u32 = 10;

/// The fields of a spec, each as it is written.
type Fields = BTreeMap<String, Box<RawValue>>;

/// Returns a schedule that the caller may see.
pub(super) async fn get(
    by: Reader,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, Problem> {
    params.end()?;
    let id: TaskId = name(&id)?;
    shown(&by, &id).await
}

/// Answers with a schedule.
async fn shown<const ROLE: u8>(by: &Access<ROLE>, id: &TaskId) -> Result<Response, Problem> {
    by.check(id).await?;
    let schedules = by.client().schedules();
    let record = schedules.get(id).await?;
    let last_run = last_run(by, &record).await?;
    let held = schedules.held(&record).await?;
    let held: Vec<String> = held.iter().map(|held| why(id, held)).collect();
    let waits = (!held.is_empty()).then(|| held.join("; "));
    let upcoming = upcoming(by, &record).await?;
    let form = ScheduleForm::from(&record)
        .with_late(record.late(by.client().now()))
        .with_last_run(last_run.as_ref())
        .with_upcoming(&upcoming)
        .with_waits(waits);
    json(&by.hiding().await?.schedule(&form)?)
}

/// Returns the last run of a schedule, if the caller may see that task.
async fn last_run<const ROLE: u8>(
    by: &Access<ROLE>,
    record: &ScheduleRecord,
) -> Result<Option<LastRun>, Problem> {
    let run = by.client().schedules().last_run(record).await?;
    let Some(run) = run else { return Ok(None) };
    match by.check(&run.id).await {
        Ok(()) => Ok(Some(run)),
        Err(problem) if problem.is_missing() => Ok(None),
        Err(problem) => Err(problem),
    }
}

/// Returns the next times of a schedule that is live and not paused.
async fn upcoming<const ROLE: u8>(
    by: &Access<ROLE>,
    record: &ScheduleRecord,
) -> Result<Vec<Time>, Problem> {
    if record.next.is_none() {
        return Ok(Vec::new());
    }
    match by.client().schedules().preview(&record.id, UPCOMING).await {
        Ok(times) => Ok(times),
        // It has ended, or was deleted, since it was read.
        Err(Error::ScheduleEnded(_) | Error::NotFound { .. }) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// Returns why a schedule submits no run, with the request that resolves it.
fn why(id: &TaskId, held: &Held) -> String {
    match held {
        Held::NoNodeMay(reason) => format!("no node may run schedules: {reason}"),
        Held::Ahead(ahead) => format!(
            "a clock that was ahead has decided the times up to {ahead}; POST /v1/schedules/{id}/resume goes on from the present"
        ),
        Held::Commands(commands) => {
            let waiting = match commands {
                1 => "a command waits".to_owned(),
                many => format!("{many} commands wait"),
            };
            format!("{waiting} for a node: GET /v1/tasks/{id}/commands shows what waits")
        }
        _ => "no live node runs schedules: start one (`windlass worker`)".to_owned(),
    }
}

/// A page of schedules.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct SchedulesForm {
    /// The schedules, in the order of their creation.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<ScheduleForm<'_>>"))]
    schedules: Vec<Json>,
    /// The cursor of the next page; `null` on the last one.
    next: Option<String>,
}

/// Lists schedules.
pub(super) async fn list(by: Reader, mut params: Params) -> Result<Response, Problem> {
    let limit = params.number("limit", (1, 10_000))?.unwrap_or(100);
    let after: u64 = params.get("cursor")?.unwrap_or(0);
    params.end()?;
    let page = Page::new(limit).after(after);
    let records = by.client().schedules().list(page).await?;
    let is_full = records.len() == limit as usize;
    let next = records.last().filter(|_| is_full);
    let next = next.map(|(order, _)| order.to_string());
    let kind = KIND.parse()?;
    let seen = |record: &ScheduleRecord| by.scope.has(&kind, &record.labels);
    let records = records.into_iter().map(|(_, record)| record);
    let records: Vec<ScheduleRecord> = records.filter(seen).collect();
    let runs: Vec<_> = records.iter().map(|record| last_run(&by, record)).collect();
    let runs: Vec<Option<LastRun>> = stream::iter(runs)
        .buffered(READ_AT_ONCE)
        .try_collect()
        .await?;
    let (forms, now) = (records.iter().zip(&runs), by.client().now());
    let forms = forms.map(|(record, run)| {
        let form = ScheduleForm::from(record).with_late(record.late(now));
        form.with_last_run(run.as_ref())
    });
    let hiding = by.hiding().await?;
    let shown = forms.map(|form| hiding.schedule(&form));
    json(&SchedulesForm {
        schedules: shown.collect::<Result<_, _>>()?,
        next,
    })
}

/// Times of a schedule.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct TimesForm {
    /// The times, the next one first.
    times: Vec<TimeForm>,
}

fn times_form(times: &[Time]) -> Result<Response, Problem> {
    json(&TimesForm {
        times: times.iter().map(TimeForm::from).collect(),
    })
}

/// Returns the next times of a schedule.
pub(super) async fn times(
    State(app): State<Arc<App>>,
    by: Reader,
    Path(id): Path<String>,
    mut params: Params,
) -> Result<Response, Problem> {
    let limit = params.number("limit", (1, MOST_TIMES))?.unwrap_or(TIMES);
    params.end()?;
    let id: TaskId = name(&id)?;
    by.check(&id).await?;
    let _place = app.computing.take(&by.key()).await;
    let times = by.client().schedules().preview(&id, limit as usize).await?;
    times_form(&times)
}

/// The body of a preview.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct PreviewForm {
    /// The schedule to change; none for a spec of its own.
    #[serde(default)]
    id: Option<TaskId>,
    /// The fields of the spec; with `id` those that change, `null` to remove one. Without `run` the runs are of no kind.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "BTreeMap<String, serde_json::Value>")
    )]
    spec: Json,
    /// The number of times: 1 to 10,000; 10 by default.
    #[serde(default)]
    limit: Option<u32>,
}

impl Formed for PreviewForm {
    const LIKE: &str = r#"{"spec":{"cron":["30 2 * * *"],"zone":"Europe/Berlin"}}"#;
}

/// Returns the times that a new or changed schedule would have, and changes nothing.
pub(super) async fn preview(
    State(app): State<Arc<App>>,
    by: Reader,
    Form(form): Form<PreviewForm>,
) -> Result<Response, Problem> {
    let limit = form.limit.unwrap_or(TIMES);
    if !(1..=MOST_TIMES).contains(&limit) {
        let what = format!("'{limit}' is not a whole number from 1 to {MOST_TIMES}");
        return Err(Problem::invalid("limit", what));
    }
    let limit = limit as usize;
    let changes = fields("spec", &form.spec)?;
    if let Some(id) = form.id {
        by.check(&id).await?;
        let schedules = by.client().schedules();
        let spec = merged(&schedules.get(&id).await?, &changes)?;
        let _place = app.computing.take(&by.key()).await;
        let times = schedules.preview_update(&id, &spec, limit).await;
        let hides = by.hiding().await?.hides_props();
        let times = times.map_err(|error| match hides {
            true => without_values(error),
            false => error,
        });
        return times_form(&times?);
    }
    let mut whole = changes;
    if !whole.contains_key("run") {
        whole.insert("run".to_owned(), raw(r#"{"kind":"none"}"#)?);
    }
    let spec = spec_of(&whole)?;
    let now: Timestamp = app.client.now();
    let key = by.key();
    let previewed = app.compute(&key, move || {
        spec.check("preview", now).map_err(in_spec)?;
        Ok::<_, Problem>(spec.preview("preview", now, limit)?)
    });
    times_form(&previewed.await??)
}

fn raw(text: &str) -> Result<Box<RawValue>, Problem> {
    RawValue::from_string(text.to_owned()).map_err(|error| Problem::invalid("spec", error))
}

/// Reads the fields of a JSON object, each as it is written.
fn fields(field: &'static str, json: &Json) -> Result<Fields, Problem> {
    let read = plain::object::<plain::Fields<Box<RawValue>>>(json.as_str());
    Ok(read.map_err(|wrong| Invalid::new(field, wrong))?.0)
}

/// Reads a spec from its fields.
fn spec_of(fields: &Fields) -> Result<Schedule, Problem> {
    let whole = Json::new("spec", fields)?;
    Schedule::from_json(&whole).map_err(in_spec)
}

fn in_spec(error: Invalid) -> Problem {
    let is_whole = error.field() == "schedule";
    match is_whole {
        true => Problem::invalid("spec", error.reason()),
        false => Problem::from(error).within("spec"),
    }
}

/// Returns the spec of a schedule with these fields changed: `null` removes one. The fields of a spec that cannot be read
/// are replaced by those that are given.
fn merged(record: &ScheduleRecord, changes: &Fields) -> Result<Schedule, Problem> {
    let stored = fields("schedule", &record.stored);
    let mut all = match (&record.spec, stored) {
        (Ok(_), stored) => stored?,
        (Err(_), stored) => stored.unwrap_or_default(),
    };
    all.remove("since");
    for (name, value) in changes {
        match value.get() {
            "null" => drop(all.remove(name)),
            _ => drop(all.insert(name.clone(), value.clone())),
        }
    }
    spec_of(&all)
}
