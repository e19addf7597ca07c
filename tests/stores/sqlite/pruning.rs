//! History is pruned from its beginning. A watch that was behind lists again, and a feed is refused.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::StreamExt;
use jiff::SignedDuration;
use windlass::{
    Json, Message, Runner, StateKind, TaskContext,
    clock::Clock,
    store::{
        Coordinator, Error, Event, Purge, Registry, Store, Submit, memory::MemoryStore,
        sqlite::SqliteStore,
    },
    testing::ManualClock,
};

use super::support::*;
use crate::logged::Logged;

#[tokio::test]
async fn a_watch_that_was_behind_lists_again() {
    let file = file();
    let store = file.open().await;
    let lease = join(&store, "a").await;
    let mut watch = store.watch(&lease, None).await.unwrap();
    until(&mut watch, |e| matches!(e, Event::Listed)).await;
    // More than fits into the queue of a watch that is not read.
    for n in 0..40 {
        submit(&store, &format!("t{n}")).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    store.maintain(Some(Duration::ZERO)).await.unwrap();
    let reported = until(&mut watch, |e| matches!(e, Event::Listed)).await;
    assert!(reported.iter().any(|e| matches!(e, Event::Reset)));
    let names: BTreeSet<_> = reported
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
        .query_row("SELECT count(*) FROM windlass_gone", (), |row| row.get(0))
        .unwrap();
    assert!(
        left <= 1,
        "names of deleted tasks are forgotten with their history"
    );
}

#[tokio::test]
async fn a_feed_behind_pruned_history_is_refused() {
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
    // The newest change is kept, so a reader who knows it misses nothing.
    submit(&store, "last").await;
    let mut feed = store.changes(Some(first + 20)).await.unwrap();
    let next = feed.next().await.unwrap().unwrap();
    assert_eq!(next.last().unwrap().task, id("last"));
}

const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new("2030-01-01T00:00:00Z".parse().unwrap()))
}

fn days(n: i64) -> SignedDuration {
    SignedDuration::from_hours(24 * n)
}

async fn open(file: &File, clock: &Arc<ManualClock>) -> SqliteStore {
    let options = windlass::store::sqlite::Options::default();
    let opened = SqliteStore::open(file.path(), options, clock.clone());
    opened.await.unwrap()
}

/// A task that has ended now, by this clock.
async fn ended(store: &SqliteStore, clock: &ManualClock, name: &str) {
    let lease = join(store, "n").await;
    submit(store, name).await;
    let claimed = claim(store, &lease, name).await;
    let mut kill = commit_of(&claimed, Message::kill());
    kill.write.state.since = clock.now();
    store.commit(vec![kill]).await.remove(0).unwrap();
    store.leave(&lease).await.unwrap();
}

fn changes(file: &File) -> i64 {
    let count = "SELECT count(*) FROM windlass_changes";
    let raw = file.raw();
    raw.query_row(count, (), |row| row.get(0)).unwrap()
}

/// A clock that is ahead of everything in the file does not prune anything early.
#[tokio::test]
async fn a_clock_that_is_ahead_prunes_nothing_early() {
    let (file, clock) = (file(), clock());
    let store = open(&file, &clock).await;
    ended(&store, &clock, "a").await;
    // Ahead from one moment to the next.
    clock.set(clock.now() + days(30));
    assert_eq!(store.maintain(Some(WEEK)).await.unwrap(), 0);
    clock.set(clock.now() - days(30));
    drop(store);
    // Ahead at the start; what this process writes is not a witness of its own clock.
    clock.set(clock.now() + days(30));
    let store = open(&file, &clock).await;
    ended(&store, &clock, "b").await;
    for _ in 0..3 {
        assert_eq!(store.maintain(Some(WEEK)).await.unwrap(), 0);
    }
    assert_eq!(store.history(&id("a"), 10).await.unwrap().len(), 3);
    // It goes when the time has passed.
    clock.advance(WEEK - Duration::from_secs(3600));
    assert_eq!(store.maintain(Some(WEEK)).await.unwrap(), 0);
    clock.advance(Duration::from_secs(2 * 3600));
    assert_eq!(store.maintain(Some(WEEK)).await.unwrap(), 1);
    assert!(store.get(&id("b")).await.is_ok());
}

/// Starts a node and stops it at once: it never comes to pruning.
async fn short_run(file: &File, clock: &Arc<ManualClock>) {
    let url = format!("sqlite:{}", file.path().display());
    let store = Store::open_with_clock(&url, clock.clone()).await.unwrap();
    let node = Runner::builder(&store)
        .node("short")
        .retention(Some(WEEK))
        .handler("k", |_: TaskContext| async { Message::complete() })
        .start()
        .await
        .unwrap();
    node.shutdown().await;
}

/// The next node trusts the times that this one has written.
#[tokio::test]
async fn a_node_that_ends_at_once_warns_of_a_clock_that_is_ahead() {
    let log = Logged::begin();
    let warnings = || {
        let text = "the clock and the newest record of the store are far apart";
        log.lines_with(text).len()
    };
    let (file, clock) = (file(), clock());
    ended(&open(&file, &clock).await, &clock, "a").await;
    short_run(&file, &clock).await;
    assert_eq!(warnings(), 0, "the clock is right");
    clock.set(clock.now() + days(30));
    short_run(&file, &clock).await;
    assert_eq!(warnings(), 1);
}

/// Changes of a clock that was far ahead are pruned with those around them.
#[tokio::test]
async fn changes_from_the_future_do_not_stop_pruning() {
    let (file, clock) = (file(), clock());
    let store = open(&file, &clock).await;
    let now = clock.now();
    for n in 0..1200 {
        submit(&store, &format!("t{n}")).await;
        // A session with a wrong clock that has more changes than one step prunes.
        let is_wrong = (10..1150).contains(&n);
        clock.set(if is_wrong { now + days(3000) } else { now });
    }
    clock.advance(WEEK + Duration::from_secs(1));
    submit(&store, "young").await;
    submit(&store, "younger").await;
    store.maintain(Some(WEEK)).await.unwrap();
    assert_eq!(changes(&file), 2);
    // The same in memory.
    let store = MemoryStore::new(clock.clone());
    let now = clock.now();
    for (n, at) in [now, now + days(3000), now].into_iter().enumerate() {
        clock.set(at);
        let task = task(&format!("t{n}"));
        let if_exists = Default::default();
        let submitted = store.submit(vec![Submit { task, if_exists }]);
        submitted.await.remove(0).unwrap();
    }
    clock.advance(WEEK + Duration::from_secs(1));
    store.maintain(Some(WEEK)).await.unwrap();
    assert!(store.history(&id("t1"), 10).await.unwrap().is_empty());
    assert!(store.history(&id("t2"), 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_clock_in_memory_that_jumps_prunes_nothing_early() {
    let clock = clock();
    let store = MemoryStore::new(clock.clone());
    let (task, if_exists) = (task("a"), Default::default());
    let submitted = store.submit(vec![Submit { task, if_exists }]);
    submitted.await.remove(0).unwrap();
    clock.set(clock.now() + days(30));
    store.maintain(Some(WEEK)).await.unwrap();
    assert_eq!(store.history(&id("a"), 10).await.unwrap().len(), 1);
}

/// A start that no longer counts is kept for an hour: a clock may be set back.
#[tokio::test]
async fn starts_that_no_longer_count_are_pruned() {
    let file = file();
    let store = file.open().await;
    let lease = join(&store, "n").await;
    for name in ["old", "young"] {
        let second = Duration::from_secs(1);
        let limit = windlass::Limit::starts(name, 1, second).unwrap();
        let mut task = task(name);
        task.limits = vec![limit];
        try_submit(&store, task).await.unwrap();
        claim(&store, &lease, name).await;
    }
    let age = |key: &str, minutes: i64| {
        let update = "UPDATE windlass_slots SET until = until - ?2 WHERE key = ?1";
        let aged = file.raw().execute(update, (key, minutes * 60_000_000));
        assert_eq!(aged.unwrap(), 1);
    };
    age("old", 61);
    age("young", 59);
    store.maintain(None).await.unwrap();
    let left = file
        .raw()
        .query_row("SELECT group_concat(key) FROM windlass_slots", (), |row| {
            row.get::<_, String>(0)
        });
    assert_eq!(left.unwrap(), "young");
}

/// One step deleted up to 1,000 tasks of a megabyte each, and every other writer waited for it.
#[tokio::test]
async fn a_step_of_a_purge_is_bounded_in_bytes() {
    const TASKS: usize = 20;
    let file = file();
    let store = file.open().await;
    let lease = join(&store, "a").await;
    for n in 0..TASKS {
        let name = format!("t{n}");
        let mut large = task(&name);
        large.props = Json::new("props", &"x".repeat(1_000_000)).unwrap();
        try_submit(&store, large).await.unwrap();
        let claimed = claim(&store, &lease, &name).await;
        commit(&store, &claimed, Message::complete()).await.unwrap();
    }
    let purge = Purge::new([StateKind::Completed], jiff::Timestamp::MAX);
    assert_eq!(store.purge(&purge.limit(1000)).await.unwrap(), TASKS as u64);
    // Each step leaves a line.
    let lines = store.audit(10).await.unwrap().len();
    assert_eq!(
        lines, 2,
        "20 MB are more than one step and fewer than three"
    );
}
