//! Sets the gauges of the namespace.

use std::time::Duration;

use tokio::time::sleep;
use tracing::debug;
use windlass_statemachine::{Kind, StateKind};

use crate::{
    client::Client,
    store::{Error, Store},
    telemetry::{NamespaceGauges, has_recorder},
};

/// The longest pause before the gauges are set for the first time.
const SOON: Duration = Duration::from_secs(1);
/// A time that no process lives.
pub(super) const NEVER: Duration = Duration::from_secs(100 * 366 * 86_400);

/// Whose gauges of the oldest task are set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Oldest {
    /// Those of every kind.
    All,
    /// Those of the kinds that no live node runs: each node sets those of its own.
    Unclaimed,
}

/// Sets the gauges of the namespace ([`METRICS`](crate::telemetry::METRICS)), `every` so often, until it is dropped: for a
/// process that shows metrics and has no node. Does not query the store while the program has no recorder.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use windlass::{runner, store::Store};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::store::Error> {
/// let store = Store::open("memory:").await?;
/// let gauges = tokio::spawn(runner::namespace_gauges(store, Duration::from_secs(15)));
/// // … serves the metrics …
/// gauges.abort();
/// # Ok(()) }
/// ```
pub async fn namespace_gauges(store: Store, every: Duration) {
    run(store, every, Oldest::All).await;
}

/// Sets the gauges until it is dropped.
pub(super) async fn run(store: Store, every: Duration, oldest: Oldest) {
    let client = Client::new(&store);
    let mut gauges = NamespaceGauges::default();
    if every > NEVER {
        return std::future::pending().await;
    }
    let mut pause = every.min(SOON);
    loop {
        sleep(pause).await;
        // Nodes that were started together should not query at the same time.
        pause = every.mul_f64(0.9 + 0.2 * fastrand::f64());
        if !has_recorder() {
            continue;
        }
        if let Err(error) = set(&client, &mut gauges, oldest).await {
            debug!(%error, "could not set the gauges of the namespace; trying again");
        }
    }
}

async fn set(client: &Client, gauges: &mut NamespaceGauges, oldest: Oldest) -> Result<(), Error> {
    let nodes = client.nodes().await?;
    gauges.set_nodes(nodes.iter().map(|node| {
        let worker = node.spec.worker.as_ref();
        let sdk = worker.map(|worker| worker.sdk.as_str());
        (node.spec.kinds.as_deref(), sdk)
    }));
    // A store without counts would read every task.
    if !client.store().registry().keeps_counts() {
        return Ok(());
    }
    let stats = client.stats().await?;
    gauges.set_tasks(stats.counts.iter().map(|count| {
        let state = count.state.map_or("quarantined", StateKind::as_str);
        ((count.kind.clone(), state), count.tasks)
    }));
    let runs = |kind: &Kind| nodes.iter().any(|node| node.spec.runs(kind));
    let is_ours = |kind: &Kind| oldest == Oldest::All || !runs(kind);
    let others = stats.kinds.iter().filter(|of| is_ours(&of.kind));
    gauges.set_oldest(others.map(|of| {
        let age = of.oldest_due.map(|due| stats.at.duration_since(due));
        (of.kind.clone(), age.unwrap_or_default())
    }));
    let held_back = stats.kinds.iter().flat_map(|of| {
        let held = of.held_back.iter();
        held.map(|held| ((of.kind.clone(), held.reason.kind().as_str()), held.tasks))
    });
    gauges.set_waiting(held_back);
    let available = stats.kinds.iter();
    gauges.set_available(available.map(|of| (of.kind.clone(), of.available)));
    gauges.set_refused_rows(stats.refused_rows.rows);
    Ok(())
}
