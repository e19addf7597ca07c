//! Remote workers on etcd: two stores stand for two servers, each a process of its own.

use std::time::Duration;

use futures::StreamExt;
use windlass::{
    Command, Message, NodeName, TaskId,
    statemachine::message::SendCommand,
    store::{
        Claimed, Coordinator, Doctor, Error, Event, EventStream, Lease, LogWrite, Logged,
        NewWorker, NodeStatus, Registry, RemoteWorker, Speaker, WorkerRecord,
        etcd::EtcdStore,
        examine::{Examination, Verdict},
    },
};

use crate::{
    server::Server,
    support::{connect, in_time, raw, secs, spec, task, until, write},
};

fn worker(name: &str) -> NewWorker {
    let mut spec = spec(name);
    spec.worker = Some(RemoteWorker::new("elsewhere", "test 1"));
    NewWorker::new(spec, "hash of a secret", secs(60))
}

async fn submit(store: &EtcdStore, ids: &[&str]) {
    let tasks = ids.iter().map(|id| task(id)).collect();
    for answer in store.submit(tasks).await {
        answer.unwrap();
    }
}

fn id(text: &str) -> TaskId {
    text.parse().unwrap()
}

async fn try_claim(store: &EtcdStore, lease: &Lease, text: &str) -> Result<Option<Claimed>, Error> {
    store.claim(lease, vec![id(text)]).await.remove(0)
}

async fn claim(store: &EtcdStore, lease: &Lease, text: &str) -> Claimed {
    let claimed = try_claim(store, lease, text).await.unwrap();
    claimed.unwrap_or_else(|| panic!("'{text}' cannot be claimed"))
}

async fn speak(store: &EtcdStore, worker: &WorkerRecord, server: &str, seq: u64) -> Lease {
    let speaker = Speaker::new(server, seq);
    store.speak(&worker.lease, &speaker).await.unwrap()
}

async fn commit(store: &EtcdStore, claimed: &mut Claimed, message: &Message, ends: bool) {
    let mut commit = write(claimed, message);
    commit.write.drop_claim = ends;
    claimed.state = commit.write.state.clone();
    store.commit(vec![commit]).await.remove(0).unwrap();
}

async fn event<T>(what: &str, watch: &mut EventStream, matches: impl Fn(&Event) -> Option<T>) -> T {
    in_time(what, async {
        loop {
            let next = watch.next().await;
            let events = next.unwrap_or_else(|| panic!("the watch has ended: {what}"));
            if let Some(found) = events.iter().find_map(&matches) {
                return found;
            }
        }
    })
    .await
}

/// One server registers a worker and claims for it; another one takes its place and continues everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_server_continues_a_worker() {
    let server = Server::start();
    let (one, two) = (
        connect(&server.url("ns")).await,
        connect(&server.url("ns")).await,
    );
    submit(&one, &["a", "b", "c", "d"]).await;
    let registered = one.join_worker(&worker("w")).await.unwrap();
    let first = speak(&one, &registered, "one", 1).await;
    let a = claim(&one, &first, "a").await;
    claim(&one, &first, "b").await;

    let read = two.worker(&first.node).await.unwrap().expect("it lives");
    assert_eq!(read.lease, registered.lease);
    let second = speak(&two, &read, "two", 2).await;
    let late = try_claim(&one, &first, "c").await;
    let Err(Error::OtherSpeaker {
        server: by, seq, ..
    }) = &late
    else {
        panic!("{late:?}")
    };
    assert_eq!((by.as_str(), *seq), ("two", 2));
    let mut held = two.held(&second, None).await.unwrap();
    held.sort_by_key(|claimed| claimed.order);
    assert_eq!(held.len(), 2);
    assert_eq!((&held[0].claim, &held[0].state), (&a.claim, &a.state));

    let mut status = NodeStatus::default();
    (status.frozen, status.running) = (true, 2);
    two.renew(&second, &status).await.unwrap();
    let mut described = worker("w").spec;
    described.slots = 3;
    two.describe(&second, &described).await.unwrap();
    commit(&two, &mut held[0], &Message::checkpoint(), false).await;
    let line = Logged::new(1, jiff::Timestamp::now(), "a line");
    let write = LogWrite::new(held[0].claim.clone(), vec![line]);
    let logged = Coordinator::log(&two, vec![write]).await.remove(0);
    logged.unwrap();
    commit(&two, &mut held[0], &Message::complete(), true).await;
    claim(&two, &second, "c").await;
    until("the status beside the description", async || {
        let nodes = one.nodes().await.unwrap();
        let node = nodes.iter().find(|node| node.spec.name == first.node);
        let node = node.expect("it is listed");
        node.status == status && node.spec == described && node.claims == 2
    })
    .await;

    // The first one takes its place again. What it knew of the claims is older.
    let third = speak(&one, &read, "one", 3).await;
    let held = one.held(&third, None).await.unwrap();
    assert_eq!(held.len(), 2, "{held:?}");
    claim(&one, &third, "d").await;
    two.detach(&second);
    two.renew(&second, &NodeStatus::default()).await.unwrap();
    two.leave(&second).await.unwrap();
    assert!(one.worker(&first.node).await.unwrap().is_none());
    let node = one.join(&spec("n"), secs(60)).await.unwrap();
    for text in ["b", "c", "d"] {
        assert!(!claim(&one, &node, text).await.abandoned, "{text}");
    }
    let gone = one.renew(&third, &NodeStatus::default()).await;
    assert!(matches!(gone, Err(Error::Fenced(_))), "{gone:?}");
}

/// Two servers try to take the place of a third at once: one has it, and only that one claims.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_servers_takes_the_place() {
    let server = Server::start();
    let (one, two) = (
        connect(&server.url("ns")).await,
        connect(&server.url("ns")).await,
    );
    let worker = one.join_worker(&worker("w")).await.unwrap();
    for round in 1..20 {
        let text = format!("t{round}");
        submit(&one, &[&text]).await;
        let (x, y) = (Speaker::new("one", round), Speaker::new("two", round));
        let (x, y) = tokio::join!(one.speak(&worker.lease, &x), two.speak(&worker.lease, &y));
        let (by, lease) = match (x, y) {
            (Ok(lease), Err(Error::OtherSpeaker { .. })) => (&one, lease),
            (Err(Error::OtherSpeaker { .. }), Ok(lease)) => (&two, lease),
            other => panic!("one of them speaks: {other:?}"),
        };
        claim(by, &lease, &text).await;
    }
    let lease = speak(&two, &worker, "two", 100).await;
    assert_eq!(two.held(&lease, None).await.unwrap().len(), 19);
}

/// A server that claims while another takes its place: what it gets afterwards is refused, and no claim is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_race_with_a_change_of_the_server() {
    let server = Server::start();
    let (one, two) = (
        connect(&server.url("ns")).await,
        connect(&server.url("ns")).await,
    );
    let worker = one.join_worker(&worker("w")).await.unwrap();
    let ids: Vec<String> = (0..200).map(|n| format!("t{n}")).collect();
    let names: Vec<&str> = ids.iter().map(String::as_str).collect();
    submit(&one, &names).await;
    let first = speak(&one, &worker, "one", 1).await;
    let claiming = async {
        let mut won = Vec::new();
        for text in &ids {
            match try_claim(&one, &first, text).await {
                Ok(claimed) => won.extend(claimed),
                Err(Error::OtherSpeaker { .. }) => break,
                Err(error) => panic!("{error}"),
            }
        }
        won
    };
    let taking = async {
        tokio::time::sleep(Duration::from_millis(30)).await;
        let second = speak(&two, &worker, "two", 2).await;
        two.held(&second, None).await.unwrap()
    };
    let (won, held) = tokio::join!(claiming, taking);
    assert!(won.len() < ids.len(), "the other one came too late");
    let mut won: Vec<_> = won.into_iter().map(|claimed| claimed.claim).collect();
    let mut held: Vec<_> = held.into_iter().map(|claimed| claimed.claim).collect();
    won.sort_by_key(|claim| claim.fence);
    held.sort_by_key(|claim| claim.fence);
    assert_eq!(won, held, "each acknowledged claim is found, and no other");
}

/// The watch of a server reports commands and ends of tasks that workers have claimed, whichever server has claimed them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_hears_of_the_tasks_of_workers() {
    let server = Server::start();
    let (one, two) = (
        connect(&server.url("ns")).await,
        connect(&server.url("ns")).await,
    );
    let own = two.join(&spec("two"), secs(60)).await.unwrap();
    let mut watch = two.watch(&own, None).await.unwrap();
    submit(&one, &["a"]).await;
    let worker = one.join_worker(&worker("w")).await.unwrap();
    let first = speak(&one, &worker, "one", 1).await;
    claim(&one, &first, "a").await;
    let second = speak(&two, &worker, "two", 2).await;
    let mut held = two.held(&second, None).await.unwrap();
    let send = SendCommand::new(id("a"), "c".parse().unwrap(), Command::Pause);
    let order = one.send(vec![send]).await.remove(0).unwrap();
    event("a command for the task", &mut watch, |event| match event {
        Event::Task(view) if view.commanded && view.claimed_by == Some(first.id) => Some(()),
        _ => None,
    })
    .await;
    let again = two.held(&second, Some(vec![id("a")])).await.unwrap();
    assert_eq!(again[0].commands[0].order, order);
    let name: &NodeName = &first.node;
    let freeze = windlass::store::NodeCommand::Freeze;
    let sent = one.send_node(name, freeze, None).await.unwrap();
    let queued = event(
        "a command for the worker",
        &mut watch,
        |event| match event {
            Event::Node(queued) => Some(queued.clone()),
            _ => None,
        },
    )
    .await;
    assert_eq!((queued.id, queued.lease), (sent, first.id));
    two.acknowledge(&second, sent, "frozen").await.unwrap();
    commit(&two, &mut held[0], &Message::complete(), true).await;
    event("the end of the task", &mut watch, |event| {
        matches!(event, Event::Gone { id: gone, .. } if *gone == id("a")).then_some(())
    })
    .await;
    let findings = two.examine(&Examination::default()).await.unwrap();
    let faults = findings.iter();
    let faults: Vec<_> = faults.filter(|one| one.verdict != Verdict::Ok).collect();
    assert!(
        !faults
            .iter()
            .any(|one| ["keys", "nodes"].contains(&one.check)),
        "{faults:?}"
    );
}

/// A worker whose speaker's process is gone keeps its lease as long as another process renews it, and not longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lease_lasts_while_any_server_renews_it() {
    let server = Server::start();
    let two = connect(&server.url("ns")).await;
    let lease = {
        let one = connect(&server.url("ns")).await;
        let mut short = worker("w");
        short.ttl = secs(2);
        one.join_worker(&short).await.unwrap().lease
    };
    let until_now = std::time::Instant::now();
    while until_now.elapsed() < secs(4) {
        two.renew(&lease, &NodeStatus::default()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert!(two.worker(&lease.node).await.unwrap().is_some());
    until("the end of a lease that nobody renews", async || {
        two.worker(&lease.node).await.unwrap().is_none()
    })
    .await;
}

/// Regression: a server whose registration of a worker was stored, and which could not read the namespace after that, revoked
/// the lease, although another server had found the registration and the worker used its lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registration_that_fails_after_it_was_stored_stays_for_the_next_server() {
    let server = Server::start();
    let (one, other) = (
        connect(&server.url("ns")).await,
        connect(&server.url("ns")).await,
    );
    submit(&one, &["a"]).await;
    let mut etcd = raw(&server.endpoint()).await;
    let key = "/ns/meta/fences";
    let format = etcd.get(key, None).await.unwrap();
    let format = format.kvs()[0].value().to_vec();
    etcd.put(key, "no format", None).await.unwrap();
    let failed = one.join_worker(&worker("w")).await.unwrap_err();
    assert!(matches!(failed, Error::Unusable(_)), "{failed}");
    etcd.put(key, format, None).await.unwrap();
    let name: NodeName = "w".parse().unwrap();
    let found = other.worker(&name).await.unwrap().expect("it is revoked");
    let again = other.join_worker(&worker("w")).await.unwrap();
    assert_eq!(again.lease.id, found.lease.id);
    let lease = speak(&other, &again, "other", 1).await;
    claim(&other, &lease, "a").await;
}
