//! The helpers for tests, and the memory store on the clocks that they give.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use jiff::Timestamp;
use windlass::{
    Task, TaskId,
    clock::Clock,
    store::{
        Error, Event, EventStream, Lease, NodeSpec, NodeStatus, Store, Submit, memory::MemoryStore,
    },
    testing::{Fault, FaultyStore, ManualClock, Operation, TokioClock},
};

fn id() -> TaskId {
    "a".parse().unwrap()
}

fn memory(clock: Arc<dyn Clock>) -> Store {
    let store = Arc::new(MemoryStore::new(clock.clone()));
    Store::from_parts(store.clone(), store, clock)
}

async fn join(store: &Store, name: &str, ttl: u64) -> Result<Lease, Error> {
    let mut spec = NodeSpec::new(name.parse().unwrap());
    spec.slots = 1;
    store
        .coordinator()
        .join(&spec, Duration::from_secs(ttl))
        .await
}

async fn submit(store: &Store) -> Result<(), Error> {
    let task = Task::new(id(), "demo".parse().unwrap());
    let if_exists = Default::default();
    let answers = store.registry().submit(vec![Submit { task, if_exists }]);
    answers.await.remove(0).map(drop)
}

async fn claim(store: &Store, lease: &Lease) -> Result<bool, Error> {
    let answers = store.coordinator().claim(lease, vec![id()]).await;
    answers.into_iter().next().unwrap().map(|c| c.is_some())
}

/// Reads events until the task is reported without an owner.
async fn unclaimed(events: &mut EventStream) {
    loop {
        let batch = events.next().await.unwrap();
        let nobodys = |e: &Event| matches!(e, Event::Task(v) if v.claimed_by.is_none());
        if batch.iter().any(nobodys) {
            return;
        }
    }
}

/// Only the watch runs, and it reports the lost lease within a second of its end.
#[tokio::test(start_paused = true)]
async fn a_lost_lease_is_reported_in_paused_time() {
    let start: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
    let clock = Arc::new(TokioClock::new(start));
    let store = memory(clock.clone());
    let survivor = join(&store, "survivor", 3600).await.unwrap();
    let lost = join(&store, "lost", 15).await.unwrap();
    submit(&store).await.unwrap();
    assert!(claim(&store, &lost).await.unwrap());
    let mut events = store.coordinator().watch(&survivor, None).await.unwrap();
    unclaimed(&mut events).await;
    let waited = clock.now().duration_since(start).as_secs_f64();
    assert!((15.0..16.0).contains(&waited), "reported after {waited} s");
}

/// A clock that is moved by hand moves leases, and a watch notices.
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_moved_ends_leases() {
    let clock = Arc::new(ManualClock::new(Timestamp::UNIX_EPOCH));
    let store = memory(clock.clone());
    let survivor = join(&store, "survivor", 3600).await.unwrap();
    let lost = join(&store, "lost", 15).await.unwrap();
    submit(&store).await.unwrap();
    assert!(claim(&store, &lost).await.unwrap());
    let mut events = store.coordinator().watch(&survivor, None).await.unwrap();
    clock.advance(Duration::from_millis(14_999));
    store
        .coordinator()
        .renew(&lost, &NodeStatus::default())
        .await
        .unwrap();
    clock.advance(Duration::from_secs(15));
    tokio::time::timeout(Duration::from_secs(1), unclaimed(&mut events))
        .await
        .unwrap();
    // A clock that is set back does not change leases.
    clock.set(Timestamp::UNIX_EPOCH);
    let status = NodeStatus::default();
    assert!(store.coordinator().renew(&lost, &status).await.is_err());
    store.coordinator().renew(&survivor, &status).await.unwrap();
    assert!(claim(&store, &survivor).await.unwrap());
}

/// A dropped watch costs nothing, and the others continue.
#[tokio::test(start_paused = true)]
async fn a_dropped_watch_is_forgotten() {
    let store = Store::open("memory:").await.unwrap();
    let node = join(&store, "n", 60).await.unwrap();
    let dropped = store.coordinator().watch(&node, None).await.unwrap();
    let mut events = store.coordinator().watch(&node, None).await.unwrap();
    drop(dropped);
    submit(&store).await.unwrap();
    unclaimed(&mut events).await;
}

#[tokio::test]
async fn faults_come_as_asked_for() {
    let faulty = FaultyStore::new(&Store::open("memory:").await.unwrap());
    let store = faulty.store();
    let node = join(&store, "n", 60).await.unwrap();

    faulty.fail(Operation::Submit, Fault::Before, 1);
    faulty.fail(Operation::Submit, Fault::After, 1);
    let before = submit(&store).await.unwrap_err();
    assert!(before.is_retryable(), "{before}");
    let missing = store.registry().get(&id()).await;
    assert!(
        matches!(missing, Err(Error::NotFound { .. })),
        "{missing:?}"
    );
    let after = submit(&store).await.unwrap_err();
    assert!(after.is_retryable(), "{after}");
    assert!(store.registry().get(&id()).await.is_ok(), "it was done");
    let again = submit(&store).await.unwrap_err();
    assert!(matches!(again, Error::AlreadyExists { .. }), "{again}");
    assert_eq!(faulty.calls(Operation::Submit), 3);

    faulty.fail(Operation::Claim, Fault::Before, 10);
    assert!(claim(&store, &node).await.is_err());
    faulty.heal();
    assert!(claim(&store, &node).await.unwrap());
}

/// A lost lease is fenced and its watch ends; in the store it ends when its time is over.
#[tokio::test(start_paused = true)]
async fn a_lease_can_be_lost() {
    let clock = Arc::new(TokioClock::new(Timestamp::UNIX_EPOCH));
    let faulty = FaultyStore::new(&memory(clock));
    let store = faulty.store();
    let survivor = join(&store, "survivor", 3600).await.unwrap();
    let node = join(&store, "n", 15).await.unwrap();
    submit(&store).await.unwrap();
    assert!(claim(&store, &node).await.unwrap());
    let mut others = store.coordinator().watch(&survivor, None).await.unwrap();
    let mut events = store.coordinator().watch(&node, None).await.unwrap();
    events.next().await.unwrap();
    faulty.lose_lease(node.id);
    assert!(events.next().await.is_none(), "its watch has ended");
    let status = NodeStatus::default();
    let renewed = store.coordinator().renew(&node, &status).await;
    assert!(matches!(renewed, Err(Error::Fenced(_))), "{renewed:?}");
    let claimed = claim(&store, &node).await;
    assert!(matches!(claimed, Err(Error::Fenced(_))), "{claimed:?}");
    store.coordinator().leave(&node).await.unwrap();
    assert_eq!(
        store.registry().nodes().await.unwrap().len(),
        2,
        "it lives there still"
    );
    unclaimed(&mut others).await;
    assert!(claim(&store, &survivor).await.unwrap());
}
