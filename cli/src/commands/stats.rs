//! `windlass stats`: counts tasks by kind and state.

use serde_json::json;

use crate::{
    exit::{Exit, Failure},
    global::Global,
    view::{color, text},
};

/// No options of its own.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  windlass stats
  windlass stats -o json | jq '.counts[] | select(.state == \"failed\")'")]
pub(crate) struct Args {}

/// Prints the counts.
pub(crate) async fn execute(_: Args, global: &Global) -> Result<Exit, Failure> {
    let client = global.reading().await?;
    let out = global.out();
    let mut counts = client.counts().await?;
    counts.sort_by(|a, b| (&a.kind, a.state).cmp(&(&b.kind, b.state)));
    let tasks: u64 = counts.iter().map(|c| c.tasks).sum();
    let claimed: u64 = counts.iter().map(|c| c.claimed).sum();
    if out.is_json() {
        out.json(&json!({ "tasks": tasks, "claimed": claimed, "counts": counts }))?;
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
    Ok(Exit::Ok)
}
