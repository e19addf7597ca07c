//! The registrations of live nodes.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windlass_statemachine::NodeName;

use super::{json::parse, keys::Keys, kv::KeyValue};
use crate::store::{NodeRecord, NodeSpec, NodeStatus};

/// `/NS/nodes/NAME/_metafora`, on the node's lease.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Registration {
    #[serde(flatten)]
    pub(crate) spec: NodeSpec,
    #[serde(flatten)]
    pub(crate) status: NodeStatus,
    pub(crate) joined_at: Timestamp,
    /// The further leases to which claims of this node are attached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) leases: Vec<i64>,
    /// Set for a remote worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) remote: Option<Remote>,
}

/// What is kept of a remote worker. The server that speaks for it is in a key of its own, which claims compare: its
/// revision changes only with the server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Remote {
    /// The hash of its secret.
    pub(crate) secret: String,
    pub(crate) ttl: Duration,
}

impl Registration {
    /// Returns the registration of a node that joins now.
    pub(crate) fn new(spec: NodeSpec, joined_at: Timestamp) -> Self {
        Self {
            spec,
            status: NodeStatus::default(),
            joined_at,
            leases: Vec::new(),
            remote: None,
        }
    }
}

/// The version of a node that reports none.
pub(crate) const METAFORA: &str = "metafora";

/// A registration, with the lease to which its key is attached.
pub(crate) type Reported = (i64, Registration);

/// Splits a key below `/NS/nodes/` into the name of its node and the rest.
pub(crate) fn split<'a>(keys: &Keys, key: &'a [u8]) -> Option<(NodeName, &'a str)> {
    let (name, rest) = keys.strip(key, "nodes/")?.split_once('/')?;
    Some((NodeName::new(name).ok()?, rest))
}

/// Reads a registration; `None` for another key.
pub(crate) fn read(keys: &Keys, kv: &KeyValue) -> Option<(NodeName, Reported)> {
    let (name, rest) = split(keys, kv.key())?;
    if rest != "_metafora" {
        return None;
    }
    // A node of Metafora registers without a record.
    let reported: Registration = parse(kv).unwrap_or_else(|_| {
        let spec = NodeSpec {
            slots: 0,
            pid: 0,
            version: METAFORA.to_owned(),
            ..NodeSpec::new(name.clone())
        };
        Registration::new(spec, Timestamp::UNIX_EPOCH)
    });
    Some((name, (kv.lease(), reported)))
}

/// Returns the record of a node for clients.
pub(crate) fn record(
    lease: i64,
    reported: Registration,
    lease_left_ms: u64,
    claims: u64,
) -> NodeRecord {
    NodeRecord {
        spec: reported.spec,
        status: reported.status,
        lease: u64::try_from(lease).unwrap_or(0),
        joined_at: reported.joined_at,
        lease_left_ms,
        claims,
    }
}
