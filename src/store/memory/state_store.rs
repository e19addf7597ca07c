//! [`MemoryStates`]: a state store in memory.

use std::{
    collections::HashMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use windlass_statemachine::{TaskId, TaskState};

use super::row::Saved;
use crate::store::{Error, Limits, StateRemoval, StateStore, StateWrite, rules};

/// A [`StateStore`] in memory, for tests of split stores.
#[derive(Default)]
pub struct MemoryStates {
    states: Mutex<HashMap<TaskId, Saved>>,
    limits: Limits,
}

impl MemoryStates {
    /// Returns an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces the stored state of a task with `text`, as a damaged disk would. For tests.
    pub fn damage(&self, task: &TaskId, text: &str) {
        let saved = Saved::Text(text.to_owned());
        self.lock().insert(task.clone(), saved);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TaskId, Saved>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStates").finish_non_exhaustive()
    }
}

fn read(task: &TaskId, saved: &Saved) -> Result<TaskState, Error> {
    let read = saved.read();
    read.map_err(|reason| Error::corrupt_state(task, reason))
}

fn store(
    states: &mut HashMap<TaskId, Saved>,
    limit: usize,
    write: StateWrite,
) -> Result<(), Error> {
    let StateWrite { task, state } = write;
    let key = |s: &TaskState| (s.fence, s.version);
    if let Some(saved) = states.get(&task) {
        let stored = read(&task, saved)?;
        if key(&state) < key(&stored) {
            return Err(Error::fenced(&task));
        }
    }
    rules::size::check_state(&state, limit)?;
    states.insert(task, state.into());
    Ok(())
}

#[async_trait]
impl StateStore for MemoryStates {
    async fn load(&self, tasks: &[TaskId]) -> Vec<Result<Option<TaskState>, Error>> {
        let states = self.lock();
        let load = |id: &TaskId| states.get(id).map(|saved| read(id, saved)).transpose();
        tasks.iter().map(load).collect()
    }

    async fn store(&self, writes: Vec<StateWrite>) -> Vec<Result<(), Error>> {
        let mut states = self.lock();
        let limit = self.limits.max_bytes;
        let writes = writes.into_iter();
        writes.map(|w| store(&mut states, limit, w)).collect()
    }

    async fn remove(&self, removals: Vec<StateRemoval>) -> Vec<Result<(), Error>> {
        let mut states = self.lock();
        let mut remove = |removal: StateRemoval| {
            let saved = states.get(&removal.task);
            let stored = saved.map(|saved| read(&removal.task, saved)).transpose();
            if removal.check(&stored)? {
                states.remove(&removal.task);
            }
            Ok(())
        };
        removals.into_iter().map(&mut remove).collect()
    }
}
