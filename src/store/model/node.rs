//! Nodes: their descriptions, their leases, and the commands that are sent to them.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windlass_statemachine::{Invalid, Kind, NodeName, TaskId, task::Labels};

use super::{DataVersions, RemoteWorker, Speaker};

/// The description that a node registers when it joins, and when it changes.
///
/// # Example
///
/// ```
/// use windlass::store::NodeSpec;
///
/// let mut spec = NodeSpec::new("node-a".parse()?);
/// spec.kinds = Some(vec!["poll".parse()?]);
/// spec.data_versions.set("poll".parse()?, 2);
/// assert_eq!(spec.slots, 100);
/// # Ok::<(), windlass::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct NodeSpec {
    /// Its unique name.
    pub name: NodeName,
    /// The kinds for which the node has handlers; `None` when its default handler takes every kind.
    pub kinds: Option<Vec<Kind>>,
    /// The data versions that the node can read: version 1 for each kind that is not listed.
    #[serde(default, skip_serializing_if = "DataVersions::is_default")]
    pub data_versions: DataVersions,
    /// Labels that a task must all have for the node to take it. Schedules are exempt.
    #[serde(default)]
    pub labels: Labels,
    /// The most handlers that run at once.
    pub slots: u32,
    /// The most handlers of one kind that run at once, for kinds with their own limit. With 0 the node
    /// starts no task of the kind. Empty for a node with an earlier version of windlass.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub slots_of: BTreeMap<Kind, u32>,
    /// The process id, for operators.
    pub pid: u32,
    /// The version of windlass.
    pub version: String,
    /// Set for a remote worker: its lease belongs to no process, and servers speak for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<RemoteWorker>,
}

impl NodeSpec {
    /// Returns the description of a node of this process: every kind, data version 1, no labels, 100
    /// slots.
    pub fn new(name: NodeName) -> Self {
        Self {
            name,
            kinds: None,
            data_versions: DataVersions::default(),
            labels: Labels::new(),
            slots: 100,
            slots_of: BTreeMap::new(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            worker: None,
        }
    }
}

impl NodeSpec {
    /// Returns whether the node starts tasks of this kind: it has a handler for the kind, and at least one slot.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::store::NodeSpec;
    ///
    /// let mut spec = NodeSpec::new("node-a".parse()?);
    /// let poll = "poll".parse()?;
    /// assert!(spec.runs(&poll));
    /// spec.slots_of.insert("poll".parse()?, 0);
    /// assert!(!spec.runs(&poll));
    /// # Ok::<(), windlass::Invalid>(())
    /// ```
    pub fn runs(&self, kind: &Kind) -> bool {
        let handles = self.kinds.as_ref().is_none_or(|kinds| kinds.contains(kind));
        handles && self.slots_of.get(kind) != Some(&0)
    }

    /// Checks that the description has the name of the lease's node.
    pub(crate) fn check_name(&self, lease: &Lease) -> Result<(), Invalid> {
        if self.name == lease.node {
            return Ok(());
        }
        let reason = format!(
            "the lease is that of '{}', not of '{}'",
            lease.node, self.name
        );
        Err(Invalid::new("node", reason))
    }
}

/// The status of a node, reported with every renewal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct NodeStatus {
    /// Whether the node is frozen: it claims no tasks and does not balance.
    pub frozen: bool,
    /// Whether the node drains: it releases its tasks and claims none.
    pub draining: bool,
    /// How many handlers run.
    pub running: u32,
    /// The kinds whose own slots are all in use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub full: Vec<Kind>,
    /// The kinds that the node cannot run at present because of a fault of its machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<NodeFault>,
}

/// A kind that a node cannot run at present because of a fault of its machine
/// ([`TaskContext::node_fault`](crate::TaskContext::node_fault)).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct NodeFault {
    /// The kind.
    pub kind: Kind,
    /// What the machine lacks, as last reported by the handler; at most 500 characters.
    pub reason: String,
    /// When the fault was first met, by the clock of the node.
    pub since: Timestamp,
    /// When the node next claims a task of the kind as a trial, by its own clock.
    pub next_try: Timestamp,
}

impl NodeFault {
    /// Returns a fault since a time, with the time of the next try.
    pub fn new(
        kind: Kind,
        reason: impl Into<String>,
        since: Timestamp,
        next_try: Timestamp,
    ) -> Self {
        Self {
            kind,
            reason: reason.into(),
            since,
            next_try,
        }
    }
}

/// A node's lease. Its claims are attached to it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lease {
    /// The store's number for the lease, which is never reused.
    pub id: u64,
    /// The node of the lease.
    pub node: NodeName,
    /// How long after the last renewal the lease ends.
    pub ttl: Duration,
    /// The server that speaks for the remote worker of this lease. A claim compares it with the stored one, in the same
    /// step. `None` for other nodes.
    pub speaker: Option<Speaker>,
}

impl Lease {
    /// Returns the lease of a node.
    pub fn new(id: u64, node: NodeName, ttl: Duration) -> Self {
        let speaker = None;
        Self {
            id,
            node,
            ttl,
            speaker,
        }
    }
}

/// A command that an operator sends to a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "command", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum NodeCommand {
    /// Claim no tasks and do not balance until [`Unfreeze`](Self::Unfreeze).
    Freeze,
    /// Return to normal, after a freeze or a drain.
    Unfreeze,
    /// Balance now.
    Balance,
    /// Freeze, release every task, and keep running.
    Drain,
    /// Release this task.
    StopTask {
        /// The task.
        task: TaskId,
    },
}

/// The number of a command to a node. No two commands of a namespace have the same number, and a later
/// command has a greater one.
///
/// # Example
///
/// ```
/// use windlass::store::NodeCommandId;
///
/// assert_eq!(NodeCommandId(7).to_string(), "7");
/// ```
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct NodeCommandId(pub u64);

impl std::fmt::Display for NodeCommandId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// A command in the queue of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueuedNodeCommand {
    /// Its number.
    pub id: NodeCommandId,
    /// The lease of the node to which it was sent.
    pub lease: u64,
    /// The command.
    pub command: NodeCommand,
}

impl QueuedNodeCommand {
    /// Returns a command with its place in the queue.
    pub fn new(id: NodeCommandId, lease: u64, command: NodeCommand) -> Self {
        Self { id, lease, command }
    }
}

/// A node as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct NodeRecord {
    /// Its description.
    #[serde(flatten)]
    pub spec: NodeSpec,
    /// Its last reported status.
    #[serde(flatten)]
    pub status: NodeStatus,
    /// Its lease.
    pub lease: u64,
    /// When it joined.
    pub joined_at: Timestamp,
    /// How long its lease still holds, in milliseconds.
    pub lease_left_ms: u64,
    /// How many claims it holds.
    pub claims: u64,
}

impl NodeRecord {
    /// Returns a node that has joined at this time, with the default status and no claims.
    pub fn new(spec: NodeSpec, lease: u64, joined_at: Timestamp) -> Self {
        Self {
            spec,
            status: NodeStatus::default(),
            lease,
            joined_at,
            lease_left_ms: 0,
            claims: 0,
        }
    }
}
