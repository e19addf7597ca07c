//! `windlass schedule`: schedules, which submit runs at times.

mod args;
mod column;
mod crontab;
mod field;
mod first;
pub(crate) mod form;
mod held;
pub(crate) mod import;
mod imported;
mod last;
mod origin;
mod run_args;
mod select;
mod show;
mod spec_args;
mod steer;
mod texts;
mod trigger;
mod write;
mod zone;

use clap::Subcommand;
use jiff::Timestamp;
use windlass::{
    Client, TaskId,
    schedule::{Backfill, Schedules},
    wire::ScheduleActionForm,
};

use crate::{
    exit::{Exit, Failure},
    global::Global,
    output::Output,
    parse::{from_one, past, time},
};

/// What to do with schedules.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  windlass schedule create backup --cron '30 2 * * *' --zone Europe/Berlin --cwd / -- tar czf /tmp/home.tgz home
  windlass schedule create poll --every 15m --overlap kill --kind report --props '{\"all\":true}'
  windlass schedule list
  windlass schedule preview backup -n 3
  windlass schedule pause backup --note 'the disk is replaced'
  windlass schedule import crontab.txt --dry-run

A worker submits the runs at their times: tasks named ID@TIME, with the label schedule=ID.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Ask,
}

#[derive(Debug, Subcommand)]
enum Ask {
    /// Create a schedule
    #[command(after_help = "\
Examples:
  windlass schedule create backup --cron '30 2 * * *' --zone Europe/Berlin --cwd / -- tar czf /tmp/home.tgz home
  windlass schedule create poll --every 15m --overlap kill --kind report --props '{\"all\":true}'
  windlass schedule create sync --every 1h --description 'copies the orders' --paused --shell ./sync
  windlass schedule create report --cron '0 6 * * MON' --zone local --dry-run -- ./report --weekly
  windlass schedule create once --at 2030-01-01T09:00:00Z --start-within 1h --shell 'make && make install'")]
    Create(Box<args::NewArgs>),
    /// Show a schedule: its times, its counts, its last run, the times without a run, and the live runs that it last saw
    #[command(
        after_help = "Examples:\n  windlass schedule get backup\n  windlass schedule get backup -o json | jq .next"
    )]
    Get(Which),
    /// List schedules with their next times and their last runs
    #[command(
        after_help = "Examples:\n  windlass schedule list\n  windlass schedule list -o json | jq '.[].id'"
    )]
    List(show::ListArgs),
    /// Change the given fields of a schedule, and remove those of --clear; no time is lost or repeated
    #[command(after_help = "\
An option that can be given more than once (--cron, --at, --label, --except-date, ...) gives the whole list: earlier
entries are removed, and a note names them. --at-once leaves the limits of --rate as they are, and the other way round.
Other fields stay. Updates at the same time are all kept.

Examples:
  windlass schedule update backup --cron '0 4 * * *'
  windlass schedule update backup --clear cron --every 12h
  windlass schedule update backup -- tar czf /tmp/all.tgz home etc")]
    Update(Box<args::UpdateArgs>),
    /// Pause schedules
    #[command(after_help = steer::PAUSE)]
    Pause(steer::PauseArgs),
    /// Resume paused schedules; times that have passed are skipped
    #[command(after_help = steer::RESUME)]
    Resume(steer::ResumeArgs),
    /// Submit a run now, for the present or for any other time
    #[command(after_help = trigger::EXAMPLES)]
    Trigger(trigger::Args),
    /// Submit runs for times that have passed
    #[command(after_help = "\
Examples:
  windlass schedule backfill backup --from 2026-03-01T00:00:00Z --dry-run
  windlass schedule backfill backup --from 2026-03-01T00:00:00Z --to 2026-03-08T00:00:00Z")]
    Backfill(BackfillArgs),
    /// Skip one future time
    #[command(
        after_help = "Examples:\n  windlass schedule skip backup\n  windlass schedule skip backup 2030-01-02T02:30:00Z"
    )]
    Skip(SkipArgs),
    /// Print the next times, of a schedule or of these options
    #[command(after_help = "\
Examples:
  windlass schedule preview backup -n 3
  windlass schedule preview backup --cron '0 4 * * *'
  windlass schedule preview --cron '0 9 * * MON-FRI' --zone Europe/Berlin")]
    Preview(Box<show::PreviewArgs>),
    /// Delete schedules
    #[command(after_help = steer::DELETE)]
    Delete(steer::DeleteArgs),
    /// Create schedules from the lines of a crontab
    Import(import::Args),
}

#[derive(Debug, clap::Args)]
struct Which {
    /// The schedule
    #[arg(value_name = "ID")]
    id: TaskId,
}

#[derive(Debug, clap::Args)]
struct BackfillArgs {
    #[command(flatten)]
    which: Which,
    /// The first time (2026-11-28, yesterday, '2 hours ago', RFC 3339; days are those of this machine's
    /// time zone)
    #[arg(long, value_name = "TIME", value_parser = past)]
    from: Timestamp,
    /// The last time (2026-11-28, yesterday, '2 hours ago', RFC 3339; days are those of this machine's
    /// time zone); now by default
    #[arg(long, value_name = "TIME", value_parser = past)]
    to: Option<Timestamp>,
    /// Also run times again whose run has ended
    #[arg(long)]
    all: bool,
    /// Print the runs, and submit none
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, clap::Args)]
struct SkipArgs {
    #[command(flatten)]
    which: Which,
    /// The nominal time (RFC 3339, '2026-11-28 09:30', tomorrow, 'in 2 hours'; days are those of this
    /// machine's time zone); the next one by default
    #[arg(value_name = "TIME", value_parser = time)]
    time: Option<Timestamp>,
}

/// Reads how many times are printed.
pub(super) fn count(text: &str) -> Result<usize, String> {
    from_one(text)
}

/// Runs the command.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let out = global.out();
    match args.command {
        Ask::Create(args) => return write::create(*args, global).await,
        Ask::Import(args) => return import::execute(args, global).await,
        Ask::Preview(args) => return show::preview(*args, global).await,
        Ask::List(args) => return show::list(args, global).await,
        Ask::Get(which) => return show::get(&which.id, global).await,
        _ => {}
    }
    let client = global.existing().await?;
    let schedules = client.schedules();
    match args.command {
        Ask::Update(args) => write::update(*args, &client, global).await,
        Ask::Pause(args) => steer::pause(args, &client, &out).await,
        Ask::Resume(args) => steer::resume(args, &client, &out).await,
        Ask::Trigger(args) => trigger::execute(args, &client, global).await,
        Ask::Backfill(args) => backfill(args, &client, &out).await,
        Ask::Skip(SkipArgs { which, time }) => skip(&schedules, &which.id, time, &out).await,
        Ask::Delete(args) => steer::delete(args, &client, &out).await,
        // Returned above.
        _ => Ok(Exit::Ok),
    }
}

async fn backfill(args: BackfillArgs, client: &Client, out: &Output) -> Result<Exit, Failure> {
    let id = args.which.id;
    let to = args.to.unwrap_or_else(|| client.store().clock().now());
    let range = Backfill::new(args.from, to)
        .all(args.all)
        .dry_run(args.dry_run);
    let submitted = client
        .schedules()
        .backfill(&id, range)
        .await
        .map_err(Failure::of_schedule)?;
    if submitted.is_empty() {
        out.note("no time of the range lacks a run");
        if !out.is_json() {
            return Ok(Exit::Ok);
        }
    }
    let action = match args.dry_run {
        true => "would backfill",
        false => "backfilled",
    };
    runs(out, &id, action, &submitted)
}

async fn skip(
    schedules: &Schedules,
    id: &TaskId,
    time: Option<Timestamp>,
    out: &Output,
) -> Result<Exit, Failure> {
    let time = match time {
        Some(time) => time,
        None => {
            let next = schedules
                .preview(id, 1)
                .await
                .map_err(Failure::of_schedule)?;
            let next = next.first().map(|time| time.nominal);
            next.ok_or_else(|| Failure::No(format!("'{id}' has no time to come")))?
        }
    };
    schedules
        .skip(id, time)
        .await
        .map_err(Failure::of_schedule)?;
    done(out, id, &format!("skips {time}"))
}

/// Prints the result of an action on a schedule.
fn done(out: &Output, id: &TaskId, action: &str) -> Result<Exit, Failure> {
    match out.is_json() {
        true => out.json(&ScheduleActionForm::new(id, action, None))?,
        false => out.line(format!("{id}: {action}"))?,
    }
    Ok(Exit::Ok)
}

/// Prints the result of an action on a schedule, with its runs.
fn runs(out: &Output, id: &TaskId, action: &str, runs: &[TaskId]) -> Result<Exit, Failure> {
    if out.is_json() {
        out.json(&ScheduleActionForm::new(id, action, Some(runs)))?;
        return Ok(Exit::Ok);
    }
    if runs.is_empty() {
        out.line(format!("{id}: {action}"))?;
    }
    for run in runs {
        out.line(format!("{id}: {action} {run}"))?;
    }
    Ok(Exit::Ok)
}
