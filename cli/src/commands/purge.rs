//! `windlass purge`: deletes tasks that ended long ago.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use windlass::{
    Client, StateKind,
    store::{Filter, Purge},
};

use crate::{
    exit::{Exit, Failure},
    global::Global,
    output::Output,
    parse::duration,
    select::{ask, can_ask, count, unasked},
    view,
};

/// Which tasks to delete.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  windlass purge --older-than 7d --dry-run
  windlass purge --older-than 30d --state completed --yes")]
pub(crate) struct Args {
    /// Only tasks that ended longer ago than this: 12h, 7d
    #[arg(long, value_name = "DURATION", value_parser = duration, allow_hyphen_values = true)]
    older_than: Duration,

    /// Only tasks that ended in this state (completed, failed, killed); separate several states
    /// with commas
    #[arg(long = "state", value_name = "STATE", value_delimiter = ',', value_parser = ended)]
    states: Vec<StateKind>,

    /// Show the matching tasks, and change none
    #[arg(long)]
    dry_run: bool,

    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

fn ended(text: &str) -> Result<StateKind, String> {
    match text.parse::<StateKind>() {
        Ok(code) if code.is_terminal() => Ok(code),
        _ => Err(format!("'{text}' is not one of completed, failed, killed")),
    }
}

/// How many tasks one step deletes. A store on etcd reads all ended tasks for each step.
const STEP: u32 = 10_000;

/// The result of a purge.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Purged {
    /// `purge`.
    action: &'static str,
    /// The number of tasks.
    purged: u64,
}

/// Deletes them.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let client = global.existing().await?;
    let out = global.out();
    let now = client.store().clock().now();
    let before = SignedDuration::try_from(args.older_than)
        .ok()
        .and_then(|age| now.checked_sub(age).ok())
        .unwrap_or(Timestamp::MIN);
    let all = vec![StateKind::Completed, StateKind::Failed, StateKind::Killed];
    let states = if args.states.is_empty() {
        all
    } else {
        args.states
    };
    let filter = Filter::new().states(states.clone());

    // With --yes there is no confirmation, which would need the count.
    let selected = if args.dry_run || !args.yes {
        select(&client, &out, &filter, before, args.dry_run).await?
    } else {
        0
    };
    if args.dry_run {
        out.note(format!(
            "purge: {} selected; nothing was changed (dry run)",
            count(selected)
        ));
        return Ok(Exit::Ok);
    }
    if !args.yes && selected == 0 {
        out.note("purge: no task matches");
        return Ok(Exit::Ok);
    }
    if !args.yes && !can_ask() {
        return Err(unasked("purge", &count(selected)));
    }
    if !args.yes && !ask(&format!("purge {}?", count(selected)))? {
        out.note("nothing was changed");
        return Ok(Exit::No);
    }
    let bar = out.progress(selected as u64, "purge");
    let mut purged = 0;
    loop {
        let purge = Purge::new(states.clone(), before).limit(STEP);
        let purge = purge.by(client.author().clone());
        let step = client.store().registry().purge(&purge).await?;
        purged += step;
        bar.inc(step);
        if step < u64::from(STEP) {
            break;
        }
    }
    bar.finish_and_clear();
    if out.is_json() {
        out.json(&Purged {
            action: "purge",
            purged,
        })?;
    } else {
        out.line(format!(
            "{}: purged",
            count(usize::try_from(purged).unwrap_or(usize::MAX))
        ))?;
    }
    Ok(Exit::Ok)
}

/// Counts the matching tasks, and shows them on request.
async fn select(
    client: &Client,
    out: &Output,
    filter: &Filter,
    before: Timestamp,
    show: bool,
) -> Result<usize, Failure> {
    let mut selected = 0;
    let mut pages = client.every(filter);
    while let Some(mut records) = pages.next().await? {
        records.retain(|r| r.state.as_ref().is_ok_and(|s| s.since < before));
        selected += records.len();
        if show {
            view::records(client, out, &records).await?;
        }
    }
    Ok(selected)
}
