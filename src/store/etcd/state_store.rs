//! [`EtcdStates`]: a state store on etcd, for any coordinator.

use std::fmt;

use async_trait::async_trait;
use futures::future::join_all;
use windlass_statemachine::{TaskId, TaskState};

use super::{
    order::in_order,
    read::Access,
    schema::{json, revision},
    store::EtcdStore,
    write::{Item, Tries, Wrote},
};
use crate::store::{Error, StateRemoval, StateStore, StateWrite, rules};

/// How often a write of a state is tried while the state changes.
const TRIES: usize = 10;

/// States in `/NAMESPACE/state/ID`, where Metafora keeps them too.
///
/// # Example
///
/// ```no_run
/// use windlass::{clock::SystemClock, store::etcd::{EtcdStates, EtcdStore, Options}};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::store::Error> {
/// let options = Options::parse("etcd://127.0.0.1:2379/demo")?;
/// let states = EtcdStates::of(&EtcdStore::connect(options, SystemClock::shared()).await?);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct EtcdStates {
    access: Access,
    max_bytes: usize,
}

impl fmt::Debug for EtcdStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let namespace = self.access.keys().root();
        f.debug_tuple("EtcdStates").field(&namespace).finish()
    }
}

/// A state, or the error why it cannot be read, and the revision that wrote it.
type Found = (Result<Option<TaskState>, Error>, i64);

impl EtcdStates {
    /// Returns the state store of this namespace. Its coordinator must use another namespace: both
    /// would write the same keys.
    pub fn of(store: &EtcdStore) -> Self {
        let (access, max_bytes) = store.for_states();
        Self { access, max_bytes }
    }

    async fn read(&self, id: &TaskId) -> Result<Found, Error> {
        let key = self.access.keys().state(id);
        let kv = self.access.reader.key(&key, "load a state").await?;
        let state = kv.as_ref().map(json::parse::<TaskState>).transpose();
        let corrupt = |reason| Error::corrupt_state(id, reason);
        Ok((state.map_err(corrupt), revision(kv.as_ref())))
    }

    fn tries(&self, operation: &'static str) -> Tries<'_> {
        Tries::new(&self.access.pipeline, operation).at_most(TRIES)
    }

    /// Writes or deletes the state of a task if it was last written at the revision `found_at`.
    /// Returns whether it did. A write without an answer is repeated, because it has the same
    /// content.
    async fn write(
        &self,
        tries: &mut Tries<'_>,
        (id, found_at): (&TaskId, i64),
        value: Option<String>,
    ) -> Result<bool, Error> {
        let key = self.access.keys().state(id);
        let mut item = Item::of(id);
        item.when_at(&key, found_at);
        match value {
            Some(value) => item.put(&key, value),
            None => item.delete(&key),
        }
        Ok(matches!(tries.write(item).await?, Wrote::At(_)))
    }

    async fn store_one(&self, StateWrite { task, state }: &StateWrite) -> Result<(), Error> {
        let mut tries = self.tries("store a state");
        let place = |s: &TaskState| (s.fence, s.version);
        loop {
            let (stored, found_at) = self.read(task).await?;
            if stored?.is_some_and(|stored| place(state) < place(&stored)) {
                return Err(Error::fenced(task));
            }
            rules::size::check_state(state, self.max_bytes)?;
            let text = json::write("state", state)?;
            let at = (task, found_at);
            if self.write(&mut tries, at, Some(text)).await? {
                return Ok(());
            }
        }
    }

    async fn remove_one(&self, removal: &StateRemoval) -> Result<(), Error> {
        let mut tries = self.tries("remove a state");
        loop {
            let (stored, found_at) = self.read(&removal.task).await?;
            let at = (&removal.task, found_at);
            if !removal.check(&stored)? || self.write(&mut tries, at, None).await? {
                return Ok(());
            }
        }
    }
}

#[async_trait]
impl StateStore for EtcdStates {
    async fn load(&self, tasks: &[TaskId]) -> Vec<Result<Option<TaskState>, Error>> {
        let loads = tasks.iter().map(|id| async { self.read(id).await?.0 });
        join_all(loads).await
    }

    async fn store(&self, writes: Vec<StateWrite>) -> Vec<Result<(), Error>> {
        let run = |write| async move { self.store_one(&write).await };
        in_order(writes, |write| [write.task.clone()], run).await
    }

    async fn remove(&self, removals: Vec<StateRemoval>) -> Vec<Result<(), Error>> {
        let run = |removal| async move { self.remove_one(&removal).await };
        in_order(removals, |removal| [removal.task.clone()], run).await
    }
}
