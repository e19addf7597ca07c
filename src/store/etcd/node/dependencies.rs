//! Claims of tasks that wait for others.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use jiff::Timestamp;
use windlass_statemachine::{TaskId, TaskState};

use crate::store::{
    Claimed, Error,
    etcd::{
        client::Fault,
        read::Reader,
        schema::{Parked, Snapshot, json::parse},
    },
    rules::dependencies::{self, Seen},
};

/// The most tasks that one claim compares, because the servers limit the comparisons of a write.
const MOST_COMPARED: usize = 64;

/// The state of a task that is about to be claimed.
pub(super) struct LookedAt {
    pub(super) state: TaskState,
    /// Since when the task can be claimed.
    pub(super) ready: Option<Timestamp>,
    /// The tasks that must not be live when the claim is written.
    pub(super) none_live: Vec<TaskId>,
    /// Whether these are too many to compare. The claim then leaves the task waiting, and reads them again
    /// after it was written.
    pub(super) look_again: bool,
}

impl LookedAt {
    /// Returns a state that needs no comparison.
    pub(super) fn plain(state: TaskState) -> Self {
        Self {
            ready: state.ready(),
            ..Self::seen(dependencies::LookedAt { state, ready: None })
        }
    }

    fn seen(looked_at: dependencies::LookedAt) -> Self {
        let dependencies::LookedAt { state, ready } = looked_at;
        Self {
            state,
            ready,
            none_live: Vec::new(),
            look_again: false,
        }
    }
}

/// The tasks that the tasks of one call wait for. Many wait for the same ones, which are read once. Clones share
/// them.
#[derive(Clone, Default)]
pub(super) struct Waited {
    /// The tasks that were read.
    named: Arc<HashSet<TaskId>>,
    codes: Arc<HashMap<TaskId, Seen>>,
    /// The claimed tasks to check again, and when they were claimed.
    again: Arc<Mutex<HashMap<TaskId, Timestamp>>>,
}

impl Waited {
    /// Reads the tasks that these wait for, according to their marks. Tasks that do not wait cost no
    /// read.
    pub(super) async fn read(
        reader: &Reader,
        tasks: impl IntoIterator<Item = &Snapshot>,
    ) -> Result<Self, Fault> {
        let parked = tasks.into_iter().filter_map(|found| found.parked.as_ref());
        let marks = parked.filter_map(|kv| parse::<Parked>(kv).ok());
        let named: HashSet<TaskId> = marks.flat_map(|mark| mark.waits).collect();
        if named.is_empty() {
            return Ok(Self::default());
        }
        let ids: Vec<TaskId> = named.iter().cloned().collect();
        Ok(Self {
            codes: Arc::new(reader.codes(&ids).await?),
            named: Arc::new(named),
            again: Arc::default(),
        })
    }

    /// Notes a claim after which the tasks of its wait must be read again.
    pub(super) fn look_again(&self, id: &TaskId, claimed_at: Timestamp) {
        let mut again = self.again.lock().unwrap_or_else(PoisonError::into_inner);
        again.insert(id.clone(), claimed_at);
    }

    fn take_again(&self) -> HashMap<TaskId, Timestamp> {
        let mut again = self.again.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut again)
    }

    /// Reads the tasks that the claimed tasks wait for again, all at once. A task that waits for one which is
    /// live again by now stays waiting, and its machine releases it.
    pub(super) async fn look_once_more(
        &self,
        reader: &Reader,
        answers: &mut [Option<Result<Option<Claimed>, Error>>],
    ) {
        let again = self.take_again();
        if again.is_empty() {
            return;
        }
        let claimed = answers.iter_mut().flatten().flatten().flatten();
        let mut claimed: Vec<_> = claimed
            .filter(|claimed| again.contains_key(&claimed.claim.task))
            .collect();
        let waits = claimed.iter().filter_map(|one| one.state.waits.as_deref());
        let named: HashSet<&TaskId> = waits.flat_map(|waits| &waits.tasks).collect();
        let named: Vec<TaskId> = named.into_iter().cloned().collect();
        match reader.codes(&named).await {
            Ok(codes) => {
                for one in &mut claimed {
                    if let Some(now) = again.get(&one.claim.task) {
                        let looked_at = look(one.state.clone(), &codes, *now);
                        (one.state, one.ready) = (looked_at.state, looked_at.ready);
                    }
                }
            }
            Err(fault) => {
                for answer in answers.iter_mut().flatten() {
                    if matches!(answer, Ok(Some(one)) if again.contains_key(&one.claim.task)) {
                        *answer = Err(fault.clone().into_error("claim a task"));
                    }
                }
            }
        }
    }

    /// Reads the tasks that a task waits for. A task that does not wait costs no read.
    pub(super) async fn looked_at(
        &self,
        reader: &Reader,
        state: TaskState,
        now: Timestamp,
    ) -> Result<LookedAt, Error> {
        let Some(waits) = state.waits.as_ref().filter(|_| state.is_waiting()) else {
            return Ok(LookedAt::plain(state));
        };
        let tasks = waits.tasks.clone();
        let ended = match tasks.iter().all(|id| self.named.contains(id)) {
            true => look(state.clone(), &self.codes, now),
            // Its mark does not belong to this state.
            false => {
                let codes = reader.codes(&tasks).await;
                let codes = codes.map_err(|fault| fault.into_error("claim a task"))?;
                look(state.clone(), &codes, now)
            }
        };
        if ended.state.is_waiting() || state.is_due(now) {
            return Ok(LookedAt::seen(ended));
        }
        if tasks.len() > MOST_COMPARED {
            return Ok(LookedAt {
                look_again: true,
                ..LookedAt::plain(state)
            });
        }
        Ok(LookedAt {
            none_live: tasks,
            ..LookedAt::seen(ended)
        })
    }
}

fn look(state: TaskState, codes: &HashMap<TaskId, Seen>, now: Timestamp) -> dependencies::LookedAt {
    let read = |id: &TaskId| Ok::<_, std::convert::Infallible>(codes.get(id).copied());
    match dependencies::looked_at(state, now, read) {
        Ok(looked_at) => looked_at,
        Err(never) => match never {},
    }
}
