//! [`FailuresForm`]: failed tasks in groups.

use jiff::Timestamp;
use serde::Serialize;
use windlass_statemachine::{Kind, NodeName, TaskId};

use crate::client::{Failure, Failures};

/// Failed tasks in groups by the fingerprint of their last error.
///
/// # Example
///
/// ```
/// use windlass::{Client, store::Store, wire::FailuresForm};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::store::Error> {
/// let client = Client::new(&Store::open("memory:").await?);
/// let failures = client.failures(50).await?;
/// assert!(FailuresForm::from(&failures).failures.is_empty());
/// # Ok(()) }
/// ```
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Failures"))]
#[non_exhaustive]
pub struct FailuresForm<'a> {
    /// The groups, those with the most tasks first.
    pub failures: Vec<FailureForm<'a>>,
    /// Whether the groups have every failed task.
    pub is_complete: bool,
}

/// Failed tasks whose last errors have the same fingerprint.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Failure"))]
#[non_exhaustive]
pub struct FailureForm<'a> {
    /// The fingerprint; `null` for tasks whose errors a mask hides, which are one group of each kind.
    pub fingerprint: Option<&'a str>,
    /// The number of tasks.
    pub tasks: u64,
    /// How many tasks there are of each kind, the kind with the most tasks first.
    pub kinds: Vec<FailedKindForm<'a>>,
    /// When the first of them failed.
    pub first: Timestamp,
    /// When the last of them failed.
    pub last: Timestamp,
    /// The task that failed last.
    pub sample: &'a TaskId,
    /// The last error of the sample.
    pub error: Option<&'a str>,
    /// The nodes on which the newest tasks have failed, the last eight of each kind. Empty for a token with a scope.
    pub nodes: Vec<FailedNodeForm<'a>>,
    /// The data versions of the handlers of those tasks.
    pub data_versions: Vec<FailedVersionForm>,
}

/// How many tasks of a kind a group has.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "FailedKind"))]
#[non_exhaustive]
pub struct FailedKindForm<'a> {
    /// The kind.
    pub kind: &'a Kind,
    /// The number of tasks.
    pub tasks: u64,
}

/// How many of the newest tasks of a group have failed on a node.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "FailedNode"))]
#[non_exhaustive]
pub struct FailedNodeForm<'a> {
    /// The node.
    pub node: &'a NodeName,
    /// The number of tasks.
    pub tasks: u64,
}

/// How many of the newest tasks of a group have failed in handlers of a data version.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "FailedVersion"))]
#[non_exhaustive]
pub struct FailedVersionForm {
    /// The data version.
    pub version: u32,
    /// The number of tasks.
    pub tasks: u64,
}

impl<'a> From<&'a Failures> for FailuresForm<'a> {
    fn from(of: &'a Failures) -> Self {
        Self {
            failures: of.groups.iter().map(FailureForm::from).collect(),
            is_complete: of.is_complete,
        }
    }
}

impl<'a> From<&'a Failure> for FailureForm<'a> {
    fn from(of: &'a Failure) -> Self {
        let (kinds, nodes) = (of.kinds.iter(), of.nodes.iter());
        let versions = of.data_versions.iter().copied();
        Self {
            fingerprint: of.fingerprint.as_deref(),
            tasks: of.tasks,
            kinds: kinds
                .map(|(kind, tasks)| FailedKindForm {
                    kind,
                    tasks: *tasks,
                })
                .collect(),
            first: of.first,
            last: of.last,
            sample: &of.sample,
            error: of.error.as_deref(),
            nodes: nodes
                .map(|(node, tasks)| FailedNodeForm {
                    node,
                    tasks: *tasks,
                })
                .collect(),
            data_versions: versions
                .map(|(version, tasks)| FailedVersionForm { version, tasks })
                .collect(),
        }
    }
}
