//! `windlass schedule create` and `update`.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Map;
use windlass::{
    Client, Kind, StateKind, TaskId,
    schedule::{self, Schedule, ScheduleRecord, Time},
    store::Error,
    wire::TimeForm,
};

use super::{
    args::{NewArgs, UpdateArgs},
    field::notes_of,
    form::PlanForm,
    imported::fields,
    show::UPCOMING,
    spec_args::{TimeArgs, read},
    texts::upcoming,
    zone,
};
use crate::{
    commands::submit::tip,
    exec,
    exit::{Exit, Failure},
    global::Global,
    output::Output,
    waiting::note_unhandled,
};

/// Why an update is not made: the store's error, expressed for a schedule, or the error of the
/// options.
struct OfSchedule(Failure);

impl From<windlass::store::Error> for OfSchedule {
    fn from(error: windlass::store::Error) -> Self {
        Self(Failure::of_schedule(error))
    }
}

impl From<Failure> for OfSchedule {
    fn from(failure: Failure) -> Self {
        Self(failure)
    }
}

/// Creates a schedule.
pub(super) async fn create(args: NewArgs, global: &Global) -> Result<Exit, Failure> {
    let NewArgs {
        fields: args,
        paused,
    } = args;
    let mut spec = Map::new();
    args.apply(&mut spec)?;
    let takes_default_zone = TimeArgs::takes_default_zone(&spec);
    let schedule = read(spec)?;
    let out = global.out();
    if takes_default_zone && let Some(note) = zone::note_of_default() {
        out.note(note);
    }
    if args.dry_run {
        return plan_new(&args.id, &schedule, global).await;
    }
    let client = crate::opening::traced(&global.open().await?);
    let schedules = client.schedules();
    let (created, action) = match paused {
        true => (
            schedules.create_paused(&args.id, schedule).await,
            "created, paused",
        ),
        false => (schedules.create(&args.id, schedule).await, "created"),
    };
    if let Err(error) = created {
        return Err(taken(&client, &args.id, error).await);
    }
    written(&client, global, &args.id, action).await
}

/// Prints a schedule that would be created.
async fn plan_new(id: &TaskId, schedule: &Schedule, global: &Global) -> Result<Exit, Failure> {
    let now = Timestamp::now();
    schedule.check(id.as_str(), now)?;
    // Without a store the id is free.
    if let Ok(client) = global.reading().await
        && client.get(id).await.is_ok()
    {
        let error = Error::task_exists(id);
        return Err(taken(&client, id, error).await);
    }
    let times = schedule.preview(id.as_str(), now, UPCOMING)?;
    plan(&global.out(), (id, "would create"), schedule, &times)
}

/// Prints a schedule that would be created or updated, with its next times.
fn plan(
    out: &Output,
    (id, action): (&TaskId, &'static str),
    schedule: &Schedule,
    times: &[Time],
) -> Result<Exit, Failure> {
    let spec = &fields(schedule)?;
    if out.is_json() {
        let next = times.iter().map(TimeForm::from).collect();
        out.json(&PlanForm {
            id,
            action,
            spec,
            next,
        })?;
        return Ok(Exit::Ok);
    }
    out.line(format!("{id}: {action} (dry run)"))?;
    for (at, text) in upcoming(times).into_iter().enumerate() {
        out.line(format!(
            "{:<12} {text}",
            if at == 0 { "next" } else { "then" }
        ))?;
    }
    out.line(format!("{:<12} {spec}", "spec"))?;
    Ok(Exit::Ok)
}

/// Returns the failure of a schedule that was not created, and names the task that has its id.
pub(super) async fn taken(client: &Client, id: &TaskId, error: Error) -> Failure {
    if let Error::AlreadyExists { what: "task", .. } = error
        && let Ok(record) = client.get(id).await
        && record.task.kind.as_str() != schedule::KIND
    {
        let kind = &record.task.kind;
        return Failure::No(format!(
            "the id '{id}' is that of a task of kind '{kind}', which is no schedule; choose another id"
        ));
    }
    Failure::of_schedule(error)
}

/// Changes the given fields of a schedule.
pub(super) async fn update(
    mut args: UpdateArgs,
    client: &Client,
    global: &Global,
) -> Result<Exit, Failure> {
    let out = &global.out();
    let id = &args.fields.id.clone();
    if !args.has_options() {
        let text = format!(
            "could not update schedule '{id}': no option is given; give at least one, such as --cron or --zone"
        );
        return Err(Failure::Usage(text));
    }
    args.load()?;
    let (mut action, mut notes) = ("updated", Vec::new());
    // Called again when another update came first, so that it merges with that one.
    let mut merged = |record: &ScheduleRecord| -> Result<Schedule, OfSchedule> {
        let is_ended = record.state.is_some_and(StateKind::is_terminal);
        action = if is_ended {
            "updated, and started again"
        } else {
            "updated"
        };
        let before = args.fields.times.present(record)?;
        let mut spec = before.clone();
        args.clear.apply(&mut spec);
        args.fields.apply(&mut spec)?;
        notes = notes_of(&before, &spec);
        Ok(read(spec)?)
    };
    if args.fields.dry_run {
        let schedules = client.schedules();
        let record = schedules.get(id).await.map_err(Failure::of_schedule)?;
        let schedule = merged(&record).map_err(|OfSchedule(failure)| failure)?;
        let times = schedules.preview_update(id, &schedule, UPCOMING).await?;
        for note in notes {
            out.note(format!("note: '{id}': {note}"));
        }
        return plan(out, (id, "would update"), &schedule, &times);
    }
    client
        .schedules()
        .update_with(id, merged)
        .await
        .map_err(|OfSchedule(failure)| failure)?;
    for note in notes {
        out.note(format!("note: '{id}': {note}"));
    }
    written(client, global, id, action).await
}

/// Prints a schedule that was written, with its next time.
async fn written(
    client: &Client,
    global: &Global,
    id: &TaskId,
    action: &str,
) -> Result<Exit, Failure> {
    let out = &global.out();
    let record = client
        .schedules()
        .get(id)
        .await
        .map_err(Failure::of_schedule)?;
    if out.is_json() {
        out.json(&windlass::wire::ScheduleForm::from(&record))?;
        return Ok(Exit::Ok);
    }
    let next = match &record.next {
        Some(time) => format!("; next at {}", super::texts::local(&time.local)),
        None => String::new(),
    };
    out.line(format!("{id}: {action}{next}"))?;
    if record.state == Some(StateKind::Paused) {
        let resume = global.hint().on_task("schedule resume", id);
        out.note(format!(
            "note: the schedule is paused, and submits no run; `{resume}` starts it"
        ));
        return Ok(Exit::Ok);
    }
    let kinds = BTreeSet::from([Kind::new(schedule::KIND)?]);
    let then = "its runs are submitted when one starts";
    if !note_unhandled(client, out, &kinds, ("note", then)).await {
        note_of_runs(client, global, &record).await?;
    }
    Ok(Exit::Ok)
}

/// Notes that no node handles the kind of the runs, with a tip for a kind that seems to be a command.
async fn note_of_runs(
    client: &Client,
    global: &Global,
    record: &ScheduleRecord,
) -> Result<(), Failure> {
    let out = &global.out();
    let Ok(spec) = &record.spec else {
        return Ok(());
    };
    let run = &fields(spec)?["run"];
    let kind = Kind::new(run["kind"].as_str().unwrap_or_default())?;
    let kinds = BTreeSet::from([kind.clone()]);
    let waits = note_unhandled(client, out, &kinds, ("note", "its runs wait for one")).await;
    if waits
        && run["props"].is_null()
        && let Some(words) = tip::command_of(kind.as_str())
    {
        let update = global.hint().on_task("schedule update", &record.id);
        out.note(format!(
            "tip: to run a command, write: {update} --kind {} {words}",
            exec::KIND
        ));
    }
    Ok(())
}
