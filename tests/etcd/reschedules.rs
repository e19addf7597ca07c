//! Reschedules on etcd: what they keep of a task, and tasks of Metafora.

use windlass::{
    StateKind,
    store::{
        ChangeKind, Coordinator, Done, Operation, Part, Reason, Registry, Require, Reschedule,
        Transaction,
    },
};

use crate::{
    server::Server,
    support::{connect, raw, secs, spec, task},
    transactions::{apply, id, refusals},
};

/// A claim that was lost counts, though the task is rescheduled before the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reschedule_keeps_the_claim_that_was_lost() {
    let server = Server::start();
    let store = connect(&server.url("ns")).await;
    store.submit(vec![task("t")]).await.remove(0).unwrap();
    let lease = store.join(&spec("n"), secs(60)).await.unwrap();
    let claim = store.claim(&lease, vec![id("t")]).await.remove(0).unwrap();
    let claim = claim.unwrap();
    let change = || Transaction::new().reschedule(Reschedule::new(id("t")).priority(9));
    let refused = refusals(apply(&store, change()).await);
    assert_eq!(refused, [(Part::Operation(0), Reason::Claimed)]);
    raw(&server.endpoint())
        .await
        .lease_revoke(lease.id.try_into().unwrap())
        .await
        .unwrap();
    let past = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(1);
    let due = Reschedule::new(id("t")).due(past).priority(9);
    let done = apply(&store, Transaction::new().reschedule(due)).await;
    assert_eq!(done.unwrap(), [Done::Rescheduled(StateKind::Runnable)]);
    let record = store.get(&id("t")).await.unwrap();
    assert_eq!((record.fence, record.task.priority), (claim.claim.fence, 9));
    let lease = store.join(&spec("m"), secs(60)).await.unwrap();
    let again = store.claim(&lease, vec![id("t")]).await.remove(0).unwrap();
    let again = again.unwrap();
    assert!(again.abandoned && again.claim.fence > claim.claim.fence);
    assert_eq!(again.state.attempts, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_is_rescheduled_all_the_time_keeps_a_short_history() {
    let server = Server::start();
    let store = connect(&server.url("ns")).await;
    store.submit(vec![task("t")]).await.remove(0).unwrap();
    let submitted = store.get(&id("t")).await.unwrap().order;
    for priority in 0..200 {
        let change = Reschedule::new(id("t")).priority(priority);
        let change = Operation::Reschedule(change);
        store.apply(vec![change.into()]).await.remove(0).unwrap();
    }
    let lines = store.history(&id("t"), 1000).await.unwrap();
    assert!((65..=82).contains(&lines.len()), "{}", lines.len());
    let record = store.get(&id("t")).await.unwrap();
    assert_eq!((record.order, record.task.priority), (submitted, 199));
}

/// The keys of a task as Metafora's client writes them, and the owner as its node does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_of_metafora_is_rescheduled_until_its_node_claims_it() {
    let server = Server::start();
    let store = connect(&server.url("ns")).await;
    let mut etcd = raw(&server.endpoint()).await;
    for (key, value) in [
        ("/props", r#"{"a":1}"#),
        ("", ""),
        ("/commands", r#"{"message":"pause"}"#),
    ] {
        let key = format!("/ns/tasks/m{key}");
        etcd.put(key, value, None).await.unwrap();
    }
    let order = store.get(&id("m")).await.unwrap().order;
    let later = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let change = || {
        Transaction::new()
            .require(id("m"), Require::Unclaimed)
            .reschedule(Reschedule::new(id("m")).due(later).priority(4))
    };
    let done = apply(&store, change()).await.unwrap();
    assert_eq!(done, [Done::Rescheduled(StateKind::Sleeping)]);
    let record = store.get(&id("m")).await.unwrap();
    assert_eq!(
        (record.order, record.task.priority, record.commands),
        (order, 4, 1)
    );
    assert_eq!(record.task.props.as_str(), r#"{"a":1}"#);
    assert_eq!(record.state.unwrap().code(), StateKind::Sleeping);
    let lines = store.history(&id("m"), 10).await.unwrap();
    let (from, to) = (StateKind::Runnable, StateKind::Sleeping);
    let kind = None;
    let expected = ChangeKind::Rescheduled { from, to, kind };
    let is = |what: &ChangeKind| *what == expected;
    assert!(lines.iter().any(|line| is(&line.what)), "{lines:?}");
    etcd.put("/ns/tasks/m/owner", r#"{"node":"go"}"#, None)
        .await
        .unwrap();
    let parts = [Part::Guard(0), Part::Operation(0)];
    let expected = parts.map(|part| (part, Reason::Claimed));
    assert_eq!(refusals(apply(&store, change()).await), expected);
}
