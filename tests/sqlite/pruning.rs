//! History is pruned from its beginning; who was behind is told, and lists again.

use std::{collections::BTreeSet, time::Duration};

use futures::StreamExt;
use windlass::{
    Message,
    store::{Coordinator, Error, Event, Registry},
};

use crate::support::*;

#[tokio::test]
async fn a_watch_that_was_behind_lists_again() {
    let file = file();
    let store = file.open().await;
    let lease = join(&store, "a").await;
    let mut watch = store.watch(&lease, None).await.unwrap();
    until(&mut watch, |e| matches!(e, Event::Listed)).await;
    // More than the queue of a watch holds that nobody reads.
    for n in 0..40 {
        submit(&store, &format!("t{n}")).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    store.maintain(Some(Duration::ZERO)).await.unwrap();
    let told = until(&mut watch, |e| matches!(e, Event::Listed)).await;
    assert!(told.iter().any(|e| matches!(e, Event::Reset)));
    let names: BTreeSet<_> = told
        .iter()
        .filter_map(|e| match e {
            Event::Task(view) => Some(view.id.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(names.len(), 40);
    submit(&store, "after").await;
    until(&mut watch, |e| is_task(e, "after")).await;
}

#[tokio::test]
async fn fences_and_orders_go_on_growing_after_everything_was_pruned() {
    let file = file();
    let fence;
    {
        let store = file.open().await;
        let lease = join(&store, "a").await;
        submit(&store, "t").await;
        let claimed = claim(&store, &lease, "t").await;
        fence = claimed.claim.fence;
        commit(&store, &claimed, Message::complete()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert_eq!(store.maintain(Some(Duration::ZERO)).await.unwrap(), 1);
        tokio::time::sleep(Duration::from_millis(2)).await;
        store.maintain(Some(Duration::ZERO)).await.unwrap();
        assert!(matches!(
            store.history(&id("t"), 9).await,
            Err(Error::NotFound { .. })
        ));
    }
    let store = file.open().await;
    submit(&store, "u").await;
    assert!(store.get(&id("u")).await.unwrap().order > fence.0);
    let raw = file.raw();
    let left: i64 = raw
        .query_row("SELECT count(*) FROM gone", (), |row| row.get(0))
        .unwrap();
    assert!(
        left <= 1,
        "names of deleted tasks are forgotten with their history"
    );
}

#[tokio::test]
async fn a_feed_that_was_behind_is_told_so() {
    let file = file();
    let store = file.open().await;
    submit(&store, "first").await;
    let first = store.history(&id("first"), 1).await.unwrap()[0].seq;
    for n in 0..20 {
        submit(&store, &format!("t{n}")).await;
    }
    let mut feed = store.changes(Some(first)).await.unwrap();
    let next = feed.next().await.unwrap().unwrap();
    assert_eq!(next[0].seq, first + 1);
    tokio::time::sleep(Duration::from_millis(2)).await;
    store.maintain(Some(Duration::ZERO)).await.unwrap();
    let error = store.changes(Some(first)).await.err().unwrap();
    assert!(
        matches!(&error, Error::Invalid(e) if e.field() == "after"),
        "{error:?}"
    );
    let error = store.changes(Some(1 << 60)).await.err().unwrap();
    assert!(
        matches!(&error, Error::Invalid(e) if e.field() == "after"),
        "{error:?}"
    );
    // The newest change of all is kept, so one who knows it misses nothing.
    submit(&store, "last").await;
    let mut feed = store.changes(Some(first + 20)).await.unwrap();
    let next = feed.next().await.unwrap().unwrap();
    assert_eq!(next.last().unwrap().task, id("last"));
}
