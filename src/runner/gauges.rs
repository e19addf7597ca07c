//! Setting the gauges of the namespace.

use std::time::Duration;

use tokio::time::sleep;
use tracing::debug;

use crate::{
    client::Client,
    store::{Error, Store},
    telemetry::{NamespaceGauges, has_recorder},
};

/// The pause before the gauges are set for the first time, at most.
const SOON: Duration = Duration::from_secs(1);

/// Sets the gauges until it is dropped. Asks the store nothing while the program has no recorder.
pub(super) async fn run(store: Store, every: Duration) {
    let client = Client::new(&store);
    let mut gauges = NamespaceGauges::default();
    let mut pause = every.min(SOON);
    loop {
        sleep(pause).await;
        // Nodes that were started together should not ask together.
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
    gauges.set_nodes(&client.nodes().await?);
    // A store without counts would read every task.
    if client.store().registry().keeps_counts() {
        gauges.set_stats(&client.stats().await?);
    }
    Ok(())
}
