//! Runs on the memory store, behind a layer that fails on demand: the twin for what a store on one machine promises.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fastrand::Rng;
use jiff::Timestamp;
use windlass::{
    clock::Clock,
    store::{Store, memory::MemoryStore},
    testing::{Fault, FaultyStore, Operation},
};

use super::What;
use crate::{locked, network::Condition, process::START};

/// The clock of the store, which the driver moves.
#[derive(Debug, Default)]
struct StoreClock(AtomicU64);

impl Clock for StoreClock {
    fn now(&self) -> Timestamp {
        START + self.monotonic()
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}

/// The store of a run in memory, as each process has it.
#[derive(Debug, Clone)]
pub(super) struct Memory {
    store: Store,
    clock: Arc<StoreClock>,
    ways: Arc<Mutex<BTreeMap<usize, FaultyStore>>>,
}

/// What a process asks of a store, but for reads of clients.
const OPERATIONS: [Operation; 13] = [
    Operation::Join,
    Operation::Renew,
    Operation::Describe,
    Operation::Leave,
    Operation::Abandon,
    Operation::Watch,
    Operation::Claim,
    Operation::Commit,
    Operation::Acknowledge,
    Operation::Submit,
    Operation::Send,
    Operation::Delete,
    Operation::Retry,
];

impl Memory {
    pub(super) fn new() -> Self {
        let clock = Arc::new(StoreClock::default());
        let store = Arc::new(MemoryStore::new(clock.clone()));
        Self {
            store: Store::from_parts(store.clone(), store, clock.clone()),
            clock,
            ways: Arc::default(),
        }
    }

    fn ways(&self) -> MutexGuard<'_, BTreeMap<usize, FaultyStore>> {
        locked(&self.ways)
    }

    /// The store of a process.
    pub(super) fn store(&self, process: usize) -> Store {
        let way = FaultyStore::new(&self.store);
        let store = way.store();
        self.ways().insert(process, way);
        store
    }

    pub(super) fn set_time(&self, micros: u64) {
        self.clock.0.store(micros, Ordering::Relaxed);
    }

    /// Does what a fault of the network or of the members means here.
    pub(super) fn disturb(&self, rng: &mut Rng, what: &What) {
        let process = match what {
            What::Lines(process, ..) | What::Break(process) => *process,
            _ => None,
        };
        for (_, way) in self.ways().iter().filter(|(of, _)| is_of(process, **of)) {
            match what {
                What::Lines(_, _, condition) => plan(rng, way, condition),
                What::Break(_) => way.break_watches(),
                What::Down(_) | What::NoLeader | What::Full => {
                    for operation in OPERATIONS {
                        way.fail(operation, Fault::Before, rng.usize(0..4));
                    }
                }
                _ => {}
            }
        }
    }

    /// Ends the faults of a process, or of all.
    pub(super) fn heal(&self, process: Option<usize>) {
        for (_, way) in self.ways().iter().filter(|(of, _)| is_of(process, **of)) {
            way.heal();
        }
    }
}

fn is_of(process: Option<usize>, of: usize) -> bool {
    process.is_none_or(|process| process == of)
}

/// Plans the next failures of each operation.
fn plan(rng: &mut Rng, way: &FaultyStore, condition: &Condition) {
    let slow = u64::try_from(condition.slow.as_millis()).unwrap_or(u64::MAX);
    let is_slow = slow > 3;
    for operation in OPERATIONS {
        for _ in 0..rng.usize(0..4) {
            let late = Duration::from_millis(rng.u64(0..=slow));
            let fault = match rng.u32(0..3) {
                _ if is_slow && rng.bool() => Fault::Late(late),
                _ if condition.cut_up || condition.lose_requests > 0 => Fault::Before,
                0 => Fault::Before,
                1 => Fault::After,
                _ => Fault::LostLate(late),
            };
            way.fail(operation, fault, 1);
        }
    }
}
