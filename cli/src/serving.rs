//! What every command that serves has in common.

use std::{net::SocketAddr, time::Duration};

use tokio::{task::JoinHandle, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use windlass::{Client, Runner, Store};
use windlass_server::{Builder, Listen, Server, Serving, bulk};

use crate::{changed_props::check_props, exit::Failure, global::Global, metrics::Exporter};

/// How long requests may take to end when the server stops.
pub(crate) const GRACE: Duration = Duration::from_secs(10);

/// How long a server waits before it tries again to start its node.
const AGAIN: Duration = Duration::from_secs(10);

/// Returns a server of a store, as every command that serves makes it.
pub(crate) fn builder(global: &Global, client: &Client, exporter: &Exporter) -> Builder {
    let builder = Server::builder(client.store()).check(check_props);
    let builder = builder.metrics(exporter.render());
    match &global.store {
        Some(url) => builder.store_url(url),
        None => builder,
    }
}

/// Refuses addresses that other machines can reach: only `serve` has what makes them safe.
///
/// # Errors
///
/// [`Failure::Usage`] for the first such address.
pub(crate) fn check_beside(addresses: &[SocketAddr]) -> Result<(), Failure> {
    let Some(address) = addresses.iter().find(|one| !one.ip().is_loopback()) else {
        return Ok(());
    };
    Err(Failure::Usage(format!(
        "--serve: address {address} can be reached from other machines, and tokens would be sent in clear; give 127.0.0.1 or \
         [::1], or serve the store by a process of its own, which takes certificates: `windlass serve`"
    )))
}

/// Serves on addresses of this machine, beside the work of another command.
///
/// # Errors
///
/// An address that cannot be used.
pub(crate) async fn beside(
    global: &Global,
    client: &Client,
    (addresses, exporter): (&[SocketAddr], &Exporter),
) -> Result<Serving, Failure> {
    let listens = addresses.iter().copied().map(Listen::Loopback);
    let server = builder(global, client, exporter).build();
    let serving = server.listen(listens).await?;
    for url in serving.urls() {
        info!(url, "listening");
    }
    Ok(serving)
}

/// Ends a server; requests in work may end within the grace.
pub(crate) async fn end(serving: Serving) {
    serving.shutdown(GRACE).await;
}

/// A node without handlers of its own: it runs schedules and bulk operations, so that a server alone carries out what it takes.
pub(crate) struct BuiltIn {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl BuiltIn {
    /// Starts the node, and tries again while it cannot start.
    pub(crate) fn start(client: &Client) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(keep(client.store().clone(), stop.clone()));
        Self { stop, task }
    }

    /// Stops the node: what it works on goes on elsewhere.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        if let Err(error) = self.task.await {
            warn!(%error, "the node of the server has ended");
        }
    }
}

async fn keep(store: Store, stop: CancellationToken) {
    while !stop.is_cancelled() {
        let handler = bulk::Handler::new(&store);
        let node = Runner::builder(&store)
            .slots(1)
            .handler_with(bulk::KIND, bulk::Handler::config(), handler)
            .start();
        let started = tokio::select! {
            started = node => started,
            () = stop.cancelled() => return,
        };
        match started {
            Ok(runner) => {
                let stopped = stop.clone();
                // It joins again by itself when its lease is lost.
                if let Err(error) = runner
                    .run_until_stopped(stopped.cancelled_owned(), futures::stream::pending())
                    .await
                {
                    warn!(%error, "the node for schedules and bulk operations has ended");
                }
            }
            Err(error) => {
                warn!(%error, "could not start the node for schedules and bulk operations; trying again in 10 s");
                tokio::select! {
                    () = sleep(AGAIN) => {}
                    () = stop.cancelled() => {}
                }
            }
        }
    }
}
