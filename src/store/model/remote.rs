//! What only remote workers have: a machine and handlers of their own, and the server that speaks for each.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use windlass_statemachine::Kind;

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
    /// Its handlers, by their kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub handlers: BTreeMap<Kind, RemoteHandler>,
}

/// A handler of a remote worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RemoteHandler {
    /// How long it may take to return after a stop, in milliseconds.
    pub grace_ms: u64,
    /// Whether it takes signals.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub signals: bool,
}

impl RemoteHandler {
    /// Returns a handler with this grace, in milliseconds, that takes no signals.
    pub fn new(grace_ms: u64) -> Self {
        let signals = false;
        Self { grace_ms, signals }
    }
}

impl RemoteWorker {
    /// Returns a worker on this machine, with this client library.
    pub fn new(host: impl Into<String>, sdk: impl Into<String>) -> Self {
        Self {
            host: host.into(),
            sdk: sdk.into(),
            handlers: BTreeMap::new(),
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
