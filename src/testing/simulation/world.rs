//! [`World`]: the store, the time and the planned crash of a simulation.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::time::Instant;
use windlass_statemachine::{Kind, NodeName, TaskId, machine::Input};

use super::Error;
pub(super) use crate::runner::due::Moment;
use crate::{
    clock::Clock,
    handler::MissingState,
    runner::store_answers,
    store::{Commit, Coordinator, Lease, NodeSpec, Store, memory::MemoryStore},
    testing::ManualClock,
};

/// Where a node is lost: the write, and the side of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CrashPoint {
    /// Before this write: the handler repeats its work since the write before.
    Before(u64),
    /// Right after this write: the write is durable, and the node has no answer.
    After(u64),
}

impl std::fmt::Display for CrashPoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Before(n) => write!(f, "before write {n}"),
            Self::After(n) => write!(f, "after write {n}"),
        }
    }
}

pub(super) struct World {
    pub(super) store: Arc<MemoryStore>,
    /// The same store, as clients have it.
    pub(super) whole: Arc<Store>,
    pub(super) clock: Arc<ManualClock>,
    /// The start of virtual time.
    base: Instant,
    nodes: u64,
    /// The number of durable writes.
    pub(super) writes: u64,
    pub(super) limit: u64,
    /// A task that runs again and again without any effect, and the number of those runs.
    pub(super) idle: Option<(TaskId, u32)>,
    /// The kind of a handler that has ended for want of a shared value.
    pub(super) missing: Option<(Kind, MissingState)>,
    crash: Option<CrashPoint>,
    crashed: bool,
}

/// The time of a lease: a century, since the time leaps.
const LEASE: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

impl World {
    pub(super) fn new(start: Timestamp) -> Self {
        let clock = Arc::new(ManualClock::new(start));
        let store = Arc::new(MemoryStore::new(clock.clone()));
        Self {
            whole: Arc::new(Store::from_parts(
                store.clone(),
                store.clone(),
                clock.clone(),
            )),
            store,
            clock,
            base: Instant::now(),
            nodes: 0,
            writes: 0,
            limit: u64::MAX,
            idle: None,
            missing: None,
            crash: None,
            crashed: false,
        }
    }

    pub(super) fn moment(&self) -> Moment {
        let at = self.base.checked_add(self.clock.monotonic());
        Moment {
            clock: self.clock.now(),
            at: at.unwrap_or(self.base),
        }
    }

    pub(super) async fn join(&mut self) -> Result<Lease, Error> {
        self.nodes += 1;
        let spec = NodeSpec::new(NodeName::new(format!("simulated-{}", self.nodes))?);
        Ok(self.store.join(&spec, LEASE).await?)
    }

    pub(super) fn plan(&mut self, crash: CrashPoint) {
        self.crash = Some(crash);
    }

    pub(super) fn is_crashed(&self) -> bool {
        self.crashed
    }

    /// Returns whether there was a crash, and resets it.
    pub(super) fn take_crash(&mut self) -> bool {
        std::mem::take(&mut self.crashed)
    }

    pub(super) fn is_over_limit(&self) -> bool {
        self.writes >= self.limit
    }

    /// Makes one write durable, and returns the input that follows; `None` when the node is lost.
    pub(super) async fn persist(&mut self, commit: Commit) -> Option<Input> {
        if self.crash == Some(CrashPoint::Before(self.writes + 1)) {
            self.crash = None;
            self.crashed = true;
            return None;
        }
        let task: TaskId = commit.claim.task.clone();
        let answers = self.store.commit(vec![commit]).await;
        let answer = answers.into_iter().next().unwrap_or(Ok(()));
        if answer.is_ok() {
            self.writes += 1;
            if self.crash == Some(CrashPoint::After(self.writes)) {
                self.crash = None;
                self.crashed = true;
                return None;
            }
        }
        Some(store_answers::input_of(&task, answer))
    }
}
