//! `windlass nodes`: the live nodes.

use std::time::Duration;

use crate::{
    exit::{Exit, Failure},
    global::Global,
    view::{age, human, text},
};

/// No options of its own.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  windlass nodes
  windlass nodes -o json | jq -r '.[].name'")]
pub(crate) struct Args {}

/// Lists them.
pub(crate) async fn execute(_: Args, global: &Global) -> Result<Exit, Failure> {
    let client = global.reading().await?;
    let out = global.out();
    let nodes = client.nodes().await?;
    if out.is_json() {
        out.json(&nodes)?;
        return Ok(Exit::Ok);
    }
    if nodes.is_empty() {
        out.note("no node lives; `windlass worker` starts one");
    }
    let now = client.store().clock().now();
    let rows = nodes.iter().map(|n| {
        let kinds = n.spec.kinds.as_ref().map(|kinds| {
            let kinds: Vec<&str> = kinds.iter().map(|k| k.as_str()).collect();
            kinds.join(", ")
        });
        let mode = match (n.status.draining, n.status.frozen) {
            (true, _) => "draining",
            (_, true) => "frozen",
            _ => "working",
        };
        vec![
            text(&n.spec.name),
            text(mode),
            text(kinds.unwrap_or_else(|| "every kind".into())),
            text(format!("{}/{}", n.status.running, n.spec.slots)),
            text(n.claims),
            text(n.spec.pid),
            text(age(n.joined_at, now)),
            text(human(Duration::from_millis(n.lease_left_ms))),
        ]
    });
    let header = [
        "NODE",
        "MODE",
        "KINDS",
        "RUNNING",
        "CLAIMS",
        "PID",
        "UP",
        "LEASE LEFT",
    ];
    let less = ["PID", "LEASE LEFT", "UP", "KINDS", "CLAIMS"];
    out.narrow_table(&header, &less, rows.collect())?;
    Ok(Exit::Ok)
}
