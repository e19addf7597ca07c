//! `windlass schedule trigger`: submits a run on request.

use jiff::Timestamp;
use windlass::{Client, TaskId, schedule::Trigger, store::Error};

use super::{Which, runs};
use crate::{
    exit::{Exit, Failure},
    global::Global,
    parse::{priority, time},
};

/// Examples of `trigger`.
pub(super) const EXAMPLES: &str = "\
The run is submitted whatever --overlap says, also of a paused schedule. A time has one run, named ID@TIME: a second
one is refused. A run for a time to come is the one that the schedule would submit at that time.

Examples:
  windlass schedule trigger backup
  windlass schedule trigger backup --for 2026-03-01T02:30:00Z
  windlass schedule trigger backup --for 2026-03-01T02:30:00Z --priority 100

`windlass retry ID@TIME` runs a time again whose run has ended; `windlass schedule backfill` runs the times of a range.";

/// The run to submit.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    which: Which,

    /// The nominal time of the run (RFC 3339, '2026-11-28 09:30', tomorrow, 'in 2 hours'; days are those of this
    /// machine's time zone), past or future; the present by default. A command finds it in
    /// WINDLASS_SCHEDULED_FOR
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    nominal: Option<Timestamp>,

    /// The priority of the run; by default one above that of the schedule's other runs, so that it is claimed before
    /// those that wait
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = priority)]
    priority: Option<i32>,
}

/// Submits the run.
pub(super) async fn execute(args: Args, client: &Client, global: &Global) -> Result<Exit, Failure> {
    let id = args.which.id;
    let mut trigger = Trigger::new();
    if let Some(nominal) = args.nominal {
        trigger = trigger.nominal(nominal);
    }
    if let Some(priority) = args.priority {
        trigger = trigger.priority(priority);
    }
    match client.schedules().trigger_with(&id, trigger).await {
        Ok(run) => runs(&global.out(), &id, "triggered", &[run]),
        Err(Error::AlreadyExists {
            what: "task", name, ..
        }) => taken(&name.parse()?, client, global).await,
        Err(Error::AlreadyFinished { task: run, .. }) => taken(&run, client, global).await,
        Err(error) => Err(Failure::of_schedule(error)),
    }
}

/// Returns the failure for a time that already has this run.
async fn taken(run: &TaskId, client: &Client, global: &Global) -> Result<Exit, Failure> {
    let state = client.get(run).await?.state.ok().map(|state| state.code());
    let hint = global.hint();
    let text = match state {
        Some(code) if code.is_terminal() => format!(
            "the time has a run, '{run}', which is {code}; `{}` runs it again",
            hint.on_task("retry", run)
        ),
        Some(code) => format!(
            "the time has a run, '{run}', which is {code}; `{}` shows it",
            hint.on_task("get", run)
        ),
        None => format!(
            "the time has a run, '{run}', which is quarantined; `{}` shows it",
            hint.on_task("get", run)
        ),
    };
    Err(Failure::No(text))
}
