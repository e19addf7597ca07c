//! Three members, and a store that knows all of them: whichever member dies or stands still,
//! requests, watches and leases continue.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use tokio::sync::{Mutex, MutexGuard};
use windlass::{Client, NewTask, Runner, TaskId, store::Store};
use windlass_etcd_cluster::{Cluster, cluster::Setup};

use crate::support::{open, secs, steps, until};

const TTL: Duration = secs(5);

struct Scene {
    cluster: Cluster,
    client: Client,
    node: Runner,
    running: Vec<TaskId>,
    lease: u64,
    _alone: MutexGuard<'static, ()>,
}

/// Three members at a time: with more on two cores a member can be elected that is about to be
/// stopped, and a leader that stood still ends leases.
static ALONE: Mutex<()> = Mutex::const_new(());

impl Scene {
    /// A node that runs ten tasks that outlast the test.
    async fn new() -> Self {
        let alone = ALONE.lock().await;
        let cluster = Cluster::start(Setup::of(3)).unwrap();
        let (store, client) = open(&cluster.url("ns")).await;
        let node = Runner::builder(&store).node("n").lease_ttl(TTL);
        let node = node.handler("steps", steps).start().await.unwrap();
        let mut running = Vec::new();
        for _ in 0..10 {
            let task = NewTask::new("steps").props(&100_000);
            running.push(client.submit(task).await.unwrap().into_id());
        }
        until("all run", async || {
            node.snapshot().await.is_some_and(|s| s.tasks.len() == 10)
        })
        .await;
        let lease = client.nodes().await.unwrap()[0].lease;
        Self {
            cluster,
            client,
            node,
            running,
            lease,
            _alone: alone,
        }
    }

    /// Asserts that requests are answered, and that the node notices their effects.
    async fn works(&self) {
        let mut other = None;
        until("another store is opened", async || {
            other = Store::open(&self.cluster.url("ns")).await.ok();
            other.is_some()
        })
        .await;
        let other = Client::new(&other.unwrap());
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        for client in [&self.client, &other] {
            let task = || NewTask::new("steps").props(&1);
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let id: TaskId = format!("short-{count}").parse().unwrap();
            until("a task is taken", async || {
                let task = task().id(id.to_string()).idempotent();
                client.submit(task).await.is_ok()
            })
            .await;
            until("it has run", async || {
                let record = client.get(&id).await;
                record.is_ok_and(|r| r.state.is_ok_and(|s| s.code().is_terminal()))
            })
            .await;
        }
    }

    /// Asserts that no claim was lost, and that the lease is the same.
    async fn lost_nothing(self) {
        let mut nodes = Vec::new();
        until("the nodes are listed", async || {
            nodes = self.client.nodes().await.unwrap_or_default();
            !nodes.is_empty()
        })
        .await;
        assert_eq!(nodes[0].lease, self.lease, "the lease was lost");
        for id in &self.running {
            let mut steps = 0;
            for _ in 0..2 {
                until("it makes steps", async || {
                    let Ok(record) = self.client.get(id).await else {
                        return false;
                    };
                    let state = record.state.unwrap();
                    assert_eq!((state.claims, state.attempts), (1, 0), "{id}");
                    let now: u32 = state.data.map_or(0, |d| d.get("data").unwrap());
                    let more = now > steps;
                    steps = steps.max(now);
                    more
                })
                .await;
            }
        }
        // Its handlers run for longer than anybody would wait.
        self.node.abort().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_member_is_killed_in_its_turn_and_comes_back() {
    let mut scene = Scene::new().await;
    for n in 0..3 {
        scene.cluster.kill(n);
        scene.works().await;
        scene.cluster.restart(n).unwrap();
    }
    scene.lost_nothing().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_stays_dead_for_longer_than_the_lease_costs_no_claim() {
    let mut scene = Scene::new().await;
    let leader = scene.cluster.leader().unwrap();
    scene.cluster.kill(leader);
    scene.works().await;
    tokio::time::sleep(TTL.mul_f64(1.6)).await;
    scene.works().await;
    scene.lost_nothing().await;
}

/// A member that does not respond, and does not close connections: the node's streams and calls may
/// be on it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_stands_still_for_longer_than_the_lease_costs_no_claim() {
    let scene = Scene::new().await;
    for n in 0..3 {
        // A leader that stood still may end leases when it wakes, before etcd 3.4.31 and 3.5.13.
        scene.cluster.lead((n + 1) % 3).unwrap();
        scene.cluster.pause(n).unwrap();
        tokio::time::sleep(TTL.mul_f64(1.6)).await;
        scene.works().await;
        scene.cluster.resume(n).unwrap();
    }
    scene.lost_nothing().await;
}

/// A store is opened whichever member is dead, and whichever it asks first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_is_opened_while_one_member_is_dead() {
    let mut cluster = Cluster::start(Setup::of(3)).unwrap();
    for n in 0..3 {
        cluster.kill(n);
        // The other two may have to agree on a leader first.
        cluster.settle((n + 1) % 3).unwrap();
        for _ in 0..10 {
            open(&cluster.url("ns")).await;
        }
        cluster.restart(n).unwrap();
    }
}
