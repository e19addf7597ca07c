//! Limits on etcd: exact between clients that race, and free whatever ends a claim.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use windlass::{
    Message, NewTask, Runner, TaskContext, TaskId,
    statemachine::Limit,
    store::{
        Claimed, Coordinator, Doctor, Lease, NodeStatus, Registry, Submit,
        etcd::{EtcdStore, Options},
        examine::{Examination, Finding, Verdict},
    },
    testing::ManualClock,
};

use crate::{
    server::Server,
    support::{connect, force_delete, in_time, open, raw, secs, spec, task, until, write},
};

fn at_once(most: u32) -> Limit {
    Limit::at_once("customer=acme", most).unwrap()
}

async fn submit(store: &EtcdStore, count: usize, limits: &[Limit]) -> Vec<TaskId> {
    let tasks = (0..count).map(|n| {
        let mut submit: Submit = task(&format!("t{n}"));
        submit.task.limits = limits.to_vec();
        submit
    });
    let tasks: Vec<Submit> = tasks.collect();
    let ids = tasks.iter().map(|submit| submit.task.id.clone()).collect();
    for answer in store.submit(tasks).await {
        answer.unwrap();
    }
    ids
}

async fn claim(store: &EtcdStore, lease: &Lease, ids: &[TaskId]) -> Vec<Claimed> {
    let answers = store.claim(lease, ids.to_vec()).await.into_iter();
    answers.filter_map(|answer| answer.unwrap()).collect()
}

/// Returns the number of keys of slots of limits on tasks at once: the ends of claims delete them.
async fn slots_left(server: &Server) -> i64 {
    let options = etcd_client::GetOptions::new().with_prefix();
    let mut raw = raw(&server.endpoint()).await;
    let left = raw
        .get("/ns/meta/slots/a/", Some(options.with_count_only()))
        .await;
    left.unwrap().count()
}

/// Ends a claim as a handler's message does.
async fn end(store: &EtcdStore, claimed: &Claimed, message: &Message) {
    let mut commit = write(claimed, message);
    commit.write.drop_claim = true;
    for answer in store.commit(vec![commit]).await {
        answer.unwrap();
    }
}

/// Two clients of one server claim the same 40 tasks at once, again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_race_never_claim_more_than_the_limit() {
    let server = Server::start();
    let (one, two) = (
        connect(&server.url("ns")).await,
        connect(&server.url("ns")).await,
    );
    let limits = [
        at_once(3),
        Limit::starts("api", 10_000, Duration::from_secs(3600)).unwrap(),
    ];
    let ids = submit(&one, 40, &limits).await;
    let (a, b) = (
        one.join(&spec("a"), secs(60)).await.unwrap(),
        two.join(&spec("b"), secs(60)).await.unwrap(),
    );
    let mut ended = HashSet::new();
    let mut rounds = 0;
    while ended.len() < ids.len() {
        rounds += 1;
        assert!(rounds < 200, "only {} tasks were claimed", ended.len());
        let open: Vec<TaskId> = ids
            .iter()
            .filter(|id| !ended.contains(*id))
            .cloned()
            .collect();
        let reversed: Vec<TaskId> = open.iter().rev().cloned().collect();
        let (by_a, by_b) = tokio::join!(claim(&one, &a, &open), claim(&two, &b, &reversed));
        let claimed = by_a.len() + by_b.len();
        assert!(
            (1..=3).contains(&claimed),
            "{claimed} claims with a limit of 3"
        );
        // While they are held, nothing more is claimed: a node gets its own ones again.
        let again = claim(&one, &a, &reversed).await;
        assert_eq!(again.len(), by_a.len());
        let by_a = again;
        for (store, claims) in [(&one, &by_a), (&two, &by_b)] {
            for claimed in claims {
                end(store, claimed, &Message::complete()).await;
                assert!(ended.insert(claimed.task.id.clone()), "claimed twice");
            }
        }
    }
    assert_eq!(slots_left(&server).await, 0);
}

/// Whatever ends a claim frees its slot: the next task is claimed at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_is_free_however_its_claim_ends() {
    let server = Server::start();
    let store = connect(&server.url("ns")).await;
    let lease = store.join(&spec("n"), secs(60)).await.unwrap();
    let ids = submit(&store, 8, &[at_once(1)]).await;
    let mut raw = raw(&server.endpoint()).await;
    let next = async |n: usize| {
        let claimed = claim(&store, &lease, &ids[n..=n]).await;
        assert_eq!(claimed.len(), 1, "task {n}");
        assert!(claim(&store, &lease, &ids[n + 1..]).await.is_empty());
        claimed.into_iter().next().unwrap()
    };
    let claimed = next(0).await;
    end(&store, &claimed, &Message::complete()).await;
    let claimed = next(1).await;
    end(&store, &claimed, &Message::pause()).await;
    next(2).await;
    force_delete(&store, &ids[2]).await;
    // An older client deletes the keys that it knows.
    next(3).await;
    raw.delete("/ns/tasks/t3/owner", None).await.unwrap();
    raw.delete("/ns/tasks/t3", None).await.unwrap();
    // The record is damaged while the task is claimed: the claim that finds it quarantines it.
    next(4).await;
    raw.put("/ns/tasks/t4", "]", None).await.unwrap();
    let answers = store.claim(&lease, vec![ids[4].clone()]).await;
    assert!(answers[0].is_err());
    next(5).await;
    // The node leaves, and another one joins.
    store.leave(&lease).await.unwrap();
    let lease = store.join(&spec("m"), secs(60)).await.unwrap();
    assert_eq!(claim(&store, &lease, &ids[6..]).await.len(), 1);
    // The lease ends.
    raw.lease_revoke(i64::try_from(lease.id).unwrap())
        .await
        .unwrap();
    let lease = store.join(&spec("o"), secs(60)).await.unwrap();
    assert_eq!(claim(&store, &lease, &ids[6..]).await.len(), 1);
    store.renew(&lease, &NodeStatus::default()).await.unwrap();
}

/// One batch of claims of different keys, with tasks that have no limits among them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_of_claims_takes_different_slots() {
    let server = Server::start();
    let store = connect(&server.url("ns")).await;
    let lease = store.join(&spec("n"), secs(60)).await.unwrap();
    let ids = submit(&store, 200, &[at_once(150)]).await;
    assert_eq!(claim(&store, &lease, &ids).await.len(), 150);
}

/// Three nodes share a limit of 3, of which a dead node has two slots until its lease ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_run_a_backlog_within_its_limit_and_no_task_is_left_behind() {
    const TASKS: usize = 150;
    let server = Server::start();
    let (store, client) = open(&server.url("ns")).await;
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let coordinator = connect(&server.url("ns")).await;
    let ids = submit(&coordinator, TASKS, &[at_once(3)]).await;
    // It claims, and never renews its lease.
    let dead = coordinator.join(&spec("dead"), secs(5)).await.unwrap();
    assert_eq!(claim(&coordinator, &dead, &ids[..2]).await.len(), 2);
    let node = async |name: &str| {
        let (running, most) = (running.clone(), most.clone());
        let handler = move |_: TaskContext| {
            let (running, most) = (running.clone(), most.clone());
            async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(5)).await;
                running.fetch_sub(1, Ordering::SeqCst);
                Message::complete()
            }
        };
        let builder = Runner::builder(&store).node(name).handler("k", handler);
        builder.start().await.unwrap()
    };
    let nodes = [node("a").await, node("b").await, node("c").await];
    let all = async || {
        let counts = client.counts().await.unwrap();
        let ended = counts
            .iter()
            .filter(|count| count.state.is_some_and(|s| s.is_terminal()));
        ended.map(|count| count.tasks).sum::<u64>() == TASKS as u64
    };
    until("all tasks end", all).await;
    assert!((1..=3).contains(&most.load(Ordering::SeqCst)));
    assert_eq!(slots_left(&server).await, 0);
    let found = coordinator.examine(&Examination::default()).await.unwrap();
    let is_stray = |finding: &&Finding| finding.verdict == Verdict::Error;
    let strays: Vec<&Finding> = found.iter().filter(is_stray).collect();
    assert!(strays.is_empty(), "{strays:#?}");
    for node in nodes {
        in_time("the node stops", node.shutdown()).await;
    }
}

/// The keys of starts whose period is over are deleted in the end, and those of others stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_slots_of_starts_long_ago_are_deleted() {
    let server = Server::start();
    let start = "2030-01-01T00:00:00Z".parse().unwrap();
    let clock = Arc::new(ManualClock::new(start));
    let options = Options::parse(&server.url("ns")).unwrap();
    let store = EtcdStore::connect(options, clock.clone()).await.unwrap();
    let lease = store.join(&spec("n"), secs(600)).await.unwrap();
    let limits = [
        Limit::starts("short", 2, secs(1)).unwrap(),
        Limit::starts("long", 5, secs(7000)).unwrap(),
    ];
    let ids = submit(&store, 3, &limits).await;
    assert_eq!(claim(&store, &lease, &ids).await.len(), 2);
    let raw = raw(&server.endpoint()).await;
    let slots = async || {
        let options = etcd_client::GetOptions::new()
            .with_prefix()
            .with_count_only();
        let found = raw.clone().get("/ns/meta/slots/", Some(options)).await;
        found.unwrap().count()
    };
    store.maintain(None).await.unwrap();
    assert_eq!(slots().await, 4);
    clock.advance(secs(3600));
    store.maintain(None).await.unwrap();
    assert_eq!(slots().await, 2, "those of the long period");
    assert_eq!(claim(&store, &lease, &ids[2..]).await.len(), 1);
    clock.advance(secs(3 * 3600));
    store.maintain(None).await.unwrap();
    assert_eq!(slots().await, 0);
}

/// A node whose clock is a day ahead deletes no start that others still have to count.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_ahead_deletes_no_start_early() {
    let server = Server::start();
    // The end of a task, by the clock of this machine, is the newest record.
    let start = Timestamp::now();
    let open = async |clock: &Arc<ManualClock>| {
        let options = Options::parse(&server.url("ns")).unwrap();
        EtcdStore::connect(options, clock.clone()).await.unwrap()
    };
    let store = open(&Arc::new(ManualClock::new(start))).await;
    let lease = store.join(&spec("n"), secs(600)).await.unwrap();
    let limit = Limit::starts("api", 2, secs(7000)).unwrap();
    let ids = submit(&store, 2, &[limit]).await;
    let claimed = claim(&store, &lease, &ids).await;
    assert_eq!(claimed.len(), 2);
    end(&store, &claimed[0], &Message::complete()).await;
    let clock = Arc::new(ManualClock::new(start + SignedDuration::from_hours(24)));
    let ahead = open(&clock).await;
    ahead.maintain(None).await.unwrap();
    clock.advance(secs(3600));
    ahead.maintain(None).await.unwrap();
    let slots = etcd_client::GetOptions::new()
        .with_prefix()
        .with_count_only();
    let mut raw = raw(&server.endpoint()).await;
    let found = raw
        .get("/ns/meta/slots/", Some(slots.clone()))
        .await
        .unwrap();
    assert_eq!(found.count(), 2);
    clock.advance(secs(7000));
    ahead.maintain(None).await.unwrap();
    let found = raw.get("/ns/meta/slots/", Some(slots)).await.unwrap();
    assert_eq!(found.count(), 0, "the period has passed by every clock");
}

/// A task that waits in a full line fails at its deadline, and its end frees no slot.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_in_a_full_line_fails_at_its_deadline() {
    let server = Server::start();
    let (store, client) = open(&server.url("ns")).await;
    let coordinator = connect(&server.url("ns")).await;
    let ids = submit(&coordinator, 1, &[at_once(1)]).await;
    let holder = coordinator.join(&spec("holder"), secs(60)).await.unwrap();
    let held = claim(&coordinator, &holder, &ids).await;
    let started = Arc::new(AtomicUsize::new(0));
    let count = started.clone();
    let handler = move |_: TaskContext| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Message::complete() }
    };
    let builder = Runner::builder(&store).node("n").handler("k", handler);
    let node = builder.start().await.unwrap();
    let new = || NewTask::new("k").limit(at_once(1));
    let late = client.submit(new().end_within(secs(2))).await.unwrap();
    let next = client.submit(new()).await.unwrap();
    let ended = in_time("the late task ends", client.wait(&late))
        .await
        .unwrap();
    let error = ended.error().unwrap_or_default();
    assert!(error.starts_with("did not end by "), "{error}");
    assert_eq!(started.load(Ordering::SeqCst), 0, "the slot is held");
    assert_eq!(slots_left(&server).await, 1);
    assert!(client.get(&next).await.unwrap().limited_by.is_some());
    end(&coordinator, &held[0], &Message::complete()).await;
    let ended = in_time("the next task ends", client.wait(&next)).await;
    assert!(ended.unwrap().is_completed());
    in_time("the node stops", node.shutdown()).await;
    assert_eq!(
        (started.load(Ordering::SeqCst), slots_left(&server).await),
        (1, 0)
    );
}
