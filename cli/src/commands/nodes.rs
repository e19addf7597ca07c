//! `windlass nodes`: the live nodes.

use std::time::Duration;

use jiff::Timestamp;
use windlass::store::{NodeRecord, examine::seconds_ahead};

use crate::{
    exit::{Exit, Failure},
    global::Global,
    remedy::with_command,
    text::one_line,
    view::{age, human, text},
};

/// No options of its own.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  windlass nodes
  windlass nodes -o json | jq -r '.[].name'
  windlass nodes -o json | jq '.[] | select(.faults) | {name, faults}'

A node that cannot run a kind for a fault of its machine (a full disk, no memory) is 'faulty': a line
below the table says which kind, why, for how long, and when the node tries again.")]
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
    if let Some(why) = client.store().registry().no_node_may_join().await? {
        let why = with_command(&why.to_string(), why.remedy());
        out.note(format!("no node may join: {why}"));
    } else if nodes.is_empty() {
        out.note(
            "no node lives; `windlass worker` starts one. One that runs and cannot write to the store is not listed: \
             `windlass doctor` says whether the store takes writes",
        );
    }
    let now = client.store().clock().now();
    let rows = nodes.iter().map(|n| {
        let kinds = n.spec.kinds.as_ref().map(|kinds| {
            let kinds = kinds.iter().map(|kind| match n.spec.slots_of.get(kind) {
                Some(0) => format!("{kind} (no slots)"),
                _ => kind.to_string(),
            });
            kinds.collect::<Vec<_>>().join(", ")
        });
        vec![
            text(&n.spec.name),
            text(mode(n)),
            text(kinds.unwrap_or_else(|| "every kind".into())),
            text(format!("{}/{}", n.status.running, n.spec.slots)),
            text(n.claims),
            text(n.spec.pid),
            text(
                n.spec
                    .worker
                    .as_ref()
                    .map_or("-", |worker| known(&worker.sdk)),
            ),
            text(
                n.spec
                    .worker
                    .as_ref()
                    .map_or("-", |worker| known(&worker.host)),
            ),
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
        "SDK",
        "HOST",
        "UP",
        "LEASE LEFT",
    ];
    let less = ["PID", "HOST", "LEASE LEFT", "SDK", "UP", "KINDS", "CLAIMS"];
    out.narrow_table(&header, &less, rows.collect())?;
    for node in &nodes {
        if let Some(ahead) = seconds_ahead(node.joined_at, now) {
            let (name, ahead) = (
                &node.spec.name,
                human(Duration::from_secs(ahead.unsigned_abs())),
            );
            out.line(format!(
                "{name} joined {ahead} in the future of this clock: compare the clock of its machine with this one's, set the \
                 wrong one right, and start its nodes again"
            ))?;
        }
    }
    for fault in nodes.iter().flat_map(|node| faults(node, now)) {
        out.line(fault)?;
    }
    Ok(Exit::Ok)
}

/// Returns whether a node works, in a word.
pub(crate) fn mode(node: &NodeRecord) -> &'static str {
    match (node.status.draining, node.status.frozen) {
        (true, _) => "draining",
        (_, true) => "frozen",
        _ if !node.status.faults.is_empty() => "faulty",
        _ => "working",
    }
}

/// Returns what a remote worker has said of itself, or `-` when it has said nothing.
fn known(said: &str) -> &str {
    match said {
        "" => "-",
        said => said,
    }
}

/// Returns the kinds that a node cannot run, one line each.
fn faults(node: &NodeRecord, now: Timestamp) -> impl Iterator<Item = String> {
    node.status.faults.iter().map(move |fault| {
        let next = match fault.next_try.duration_since(now) {
            left if left.is_positive() => format!("in {}", human(left.unsigned_abs())),
            _ => "now".to_owned(),
        };
        format!(
            "{} cannot run {}: {}; for {}, tries again {next}",
            node.spec.name,
            fault.kind,
            one_line(&fault.reason),
            age(fault.since, now),
        )
    })
}
