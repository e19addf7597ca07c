//! `windlass reschedule`: changes tasks that no node has claimed.

use std::time::Duration;

use jiff::Timestamp;
use windlass::{
    Client, Json, Kind, Limit, TaskId, TaskState,
    store::{Reschedule, TaskRecord},
};

use super::steer::after;
use crate::{
    bulk::Report,
    changed_props::check_props,
    exit::{Exit, Failure},
    global::Global,
    input,
    output::Output,
    parse::{at_once, duration, priority, rate, time},
    select::{Choice, SelectArgs, is_live},
};

/// Which tasks, and what changes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  windlass reschedule mail-7 --to-kind inbox/err
  windlass reschedule --kind inbox/err --to-kind inbox --in 10m --yes
  windlass reschedule report-7 --at 2030-01-02T03:04:05Z --priority 5
  windlass reschedule report-7 --props @report.json")]
pub(crate) struct Args {
    #[command(flatten)]
    select: SelectArgs,
    #[command(flatten)]
    change: Change,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Changes")]
#[group(required = true, multiple = true)]
struct Change {
    /// Move the tasks to this kind, under their ids
    #[arg(long, value_name = "KIND")]
    to_kind: Option<Kind>,

    /// Let runnable and sleeping tasks run at this time (RFC 3339, '2026-11-28 09:30', tomorrow, 'in 2 hours'; days are those of this
    /// machine's time zone). Filters leave out tasks that wait for others or for a signal: a time
    /// would end their wait
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "wait")]
    at: Option<Timestamp>,

    /// Let runnable and sleeping tasks run after this time: 90s, 15m, 1h30m, 7d; 0s for now
    #[arg(long = "in", id = "wait", value_name = "DURATION", value_parser = duration, allow_hyphen_values = true)]
    wait: Option<Duration>,

    /// Give the tasks this priority; those with a greater one run first
    #[arg(long, value_name = "NUMBER", value_parser = priority, allow_hyphen_values = true)]
    priority: Option<i32>,

    /// Replace the limits: at most this many tasks with the key run at once; repeat it for more limits
    #[arg(long, value_name = "KEY=NUMBER", value_parser = at_once)]
    at_once: Vec<Limit>,

    /// Replace the limits: at most this many tasks with the key start within a time
    #[arg(long, value_name = "KEY=NUMBER/DURATION", value_parser = rate)]
    rate: Vec<Limit>,

    /// Remove all limits
    #[arg(long, conflicts_with_all = ["at_once", "rate"])]
    no_limits: bool,

    /// Replace the data: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON")]
    data: Option<String>,

    /// Replace the props: JSON, @FILE, or - for standard input
    #[arg(long = "props", id = "new_props", value_name = "JSON")]
    props: Option<String>,
}

/// Returns whether a filter selects the task: schedules have commands of their own.
fn is_task(record: &TaskRecord) -> bool {
    is_live(record) && record.task.kind.as_str() != Kind::SCHEDULE
}

/// Returns whether a filter selects the task for another time: that of a task which waits for others or for a signal would
/// end its wait.
fn is_movable(record: &TaskRecord) -> bool {
    let waits = |state: &TaskState| state.is_waiting() || state.awaits_signal().is_some();
    is_task(record) && record.state.as_ref().is_ok_and(|state| !waits(state))
}

/// Checks the change of one task. A task that does not exist is reported with the others.
async fn check(
    client: &Client,
    out: &Output,
    id: &TaskId,
    (to_kind, props): (Option<&Kind>, Option<&Json>),
    due: Option<Timestamp>,
) -> Result<(), Failure> {
    let Ok(record) = client.get(id).await else {
        return Ok(());
    };
    if record.task.kind.as_str() == Kind::SCHEDULE {
        return Err(Failure::Usage(format!(
            "task '{id}' is a schedule, and was not changed; change it with: windlass schedule update {id}"
        )));
    }
    let kind = to_kind.unwrap_or(&record.task.kind);
    check_props(kind, props.unwrap_or(&record.task.props))?;
    let state = record.state.ok().filter(|_| due.is_some());
    if state.as_ref().is_some_and(TaskState::is_waiting) {
        out.note(format!(
            "note: task '{id}' waits for other tasks; its wait ends at the new time, whether they have ended or not"
        ));
    }
    if let Some(signal) = state.as_ref().and_then(TaskState::awaits_signal) {
        out.note(format!(
            "note: task '{id}' waits for the signal '{}'; its wait ends at the new time, also without the signal",
            signal.name()
        ));
    }
    Ok(())
}

/// Changes them.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let Change {
        to_kind,
        at,
        wait,
        priority,
        at_once,
        rate,
        no_limits,
        data,
        props,
    } = args.change;
    let json = |field, text: Option<String>| text.map(|text| input::json(field, &text)).transpose();
    let (data, props) = (json("data", data)?, json("props", props)?);
    let due = match wait {
        Some(wait) => Some(after(Timestamp::now(), wait, "--in")?),
        None => at,
    };
    let limits: Vec<Limit> = at_once.into_iter().chain(rate).collect();
    let limits = (no_limits || !limits.is_empty()).then_some(limits);
    let client = global.existing().await?;
    let out = global.out();
    let wanted = match due {
        Some(_) => is_movable,
        None => is_task,
    };
    let choice = (args.select).choose(&client, &out, "reschedule", wanted);
    let ids = match choice.await? {
        Choice::Act(ids) => ids,
        Choice::Done(exit) => return Ok(exit),
    };
    let is_named = !args.select.ids().is_empty();
    if is_named || props.is_some() {
        for id in &ids {
            check(&client, &out, id, (to_kind.as_ref(), props.as_ref()), due).await?;
        }
    }
    let bar = out.progress(ids.len() as u64, "reschedule");
    Report::run("reschedule", ids, &bar, |ids| {
        let changes = ids.into_iter().map(|id| {
            let mut change = Reschedule::new(id);
            change.due = due;
            change.priority = priority;
            change.kind.clone_from(&to_kind);
            change.limits.clone_from(&limits);
            change.data.clone_from(&data);
            change.props.clone_from(&props);
            change
        });
        let changes = changes.collect();
        async {
            let answers = client.reschedule_many(changes).await;
            answers.into_iter().map(|one| one.map(|_| None)).collect()
        }
    })
    .await
    .print(&out, "rescheduled")
}
