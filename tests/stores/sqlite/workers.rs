//! Remote workers: no end of a process and no restart of the machine ends their leases.

use std::time::Duration;

use windlass::{
    Message,
    store::{
        Coordinator, Doctor, Error, Event, EventStream, Lease, NewWorker, NodeStatus, Registry,
        RemoteWorker, Speaker,
        examine::{Examination, Verdict},
        sqlite::SqliteStore,
    },
};

use super::support::*;

const TTL: Duration = Duration::from_secs(60);

fn worker(name: &str) -> NewWorker {
    let mut spec = node(name);
    spec.worker = Some(RemoteWorker::new("elsewhere", "test 1"));
    NewWorker::new(spec, "hash of a secret", TTL)
}

/// Registers a worker for which the server `a` speaks, and returns its lease.
async fn registered(store: &SqliteStore, name: &str) -> Lease {
    let joined = store.join_worker(&worker(name)).await.unwrap();
    let speaker = Speaker::new("a", 1);
    store.speak(&joined.lease, &speaker).await.unwrap()
}

/// Waits until a task is reported as claimed, or as free.
async fn is_claimed(watch: &mut EventStream, text: &str, is_claimed: bool) {
    let reported = |event: &Event| match event {
        Event::Task(view) => view.id.as_str() == text && view.claimed_by.is_some() == is_claimed,
        _ => false,
    };
    until(watch, reported).await;
}

#[tokio::test]
async fn the_end_of_its_process_does_not_end_a_worker() {
    let file = file();
    let (a, b) = (file.open().await, file.open().await);
    let watching = join(&b, "b").await;
    let mut watch = b.watch(&watching, None).await.unwrap();
    until(&mut watch, |e| matches!(e, Event::Listed)).await;
    submit(&a, "of the node").await;
    submit(&a, "of the worker").await;
    let node = join(&a, "a").await;
    claim(&a, &node, "of the node").await;
    is_claimed(&mut watch, "of the node", true).await;
    let first = registered(&a, "w").await;
    let held = claim(&a, &first, "of the worker").await;
    drop(a);
    // As if the process of `a` had started earlier, and another one had its number now.
    let raw = file.raw();
    let process: String = raw
        .query_row(
            "SELECT process FROM windlass_leases WHERE node = 'a'",
            (),
            |row| row.get(0),
        )
        .unwrap();
    let (front, _) = process.rsplit_once(' ').unwrap();
    let ended = raw.execute(
        "UPDATE windlass_leases SET process = ?1 WHERE node = 'a'",
        [format!("{front} 1")],
    );
    assert_eq!(ended.unwrap(), 1);
    is_claimed(&mut watch, "of the node", false).await;
    let live = b.worker(&first.node).await.unwrap().expect("it lives");
    assert_eq!(live.lease.id, first.id);
    let second = b.speak(&live.lease, &Speaker::new("b", 2)).await.unwrap();
    let found = b.held(&second, None).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].claim, held.claim);
    commit(&b, &found[0], Message::complete()).await.unwrap();
    let late = try_claim(&b, &first, "of the node").await;
    assert!(matches!(late, Err(Error::OtherSpeaker { .. })), "{late:?}");
    claim(&b, &second, "of the node").await;
}

#[tokio::test]
async fn after_a_restart_of_the_machine_a_worker_has_its_whole_ttl() {
    let file = file();
    let store = file.open().await;
    submit(&store, "t").await;
    let lease = registered(&store, "w").await;
    let held = claim(&store, &lease, "t").await;
    join(&store, "n").await;
    let restart = "UPDATE windlass_leases SET boot = 'the one before', expires = 5";
    assert_eq!(file.raw().execute(restart, ()).unwrap(), 2);
    let nodes = store.nodes().await.unwrap();
    assert_eq!(nodes.len(), 1, "the node has ended: {nodes:?}");
    assert_eq!((nodes[0].lease, nodes[0].lease_left_ms), (lease.id, 60_000));
    assert!(store.worker(&lease.node).await.unwrap().is_some());
    assert_eq!(store.held(&lease, None).await.unwrap().len(), 1);
    // The first write gives it the time, and ends the lease of the node.
    commit(&store, &held, Message::checkpoint()).await.unwrap();
    let left = store.nodes().await.unwrap()[0].lease_left_ms;
    assert!((50_000..=60_000).contains(&left), "{left}");
    store.renew(&lease, &NodeStatus::default()).await.unwrap();
    join(&store, "n").await;
    assert_eq!(store.nodes().await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_worker_that_is_not_renewed_ends_without_a_write() {
    let file = file();
    let store = file.open().await;
    let other = join(&store, "n").await;
    let mut watch = store.watch(&other, None).await.unwrap();
    submit(&store, "t").await;
    let lease = registered(&store, "w").await;
    claim(&store, &lease, "t").await;
    is_claimed(&mut watch, "t", true).await;
    let expired = "UPDATE windlass_leases SET expires = 0 WHERE node = 'w'";
    assert_eq!(file.raw().execute(expired, ()).unwrap(), 1);
    until(
        &mut watch,
        |e| matches!(e, Event::Task(view) if view.id.as_str() == "t" && view.claimed_by.is_none()),
    )
    .await;
    assert!(store.worker(&lease.node).await.unwrap().is_none());
    let late = store.renew(&lease, &NodeStatus::default()).await;
    assert!(matches!(late, Err(Error::Fenced(_))), "{late:?}");
}

#[tokio::test]
async fn an_examination_does_not_report_workers() {
    let file = file();
    let store = file.open().await;
    submit(&store, "t").await;
    let lease = registered(&store, "w").await;
    claim(&store, &lease, "t").await;
    let restart = "UPDATE windlass_leases SET boot = 'the one before', expires = 5";
    for change in ["", restart] {
        file.raw().execute_batch(change).unwrap();
        let found = store.examine(&Examination::default()).await.unwrap();
        let nodes = found.iter().find(|one| one.check == "nodes");
        let nodes = nodes.expect("the nodes are examined");
        assert_eq!((nodes.verdict, &*nodes.found), (Verdict::Ok, "1 live"));
    }
}
