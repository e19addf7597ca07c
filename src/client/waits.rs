//! [`WaitReason`]: why a task that could be claimed is not.

use std::fmt;

use jiff::Timestamp;
use windlass_statemachine::{NodeName, TaskState};

use crate::store::{NodeRecord, TaskRecord};

/// Why a task that could be claimed now is not held by a node. Its text says what to do.
///
/// # Example
///
/// ```
/// use windlass::{Client, NewTask, client::WaitReason, store::Store};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
/// let client = Client::new(&Store::open("memory:").await?);
/// let id = client.submit(NewTask::new("report")).await?;
/// let (record, nodes) = (client.get(&id).await?, client.nodes().await?);
/// assert_eq!(WaitReason::of(&record, &nodes, jiff::Timestamp::now()), Some(WaitReason::NoNode));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitReason {
    /// No live node has a handler for its kind.
    NoNode,
    /// Those that have one read only older versions of its data.
    DataVersion {
        /// The version of its data.
        version: u32,
        /// The nodes that have a handler for its kind.
        nodes: Vec<NodeName>,
    },
    /// Those that read its data want other labels.
    Labels(Vec<NodeName>),
    /// Those that may take it are frozen or draining.
    Standing(Vec<NodeName>),
    /// Those that may take it run as many handlers as they have slots for.
    Full(Vec<NodeName>),
    /// The node that has claimed it does not live any more: others go on with it once its lease has
    /// ended.
    Lost(NodeName),
}

impl WaitReason {
    /// Why this task waits, given the live nodes; `None` when it is not its turn (it sleeps, is
    /// paused, has ended), when a live node holds it, or when one with room will claim it.
    pub fn of(record: &TaskRecord, nodes: &[NodeRecord], now: Timestamp) -> Option<Self> {
        let state = record.state.as_ref().ok()?;
        if state.code().is_terminal() {
            return None;
        }
        if let Some(owner) = &record.node {
            let lives = nodes.iter().any(|n| n.spec.name == *owner);
            return (!lives).then(|| Self::Lost(owner.clone()));
        }
        if !state.is_due(now) && record.commands == 0 {
            return None;
        }
        Self::for_room(record, state, nodes).err()
    }

    /// Returns `Ok` when a node may take the task and has room for it.
    fn for_room(record: &TaskRecord, state: &TaskState, nodes: &[NodeRecord]) -> Result<(), Self> {
        let task = &record.task;
        let handles = |n: &NodeRecord| {
            let kinds = n.spec.kinds.as_ref();
            kinds.is_none_or(|kinds| kinds.contains(&task.kind))
        };
        let version = state.data_version;
        let reads = |n: &NodeRecord| n.spec.data_versions.reads(&task.kind, version);
        let older = |nodes| Self::DataVersion { version, nodes };
        let labelled = |n: &NodeRecord| {
            let wanted = &n.spec.labels;
            wanted.iter().all(|(k, v)| task.labels.get(k) == Some(v))
        };
        let works = |n: &NodeRecord| !n.status.frozen && !n.status.draining;
        let has_room = |n: &NodeRecord| n.status.running < n.spec.slots;

        let left = nodes.iter().collect();
        let left = narrowed(left, handles).map_err(|_| Self::NoNode)?;
        let left = narrowed(left, reads).map_err(older)?;
        let left = narrowed(left, labelled).map_err(Self::Labels)?;
        let left = narrowed(left, works).map_err(Self::Standing)?;
        narrowed(left, has_room).map_err(Self::Full)?;
        Ok(())
    }
}

/// Returns the nodes that pass the test; if none does, returns the names of all as an error.
fn narrowed(
    nodes: Vec<&NodeRecord>,
    may: impl Fn(&NodeRecord) -> bool,
) -> Result<Vec<&NodeRecord>, Vec<NodeName>> {
    let left: Vec<_> = nodes.iter().copied().filter(|n| may(n)).collect();
    if left.is_empty() {
        return Err(nodes.iter().map(|n| n.spec.name.clone()).collect());
    }
    Ok(left)
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |nodes: &[NodeName]| {
            let names: Vec<&str> = nodes.iter().map(|n| n.as_str()).collect();
            names.join(", ")
        };
        match self {
            Self::NoNode => f.write_str("no live node handles its kind: start one that does"),
            Self::DataVersion { version, nodes } => {
                let nodes = names(nodes);
                write!(
                    f,
                    "no live node reads data v{version} of its kind: start one that does ({nodes} \
                     read older data)"
                )
            }
            Self::Labels(nodes) => {
                let nodes = names(nodes);
                write!(f, "the nodes of its kind take other labels only: {nodes}")
            }
            Self::Standing(nodes) => {
                let nodes = names(nodes);
                write!(f, "the nodes of its kind are frozen or draining: {nodes}")
            }
            Self::Full(nodes) => {
                let nodes = names(nodes);
                write!(f, "the nodes of its kind have no free slot: {nodes}")
            }
            Self::Lost(node) => {
                write!(
                    f,
                    "its node {node} is lost: others take it when the lease ends"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_statemachine::{Fence, Task, TaskStatus};

    use super::*;
    use crate::store::{NodeSpec, NodeStatus};

    fn node(name: &str) -> NodeRecord {
        let mut spec = NodeSpec::new(name.parse().unwrap());
        spec.kinds = Some(vec!["k".parse().unwrap()]);
        spec.slots = 2;
        NodeRecord {
            spec,
            status: NodeStatus::default(),
            lease: 1,
            joined_at: Timestamp::UNIX_EPOCH,
            lease_left_ms: 1,
            claims: 0,
        }
    }

    fn record() -> TaskRecord {
        let task = crate::NewTask::new("k").id("t").label("team", "a");
        let task: Task = task.build().unwrap().task;
        TaskRecord {
            state: Ok(TaskState::new(Timestamp::UNIX_EPOCH)),
            task,
            order: 1,
            submitted_at: Timestamp::UNIX_EPOCH,
            node: None,
            fence: Fence::default(),
            commands: 0,
        }
    }

    fn why(record: &TaskRecord, nodes: &[NodeRecord]) -> Option<WaitReason> {
        WaitReason::of(record, nodes, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn every_reason_is_returned_and_none_when_there_is_room() {
        let task = record();
        assert_eq!(why(&task, &[]), Some(WaitReason::NoNode));
        let mut other_kind = node("o");
        other_kind.spec.kinds = Some(vec!["other".parse().unwrap()]);
        assert_eq!(why(&task, &[other_kind.clone()]), Some(WaitReason::NoNode));

        let mut other_team = node("b");
        other_team.spec.labels.insert("team".into(), "b".into());
        let named = |name: &str| vec![name.parse().unwrap()];
        let nodes = [other_kind, other_team];
        assert_eq!(why(&task, &nodes), Some(WaitReason::Labels(named("b"))));

        let mut newer = record();
        newer.state.as_mut().unwrap().data_version = 3;
        let mut older = node("v2");
        older.spec.data_versions.set("k".parse().unwrap(), 2);
        let reason = why(&newer, &[older.clone(), nodes[1].clone()]).unwrap();
        assert_eq!(
            reason.to_string(),
            "no live node reads data v3 of its kind: start one that does (v2, b read older data)"
        );
        let mut reads = node("v3");
        reads.spec.data_versions.set("k".parse().unwrap(), 3);
        assert_eq!(why(&newer, &[older, reads]), None);

        let mut frozen = node("f");
        frozen.status.frozen = true;
        let nodes = [nodes[1].clone(), frozen];
        assert_eq!(why(&task, &nodes), Some(WaitReason::Standing(named("f"))));

        let mut full = node("full");
        full.status.running = 2;
        let nodes = [nodes[1].clone(), full];
        assert_eq!(why(&task, &nodes), Some(WaitReason::Full(named("full"))));
        assert_eq!(why(&task, &[nodes[1].clone(), node("free")]), None);
    }

    #[test]
    fn a_runnable_task_from_a_clock_ahead_has_a_reason_and_a_sleeper_has_none() {
        let ahead = Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_hours(1);
        let mut task = record();
        task.state = Ok(TaskState::new(ahead));
        assert_eq!(why(&task, &[]), Some(WaitReason::NoNode));
        assert_eq!(why(&task, &[node("n")]), None, "it is taken at once");
        task.state.as_mut().unwrap().status = TaskStatus::Sleeping { until: ahead };
        assert_eq!(why(&task, &[]), None, "its wake-up is the reason");
    }

    #[test]
    fn a_parked_task_waits_only_when_it_is_commanded() {
        let mut task = record();
        task.state.as_mut().unwrap().status = TaskStatus::Paused;
        assert_eq!(why(&task, &[]), None);
        task.commands = 1;
        assert_eq!(why(&task, &[]), Some(WaitReason::NoNode));
    }

    #[test]
    fn a_dead_owner_is_reported() {
        let mut task = record();
        task.node = Some("n".parse().unwrap());
        assert_eq!(why(&task, &[node("n")]), None);
        let lost = WaitReason::Lost("n".parse().unwrap());
        assert_eq!(why(&task, &[node("m")]), Some(lost));
    }
}
