//! `windlass stats`: counts tasks by kind and state, and shows the limits in use.

use jiff::Timestamp;
use serde::Serialize;
use windlass::{
    Bound,
    store::{LimitUse, TaskCount},
};

use crate::{
    exit::{Exit, Failure},
    global::Global,
    output::Output,
    view::{color, due, human, text},
};

/// No options of its own.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  windlass stats
  windlass stats -o json | jq '.counts[] | select(.state == \"failed\")'")]
pub(crate) struct Args {}

/// How many tasks there are, and which limits they use.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Stats<'a> {
    /// The number of tasks.
    tasks: u64,
    /// How many of them are claimed.
    claimed: u64,
    /// The numbers by kind and state.
    counts: &'a [TaskCount],
    /// The limits that tasks use at present.
    limits: &'a [LimitUse],
}

/// Prints the counts.
pub(crate) async fn execute(_: Args, global: &Global) -> Result<Exit, Failure> {
    let client = global.reading().await?;
    let out = global.out();
    let mut counts = client.counts().await?;
    counts.sort_by(|a, b| (&a.kind, a.state).cmp(&(&b.kind, b.state)));
    let limits = client.limits_in_use().await?;
    let tasks: u64 = counts.iter().map(|c| c.tasks).sum();
    let claimed: u64 = counts.iter().map(|c| c.claimed).sum();
    if out.is_json() {
        out.json(&Stats {
            tasks,
            claimed,
            counts: &counts,
            limits: &limits,
        })?;
        return Ok(Exit::Ok);
    }
    let mut rows: Vec<_> = counts
        .iter()
        .map(|c| {
            let state = match c.state {
                Some(code) => text(code).fg(color(code)),
                None => text("quarantined").fg(comfy_table::Color::Red),
            };
            vec![text(&c.kind), state, text(c.tasks), text(c.claimed)]
        })
        .collect();
    if rows.is_empty() {
        out.note("there are no tasks");
    } else {
        rows.push(vec![text("all"), text(""), text(tasks), text(claimed)]);
    }
    out.narrow_table(&["KIND", "STATE", "TASKS", "CLAIMED"], &["CLAIMED"], rows)?;
    if !limits.is_empty() {
        out.line("")?;
        show_limits(&out, &limits, client.store().clock().now())?;
    }
    Ok(Exit::Ok)
}

fn show_limits(out: &Output, limits: &[LimitUse], now: Timestamp) -> Result<(), Failure> {
    let rows = limits.iter().map(|limit| {
        let allows = match limit.limit.as_ref().map(|limit| limit.bound()) {
            Some(Bound::AtOnce(most)) => format!("{most} at once"),
            Some(Bound::Starts { most, within }) => format!("{most} in {}", human(within)),
            None => "unknown".to_owned(),
        };
        let next = limit.next.map_or_else(String::new, |next| due(next, now));
        vec![
            text(&limit.key),
            text(allows),
            text(limit.taken),
            text(limit.waiting),
            text(next),
        ]
    });
    let header = ["LIMIT", "ALLOWS", "TAKEN", "WAITING", "NEXT"];
    out.narrow_table(&header, &["NEXT", "ALLOWS"], rows.collect())
}
