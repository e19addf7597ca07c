//! [`Split`]: a coordinator with the states in a store of your own.

mod coordinator;
mod doctor;
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

/// How long the history may take to tell which tasks are gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// A coordinator and its registry, with the data and the results of tasks kept in a [`StateStore`]
/// of your own. The coordinator keeps the rest: whose task it is, when it is due, its commands and
/// its history.
///
/// # Flow
///
/// A commit writes the whole state into the state store first, which compares fences; then the
/// coordinator gets the same state without data and result. A claim goes the other way round: the
/// coordinator gives the new fence, then the state is loaded, put together and stored again with
/// that fence, so that no earlier owner can write any more; only then is the claim handed out.
///
/// # Guarantees
///
/// - **Fenced writes** hold without a common transaction: an owner that lost its claim is refused
///   by the state store once the next one has its claim, and changes nothing in the coordinator.
/// - **A crash between the two writes loses nothing.** The state store is ahead then; the next
///   claim brings the coordinator up to it, with the outcomes of the commands that had their effect
///   already (none is applied twice) and a path of the transition table in the history.
/// - **What was left over from an earlier task with the same id is never read.** The first claim of
///   a task writes over it.
/// - **A lost attempt counts**, whatever happens to the claims after it: the next claim that is handed
///   out reports it.
///
/// # Why a late write does no harm
///
/// A write may reach the state store at any time after its claim was lost, since no one transaction
/// covers both stores. The order of the writes makes it harmless:
///
/// - The next claim of the task has a greater fence, and stores the state with it before the claim is
///   handed out. A write that comes later is refused; a write that came before is merged as one that a
///   crash left, or is written over by a first claim.
/// - A write to a task that was deleted brings a state back. No task reads it: a registry answers
///   only with the tasks that it has, and the first claim of a new task under that id ignores what is
///   there and stores its own state, with a greater fence. So the state store remembers nothing of
///   what it has removed.
/// - A removal names the fence and the version that were seen ([`StateRemoval`]), and a state that
///   another has stored since stays. Nothing else could protect a new task of the id: its first
///   claim may be made between a delete and the removal that follows. A first claim removes something
///   only when what it loaded has a greater fence than its own, and when it is still the task's last
///   claim after that: otherwise what was loaded is the next owner's.
///
/// One case is left to the operator: a task is imported under an id whose earlier owner is still
/// running. Stop the nodes of the target first, as `windlass copy` asks for.
///
/// # Caveats
///
/// - Effects need a common transaction: a write that brings some is refused with
///   [`Error::Invalid`], naming `effects`, before anything is written.
/// - The coordinator's limit holds for data and result together; their task's props count only as
///   far as the runner counts them in.
/// - Of several commands that were settled in a write which crashed half-way, only the last has its
///   exact outcome; the earlier ones are recorded with the same.
/// - A state that cannot be read makes its task fail, with the reason in its error log: it is listed
///   as unreadable, and `retry` reads it again, or starts the task from its props.
/// - When the process dies after a task was deleted and before its state was, the state stays behind
///   until the id is used again.
///
/// # Errors
///
/// Those of its parts. [`Error::Unavailable`] from the state store during a claim gives the claim
/// back.
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
    /// `coordinator` and `registry` are those of one store.
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

    /// The same, following a clock of your own.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Loads one state per id. A state store that answers too few has answered nothing for the rest.
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

    /// Removes the states of tasks that are gone. A task that has taken one of their ids meanwhile
    /// keeps what it has. What cannot be removed now stays behind: nothing reads it.
    async fn forget(&self, ids: Vec<TaskId>) {
        // What is loaded before the registry has no task, or one without a claim, is not a new task's.
        let loaded = self.load(&ids).await;
        let mut removals = Vec::with_capacity(ids.len());
        for (task, loaded) in ids.iter().zip(loaded) {
            if let Err(error) = &loaded
                && !matches!(error, Error::Corrupt { .. })
            {
                warn!(%task, %error, "the state of a task that is gone stays behind");
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
                // A new task of this id has stored its own.
                Ok(()) | Err(Error::Fenced(_)) => {}
                Err(error) => {
                    warn!(%task, %error, "the state of a task that is gone stays behind");
                }
            }
        }
    }

    /// Removes the states of the tasks that `gone` counts, whose names the changes since then tell.
    async fn forget_deleted(&self, gone: u64, mut changes: ChangeStream) {
        let mut ids = Vec::new();
        // Until as many are reported as are gone, then whatever else is there at once: another's
        // deletions may stand between.
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
            warn!("the history does not tell which tasks went; their states stay behind");
        }
        self.forget(ids).await;
    }
}

/// Takes data and result from the stored state, where the coordinator has none of its own.
fn add_content(state: &mut TaskState, stored: &TaskState) {
    if state.data.is_none() {
        state.data.clone_from(&stored.data);
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

/// As many answers as were asked for.
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
