//! Tasks that ended long ago are pruned, whether found by the time of their record or by reading
//! it.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use windlass::{
    Client, Message, NewTask, Runner, StateKind, TaskContext, TaskId, clock::Clock, store::Store,
};

use crate::{
    server::Server,
    support::{code, raw, secs, until},
};

const ENDED: [StateKind; 3] = [StateKind::Completed, StateKind::Failed, StateKind::Killed];
const WEEK: u64 = 7 * 24 * 3600;

/// A clock that is put forward by hand.
#[derive(Debug)]
struct ByHand(Mutex<(Timestamp, Duration)>);

impl ByHand {
    fn at(start: Timestamp) -> Arc<Self> {
        Arc::new(Self(Mutex::new((start, Duration::ZERO))))
    }

    /// Time passes.
    fn forward(&self, by: SignedDuration) {
        let mut clock = self.0.lock().unwrap();
        clock.0 = clock.0.checked_add(by).unwrap();
        clock.1 += by.unsigned_abs();
    }

    /// The clock is set, and no time passes.
    fn set(&self, by: SignedDuration) {
        let mut clock = self.0.lock().unwrap();
        clock.0 = clock.0.checked_add(by).unwrap();
    }
}

impl Clock for ByHand {
    fn now(&self) -> Timestamp {
        self.0.lock().unwrap().0
    }

    fn monotonic(&self) -> Duration {
        self.0.lock().unwrap().1
    }
}

struct World {
    clock: Arc<ByHand>,
    store: Store,
    client: Client,
    _node: Runner,
}

impl World {
    async fn new(server: &Server) -> Self {
        Self::with(server, ByHand::at("2030-01-01T00:00:00Z".parse().unwrap())).await
    }

    async fn with(server: &Server, clock: Arc<ByHand>) -> Self {
        let url = server.url("ns");
        let store = Store::open_with_clock(&url, clock.clone()).await.unwrap();
        let node = Runner::builder(&store)
            .node("n")
            // The node of an earlier world leaves in the background.
            .wait_for_name(Duration::from_secs(30))
            .retention(None)
            .handler("k", |_: TaskContext| async { Message::complete() })
            .start()
            .await
            .unwrap();
        Self {
            clock,
            client: Client::new(&store),
            store,
            _node: node,
        }
    }

    /// Submits tasks and waits until they have ended.
    async fn ended(&self, names: &[&str]) -> Vec<TaskId> {
        let mut ids = Vec::new();
        for name in names {
            let task = NewTask::new("k").id(*name);
            ids.push(self.client.submit(task).await.unwrap().into_id());
        }
        for id in &ids {
            self.is(id, StateKind::Completed).await;
        }
        ids
    }

    async fn is(&self, id: &TaskId, state: StateKind) {
        until(&format!("{id} is {state}"), async || {
            code(&self.client, id).await == Some(state)
        })
        .await;
    }

    async fn left(&self) -> Vec<String> {
        let ids = self.store.transfer().unwrap().ids().await.unwrap();
        let mut ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        ids.sort();
        ids
    }

    /// Prunes until there is nothing more to prune, and returns the number of deleted tasks.
    async fn maintain(&self) -> u64 {
        let mut gone = 0;
        loop {
            let retention = Some(secs(WEEK));
            match self.store.coordinator().maintain(retention).await.unwrap() {
                0 => return gone,
                some => gone += some,
            }
        }
    }
}

#[tokio::test]
async fn retention_takes_what_is_old_and_nothing_else() {
    let server = Server::start();
    let world = World::new(&server).await;
    world.ended(&["a1", "a2", "a3"]).await;
    assert_eq!(world.maintain().await, 0, "it notes the revision of now");
    world.clock.forward(SignedDuration::from_hours(1));
    world.ended(&["b1", "b2"]).await;
    world.clock.forward(SignedDuration::from_hours(3));
    world.ended(&["c1"]).await;
    assert_eq!(world.maintain().await, 0, "it notes the revision of now");

    // A week after the first three and the next two, of which one kind has to be read; not of c1.
    world.clock.forward(SignedDuration::from_hours(7 * 24 - 2));
    assert_eq!(world.maintain().await, 5);
    assert_eq!(world.left().await, ["c1"]);
    world.clock.forward(SignedDuration::from_hours(3));
    assert_eq!(world.maintain().await, 1);
    assert_eq!(world.left().await, Vec::<String>::new());
}

/// One list of the tasks to purge serves several steps. A task that was retried in the meantime
/// stays.
#[tokio::test]
async fn what_is_retried_while_it_is_purged_lives() {
    let server = Server::start();
    let world = World::new(&server).await;
    let ids = world.ended(&["a", "b", "c"]).await;
    world.clock.forward(SignedDuration::from_hours(1));
    let registry = world.store.registry();
    let before = world.clock.now();
    assert_eq!(
        registry
            .purge(&windlass::store::Purge::new(ENDED, before).limit(1))
            .await
            .unwrap(),
        1
    );
    assert_eq!(world.left().await, ["b", "c"]);
    // It ends again at once, after the time of the purge.
    registry.retry(vec![ids[1].clone()]).await[0]
        .as_ref()
        .unwrap();
    world.is(&ids[1], StateKind::Completed).await;
    assert_eq!(
        registry
            .purge(&windlass::store::Purge::new(ENDED, before).limit(10))
            .await
            .unwrap(),
        1
    );
    assert_eq!(world.left().await, ["b"]);
}

/// A record that cannot be read is left to an operator, however old it is.
#[tokio::test]
async fn what_cannot_be_read_is_not_purged() {
    let server = Server::start();
    let world = World::new(&server).await;
    world.ended(&["a", "b"]).await;
    let mut etcd = raw(&server.endpoint()).await;
    etcd.put("/ns/finished/strange", "{", None).await.unwrap();
    world.clock.forward(SignedDuration::from_hours(1));
    let before = world.clock.now();
    let registry = world.store.registry();
    assert_eq!(
        registry
            .purge(&windlass::store::Purge::new(ENDED, before).limit(1))
            .await
            .unwrap(),
        1
    );
    assert_eq!(world.maintain().await, 0, "it notes the revision of now");
    world.clock.forward(SignedDuration::from_hours(7 * 24 + 1));
    assert_eq!(world.maintain().await, 1);
    assert_eq!(
        registry
            .purge(&windlass::store::Purge::new(ENDED, world.clock.now()).limit(10))
            .await
            .unwrap(),
        0
    );
    let kept = etcd.get("/ns/finished/strange", None).await.unwrap();
    assert_eq!(kept.kvs().len(), 1);
}

/// A clock that is ahead does not prune ended tasks early.
#[tokio::test]
async fn a_clock_that_is_ahead_prunes_nothing_early() {
    let server = Server::start();
    let world = World::new(&server).await;
    world.ended(&["a"]).await;
    assert_eq!(world.maintain().await, 0, "it notes the revision of now");
    drop(world);
    // Ahead at the start: its own marks do not confirm its clock.
    let clock = ByHand::at("2030-01-31T00:00:00Z".parse().unwrap());
    let world = World::with(&server, clock).await;
    for _ in 0..3 {
        assert_eq!(world.maintain().await, 0);
        world.clock.forward(SignedDuration::from_hours(24));
    }
    world.clock.forward(SignedDuration::from_hours(5 * 24));
    assert_eq!(world.maintain().await, 1, "a week has passed");
    // Ahead from one moment to the next.
    world.ended(&["b"]).await;
    world.clock.set(SignedDuration::from_hours(30 * 24));
    assert_eq!(world.maintain().await, 0);
}

/// Without a mark, the end of a task bounds the time.
#[tokio::test]
async fn a_first_look_with_a_clock_that_is_ahead_prunes_nothing() {
    let server = Server::start();
    let world = World::new(&server).await;
    world.ended(&["a"]).await;
    drop(world);
    let clock = ByHand::at("2030-01-31T00:00:00Z".parse().unwrap());
    let world = World::with(&server, clock).await;
    assert_eq!(world.maintain().await, 0);
    assert_eq!(world.maintain().await, 0);
}

/// A mark that a clock has set into the future does not stop the others.
#[tokio::test]
async fn a_mark_from_the_future_does_not_stop_pruning() {
    let server = Server::start();
    let world = World::new(&server).await;
    world.ended(&["a"]).await;
    world.clock.set(SignedDuration::from_hours(3000 * 24));
    assert_eq!(world.maintain().await, 0, "it notes the revision of now");
    world.clock.set(SignedDuration::from_hours(-3000 * 24));
    drop(world);
    let clock = ByHand::at("2030-01-01T00:00:00Z".parse().unwrap());
    let world = World::with(&server, clock).await;
    assert_eq!(world.maintain().await, 0);
    world.clock.forward(SignedDuration::from_hours(8 * 24));
    assert_eq!(world.maintain().await, 1);
}
