//! [`Restored`]: a node's note that the etcd was restored to an earlier state.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windlass_statemachine::NodeName;

use crate::store::{Error, Remedy};

/// `/NS/meta/restored`: no node can join while the key exists. Raising the fences deletes it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Restored {
    pub(crate) at: Timestamp,
    pub(crate) node: NodeName,
    /// The greatest revision that a node had seen.
    pub(crate) seen: i64,
    /// The revision that the node found.
    pub(crate) found: i64,
    /// The greatest fence that a claim of the lost history can have.
    pub(crate) fence: u64,
}

/// What to do.
pub(crate) const RAISE: &str = "stop every node, raise the fences, and start the nodes again (docs/operate/operations-etcd.md)";

/// Returns the error for an etcd that was restored to an earlier state.
pub(crate) fn restored(what: impl std::fmt::Display) -> Error {
    Error::StoreGone {
        reason: format!("{what}; {RAISE}"),
        remedy: Some(Remedy::RaiseFences),
    }
}

impl Restored {
    /// Returns a description of what happened, in one line.
    pub(crate) fn what(&self) -> String {
        let Self {
            at,
            node,
            seen,
            found,
            ..
        } = self;
        format!(
            "the etcd was restored to an earlier state: node '{node}' had seen revision {seen}, and found {found} at {at}"
        )
    }
}
