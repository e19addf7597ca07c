//! Balancers: whether this node takes a task, and which of its tasks it releases.
//!
//! A balancer is a pure decision over a view of the cluster. It does not wait and does no I/O: the view
//! contains everything that it may know, and is at most a few seconds old. Parked tasks belong to no
//! node, so they are never moved.
//!
//! | balancer | takes | releases |
//! |---|---|---|
//! | [`Greedy`] | every task it has room for (the default) | nothing |
//! | [`Fair`] | no more than its share while others have room | tasks beyond 120 % of the average |
//! | [`Resource`] | nothing above a claim limit of memory or load | one task at a time above a release limit |
//! | [`Slower`] | every task it has room for, later the more claims it has | nothing |
//!
//! A balancer does not decide which of several idle nodes takes a task: the nodes rank themselves
//! ([`rank`]) and the first one tries, so that a free task costs about one claim in the whole
//! cluster.

mod decision;
mod fair;
mod rank;
mod resource;
mod slower;

use std::{collections::BTreeMap, fmt::Debug, time::Duration};

use windlass_statemachine::{
    Kind, NodeName, Task, TaskId, TaskState, state::FIRST_DATA_VERSION, task::Labels,
};

pub use self::{
    decision::Decision,
    fair::Fair,
    rank::rank,
    resource::{Load, Memory, Probe, Resource},
    slower::Slower,
};
use crate::store::{DataVersions, NodeRecord, NodeSpec, TaskView};

/// The requirements of a task for the node that takes it.
///
/// # Example
///
/// ```
/// use windlass::balancer::{Peer, Requirements};
///
/// let (kind, node) = ("poll".parse()?, Peer::new("node-a".parse()?));
/// let mut task = Requirements::of_kind(&kind);
/// assert!(node.fits(task));
/// task.data_version = 2;
/// assert!(!node.fits(task), "it reads version 1");
/// # Ok::<(), windlass::Invalid>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Requirements<'a> {
    /// The kind, for which the node must have a handler.
    pub kind: &'a Kind,
    /// The labels of the task, which must include those that the node selects.
    pub labels: Option<&'a Labels>,
    /// The version of the task's data, which the node must be able to read.
    pub data_version: u32,
}

impl<'a> Requirements<'a> {
    /// Returns the requirements of a task of this kind without labels and without data.
    pub fn of_kind(kind: &'a Kind) -> Self {
        Self {
            kind,
            labels: None,
            data_version: FIRST_DATA_VERSION,
        }
    }

    /// Returns the requirements of a task in this state.
    pub fn new(task: &'a Task, state: &TaskState) -> Self {
        Self {
            kind: &task.kind,
            labels: Some(&task.labels),
            data_version: state.data_version,
        }
    }
}

impl<'a> From<&'a TaskView> for Requirements<'a> {
    fn from(view: &'a TaskView) -> Self {
        Self {
            kind: &view.kind,
            labels: view.labels.as_deref(),
            data_version: view.data_version,
        }
    }
}

/// A node, as a balancer sees it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Peer {
    /// Its name.
    pub name: NodeName,
    /// The kinds for which it has handlers; `None` for every kind.
    pub kinds: Option<Vec<Kind>>,
    /// The data versions that it can read.
    pub data_versions: DataVersions,
    /// Labels that a task must all have for the node to take it. Schedules are exempt.
    pub labels: Labels,
    /// The most handlers that it runs at once.
    pub slots: u32,
    /// The most handlers of one kind that it runs at once, for kinds with their own limit; 0 for a kind of
    /// which it starts no task.
    pub slots_of: BTreeMap<Kind, u32>,
    /// How many claims it holds.
    pub claims: u64,
    /// Whether the node claims tasks: it is neither frozen nor draining.
    pub claiming: bool,
}

impl From<NodeSpec> for Peer {
    /// Returns a node that claims tasks, and has no claim.
    fn from(spec: NodeSpec) -> Self {
        Self {
            claiming: true,
            claims: 0,
            slots: spec.slots,
            slots_of: spec.slots_of,
            labels: spec.labels,
            kinds: spec.kinds,
            data_versions: spec.data_versions,
            name: spec.name,
        }
    }
}

impl From<NodeRecord> for Peer {
    fn from(record: NodeRecord) -> Self {
        Self {
            claiming: !record.status.frozen && !record.status.draining,
            claims: record.claims,
            ..Self::from(record.spec)
        }
    }
}

impl Peer {
    /// Returns a node with this name that claims tasks, has no claim, and has 100 slots for every kind
    /// with data of version 1.
    pub fn new(name: NodeName) -> Self {
        Self {
            name,
            kinds: None,
            data_versions: DataVersions::default(),
            labels: Labels::new(),
            slots: 100,
            slots_of: BTreeMap::new(),
            claims: 0,
            claiming: true,
        }
    }

    /// Returns whether the node claims tasks, and has room for one more.
    pub fn has_room(&self) -> bool {
        self.claiming && self.claims < u64::from(self.slots)
    }

    /// Returns whether the node would start such a task now: it claims tasks, has room, may take the task,
    /// and has slots for the kind.
    pub fn could_take(&self, task: Requirements<'_>) -> bool {
        self.has_room() && self.fits(task) && self.slots_of.get(task.kind) != Some(&0)
    }

    /// Returns whether the node may take such a task.
    pub fn fits(&self, task: Requirements<'_>) -> bool {
        self.kinds
            .as_ref()
            .is_none_or(|kinds| kinds.contains(task.kind))
            && self.data_versions.reads(task.kind, task.data_version)
            && selects(&self.labels, task.kind, task.labels)
    }
}

/// Returns whether a node with this selector takes tasks of the kind with these labels. The selector applies
/// to the tasks that a node runs, and not to the schedules that submit them, nor to bulk operations.
pub(crate) fn selects(selector: &Labels, kind: &Kind, labels: Option<&Labels>) -> bool {
    let has = |(name, value)| labels.and_then(|labels: &Labels| labels.get(name)) == Some(value);
    kind.is_built_in() || selector.iter().all(has)
}

/// The cluster, as this node knows it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Cluster<'a> {
    /// This node, with its present claims.
    pub me: &'a Peer,
    /// The other live nodes.
    pub others: &'a [Peer],
    /// How many tasks the other nodes are about to claim: free tasks that this node leaves to others for
    /// now, and in [`releases`](Balancer::releases) also those that it is releasing.
    pub passed_on: u64,
    /// For how long this node has known the cluster.
    pub known_for: Duration,
}

impl<'a> Cluster<'a> {
    /// Returns the view of a node that has known the cluster for a long time, and has passed on no task.
    pub fn new(me: &'a Peer, others: &'a [Peer]) -> Self {
        Self {
            me,
            others,
            passed_on: 0,
            known_for: Duration::MAX,
        }
    }
}

/// Decides whether this node takes a task, and which of its tasks it releases.
///
/// # Duties of an implementation
///
/// - It must not block: it runs on the runner's own thread.
/// - For the same view it should return much the same result: a balancer that changes its mind makes
///   tasks move back and forth.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use tokio::time::Instant;
/// use windlass::balancer::{Balancer, Cluster, Decision};
/// use windlass::store::TaskView;
///
/// /// Takes large tasks only while it has nothing else to do, and rare tasks ten minutes later than
/// /// other nodes.
/// #[derive(Debug)]
/// struct LargeWhenIdle;
///
/// impl Balancer for LargeWhenIdle {
///     fn takes(&self, cluster: &Cluster<'_>, task: &TaskView) -> Decision {
///         match task.kind.as_str() {
///             "large" if cluster.me.claims > 0 => Decision::NotNow,
///             "rare" => Decision::TakeAfter(Duration::from_secs(600)),
///             _ => Decision::Take,
///         }
///     }
/// }
///
/// /// Takes no task in the first minute of the program.
/// #[derive(Debug)]
/// struct Warming(Instant);
///
/// impl Balancer for Warming {
///     fn takes(&self, _: &Cluster<'_>, _: &TaskView) -> Decision {
///         let end = self.0 + Duration::from_secs(60);
///         match Instant::now() < end {
///             true => Decision::NotBefore(end),
///             false => Decision::Take,
///         }
///     }
/// }
/// ```
pub trait Balancer: Send + Sync + Debug {
    /// Returns whether this node takes the task, and when. The runner asks about a free task when the
    /// node has room for it, and again as the [`Decision`] says, until some node has taken the task.
    fn takes(&self, cluster: &Cluster<'_>, task: &TaskView) -> Decision {
        let _ = (cluster, task);
        Decision::Take
    }

    /// Returns the tasks to release now, of those that run here. Called every few seconds, and when
    /// an operator sends `balance`. `jitter` is a random number from 0 to 1.
    ///
    /// `mine` are the tasks that another node could take, oldest claim first: a node that claims and
    /// has room, with the task's kind and labels. A task that only this node can run would return to
    /// it and start again. While this node knows of no other, `mine` are all tasks that run here.
    ///
    /// Tasks that different nodes could take are passed in one group after the other, until a group
    /// releases a task. `cluster.others` are then the nodes that could take all of `mine`. The claims of
    /// `cluster.me` are then those of tasks that the node is not releasing already.
    fn releases(&self, cluster: &Cluster<'_>, mine: &[TaskId], jitter: f64) -> Vec<TaskId> {
        let _ = (cluster, mine, jitter);
        Vec::new()
    }
}

impl<B: Balancer + ?Sized> Balancer for std::sync::Arc<B> {
    fn takes(&self, cluster: &Cluster<'_>, task: &TaskView) -> Decision {
        (**self).takes(cluster, task)
    }

    fn releases(&self, cluster: &Cluster<'_>, mine: &[TaskId], jitter: f64) -> Vec<TaskId> {
        (**self).releases(cluster, mine, jitter)
    }
}

/// Takes every task that it has room for, and releases none. The default.
#[derive(Debug, Clone, Copy, Default)]
pub struct Greedy;

impl Balancer for Greedy {}

#[cfg(test)]
mod tests;
