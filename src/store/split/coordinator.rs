//! [`Coordinator`] for [`Split`].

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::sleep;
use windlass_statemachine::{
    Effects, Invalid, Kind, NodeName, Outcome, StateKind, TaskId, TaskState, TaskStatus,
    errors::MAX_KEPT, machine::Write, size::Size, state::SettledSignal,
};

use super::{
    Split,
    merge::{Merged, is_fresh, merge, path},
    pad,
};
use crate::store::{
    Claim, Claimed, Commit, Coordinator, Error, EventStream, Lease, Limits, LogWrite, NewWorker,
    NodeCommandId, NodeRecord, NodeSpec, NodeStatus, Speaker, StateRemoval, StateWrite,
    WorkerRecord, rules,
};

/// How long a claim waits for an unavailable state store before each retry.
const WAITS_MS: [u64; 4] = [50, 100, 200, 400];

/// Returns the state without the parts that the state store keeps.
pub(super) fn stripped(mut state: TaskState) -> TaskState {
    state.data = None;
    state.earlier_data = Default::default();
    state.settled_signals = Vec::new();
    if let TaskStatus::Completed { result } = &mut state.status {
        *result = None;
    }
    state
}

/// Returns the state for the state store: with the outcomes of the signals that the write settles,
/// because the coordinator may not get them.
fn with_signals(write: &Write) -> TaskState {
    let mut state = write.state.clone();
    let signals = write.outcomes.iter().filter(|(_, outcome)| {
        let of_signal = matches!(outcome, Outcome::Answered { .. } | Outcome::Unanswered);
        of_signal
    });
    let settled = signals.map(|(order, outcome)| SettledSignal {
        order: *order,
        outcome: outcome.clone(),
    });
    state.settled_signals = settled.collect();
    state
}

/// Checks a write before it is sent to either store.
fn check(write: &Write, limit: usize) -> Result<(), Error> {
    if !write.effects.is_empty() {
        let reason = "need tasks and states in one store, which a state store of your own is not; \
            return a message without effects, and submit or send from the handler";
        return Err(Invalid::new("effects", reason).into());
    }
    // The coordinator gets neither data nor result, so it cannot check its limit.
    rules::size::check(Size::of_write(write), 0, limit)
}

/// Returns the result of a call with one item.
pub(super) fn only<T>(
    mut answers: Vec<Result<T, Error>>,
    operation: &'static str,
) -> Result<T, Error> {
    answers.truncate(1);
    let none = || Err(Error::unavailable(operation, "the store gave no answer"));
    answers.pop().unwrap_or_else(none)
}

impl Split {
    /// Loads states. Retries unavailable ones for less than a second.
    pub(super) async fn load_patiently(
        &self,
        ids: &[TaskId],
    ) -> Vec<Result<Option<TaskState>, Error>> {
        let mut answers = self.load(ids).await;
        for wait in WAITS_MS {
            let again = answers.iter().enumerate();
            let again: Vec<usize> = again
                .filter(|(_, a)| a.as_ref().is_err_and(Error::is_retryable))
                .map(|(index, _)| index)
                .collect();
            if again.is_empty() {
                break;
            }
            sleep(Duration::from_millis(wait)).await;
            let some: Vec<TaskId> = again.iter().filter_map(|i| ids.get(*i).cloned()).collect();
            for (index, answer) in again.into_iter().zip(self.load(&some).await) {
                answers[index] = answer;
            }
        }
        answers
    }

    /// Releases a claim as if it had never been made.
    async fn release(&self, claimed: Claimed) {
        let mut write = Write::releasing(claimed.state);
        write.state.version = write.follows.saturating_sub(1);
        write.state.claims = write.state.claims.saturating_sub(1);
        let claim = claimed.claim;
        // If this fails too, the claim ends with the lease, or the lease claims the task again.
        let _ = self
            .coordinator
            .commit(vec![Commit::new(claim, write)])
            .await;
    }

    /// Makes a task whose state cannot be read fail, with the reason in its error log.
    /// `follows` is the version that the coordinator has.
    async fn quarantine(&self, claimed: Claimed, follows: u64, error: Error) -> Error {
        let Claimed {
            claim, mut state, ..
        } = claimed;
        let now = self.clock.now();
        let steps = path(state.code(), StateKind::Failed);
        state = stripped(state);
        state.version = state.version.saturating_add(1);
        state.errors.push(now, error.to_string(), MAX_KEPT);
        state.status = TaskStatus::Failed;
        state.since = now;
        let write = Write {
            follows,
            state,
            steps,
            outcomes: Vec::new(),
            drop_claim: true,
            effects: Effects::default(),
        };
        let answers = self
            .coordinator
            .commit(vec![Commit::new(claim, write)])
            .await;
        only(answers, "quarantine a task").err().unwrap_or(error)
    }

    /// Completes a claim of the coordinator with the stored state.
    pub(super) async fn complete(
        &self,
        claimed: Claimed,
        loaded: Result<Option<TaskState>, Error>,
    ) -> Result<Option<Claimed>, Error> {
        let (fresh, follows) = (is_fresh(&claimed.state), claimed.state.version);
        let leftover = match fresh {
            true => StateRemoval::of(&claimed.claim.task, &loaded),
            false => None,
        };
        let stored = match loaded {
            Ok(stored) => stored,
            Err(Error::Corrupt { .. }) if fresh => None,
            Err(error @ Error::Corrupt { .. }) => {
                return Err(self.quarantine(claimed, follows, error).await);
            }
            Err(error) => {
                self.release(claimed).await;
                return Err(error);
            }
        };
        let as_claimed = claimed.clone();
        let Merged {
            mut claimed,
            recovery,
        } = merge(claimed, stored);
        let recovery = recovery.map(|write| Commit::new(claimed.claim.clone(), write));
        if let Some(commit) = &recovery {
            claimed.state.commit = commit.write.state.commit;
        }
        if let Err(error) = self.fence_off(&claimed, leftover).await {
            // The state may have been stored, and with it the report of an abandoned attempt. Then the
            // lease keeps the claim, and claims the task again.
            if error.is_retryable() && !claimed.abandoned {
                self.release(as_claimed).await;
            }
            return Err(error);
        }
        if let Some(mut commit) = recovery {
            commit.write.state = stripped(commit.write.state);
            // If the answer is lost, the lease has the claim and claims the task again.
            let answers = self.coordinator.commit(vec![commit]).await;
            match only(answers, "commit") {
                Ok(()) => {}
                // The coordinator would refuse the write of every later claim too.
                Err(error @ (Error::TooLarge { .. } | Error::Invalid(_))) => {
                    return Err(self.quarantine(claimed, follows, error).await);
                }
                Err(error) => return Err(error),
            }
        }
        let ended = claimed.state.code().is_terminal();
        Ok((!ended).then_some(claimed))
    }

    /// Stores the state with the new fence, which fences off earlier owners. `leftover` is a state
    /// that was loaded for a task that has none yet.
    async fn fence_off(
        &self,
        claimed: &Claimed,
        leftover: Option<StateRemoval>,
    ) -> Result<(), Error> {
        let claim = &claimed.claim;
        // The new state replaces one with a smaller fence.
        let in_the_way =
            leftover.filter(|left| left.seen.is_none_or(|(fence, _)| fence >= claim.fence));
        if let Some(removal) = in_the_way {
            self.check_last(claim, claimed.order).await?;
            only(self.states.remove(vec![removal]).await, "remove a state")?;
        }
        let write = StateWrite {
            task: claim.task.clone(),
            state: claimed.state.clone(),
        };
        only(self.states.store(vec![write]).await, "store a state")
    }

    /// Refuses a claim that is not the last one of its task: a loaded state with a greater fence then
    /// belongs to the next owner. If this claim is the last one, the state was left by an earlier
    /// task, under a coordinator whose fences were greater.
    async fn check_last(&self, claim: &Claim, order: u64) -> Result<(), Error> {
        let record = match self.registry.get(&claim.task).await {
            Err(Error::NotFound { .. }) => return Err(Error::fenced(&claim.task)),
            answer => answer?,
        };
        if (record.fence, record.order) == (claim.fence, order) {
            return Ok(());
        }
        Err(Error::fenced(&claim.task))
    }
}

#[async_trait]
impl Coordinator for Split {
    fn limits(&self) -> Limits {
        self.coordinator.limits()
    }

    async fn join(&self, node: &NodeSpec, ttl: Duration) -> Result<Lease, Error> {
        self.coordinator.join(node, ttl).await
    }

    async fn renew(&self, lease: &Lease, status: &NodeStatus) -> Result<(), Error> {
        self.coordinator.renew(lease, status).await
    }

    async fn describe(&self, lease: &Lease, node: &NodeSpec) -> Result<(), Error> {
        self.coordinator.describe(lease, node).await
    }

    async fn leave(&self, lease: &Lease) -> Result<(), Error> {
        self.coordinator.leave(lease).await
    }

    async fn abandon(&self, lease: &Lease) -> Result<(), Error> {
        self.coordinator.abandon(lease).await
    }

    async fn watch(&self, lease: &Lease, kinds: Option<Vec<Kind>>) -> Result<EventStream, Error> {
        self.coordinator.watch(lease, kinds).await
    }

    async fn claim(
        &self,
        lease: &Lease,
        tasks: Vec<TaskId>,
    ) -> Vec<Result<Option<Claimed>, Error>> {
        let answers = self.coordinator.claim(lease, tasks).await;
        let claimed = answers.iter().filter_map(|a| a.as_ref().ok()?.as_ref());
        let ids: Vec<TaskId> = claimed.map(|c| c.claim.task.clone()).collect();
        let mut loaded = self.load_patiently(&ids).await.into_iter();
        let answers = answers.into_iter().map(|answer| {
            let loaded = match &answer {
                Ok(Some(_)) => loaded.next(),
                _ => None,
            };
            async move {
                match (answer, loaded) {
                    (Ok(Some(claimed)), Some(loaded)) => self.complete(claimed, loaded).await,
                    (answer, _) => answer,
                }
            }
        });
        futures::future::join_all(answers).await
    }

    async fn commit(&self, commits: Vec<Commit>) -> Vec<Result<(), Error>> {
        let mut answers: Vec<Result<(), Error>> = Vec::with_capacity(commits.len());
        let mut taken = Vec::new();
        let limit = self.coordinator.limits().max_bytes;
        for commit in commits {
            match check(&commit.write, limit) {
                Ok(()) => {
                    taken.push((answers.len(), commit));
                    answers.push(Ok(()));
                }
                refused => answers.push(refused),
            }
        }
        let writes: Vec<StateWrite> = taken
            .iter()
            .map(|(_, commit)| StateWrite {
                task: commit.claim.task.clone(),
                state: with_signals(&commit.write),
            })
            .collect();
        let stored = pad(
            self.states.store(writes).await,
            taken.len(),
            "store a state",
        );
        let (mut places, mut inner) = (Vec::new(), Vec::new());
        for ((place, mut commit), stored) in taken.into_iter().zip(stored) {
            match stored {
                Ok(()) => {
                    commit.write.state = stripped(commit.write.state);
                    places.push(place);
                    inner.push(commit);
                }
                Err(error) => answers[place] = Err(error),
            }
        }
        if !inner.is_empty() {
            let committed = pad(self.coordinator.commit(inner).await, places.len(), "commit");
            for (place, answer) in places.into_iter().zip(committed) {
                answers[place] = answer;
            }
        }
        answers
    }

    async fn log(&self, writes: Vec<LogWrite>) -> Vec<Result<(), Error>> {
        self.coordinator.log(writes).await
    }

    async fn peers(&self) -> Result<Vec<NodeRecord>, Error> {
        self.coordinator.peers().await
    }

    async fn acknowledge(
        &self,
        lease: &Lease,
        command: NodeCommandId,
        outcome: &str,
    ) -> Result<(), Error> {
        self.coordinator.acknowledge(lease, command, outcome).await
    }

    async fn join_worker(&self, worker: &NewWorker) -> Result<WorkerRecord, Error> {
        self.coordinator.join_worker(worker).await
    }

    async fn worker(&self, name: &NodeName) -> Result<Option<WorkerRecord>, Error> {
        self.coordinator.worker(name).await
    }

    async fn speak(&self, lease: &Lease, speaker: &Speaker) -> Result<Lease, Error> {
        self.coordinator.speak(lease, speaker).await
    }

    async fn held(&self, lease: &Lease, tasks: Option<Vec<TaskId>>) -> Result<Vec<Claimed>, Error> {
        self.held_claims(lease, tasks).await
    }

    fn detach(&self, lease: &Lease) {
        self.coordinator.detach(lease);
    }

    async fn check_clock(&self, retention: Option<Duration>) -> Result<(), Error> {
        self.coordinator.check_clock(retention).await
    }

    async fn maintain(&self, retention: Option<Duration>) -> Result<u64, Error> {
        let changes = self.registry.changes(None).await?;
        let gone = self.coordinator.maintain(retention).await?;
        self.forget_deleted(gone, changes).await;
        Ok(gone)
    }
}
