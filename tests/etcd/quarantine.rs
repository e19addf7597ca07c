//! Unreadable records that several nodes find at the same time.

use futures::StreamExt;
use windlass::{
    TaskId,
    store::{ChangeKind, Coordinator, Doctor, Error, Registry, examine::Examination},
};

use crate::{
    server::Server,
    support::{connect, in_time, raw, secs, spec, task},
};

/// The second quarantine of one record wrote its mark and its line of history again: the feed of changes
/// reported both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_find_a_damaged_record_at_once_quarantine_it_once() {
    const TASKS: usize = 60;
    let server = Server::start();
    let (one, two) = (
        connect(&server.url("ns")).await,
        connect(&server.url("ns")).await,
    );
    let names: Vec<String> = (0..TASKS).map(|n| format!("bad-{n}")).collect();
    let submitted = one
        .submit(names.iter().map(|name| task(name)).collect())
        .await;
    assert!(submitted.iter().all(Result::is_ok));
    let mut etcd = raw(&server.endpoint()).await;
    for name in &names {
        let key = format!("/ns/state/{name}");
        etcd.put(key, "no JSON", None).await.unwrap();
    }
    let ids: Vec<TaskId> = names.iter().map(|name| name.parse().unwrap()).collect();
    let first = one.join(&spec("one"), secs(60)).await.unwrap();
    let second = two.join(&spec("two"), secs(60)).await.unwrap();
    let mut changes = one.changes(None).await.unwrap();
    let (of_one, of_two) = tokio::join!(
        one.claim(&first, ids.clone()),
        two.claim(&second, ids.clone())
    );
    let found = |answers: &[Result<_, Error>]| {
        let damaged = |answer: &&Result<_, Error>| matches!(answer, Err(Error::Corrupt { .. }));
        answers.iter().filter(damaged).count()
    };
    let (by_one, by_two) = (found(&of_one), found(&of_two));
    assert!(
        by_one + by_two > TASKS,
        "both found some: {by_one}, {by_two}"
    );
    one.submit(vec![task("last")]).await;
    let mut quarantined = 0;
    let read = async {
        loop {
            for change in changes.next().await.unwrap().unwrap() {
                if change.task.as_str() == "last" {
                    return;
                }
                quarantined += usize::from(matches!(change.what, ChangeKind::Quarantined));
            }
        }
    };
    in_time("the feed reports the last submit", read).await;
    assert_eq!(quarantined, TASKS);
    // The record and its mark are one finding of the doctor.
    let findings = one.examine(&Examination::default()).await.unwrap();
    let found = findings.iter().find(|f| f.check == "quarantined").unwrap();
    assert!(found.found.starts_with("60 records"), "{found:?}");
}
