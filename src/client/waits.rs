//! [`WaitReason`]: why no node runs a task that could be claimed.

mod text;

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use windlass_statemachine::{
    AwaitedSignal, Bound, Kind, Limit, NodeName, TaskId, TaskState, TaskStatus, task::Labels,
};

use super::Client;
use crate::{
    balancer::selects,
    store::{
        Error, LimitUse, LimitedBy, NodeRecord, TaskRecord, WaitKind, copy::Copied,
        rules::limits::Pool,
    },
};

/// A node with room claims a due task within this time.
pub(super) const CLAIMED_WITHIN: SignedDuration = SignedDuration::from_secs(1);

impl Client {
    /// Returns the limits that tasks use at present, by key: how many claims have a slot, how many tasks wait
    /// for one, and when the next slot of a limit on starts is free.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Client, Limit, NewTask, store::Store};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// client.submit(NewTask::new("call").limit(Limit::at_once("api", 3)?)).await?;
    /// // No node has claimed the task: it has no slot, and waits for none.
    /// assert!(client.limits_in_use().await?.is_empty());
    /// # Ok(()) }
    /// ```
    pub async fn limits_in_use(&self) -> Result<Vec<LimitUse>, Error> {
        self.store.registry().limits_in_use().await
    }
}

/// Why no node has claimed a task that could be claimed now. Its text says what to do.
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
    /// No live node has a handler for the kind.
    NoNode,
    /// The nodes with a handler read only older versions of the task's data.
    DataVersion {
        /// The version of the task's data.
        version: u32,
        /// The nodes that have a handler for the kind.
        nodes: Vec<NodeName>,
    },
    /// The nodes that can read the data take only tasks with other labels.
    Labels(Vec<Selector>),
    /// The nodes that could take the task are frozen or draining.
    NotClaiming(Vec<NodeName>),
    /// The nodes that could take the task cannot run its kind at present, because of a fault of
    /// their machines.
    Fault {
        /// The nodes.
        nodes: Vec<NodeName>,
        /// What the machine of the first node lacks.
        reason: String,
    },
    /// The nodes that could take the task have no free slot.
    Full(Vec<NodeName>),
    /// The task waits for these tasks; empty for a group of tasks ([`HeldBack`](super::HeldBack)).
    Tasks(Vec<TaskId>),
    /// The task waits for this signal, which its handler has declared; `None` for a group of tasks
    /// ([`HeldBack`](super::HeldBack)).
    Signal(Option<Box<AwaitedSignal>>),
    /// A limit that the task shares with other tasks is full. [`LimitedBy::full`] names the nodes without a free slot, if
    /// these hold the task back too.
    Limit(LimitedBy),
    /// The node that has claimed the task no longer renews its lease: other nodes continue the task once the lease has
    /// ended.
    Lost(NodeName),
    /// The store has the mark of a copy: the task runs in the other store.
    Copied(Copied),
}

/// The labels that a node selects ([`Builder::select`](crate::runner::Builder::select)): the node takes only tasks that
/// have all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Selector {
    /// The node.
    pub node: NodeName,
    /// The labels.
    pub labels: Labels,
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels = self.labels.iter();
        let labels: Vec<_> = labels.map(|(n, v)| format!("{n}={v}")).collect();
        write!(f, "{} takes {}", self.node, labels.join(","))
    }
}

impl WaitReason {
    /// Returns why no node runs this task, given the live nodes. `None` when the task is not due
    /// (it sleeps until a time, is paused without a signal to wait for, has ended), when a live node has claimed it and runs
    /// it, or when a node with room will claim it.
    ///
    /// Reads no other task: a task whose awaited tasks have ended, and which no node has claimed since, still waits for
    /// them. [`Client::wait_reasons`] looks them up.
    pub fn of(record: &TaskRecord, nodes: &[NodeRecord], now: Timestamp) -> Option<Self> {
        Self::given_dependencies(record, nodes, now, false)
    }

    /// Returns the reason like [`of`](Self::of), given whether all tasks that it waits for have
    /// ended.
    pub(super) fn given_dependencies(
        record: &TaskRecord,
        nodes: &[NodeRecord],
        now: Timestamp,
        is_over: bool,
    ) -> Option<Self> {
        let state = record.state.as_ref().ok()?;
        if state.code().is_terminal() {
            return None;
        }
        if let Some(owner) = &record.node {
            let lives = nodes.iter().any(|n| n.spec.name == *owner);
            let signal = state.awaits_signal().map(Self::awaits);
            return if lives {
                signal
            } else {
                Some(Self::Lost(owner.clone()))
            };
        }
        // Signals that a handler has kept wait in the queue too, and wake nothing.
        let has_kept = state.kept_signals > 0 && state.awaits_signal().is_some();
        if !is_over && !state.is_due(now) && (record.commands == 0 || has_kept) {
            if let Some(signal) = state.awaits_signal() {
                return Some(Self::awaits(signal));
            }
            let waits = state.waits.as_deref().filter(|_| state.is_waiting());
            return waits.map(|waits| Self::Tasks(waits.tasks.clone()));
        }
        let limit = record.limited_by.clone();
        let due = if is_over {
            state.since
        } else {
            due_since(state)
        };
        let overdue = now.duration_since(due) >= CLAIMED_WITHIN;
        let wanted = Wanted {
            kind: &record.task.kind,
            version: state.data_version,
            labels: Some(&record.task.labels),
            overdue,
        };
        match Self::for_room(wanted, nodes) {
            // A free slot of the node alone would not help.
            Err(Self::Full(full)) => Some(match limit {
                Some(limit) => Self::Limit(LimitedBy { full, ..limit }),
                None => Self::Full(full),
            }),
            Err(other) => Some(other),
            Ok(()) => limit.map(Self::Limit),
        }
    }

    /// Returns the reason of a task with these limits, given the limits in use. While the nodes have no free slot, no node
    /// tries to claim the task, so no limit is recorded that holds it back.
    pub(super) fn with_limits(self, limits: &[Limit], uses: &[LimitUse]) -> Self {
        let Self::Full(nodes) = self else {
            return self;
        };
        let held = limits.iter().find_map(|limit| {
            let pool = Pool::of(limit);
            let same = |of: &&LimitUse| of.key == pool.key && of.within == pool.within;
            let of = uses.iter().find(same)?;
            let (Bound::AtOnce(most) | Bound::Starts { most, .. }) = limit.bound();
            (of.taken >= most).then(|| LimitedBy {
                until: of.next,
                ..LimitedBy::new(limit.clone())
            })
        });
        match held {
            Some(limit) => Self::Limit(LimitedBy {
                full: nodes,
                ..limit
            }),
            None => Self::Full(nodes),
        }
    }

    fn awaits(signal: &AwaitedSignal) -> Self {
        Self::Signal(Some(Box::new(signal.clone())))
    }

    /// Returns whether a task with this reason could be claimed once something changes about the nodes.
    pub(super) fn is_of_nodes(&self) -> bool {
        !matches!(
            self,
            Self::Tasks(_) | Self::Signal(_) | Self::Lost(_) | Self::Copied(_)
        )
    }

    /// Returns the reason without its details.
    pub fn kind(&self) -> WaitKind {
        match self {
            Self::NoNode => WaitKind::NoNode,
            Self::DataVersion { .. } => WaitKind::DataVersion,
            Self::Labels(_) => WaitKind::Labels,
            Self::NotClaiming(_) => WaitKind::NotClaiming,
            Self::Fault { .. } => WaitKind::Fault,
            Self::Full(_) => WaitKind::Full,
            Self::Tasks(_) => WaitKind::Tasks,
            Self::Signal(_) => WaitKind::Signal,
            Self::Limit(_) => WaitKind::Limit,
            Self::Lost(_) => WaitKind::Lost,
            Self::Copied(_) => WaitKind::Copied,
        }
    }

    /// Returns `Ok` when a node may take such a task and has room for it. `overdue`: a node with room would have
    /// claimed the task by now.
    pub(super) fn for_room(wanted: Wanted<'_>, nodes: &[NodeRecord]) -> Result<(), Self> {
        let Wanted {
            kind,
            version,
            labels,
            overdue,
        } = wanted;
        let handles = |n: &NodeRecord| n.spec.runs(kind);
        let reads = |n: &NodeRecord| n.spec.data_versions.reads(kind, version);
        let older = |nodes| Self::DataVersion { version, nodes };
        let labelled = |n: &NodeRecord| {
            labels.is_none_or(|labels| selects(&n.spec.labels, kind, Some(labels)))
        };
        let works = |n: &NodeRecord| !n.status.frozen && !n.status.draining;
        let fault_of = |n: &NodeRecord| {
            let mut faults = n.status.faults.iter();
            let fault = faults.find(|fault| fault.kind == *kind);
            fault.map(|fault| fault.reason.clone())
        };
        let faulty = |reason| move |nodes| Self::Fault { nodes, reason };
        // Schedules and bulk operations need no slot.
        let has_room = |n: &NodeRecord| {
            // A node reports its running tasks only when it renews its lease. A task that has ended since then is no
            // longer among its claims, which the store counts at once. Claims that sleep need no slot.
            let taken = match overdue {
                true => n.claims,
                false => n.claims.min(n.status.running.into()),
            };
            kind.is_built_in() || (taken < n.spec.slots.into() && !n.status.full.contains(kind))
        };

        let left = nodes.iter().collect();
        let left = narrowed(left, handles).map_err(|_| Self::NoNode)?;
        let left = narrowed(left, reads).map_err(older)?;
        let left = match narrowed(left.clone(), labelled) {
            Ok(left) => left,
            Err(_) => return Err(Self::Labels(left.into_iter().map(selector).collect())),
        };
        let left = narrowed(left, works).map_err(Self::NotClaiming)?;
        let reason = left.iter().find_map(|n| fault_of(n)).unwrap_or_default();
        let left = narrowed(left, |n| fault_of(n).is_none()).map_err(faulty(reason))?;
        narrowed(left, has_room).map_err(Self::Full)?;
        Ok(())
    }
}

/// A task that a node could claim, or a group of such tasks.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) kind: &'a Kind,
    /// The version of its data.
    pub(super) version: u32,
    /// The labels; `None` for a group, whose tasks may have different ones.
    pub(super) labels: Option<&'a Labels>,
    pub(super) overdue: bool,
}

impl Wanted<'_> {
    /// Returns whether it depends on its labels whether a task of the group has a node with room: a node that can read the
    /// data selects labels, and none that selects no labels has room.
    pub(super) fn depends_on_labels(&self, nodes: &[NodeRecord]) -> bool {
        let reads = |n: &&NodeRecord| {
            n.spec.runs(self.kind) && n.spec.data_versions.reads(self.kind, self.version)
        };
        let takes_all = |n: &&NodeRecord| selects(&n.spec.labels, self.kind, None);
        let (open, selective): (Vec<_>, Vec<_>) = nodes.iter().filter(reads).partition(takes_all);
        let open: Vec<NodeRecord> = open.into_iter().cloned().collect();
        !selective.is_empty() && WaitReason::for_room(*self, &open).is_err()
    }

    /// Returns the group of a task: every task of its kind with data of this version, whatever its labels are.
    pub(super) fn of_group<'a>(
        record: &'a TaskRecord,
        state: &TaskState,
        now: Timestamp,
    ) -> Wanted<'a> {
        Wanted {
            kind: &record.task.kind,
            version: state.data_version,
            labels: None,
            overdue: now.duration_since(due_since(state)) >= CLAIMED_WITHIN,
        }
    }
}

/// Returns since when a node may claim a task.
fn due_since(state: &TaskState) -> Timestamp {
    match state.status {
        TaskStatus::Sleeping { until } => until.max(state.since),
        _ => state.since,
    }
}

fn selector(node: &NodeRecord) -> Selector {
    Selector {
        node: node.spec.name.clone(),
        labels: node.spec.labels.clone(),
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

#[cfg(test)]
mod tests;
