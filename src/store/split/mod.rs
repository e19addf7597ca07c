//! [`Split`]: a coordinator with a custom store for states.

mod coordinator;
mod doctor;
mod held;
mod merge;
mod registry;
mod transfer;

use std::{fmt, sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt};
use merge::is_fresh;
use tokio::time::timeout;
use tracing::warn;
use windlass_statemachine::{TaskId, TaskState, TaskStatus};

use super::{
    ChangeKind, ChangeStream, Coordinator, Error, Registry, StateRemoval, StateStore, TaskRecord,
};
use crate::clock::{Clock, SystemClock};

/// How long to wait for the history to report deleted tasks.
const PATIENCE: Duration = Duration::from_secs(5);

/// A coordinator and its registry, with the data and the results of tasks in a custom [`StateStore`].
/// The coordinator keeps the rest: the owner of a task, its due time, its commands and its history.
///
/// # Flow
///
/// A commit first writes the whole state to the state store, which compares fences. Then the
/// coordinator gets the same state without data and result. A claim works in the opposite direction:
/// the coordinator assigns the new fence; then the state is loaded, merged and stored with that
/// fence, so that earlier owners can no longer write; then the claim is handed out.
///
/// # Guarantees
///
/// - **Fenced writes** hold without a common transaction. Once the next owner has its claim, the state
///   store refuses the writes of the previous owner, which then change nothing in the coordinator.
/// - **A crash between the two writes loses nothing.** The state store is then ahead. The next claim
///   brings the coordinator up to date, with the outcomes of the applied commands (none is applied
///   twice) and a path of the transition table in the history.
/// - **A state left over from an earlier task with the same id is never read.** The first claim of a
///   task replaces it.
/// - **A lost attempt counts**, even when later claims are lost too: the next claim that is handed out
///   reports it.
///
/// # Why a late write does no harm
///
/// A write may reach the state store at any time after its claim was lost, because no transaction
/// covers both stores. The order of the writes makes such a write harmless:
///
/// - The next claim of the task has a greater fence, and stores the state with that fence before it is
///   handed out. A later write of the earlier owner is refused. An earlier one is merged, as after a
///   crash, or replaced by a first claim.
/// - A write to a deleted task restores a state, which no task reads: a registry returns only
///   existing tasks, and the first claim of a new task with that id ignores the stored state and
///   stores its own, with a greater fence. So the state store need not remember removed states.
/// - A removal names the fence and the version that were seen ([`StateRemoval`]); a state that was
///   stored later stays. This protects a new task with the id, whose first claim may be made between
///   a delete and the removal that follows. A first claim removes a loaded state only when its fence
///   is greater than that of the claim, and when the claim is then still the last one of the task.
///   Otherwise the loaded state belongs to the next owner.
///
/// One case needs the operator: a task is imported under an id whose earlier owner still runs. Stop the
/// nodes of the target first, as `windlass copy` requires.
///
/// # Caveats
///
/// - Effects need a common transaction: a write with effects is refused with [`Error::Invalid`] (field
///   `effects`) before anything is written.
/// - The coordinator's limit applies to data and result together. The runner also counts the props
///   of the task.
/// - When a crash interrupts a write that settles several commands, only the last one has its exact
///   outcome; the earlier ones are recorded with the same outcome.
/// - A state that cannot be read makes its task fail, with the reason in its error log. The task is
///   listed as unreadable. `retry` reads the state again, or starts the task from its props.
/// - In a transaction of several operations, a submit of the same task counts as submitted even when its
///   state cannot be read. A transaction with a retry removes the unreadable state of the ended task
///   even if it is refused.
/// - When the process dies between the deletes of a task and of its state, the state stays until the id
///   is used again.
///
/// # Errors
///
/// The errors of both parts. A claim that gets [`Error::Unavailable`] from the state store is
/// released.
#[derive(Clone)]
pub struct Split {
    coordinator: Arc<dyn Coordinator>,
    registry: Arc<dyn Registry>,
    states: Arc<dyn StateStore>,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Split").finish_non_exhaustive()
    }
}

impl Split {
    /// Splits a store. `coordinator` and `registry` must belong to the same store.
    pub fn new(
        coordinator: Arc<dyn Coordinator>,
        registry: Arc<dyn Registry>,
        states: Arc<dyn StateStore>,
    ) -> Self {
        Self {
            coordinator,
            registry,
            states,
            clock: SystemClock::shared(),
        }
    }

    /// Sets the clock; the clock of the system by default.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Loads one state per id. A missing result of the state store is an error.
    async fn load(&self, ids: &[TaskId]) -> Vec<Result<Option<TaskState>, Error>> {
        if ids.is_empty() {
            return Vec::new();
        }
        let answers = self.states.load(ids).await;
        pad(answers, ids.len(), "load a state")
    }

    /// Adds the state store's part to the coordinator's part of a task.
    fn overlay(mut record: TaskRecord, loaded: Result<Option<TaskState>, Error>) -> TaskRecord {
        let Ok(state) = &mut record.state else {
            return record;
        };
        if is_fresh(state) {
            return record;
        }
        match loaded {
            Ok(Some(stored)) => add_content(state, &stored),
            Ok(None) => {}
            Err(e) => record.state = Err(e),
        }
        record
    }

    async fn overlay_all(&self, records: Vec<TaskRecord>) -> Result<Vec<TaskRecord>, Error> {
        let ids: Vec<TaskId> = records.iter().map(|r| r.task.id.clone()).collect();
        let mut out = Vec::with_capacity(records.len());
        for (record, loaded) in records.into_iter().zip(self.load(&ids).await) {
            match loaded {
                Err(e) if !matches!(e, Error::Corrupt { .. }) => return Err(e),
                loaded => out.push(Self::overlay(record, loaded)),
            }
        }
        Ok(out)
    }

    /// Removes the states of deleted tasks. A new task with one of their ids keeps its state. A state
    /// that cannot be removed stays, which is harmless.
    async fn forget(&self, ids: Vec<TaskId>) {
        // The registry is read after the states. If it then has no task with the id, or one without
        // a claim, the loaded state does not belong to a new task.
        let loaded = self.load(&ids).await;
        let mut removals = Vec::with_capacity(ids.len());
        for (task, loaded) in ids.iter().zip(loaded) {
            if let Err(error) = &loaded
                && !matches!(error, Error::Corrupt { .. })
            {
                warn!(%task, %error, "could not remove the state of a deleted task");
            }
            let Some(removal) = StateRemoval::of(task, &loaded) else {
                continue;
            };
            match self.registry.get(task).await {
                Err(Error::NotFound { .. }) => removals.push(removal),
                Ok(record) if record.state.as_ref().is_ok_and(|s| s.claims == 0) => {
                    removals.push(removal);
                }
                _ => {}
            }
        }
        if removals.is_empty() {
            return;
        }
        let ids: Vec<TaskId> = removals.iter().map(|one| one.task.clone()).collect();
        let removed = self.states.remove(removals).await;
        let answers = pad(removed, ids.len(), "remove a state");
        for (task, answer) in ids.iter().zip(answers) {
            match answer {
                // Fenced: a new task with this id has stored its own state.
                Ok(()) | Err(Error::Fenced(_)) => {}
                Err(error) => warn!(%task, %error, "could not remove the state of a deleted task"),
            }
        }
    }

    /// Removes the states of `gone` deleted tasks, whose ids the changes report.
    async fn forget_deleted(&self, gone: u64, mut changes: ChangeStream) {
        let mut ids = Vec::new();
        // Reads until `gone` deletions are reported, and then what is available without waiting:
        // other clients may have deleted tasks too.
        let collect = async {
            loop {
                let batch = if (ids.len() as u64) < gone {
                    changes.next().await
                } else {
                    changes.next().now_or_never().flatten()
                };
                let Some(Ok(batch)) = batch else { break };
                let deleted = batch.into_iter().filter(|c| c.what == ChangeKind::Deleted);
                ids.extend(deleted.map(|c| c.task));
            }
        };
        if timeout(PATIENCE, collect).await.is_err() {
            warn!(
                gone,
                "could not learn in time which tasks were deleted; their states stay"
            );
        }
        self.forget(ids).await;
    }
}

/// Takes data and result from the stored state if the coordinator has none.
fn add_content(state: &mut TaskState, stored: &TaskState) {
    if state.data.is_none() {
        state.data.clone_from(&stored.data);
        state.earlier_data.clone_from(&stored.earlier_data);
        state.data_version = stored.data_version;
    }
    if let TaskStatus::Completed { result } = &mut state.status
        && result.is_none()
        && let TaskStatus::Completed { result: kept } = &stored.status
        && state.incarnation == stored.incarnation
    {
        result.clone_from(kept);
    }
}

/// Returns exactly `asked` results; missing ones are errors.
fn pad<T>(
    mut answers: Vec<Result<T, Error>>,
    asked: usize,
    operation: &'static str,
) -> Vec<Result<T, Error>> {
    answers.truncate(asked);
    while answers.len() < asked {
        let reason = "the state store gave fewer answers than it was asked for";
        answers.push(Err(Error::unavailable(operation, reason)));
    }
    answers
}
