//! Streams of changes that are read too slowly, while the store fails.

use std::collections::BTreeSet;

use futures::StreamExt;
use windlass::{
    NewTask,
    store::ChangeStream,
    testing::{Fault, Operation},
};

use super::support::{World, secs};

/// A stream that is read too slowly for the feed of its process, with the tasks that were submitted meanwhile.
async fn slow_stream(world: &World) -> (ChangeStream, BTreeSet<String>) {
    let stream = world.client.changes(None).await.unwrap();
    let mut submitted = BTreeSet::new();
    for _ in 0..200 {
        let task = world.client.submit(NewTask::new("k")).await.unwrap();
        submitted.insert(task.id().to_string());
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }
    (stream, submitted)
}

#[tokio::test(start_paused = true)]
async fn a_slow_stream_of_changes_outlives_an_outage_at_the_switch_to_its_own_feed() {
    let world = World::new().await;
    let (mut stream, submitted) = slow_stream(&world).await;
    let before = world.faults.calls(Operation::Read);
    world.faults.fail(Operation::Read, Fault::Before, 3);
    let mut reported = BTreeSet::new();
    while reported.len() < submitted.len() {
        let next = tokio::time::timeout(secs(60), stream.next()).await;
        let batch = next.expect("a change in time").unwrap().unwrap();
        reported.extend(batch.into_iter().map(|change| change.task.to_string()));
    }
    assert_eq!(reported, submitted);
    let reads = world.faults.calls(Operation::Read) - before;
    assert_eq!(reads, 4, "three that failed and one that did not");
}

#[tokio::test(start_paused = true)]
async fn a_slow_stream_of_changes_ends_with_an_answer_that_stays() {
    let world = World::new().await;
    let (mut stream, _) = slow_stream(&world).await;
    world.faults.fail(Operation::Read, Fault::Refused, 1);
    let error = loop {
        let next = tokio::time::timeout(secs(60), stream.next()).await;
        match next.expect("a change in time").unwrap() {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(!error.is_retryable(), "{error}");
    assert!(stream.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_a_kind_ends_with_an_answer_that_stays_and_outlives_an_outage() {
    for (fault, ends) in [(Fault::Before, false), (Fault::Refused, true)] {
        let world = World::new().await;
        let mut stream = world.client.changes_of_kind("k", None).await.unwrap();
        world.faults.fail(Operation::Read, fault, 1);
        world
            .client
            .submit(NewTask::new("k").id("a"))
            .await
            .unwrap();
        let next = tokio::time::timeout(secs(60), stream.next()).await;
        let batch = next.expect("an answer in time").unwrap();
        match batch {
            Ok(batch) => assert!(!ends && batch[0].task.as_str() == "a", "{batch:?}"),
            Err(error) => assert!(ends && !error.is_retryable(), "{error}"),
        }
    }
}
