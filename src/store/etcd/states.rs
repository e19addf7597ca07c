//! [`EtcdStates`]: a state store on etcd, beside any coordinator.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use futures::future::join_all;
use windlass_statemachine::{State, TaskId};

use super::{
    EtcdStore, Inner, claims::touch, errors::Fault, item::Item, read::revision, records,
    registry::in_order,
};
use crate::store::{Error, StateRemoval, StateStore, StateWrite, rules};

const ROUNDS: usize = 10;

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
pub struct EtcdStates(Arc<Inner>);

impl fmt::Debug for EtcdStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EtcdStates").field(&self.0.options).finish()
    }
}

impl EtcdStates {
    /// The states of this namespace. It must not be the one of the coordinator that they are used
    /// beside: two would write the same keys.
    pub fn of(store: &EtcdStore) -> Self {
        Self(store.0.clone())
    }

    /// The state, or why it cannot be read, with the revision that wrote it.
    async fn read(&self, id: &TaskId) -> Result<(Result<Option<State>, Error>, i64), Error> {
        let kv = self.0.get_key(&self.0.keys.state(id)).await;
        let kv = kv.map_err(|fault| fault.into_error("load a state"))?;
        let revision = revision(kv.as_ref());
        let state = kv.as_ref().map(records::parse::<State>).transpose();
        Ok((
            state.map_err(|reason| Error::corrupt_state(id, reason)),
            revision,
        ))
    }

    async fn store_one(&self, write: StateWrite) -> Result<(), Error> {
        let StateWrite { task, state } = write;
        let key = self.0.keys.state(&task);
        let place = |s: &State| (s.fence, s.version);
        let mut reason = String::from("the state changes too often");
        for _ in 0..ROUNDS {
            let (stored, revision) = self.read(&task).await?;
            let stored = stored?;
            if stored.is_some_and(|stored| place(&state) < place(&stored)) {
                return Err(Error::fenced(&task));
            }
            rules::size::check_state(&state, self.0.options.limits.max_bytes)?;
            let mut item = Item::new(touch(&task));
            item.when_at(&key, revision);
            item.put(&key, records::write("state", &state)?);
            match self.0.pipeline.write(item).await {
                Ok(done) if done.written.is_some() => return Ok(()),
                Ok(_) => {}
                Err(Fault::Unknown(why)) => reason = why,
                Err(fault) => return Err(fault.into_error("store a state")),
            }
        }
        Err(Error::unavailable("store a state", reason))
    }

    async fn remove_one(&self, removal: StateRemoval) -> Result<(), Error> {
        let id = &removal.task;
        let key = self.0.keys.state(id);
        let mut reason = String::from("the state changes too often");
        for _ in 0..ROUNDS {
            let (stored, revision) = self.read(id).await?;
            if !removal.check(&stored)? {
                return Ok(());
            }
            let mut item = Item::new(touch(id));
            item.when_at(&key, revision);
            item.delete(&key);
            match self.0.pipeline.write(item).await {
                Ok(done) if done.written.is_some() => return Ok(()),
                Ok(_) => {}
                Err(Fault::Unknown(why)) => reason = why,
                Err(fault) => return Err(fault.into_error("remove a state")),
            }
        }
        Err(Error::unavailable("remove a state", reason))
    }
}

#[async_trait]
impl StateStore for EtcdStates {
    async fn load(&self, tasks: &[TaskId]) -> Vec<Result<Option<State>, Error>> {
        let loads = tasks.iter().map(|id| async { self.read(id).await?.0 });
        join_all(loads).await
    }

    async fn store(&self, writes: Vec<StateWrite>) -> Vec<Result<(), Error>> {
        let run = |write| self.store_one(write);
        in_order(writes, |write| write.task.clone(), run).await
    }

    async fn remove(&self, removals: Vec<StateRemoval>) -> Vec<Result<(), Error>> {
        let run = |removal| self.remove_one(removal);
        in_order(removals, |removal| removal.task.clone(), run).await
    }
}
