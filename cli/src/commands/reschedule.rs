//! `windlass reschedule`: changes tasks that no node has claimed.

use std::time::Duration;

use jiff::Timestamp;
use windlass::{Kind, Limit, store::Reschedule};

use super::steer::after;
use crate::{
    bulk::Report,
    exit::{Exit, Failure},
    global::Global,
    input,
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

    /// Let runnable and sleeping tasks run at this time (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "wait")]
    at: Option<Timestamp>,

    /// Let runnable and sleeping tasks run after this time: 90s, 15m, 1h30m, 7d; 0s for now
    #[arg(long = "in", id = "wait", value_name = "DURATION", value_parser = duration)]
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
    let choice = (args.select)
        .choose(&client, &out, "reschedule", is_live)
        .await?;
    let ids = match choice {
        Choice::Act(ids) => ids,
        Choice::Done(exit) => return Ok(exit),
    };
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
