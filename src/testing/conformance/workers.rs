//! Remote workers: leases of no process, and the server that speaks for each.

use std::time::Duration;

use windlass_statemachine::{Command, Message, NodeName};

use super::{
    Harness,
    kit::{Kit, LONG, assert_matches, id, one},
    wait::eventually,
};
use crate::store::{
    Claimed, Error, Event, Lease, NewWorker, NodeCommand, NodeRecord, NodeSpec, NodeStatus,
    RemoteWorker, Speaker, WorkerRecord,
};

/// The hash of the secret of the workers here.
const SECRET: &str = "3f2a-the-hash-of-a-secret";

fn described(name: &str) -> NodeSpec {
    let mut spec = Kit::spec(name);
    spec.worker = Some(RemoteWorker::new("machine-a", "windlass-python 0.1.0"));
    spec
}

fn of(name: &str, ttl: Duration) -> NewWorker {
    NewWorker::new(described(name), SECRET, ttl)
}

fn name(text: &str) -> NodeName {
    text.parse().expect("a legal name")
}

fn frozen() -> NodeStatus {
    NodeStatus {
        frozen: true,
        ..NodeStatus::default()
    }
}

/// Returns whether the store has remote workers.
pub(super) async fn are_kept(kit: &Kit) -> bool {
    let read = kit.coordinator().worker(&name("w")).await;
    !matches!(read, Err(Error::Unsupported { .. }))
}

impl Kit {
    async fn join_worker(&self, name: &str) -> WorkerRecord {
        let joined = self.coordinator().join_worker(&of(name, LONG)).await;
        joined.unwrap_or_else(|e| panic!("worker {name} cannot register: {e}"))
    }

    /// Registers a worker for which the server `a` speaks since request 1, and returns its lease.
    pub(super) async fn with_worker(&self, name: &str) -> Lease {
        let worker = self.join_worker(name).await;
        self.speak(&worker.lease, "a", 1).await
    }

    async fn try_speak(&self, lease: &Lease, server: &str, seq: u64) -> Result<Lease, Error> {
        let speaker = Speaker::new(server, seq);
        self.coordinator().speak(lease, &speaker).await
    }

    pub(super) async fn speak(&self, lease: &Lease, server: &str, seq: u64) -> Lease {
        let spoken = self.try_speak(lease, server, seq).await;
        spoken.unwrap_or_else(|e| panic!("{server} cannot speak with request {seq}: {e}"))
    }

    async fn worker(&self, text: &str) -> Option<WorkerRecord> {
        let read = self.coordinator().worker(&name(text)).await;
        read.expect("the worker is read")
    }

    pub(super) async fn worker_node(&self, text: &str) -> Option<NodeRecord> {
        let nodes = self.registry().nodes().await.expect("a list");
        nodes.into_iter().find(|node| node.spec.name == name(text))
    }

    pub(super) async fn all_held(&self, lease: &Lease) -> Vec<Claimed> {
        let held = self.coordinator().held(lease, None).await;
        let mut held = held.expect("the claims are read");
        held.sort_by_key(|claimed| claimed.order);
        held
    }
}

pub(super) fn assert_other_speaker<T: std::fmt::Debug>(answer: &Result<T, Error>, by: (&str, u64)) {
    let Err(Error::OtherSpeaker { server, seq, .. }) = answer else {
        panic!("another server speaks: {answer:?}")
    };
    assert_eq!((server.as_str(), *seq), by);
}

/// The same name and secret keep the lease, with its TTL, status, speaker and claims, and replace the description.
pub async fn a_worker_keeps_its_lease(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let first = kit.join_worker("w").await;
    assert_eq!(first.speaker, Speaker::default());
    assert_eq!((first.lease.ttl, &first.lease.node), (LONG, &name("w")));
    let lease = kit.speak(&first.lease, "a", 3).await;
    kit.claimed(&lease, "t").await;
    kit.coordinator().renew(&lease, &frozen()).await.unwrap();
    // A store may write the status after it has answered the renewal.
    eventually("the status of a worker", async || {
        let node = kit.worker_node("w").await;
        node.filter(|node| node.status.frozen)
    })
    .await;
    let mut again = of("w", LONG * 2);
    again.spec.slots = 3;
    for _ in 0..2 {
        let second = kit.coordinator().join_worker(&again).await.unwrap();
        assert_eq!(second.lease, first.lease);
        assert_eq!(second.spec, again.spec);
        assert_eq!(second.speaker, Speaker::new("a", 3));
        assert_eq!(second.status, frozen());
    }
    let node = kit.worker_node("w").await.unwrap();
    assert_eq!((node.spec, node.status), (again.spec, frozen()));
    assert_eq!((node.lease, node.claims), (first.lease.id, 1));
}

/// Another secret is refused while the worker lives, and so are a worker with the name of a node, and a node with that of
/// a worker.
pub async fn another_secret_is_refused(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let first = kit.join_worker("w").await;
    let mut other = of("w", LONG);
    other.secret = "another".into();
    let taken = of(node.node.as_str(), LONG);
    for refused in [&other, &taken] {
        let answer = kit.coordinator().join_worker(refused).await;
        assert_matches!(answer, Err(Error::AlreadyExists { what: "node", .. }));
    }
    let joined = kit.coordinator().join(&Kit::spec("w"), LONG).await;
    assert_matches!(joined, Err(Error::AlreadyExists { .. }));
    kit.renew(&first.lease).await.unwrap();
    kit.renew(&node).await.unwrap();
    kit.coordinator().leave(&first.lease).await.unwrap();
    let next = kit.coordinator().join_worker(&other).await.unwrap();
    assert_ne!(
        next.lease.id, first.lease.id,
        "the number of a lease is never used twice"
    );
    assert_matches!(kit.renew(&first.lease).await, Err(Error::Fenced(_)));
}

/// A worker is read by its name, and listed as a node without its secret.
pub async fn a_worker_is_read_and_listed(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    assert!(kit.worker("w").await.is_none(), "it has not registered");
    let joined = kit.join_worker("w").await;
    let read = kit.worker("w").await.expect("a live worker");
    assert_eq!((&read.lease, &read.spec), (&joined.lease, &described("w")));
    assert_eq!(
        (read.secret.as_str(), &read.speaker),
        (SECRET, &Speaker::default())
    );
    assert!(kit.worker(node.node.as_str()).await.is_none(), "a node");
    let listed = kit.worker_node("w").await.expect("it is listed");
    assert_eq!((listed.lease, &listed.spec), (read.lease.id, &read.spec));
    let left = Duration::from_millis(listed.lease_left_ms);
    assert!(left <= LONG && left > LONG / 2, "{left:?}");
    let shown = serde_json::to_string(&kit.registry().nodes().await.unwrap()).unwrap();
    assert!(!shown.contains(SECRET), "{shown}");
    assert!(!format!("{read:?} {joined:?}").contains(SECRET));
    eventually("a worker among the peers", async || {
        let peers = kit.coordinator().peers().await.unwrap();
        peers.into_iter().find(|peer| peer.spec == described("w"))
    })
    .await;
    kit.coordinator().leave(&read.lease).await.unwrap();
    assert!(kit.worker("w").await.is_none(), "it has left");
    assert!(kit.worker_node("w").await.is_none());
}

/// A description of a worker leaves its secret and its speaker.
pub async fn a_description_keeps_the_worker(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let lease = kit.with_worker("w").await;
    let mut spec = described("w");
    spec.slots = 3;
    kit.coordinator().describe(&lease, &spec).await.unwrap();
    let read = kit.worker("w").await.unwrap();
    assert_eq!((&read.spec, read.secret.as_str()), (&spec, SECRET));
    assert_eq!(read.speaker, Speaker::new("a", 1));
    let again = kit.coordinator().join_worker(&of("w", LONG)).await.unwrap();
    assert_eq!(again.lease, read.lease);
    let as_node = kit.coordinator().describe(&lease, &Kit::spec("w")).await;
    assert_matches!(as_node, Err(Error::Invalid(e)) if e.field() == "worker");
}

/// A node is not a worker: it cannot register, be described or be spoken for as one.
pub async fn a_node_is_no_worker(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let plain = NewWorker::new(Kit::spec("w"), SECRET, LONG);
    let refused = kit.coordinator().join_worker(&plain).await;
    assert_matches!(refused, Err(Error::Invalid(e)) if e.field() == "worker");
    let refused = kit.coordinator().join(&described("w"), LONG).await;
    assert_matches!(refused, Err(Error::Invalid(e)) if e.field() == "worker");
    let spec = described(node.node.as_str());
    let refused = kit.coordinator().describe(&node, &spec).await;
    assert_matches!(refused, Err(Error::Invalid(e)) if e.field() == "worker");
    let refused = kit.try_speak(&node, "a", 1).await;
    assert_matches!(refused, Err(Error::Invalid(e)) if e.field() == "worker");
    assert_eq!(kit.registry().nodes().await.unwrap().len(), 1);
}

/// The lease of a worker that is not renewed ends, and its claims are lost.
pub async fn a_lost_worker_abandons_its_tasks(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit("t").await;
    let short = harness.short_lease();
    let lost = kit
        .coordinator()
        .join_worker(&of("w", short))
        .await
        .unwrap();
    let lost = kit.speak(&lost.lease, "a", 1).await;
    let first = kit.claim(&lost, "t").await;
    let claimed = eventually("a lost worker's task", async || {
        kit.try_claim(&node, "t").await.expect("an answer")
    })
    .await;
    assert!(claimed.abandoned);
    kit.assert_fenced(&first, &Message::complete()).await;
    assert!(kit.worker("w").await.is_none(), "its lease has ended");
    assert_matches!(kit.renew(&lost).await, Err(Error::Fenced(_)));
    assert_matches!(kit.try_speak(&lost, "b", 2).await, Err(Error::Fenced(_)));
    let held = kit.coordinator().held(&lost, None).await;
    assert_matches!(held, Err(Error::Fenced(_)));
    kit.submit("u").await;
    assert_matches!(kit.try_claim(&lost, "u").await, Err(Error::Fenced(_)));
}

/// A server speaks for a worker with a greater number only; the same call again is answered as the first.
pub async fn a_greater_seq_takes_the_place(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let worker = kit.join_worker("w").await;
    for _ in 0..2 {
        let lease = kit.speak(&worker.lease, "a", 1).await;
        assert_eq!(lease.speaker, Some(Speaker::new("a", 1)));
        assert_eq!((lease.id, lease.ttl), (worker.lease.id, LONG));
    }
    assert_other_speaker(&kit.try_speak(&worker.lease, "b", 1).await, ("a", 1));
    kit.speak(&worker.lease, "b", 2).await;
    for (server, seq) in [("a", 1), ("a", 2), ("b", 1)] {
        assert_other_speaker(&kit.try_speak(&worker.lease, server, seq).await, ("b", 2));
    }
    let lease = kit.speak(&worker.lease, "b", 5).await;
    assert_eq!(kit.worker("w").await.unwrap().speaker, Speaker::new("b", 5));
    kit.renew(&lease).await.unwrap();
    kit.renew(&worker.lease).await.unwrap();
}

/// A renewal of a server that no longer speaks for a worker leaves the status as the present speaker has recorded it.
pub async fn a_status_is_that_of_the_speaker(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let before = kit.with_worker("w").await;
    let speaker = kit.speak(&before, "b", 2).await;
    kit.coordinator().renew(&before, &frozen()).await.unwrap();
    // A store may write the status after the renewal.
    for _ in 0..10 {
        let status = kit.worker("w").await.unwrap().status;
        assert!(
            !status.frozen,
            "the status of the server before: {status:?}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let now = NodeStatus {
        running: 3,
        ..NodeStatus::default()
    };
    eventually("the status of the speaker is recorded", async || {
        kit.coordinator().renew(&speaker, &now).await.unwrap();
        let status = kit.worker("w").await.unwrap().status;
        assert!(
            !status.frozen,
            "the status of the server before: {status:?}"
        );
        (status == now).then_some(())
    })
    .await;
}

/// Every watch of a node reports the commands to workers, but not those to other nodes.
pub async fn nodes_receive_commands_to_workers(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let other = kit.node("other").await;
    let lease = kit.with_worker("w").await;
    let mut watch = kit.watch(&node).await;
    watch.listed().await;
    kit.send_node(&other.node, NodeCommand::Balance).await;
    let sent = kit.send_node(&lease.node, NodeCommand::Freeze).await;
    let reported = watch.node_command().await;
    assert_eq!((reported.id, reported.lease), (sent, lease.id));
    assert_eq!(reported.command, NodeCommand::Freeze);
    let mut second = kit.watch(&node).await;
    let reported = second.node_command().await;
    assert_eq!((reported.id, reported.lease), (sent, lease.id));
    let coordinator = kit.coordinator();
    let foreign = coordinator.acknowledge(&node, sent, "no").await;
    assert_matches!(foreign, Err(Error::NotFound { .. }));
    coordinator
        .acknowledge(&lease, sent, "frozen")
        .await
        .unwrap();
    let outcome = kit.registry().node_outcome(sent).await.unwrap();
    assert_eq!(outcome.as_deref(), Some("frozen"));
    let mut third = kit.watch(&node).await;
    let is_command = |event: &Event| match event {
        Event::Node(queued) => Some(Some(queued.clone())),
        Event::Listed => Some(None),
        _ => None,
    };
    let queued = third.until("the end of the list", is_command).await;
    assert!(queued.is_none(), "it was answered: {queued:?}");
}

/// A worker, its speaker and its claims are there after a restart of the process, and another process continues them.
pub async fn workers_are_durable(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let first = kit.with_worker("w").await;
    let a = kit.claimed(&first, "a").await;
    kit.send("a", "c", Command::Pause).await;
    let kit = kit.reopened(harness).await;
    let read = kit.worker("w").await.expect("it lives");
    assert_eq!(
        (read.lease.id, &read.speaker),
        (first.id, &Speaker::new("a", 1))
    );
    assert_eq!((read.lease.ttl, read.secret.as_str()), (LONG, SECRET));
    let second = kit.speak(&read.lease, "b", 2).await;
    let tasks = vec![id("a")];
    let held = kit.coordinator().held(&second, Some(tasks)).await;
    let mut held = held.unwrap();
    assert_eq!((held.len(), held[0].commands.len()), (1, 1));
    assert_eq!((&held[0].claim, &held[0].state), (&a.claim, &a.state));
    kit.checkpoint(&mut held[0], 1).await;
    kit.renew(&second).await.unwrap();
    kit.submit("b").await;
    assert_other_speaker(&kit.try_claim(&first, "b").await, ("b", 2));
    kit.claim(&second, "b").await;
    let again = kit.coordinator().join_worker(&of("w", LONG)).await.unwrap();
    assert_eq!(again.lease.id, first.id);
    kit.coordinator().leave(&second).await.unwrap();
    let node = kit.node("n").await;
    let tasks = vec![id("a")];
    let claimed = one(kit.coordinator().claim(&node, tasks).await).unwrap();
    assert!(!claimed.expect("it was released").abandoned);
}
