//! [`Moment`]: the state of a store at one moment, from which an export is written.

use std::fmt;

use async_trait::async_trait;
use windlass_statemachine::TaskId;

use super::{Error, Exported, NodeRecord, copy::Outside};

/// Reads the tasks of a [`Moment`].
///
/// # Stability
///
/// Unstable, like [`Transfer`](super::Transfer).
#[async_trait]
pub trait PastTasks: Send + Sync {
    /// Exports tasks as they were at the moment, like [`Transfer::export`](super::Transfer::export).
    ///
    /// # Errors
    ///
    /// Per task: those of [`Transfer::export`](super::Transfer::export); an error that names the reason when the state of
    /// the moment can no longer be read.
    async fn export(&self, ids: &[TaskId]) -> Vec<Result<Exported, Error>>;
}

/// The state of a store at one moment ([`Transfer::moment`](super::Transfer::moment)).
#[non_exhaustive]
pub struct Moment {
    /// Every task, in submit order.
    pub ids: Vec<TaskId>,
    /// Up to 1000 operations that were committed, but applied to no task.
    pub outside: Vec<Outside>,
    /// The live nodes.
    pub nodes: Vec<NodeRecord>,
    /// The number of claimed tasks.
    pub claimed: u64,
    tasks: Box<dyn PastTasks>,
}

impl Moment {
    /// Returns a moment without nodes, claims, and operations outside of tasks.
    pub fn new(ids: Vec<TaskId>, tasks: impl PastTasks + 'static) -> Self {
        Self {
            ids,
            outside: Vec::new(),
            nodes: Vec::new(),
            claimed: 0,
            tasks: Box::new(tasks),
        }
    }

    /// Exports tasks as they were at the moment.
    ///
    /// # Errors
    ///
    /// Those of [`PastTasks::export`].
    pub async fn export(&self, ids: &[TaskId]) -> Vec<Result<Exported, Error>> {
        self.tasks.export(ids).await
    }

    /// Replaces the reader of the tasks by one that `make` makes of it.
    #[must_use]
    pub(crate) fn through<T: PastTasks + 'static>(
        mut self,
        make: impl FnOnce(Box<dyn PastTasks>) -> T,
    ) -> Self {
        self.tasks = Box::new(make(self.tasks));
        self
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Moment")
            .field("ids", &self.ids.len())
            .field("claimed", &self.claimed)
            .finish_non_exhaustive()
    }
}
