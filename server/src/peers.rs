//! [`Peers`]: the servers of a namespace that say where they can be reached.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use windlass::store::{NamedValue, SetValue, Store};

/// The folder of the named values with the servers.
pub(crate) const FOLDER: &str = "server/at/";
/// How often a server says again where it is, and for how long that counts: a server that was killed is named for an hour at
/// most, and its clients try the next one.
const EVERY: Duration = Duration::from_secs(30 * 60);
const VALID: SignedDuration = SignedDuration::from_mins(60);
/// How long a server that stops tries to delete what it has said.
const LEAVE: Duration = Duration::from_secs(2);

/// A server, as it has described itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Peer {
    /// The URLs by which clients reach it, with the base path.
    pub(crate) urls: Vec<String>,
    /// Its version of windlass.
    pub(crate) version: String,
    /// Until when the description counts.
    pub(crate) until: Timestamp,
}

/// Says where this server can be reached, until it stops.
pub(crate) struct Peers {
    store: Store,
    name: String,
    urls: Vec<String>,
}

impl Peers {
    /// Returns what a server with these URLs says.
    pub(crate) fn new(store: &Store, urls: Vec<String>) -> Arc<Self> {
        Arc::new(Self {
            store: store.clone(),
            name: format!("{FOLDER}{}", Uuid::now_v7()),
            urls,
        })
    }

    /// Returns the name of the value of this server.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Says where the server is, again and again, until it stops. Nothing without URLs.
    pub(crate) async fn run(self: Arc<Self>, stop: CancellationToken) {
        if self.urls.is_empty() {
            return;
        }
        loop {
            self.write().await;
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(EVERY) => {}
            }
        }
    }

    /// Deletes what the server has said. The caller waits for it before the process ends.
    pub(crate) async fn leave(&self) {
        if self.urls.is_empty() {
            return;
        }
        let gone = SetValue::delete(&self.name);
        let gone = timeout(LEAVE, self.store.registry().set_value(&gone)).await;
        if !matches!(gone, Ok(Ok(_))) {
            tracing::debug!("the server stays named for a while");
        }
    }

    async fn write(&self) {
        let until = self.store.clock().now().saturating_add(VALID);
        let peer = Peer {
            urls: self.urls.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            until: until.unwrap_or(Timestamp::MAX),
        };
        let text = serde_json::to_string(&peer).unwrap_or_default();
        let value = SetValue::new(&self.name, text);
        if let Err(error) = self.store.registry().set_value(&value).await {
            tracing::warn!(%error, "other servers do not learn where this one is");
        }
    }
}

/// Reads the servers of a namespace, each with the name of its value. Unreadable ones are left out: they are hints.
pub(crate) fn read(values: &[NamedValue]) -> Vec<(String, Peer)> {
    let of_servers = values.iter().filter(|value| value.name.starts_with(FOLDER));
    let read = |value: &NamedValue| {
        let peer = serde_json::from_str(&value.text).ok()?;
        Some((value.name.clone(), peer))
    };
    of_servers.filter_map(read).collect()
}
