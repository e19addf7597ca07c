//! The history of a task in a new namespace: the newest lines are in the value of its state, the others in blocks.

use std::{collections::BTreeSet, time::Duration};

use futures::StreamExt;
use windlass::{
    BoxError, Client, Command, Message, NewTask, Runner, StateKind, TaskContext, TaskId,
    store::{Change, ChangeKind, Store},
};

use crate::{
    server::Server,
    support::{code, keys_below, open, raw, until},
};

const PATIENCE: Duration = Duration::from_secs(30);

fn id() -> TaskId {
    "a".parse().unwrap()
}

async fn hundred_steps(task: TaskContext) -> Result<Message, BoxError> {
    for step in 0..100 {
        task.checkpoint(&step).await?;
    }
    Ok(Message::complete())
}

/// Runs the task `a` with a hundred checkpoints to its end.
async fn run(store: &Store, client: &Client) {
    let node = Runner::builder(store).node("n").handler("k", hundred_steps);
    let node = node.start().await.unwrap();
    client.submit(NewTask::new("k").id("a")).await.unwrap();
    until("it has ended", async || {
        code(client, &id()).await == Some(StateKind::Completed)
    })
    .await;
    node.shutdown().await;
}

async fn history(store: &Store) -> Vec<Change> {
    store.registry().history(&id(), 1000).await.unwrap()
}

/// Blocks take the keys of older ones: etcd deletes nothing, and its index does not grow with each transition.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_history_of_a_task_has_16_keys_at_most_and_is_in_order() {
    let server = Server::start();
    let (store, client) = open(&server.url("ns")).await;
    run(&store, &client).await;
    let mut etcd = raw(&server.endpoint()).await;
    assert_eq!(keys_below(&mut etcd, "/ns/history/a/").await.len(), 16);
    let lines = history(&store).await;
    let version = client.get(&id()).await.unwrap().state.unwrap().version;
    assert!(version > 100, "{version}");
    assert!(lines.is_sorted_by_key(|line| line.seq), "{lines:#?}");
    assert!(lines.len() >= 64, "{}", lines.len());
    // The next incarnation continues where this one ended.
    client.retry(&id()).await.unwrap();
    let again = history(&store).await;
    assert_eq!(again.last().unwrap().what, ChangeKind::Retried);
    assert_eq!(keys_below(&mut etcd, "/ns/history/a/").await.len(), 16);
    client.force_delete(&id()).await.unwrap();
    assert_eq!(keys_below(&mut etcd, "/ns/history/a/").await, []);
    assert_eq!(keys_below(&mut etcd, "/ns/state/a").await, []);
}

/// A task that was claimed a few times has no key of its history but its state.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_history_of_a_short_task_is_in_its_state() {
    let server = Server::start();
    let (store, client) = open(&server.url("ns")).await;
    let node = Runner::builder(&store).node("n");
    let node = node.handler("k", async |_: TaskContext| Message::complete());
    let node = node.start().await.unwrap();
    client.submit(NewTask::new("k").id("a")).await.unwrap();
    client.wait(&id()).await.unwrap();
    node.shutdown().await;
    let mut etcd = raw(&server.endpoint()).await;
    assert_eq!(keys_below(&mut etcd, "/ns/history/").await, []);
    let what: Vec<ChangeKind> = history(&store)
        .await
        .into_iter()
        .map(|line| line.what)
        .collect();
    assert!(
        matches!(
            &what[..],
            [
                ChangeKind::Submitted { .. },
                ChangeKind::Claimed { .. },
                ChangeKind::Moved {
                    to: StateKind::Completed,
                    ..
                }
            ]
        ),
        "{what:#?}"
    );
}

/// A line is in several values of the state and then in a block, and is reported once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_feed_reports_each_line_once_and_with_the_place_of_the_history() {
    let server = Server::start();
    let (store, client) = open(&server.url("ns")).await;
    let mut feed = store.registry().changes(None).await.unwrap();
    run(&store, &client).await;
    client.retry(&id()).await.unwrap();
    let mut reported: Vec<Change> = Vec::new();
    while !reported.iter().any(|line| line.what == ChangeKind::Retried) {
        let next = tokio::time::timeout(PATIENCE, feed.next()).await.unwrap();
        reported.extend(next.unwrap().unwrap());
    }
    let places: BTreeSet<u64> = reported.iter().map(|line| line.seq).collect();
    assert_eq!(places.len(), reported.len(), "{reported:#?}");
    let checkpoints = reported.iter().map(|line| &line.what);
    let checkpoints = checkpoints.filter(|what| matches!(what, ChangeKind::Checkpointed { .. }));
    assert_eq!(checkpoints.count(), 100);
    let lines = history(&store).await;
    let newest: Vec<&Change> = lines.iter().rev().take(64).collect();
    let of_feed: Vec<&Change> = reported.iter().rev().take(64).collect();
    assert_eq!(newest, of_feed);
    // A feed that resumes in the middle reports the rest.
    let middle = reported[50].seq;
    let mut again = store.registry().changes(Some(middle)).await.unwrap();
    let mut rest = Vec::new();
    while rest.len() < reported.len() - 51 {
        let next = tokio::time::timeout(PATIENCE, again.next()).await.unwrap();
        rest.extend(next.unwrap().unwrap());
    }
    assert_eq!(rest, reported[51..]);
}

/// A program that only reads does not decide the layout, and connects before there is one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_that_is_open_before_the_first_write_reports_all() {
    let server = Server::start();
    let (reader, _) = open(&server.url("ns")).await;
    let mut feed = reader.registry().changes(None).await.unwrap();
    let (store, client) = open(&server.url("ns")).await;
    run(&store, &client).await;
    let mut reported: Vec<Change> = Vec::new();
    let is_end = |line: &Change| {
        let to = StateKind::Completed;
        matches!(&line.what, ChangeKind::Moved { to: end, .. } if *end == to)
    };
    while !reported.iter().any(is_end) {
        let next = tokio::time::timeout(PATIENCE, feed.next()).await.unwrap();
        reported.extend(next.unwrap().unwrap());
    }
    // Submitted, claimed, a hundred checkpoints, and the end.
    assert!(reported.len() >= 103, "{reported:#?}");
    let lines = history(&store).await;
    assert_eq!(lines[lines.len() - 64..], reported[reported.len() - 64..]);
}

/// A copy into a namespace raises the fences of the claims that follow. A feed is not a node, so it may be open in the
/// meantime.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_feed_reports_the_fences_that_a_copy_has_raised() {
    let server = Server::start();
    let (from, client) = open(&server.url("from")).await;
    let mut etcd = raw(&server.endpoint()).await;
    for _ in 0..500 {
        etcd.put("other", "", None).await.unwrap();
    }
    let node = Runner::builder(&from).node("n").handler("k", paused);
    let node = node.start().await.unwrap();
    client.submit(NewTask::new("k").id("a")).await.unwrap();
    until("it is paused", async || {
        code(&client, &id()).await == Some(StateKind::Paused)
    })
    .await;
    node.shutdown().await;
    let far = Server::start();
    let (to, client) = open(&far.url("to")).await;
    client.submit(NewTask::new("other")).await.unwrap();
    let (reader, _) = open(&far.url("to")).await;
    let mut feed = reader.registry().changes(None).await.unwrap();
    let exported = from.transfer().unwrap().export(&[id()]).await;
    let exported = exported.into_iter().map(Result::unwrap).collect();
    for imported in to.transfer().unwrap().import(exported).await {
        imported.unwrap();
    }
    let node = Runner::builder(&to).node("n").handler("k", paused);
    let node = node.start().await.unwrap();
    client.command(&id(), Command::Run).await.unwrap();
    let mut claimed = None;
    while claimed.is_none() {
        let next = tokio::time::timeout(PATIENCE, feed.next()).await.unwrap();
        let lines = next.unwrap().unwrap().into_iter();
        claimed = lines
            .map(|line| line.what)
            .find(|what| matches!(what, ChangeKind::Claimed { .. }));
    }
    node.shutdown().await;
    let lines = history(&to).await;
    let stored = lines.iter().rev().map(|line| &line.what);
    let stored = stored
        .clone()
        .find(|what| matches!(what, ChangeKind::Claimed { .. }));
    assert_eq!(claimed.as_ref(), stored);
    let fence = claimed.unwrap().fence().unwrap();
    assert!(fence.0 > 500, "{fence}");
}

async fn paused(_: TaskContext) -> Message {
    Message::pause()
}

/// An operator overwrites the state of a task that a node has claimed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_repairs_the_state_of_its_task_keeps_the_lines() {
    let server = Server::start();
    let (store, client) = open(&server.url("ns")).await;
    let (go, going) = tokio::sync::watch::channel(false);
    let handler = move |_: TaskContext| {
        let mut going = going.clone();
        async move {
            going.wait_for(|go| *go).await?;
            Ok::<_, BoxError>(Message::complete())
        }
    };
    let node = Runner::builder(&store).node("n").handler("k", handler);
    let node = node.start().await.unwrap();
    client.submit(NewTask::new("k").id("a")).await.unwrap();
    until("it runs", async || {
        client.get(&id()).await.unwrap().node.is_some()
    })
    .await;
    let before = history(&store).await;
    assert_eq!(before.len(), 2, "{before:#?}");
    let mut etcd = raw(&server.endpoint()).await;
    for text in ["{", "{{"] {
        etcd.put("/ns/state/a", text, None).await.unwrap();
    }
    go.send(true).unwrap();
    // Until then the state cannot be read, which ends a wait.
    until("it has ended", async || {
        let state = client.get(&id()).await.unwrap().state;
        state.is_ok_and(|state| state.code() == StateKind::Completed)
    })
    .await;
    node.shutdown().await;
    let after = history(&store).await;
    assert_eq!((after.len(), &after[..2]), (3, &before[..]));
}

/// Neither the state nor its previous value can be read: their lines are lost, but no version is used again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_whose_newest_lines_are_lost_goes_on_with_a_greater_version() {
    let server = Server::start();
    let (store, client) = open(&server.url("ns")).await;
    let node = Runner::builder(&store).node("n");
    let node = node.handler("k", async |task: TaskContext| {
        for step in 0..10 {
            task.checkpoint(&step).await?;
        }
        Ok::<_, BoxError>(Message::pause())
    });
    let node = node.start().await.unwrap();
    client.submit(NewTask::new("k").id("a")).await.unwrap();
    until("it is paused", async || {
        code(&client, &id()).await == Some(StateKind::Paused)
    })
    .await;
    node.shutdown().await;
    let mut before = client.get(&id()).await.unwrap().state.unwrap();
    let mut lines = history(&store).await;
    let mut etcd = raw(&server.endpoint()).await;
    for _ in 0..3 {
        for text in ["{", "{{"] {
            etcd.put("/ns/state/a", text, None).await.unwrap();
        }
        client.retry(&id()).await.unwrap();
        let state = client.get(&id()).await.unwrap().state.unwrap();
        let (old, new) = (before.version, state.version);
        assert!(new > old, "{new} after {old}");
        assert!(state.incarnation > before.incarnation);
        let after = history(&store).await;
        // The other lines exist, and the retry is the last.
        let (last, kept) = after.split_last().unwrap();
        assert_eq!(last.what, ChangeKind::Retried);
        assert!(kept.len() > 8, "{after:#?}");
        assert_eq!(kept, &lines[..kept.len()]);
        (before, lines) = (state, after);
    }
}
