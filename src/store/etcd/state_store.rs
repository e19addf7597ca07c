//! [`EtcdStates`]: a state store on etcd, beside any coordinator.

use std::fmt;

use async_trait::async_trait;
use futures::future::join_all;
use windlass_statemachine::{TaskId, TaskState};

use super::{
    read::Access,
    schema::{json, revision},
    store::EtcdStore,
    write::{Change, Item, Step, in_order},
};
use crate::store::{Error, StateRemoval, StateStore, StateWrite, rules};

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

/// A state, or why it cannot be read, and the revision that wrote it.
type Found = (Result<Option<TaskState>, Error>, i64);

impl EtcdStates {
    /// The states of this namespace. It must not be the one of the coordinator that they are used
    /// beside: two would write the same keys.
    pub fn of(store: &EtcdStore) -> Self {
        let (access, max_bytes) = store.for_states();
        Self { access, max_bytes }
    }

    async fn read(&self, id: &TaskId) -> Result<Found, Error> {
        let kv = self
            .access
            .reader
            .link
            .get_key(&self.access.keys().state(id))
            .await;
        let kv = kv.map_err(|fault| fault.into_error("load a state"))?;
        let state = kv.as_ref().map(json::parse::<TaskState>).transpose();
        let corrupt = |reason| Error::corrupt_state(id, reason);
        Ok((state.map_err(corrupt), revision(kv.as_ref())))
    }

    /// A write of the state of a task that was written at this revision.
    fn item(&self, id: &TaskId, found_at: i64, value: Option<String>) -> Item {
        let key = self.access.keys().state(id);
        let mut item = Item::of(id);
        item.when_at(&key, found_at);
        match value {
            Some(value) => item.put(&key, value),
            None => item.delete(&key),
        }
        item
    }
}

struct Storing<'a>(&'a EtcdStates, &'a StateWrite);

impl Change for Storing<'_> {
    type Found = Found;
    type Output = ();
    const OPERATION: &'static str = "store a state";
    const SUBJECT: &'static str = "the state";
    const TRIES: usize = 10;

    async fn read(&mut self) -> Result<Found, Error> {
        self.0.read(&self.1.task).await
    }

    /// A write that was done is done once more: it says the same.
    fn already_done(&mut self, _: &Found) -> Option<()> {
        None
    }

    async fn build(&mut self, (stored, found_at): Found) -> Result<Step<()>, Error> {
        let Self(states, StateWrite { task, state }) = self;
        let place = |s: &TaskState| (s.fence, s.version);
        if stored?.is_some_and(|stored| place(state) < place(&stored)) {
            return Err(Error::fenced(task));
        }
        rules::size::check_state(state, states.max_bytes)?;
        let text = json::write("state", state)?;
        Ok(Step::Write(states.item(task, found_at, Some(text))))
    }

    fn written(&mut self, _: i64) -> Option<()> {
        Some(())
    }
}

struct Removing<'a>(&'a EtcdStates, &'a StateRemoval);

impl Change for Removing<'_> {
    type Found = Found;
    type Output = ();
    const OPERATION: &'static str = "remove a state";
    const SUBJECT: &'static str = "the state";
    const TRIES: usize = 10;

    async fn read(&mut self) -> Result<Found, Error> {
        self.0.read(&self.1.task).await
    }

    /// One that is not there any more need not be removed: `build` sees that.
    fn already_done(&mut self, _: &Found) -> Option<()> {
        None
    }

    async fn build(&mut self, (stored, found_at): Found) -> Result<Step<()>, Error> {
        let Self(states, removal) = self;
        Ok(match removal.check(&stored)? {
            true => Step::Write(states.item(&removal.task, found_at, None)),
            false => Step::Done(()),
        })
    }

    fn written(&mut self, _: i64) -> Option<()> {
        Some(())
    }
}

#[async_trait]
impl StateStore for EtcdStates {
    async fn load(&self, tasks: &[TaskId]) -> Vec<Result<Option<TaskState>, Error>> {
        let loads = tasks.iter().map(|id| async { self.read(id).await?.0 });
        join_all(loads).await
    }

    async fn store(&self, writes: Vec<StateWrite>) -> Vec<Result<(), Error>> {
        let run = |write| async move {
            self.access
                .pipeline
                .attempt(&mut Storing(self, &write))
                .await
        };
        in_order(writes, |write| write.task.clone(), run).await
    }

    async fn remove(&self, removals: Vec<StateRemoval>) -> Vec<Result<(), Error>> {
        let run = |removal| async move {
            self.access
                .pipeline
                .attempt(&mut Removing(self, &removal))
                .await
        };
        in_order(removals, |removal| removal.task.clone(), run).await
    }
}
