//! What only remote workers have: a machine of their own, and the server that speaks for each.

use serde::{Deserialize, Serialize};

/// What a remote worker says of itself when it registers, beside the description of every node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RemoteWorker {
    /// The machine on which it runs; empty when it has not said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// Its client library with the version, such as `windlass-python 0.1.0`; empty when it has not said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sdk: String,
}

impl RemoteWorker {
    /// Returns a worker on this machine, with this client library.
    pub fn new(host: impl Into<String>, sdk: impl Into<String>) -> Self {
        Self {
            host: host.into(),
            sdk: sdk.into(),
        }
    }
}

/// The server that speaks for a worker: it alone claims tasks for the worker. A server that takes the place of another
/// has a greater `seq`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Speaker {
    /// The name of the server's node; empty before the first.
    pub server: String,
    /// The number of the request of the worker with which the server took its place.
    pub seq: u64,
}

impl Speaker {
    /// Returns a server that has taken its place with the request of this number.
    pub fn new(server: impl Into<String>, seq: u64) -> Self {
        Self {
            server: server.into(),
            seq,
        }
    }
}
