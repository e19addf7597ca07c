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

/// Sets the gauges until it is dropped. Does not query the store while the program has no recorder.
pub(super) async fn run(store: Store, every: Duration) {
    let client = Client::new(&store);
    let mut gauges = NamespaceGauges::default();
    let mut pause = every.min(SOON);
    loop {
        sleep(pause).await;
        // Nodes that were started together should not query at the same time.
        pause = every.mul_f64(0.9 + 0.2 * fastrand::f64());
        if !has_recorder() {
            continue;
        }
        if let Err(error) = set(&client, &mut gauges).await {
            debug!(%error, "could not set the gauges of the namespace; trying again");
        }
    }
}

async fn set(client: &Client, gauges: &mut NamespaceGauges) -> Result<(), Error> {
    let nodes = client.nodes().await?;
    gauges.set_nodes(nodes.iter().map(|node| node.spec.kinds.as_deref()));
    // A store without counts would read every task.
    if !client.store().registry().keeps_counts() {
        return Ok(());
    }
    let stats = client.stats().await?;
    gauges.set_tasks(stats.counts.iter().map(|count| {
        let state = count.state.map_or("quarantined", StateKind::as_str);
        ((count.kind.clone(), state), count.tasks)
    }));
    // Each node sets the gauge of the oldest task only for the kinds that it runs.
    let runs = |kind: &Kind| nodes.iter().any(|node| node.spec.runs(kind));
    let others = stats.kinds.iter().filter(|of| !runs(&of.kind));
    gauges.set_oldest(others.map(|of| {
        let age = of.oldest_due.map(|due| stats.at.duration_since(due));
        (of.kind.clone(), age.unwrap_or_default())
    }));
    let held_back = stats.kinds.iter().flat_map(|of| {
        let held = of.held_back.iter();
        held.map(|held| ((of.kind.clone(), held.reason.kind().as_str()), held.tasks))
    });
    gauges.set_waiting(held_back);
    Ok(())
}
