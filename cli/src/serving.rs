//! What every command that serves has in common.

use std::{net::SocketAddr, time::Duration};

use tracing::info;
use windlass::Client;
use windlass_server::{Builder, Listen, Server, Serving};

use crate::{changed_props::check_props, exit::Failure, metrics::Exporter};

/// How long requests may take to end when the server stops.
pub(crate) const GRACE: Duration = Duration::from_secs(10);

/// Returns a server of a store, as every command that serves makes it.
pub(crate) fn builder(client: &Client, exporter: &Exporter) -> Builder {
    let builder = Server::builder(client.store()).check(check_props);
    builder.metrics(exporter.render())
}

/// Serves on addresses of this machine, beside the work of another command.
///
/// # Errors
///
/// An address that cannot be used.
pub(crate) async fn beside(
    client: &Client,
    (addresses, exporter): (&[SocketAddr], &Exporter),
) -> Result<Serving, Failure> {
    let listens = addresses.iter().copied().map(Listen::Loopback);
    let server = builder(client, exporter).build();
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
