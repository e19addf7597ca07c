//! The store for tests: all data is in the memory of the process and ends with it.
//!
//! It fulfils every duty of the traits except one: acknowledged writes last only as long as the process.
//! It uses the given clock, also for leases, so that a test can move the time with its own clock, or
//! with tokio's paused time.
//!
//! | module | what |
//! |---|---|
//! | `row` | the rows: plain data |
//! | `limited`, `waiters` | the slots of limits, and which tasks wait for which |
//! | `world` | all rows, with the indexes and the history |
//! | `apply` | the transactions of clients |
//! | `submit`, `command`, `delete`, `retry`, `reschedule`, `query`, `history`, `feed` | the work of a registry |
//! | `lease`, `node`, `worker`, `claim`, `limits`, `commit`, `watch`, `retention` | the work of a coordinator |
//! | `transfer` | exports and imports tasks |
//! | `state_store` | [`MemoryStates`], a state store |

mod apply;
mod claim;
mod command;
mod commit;
mod coordinator;
mod delete;
mod dependencies;
mod feed;
mod history;
mod lease;
mod limited;
mod limits;
mod log_lines;
mod node;
mod query;
mod registry;
mod reschedule;
mod retention;
mod retry;
mod row;
mod state_store;
mod submit;
mod transfer;
mod usage;
mod values;
mod waiters;
mod watch;
mod worker;
mod world;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
pub use state_store::MemoryStates;
use windlass_statemachine::TaskId;
use world::World;

use super::{Error, Limits, retention::PruneClock};
use crate::clock::Clock;

/// A namespace in memory.
///
/// # Example
///
/// ```
/// use std::sync::Arc;
/// use windlass::{Task, clock::SystemClock, store::{Registry, Submit, memory::MemoryStore}};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::store::Error> {
/// let store = MemoryStore::new(SystemClock::shared());
/// let task = Task::new("a".parse()?, "demo".parse()?);
/// store.submit(vec![Submit { task, if_exists: Default::default() }]).await.remove(0)?;
/// assert_eq!(store.get(&"a".parse()?).await?.order, 1);
/// # Ok(()) }
/// ```
pub struct MemoryStore {
    shared: Arc<Shared>,
}

impl MemoryStore {
    /// Returns an empty namespace that uses `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_limits(clock, Limits::default())
    }

    /// Returns an empty namespace with custom limits.
    pub fn with_limits(clock: Arc<dyn Clock>, limits: Limits) -> Self {
        let world = Mutex::new(World::new(limits));
        let prune_clock = PruneClock::new(clock.clone(), None);
        Self {
            shared: Arc::new(Shared {
                world,
                clock,
                identity: crate::unique_id::new().simple().to_string(),
                prune_clock,
            }),
        }
    }

    /// Replaces the stored state of a task with `text`, as a damaged disk or another program might.
    /// For tests.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`].
    pub fn damage(&self, task: &TaskId, text: &str) -> Result<(), Error> {
        let (mut world, _) = self.shared.lock();
        world.damage(task, text)
    }
}

#[cfg(feature = "testing")]
impl MemoryStore {
    /// Ends a lease as if it had expired: its claims are abandoned.
    pub(crate) fn lose_lease(&self, lease: u64) {
        let (mut world, now) = self.shared.lock();
        world.end_lease(lease, true, now);
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

/// The data that the store and its streams share.
struct Shared {
    world: Mutex<World>,
    clock: Arc<dyn Clock>,
    identity: String,
    prune_clock: PruneClock,
}

impl Shared {
    /// Returns the data and the time. Ends leases that have expired by then.
    fn lock(&self) -> (MutexGuard<'_, World>, Timestamp) {
        // Nothing panics between two steps of a change, so the data behind a poisoned lock is
        // consistent.
        let mut world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        world.now = now;
        world.expire(now);
        world.look_at_lines(now);
        (world, now)
    }
}
