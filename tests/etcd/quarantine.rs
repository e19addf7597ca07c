//! Unreadable records that several nodes find at the same time.

use futures::StreamExt;
use windlass::{
    TaskId,
    store::{
        ChangeKind, ChangeStream, Claimed, Coordinator, Doctor, Error, Registry, etcd::EtcdStore,
        examine::Examination,
    },
};

use crate::{
    server::Server,
    support::{connect, in_time, raw, secs, spec, task},
};

/// How many tasks are quarantined at once.
const TASKS: usize = 60;

/// The most tries before the test fails because one node always ended before the other began.
const ROUNDS: usize = 50;

/// Regression: the second quarantine of a record wrote its mark and its line of history again, and the
/// feed of changes reported both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_find_a_damaged_record_at_once_quarantine_it_once() {
    let server = Server::start();
    let (one, two) = (
        connect(&server.url("ns")).await,
        connect(&server.url("ns")).await,
    );
    let first = one.join(&spec("one"), secs(60)).await.unwrap();
    let second = two.join(&spec("two"), secs(60)).await.unwrap();
    let mut etcd = raw(&server.endpoint()).await;
    let mut tasks = 0;
    for round in 0..ROUNDS {
        let ids = damage(&one, &mut etcd, round).await;
        tasks += TASKS;
        let mut changes = one.changes(None).await.unwrap();
        // Each begins in turn, so that a slower one does not always come second.
        let (near, far) = match round % 2 {
            0 => ((&one, &first), (&two, &second)),
            _ => ((&two, &second), (&one, &first)),
        };
        let (by_near, by_far) = tokio::join!(
            near.0.claim(near.1, ids.clone()),
            far.0.claim(far.1, ids.clone())
        );
        let last = format!("last-{round}");
        one.submit(vec![task(&last)]).await;
        let read = quarantines_before(&mut changes, &last);
        let quarantined = in_time("the feed reports the last submit", read).await;
        assert_eq!(quarantined, TASKS);
        if damaged(&by_near) + damaged(&by_far) > TASKS {
            // The record and its mark are one finding of the doctor.
            let findings = one.examine(&Examination::default()).await.unwrap();
            let found = findings.iter().find(|f| f.check == "quarantined").unwrap();
            let records = format!("{tasks} records");
            assert!(found.found.starts_with(&records), "{found:?}");
            return;
        }
    }
    panic!("no record was found by both: nothing is shown");
}

/// Submits tasks and writes an invalid state to each.
async fn damage(store: &EtcdStore, etcd: &mut etcd_client::Client, round: usize) -> Vec<TaskId> {
    let names: Vec<String> = (0..TASKS).map(|n| format!("bad-{round}-{n}")).collect();
    let submits = names.iter().map(|name| task(name)).collect();
    let submitted = store.submit(submits).await;
    assert!(submitted.iter().all(Result::is_ok));
    for name in &names {
        let key = format!("/ns/state/{name}");
        etcd.put(key, "no JSON", None).await.unwrap();
    }
    names.iter().map(|name| name.parse().unwrap()).collect()
}

/// Returns how many tasks a call of claims found damaged.
fn damaged(answers: &[Result<Option<Claimed>, Error>]) -> usize {
    let is_damaged = |answer: &&Result<_, Error>| matches!(answer, Err(Error::Corrupt { .. }));
    answers.iter().filter(is_damaged).count()
}

/// Counts the quarantines that are reported before the submit of this task.
async fn quarantines_before(changes: &mut ChangeStream, last: &str) -> usize {
    let mut quarantined = 0;
    loop {
        for change in changes.next().await.unwrap().unwrap() {
            if change.task.as_str() == last {
                return quarantined;
            }
            quarantined += usize::from(matches!(change.what, ChangeKind::Quarantined));
        }
    }
}
