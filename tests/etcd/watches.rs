//! Watches and feeds of changes after faults and compactions.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use etcd_client::WatchOptions;
use futures::StreamExt;
use windlass::store::{Coordinator, Event, NodeCommand, Registry};

use windlass_etcd_cluster::Proxy;

use crate::{
    idle::counters,
    server::Server,
    support::{connect, force_delete, raw, secs, spec, task, until},
};

/// The commands wait when the watch begins. The names of their keys are not in the order of their
/// sending.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_node_commands_are_reported_in_the_order_of_their_sending() {
    let server = Server::start();
    let store = connect(&server.url("ns")).await;
    let lease = store.join(&spec("n"), secs(60)).await.unwrap();
    let mut etcd = raw(&server.endpoint()).await;
    for (name, command) in [("z", "freeze"), ("m", "balance"), ("a", "unfreeze")] {
        let key = format!("/ns/nodes/n/commands/{name}");
        let value = format!(r#"{{"command":"{command}","parameters":{{}}}}"#);
        etcd.put(key, value, None).await.unwrap();
    }
    let mut events = store.watch(&lease, None).await.unwrap();
    let mut reported = Vec::new();
    let reading = async {
        while !reported.contains(&NodeCommand::Unfreeze) {
            for event in events.next().await.unwrap() {
                if let Event::Node(command) = event {
                    reported.push(command.command);
                }
            }
        }
    };
    tokio::time::timeout(secs(30), reading).await.unwrap();
    let sent = [
        NodeCommand::Freeze,
        NodeCommand::Balance,
        NodeCommand::Unfreeze,
    ];
    assert_eq!(reported, sent);
}

/// Others write on the same servers, whose history is compacted; here nothing happens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_feed_whose_stream_breaks_after_a_compaction_has_missed_nothing() {
    let interval = "--experimental-watch-progress-notify-interval=200ms".to_owned();
    let server = Server::start_with("http", &[interval]);
    let proxy = Proxy::to(&[server.endpoint()]).await.unwrap();
    let near = connect(&server.url("ns")).await;
    let far = connect(&proxy.url("ns")).await;
    let mut changes = far.changes(None).await.unwrap();
    let fed = tokio::spawn(async move { changes.next().await.unwrap() });
    let mut etcd = raw(&server.endpoint()).await;
    for _ in 0..5 {
        etcd.put("/other/x", "", None).await.unwrap();
    }
    // An idle server reports its progress.
    let sent = async || counters(&server, "grpc_server_msg_sent_total").await["Watch"];
    let before = sent().await;
    until("the server reported its progress", async || {
        sent().await >= before + 5
    })
    .await;
    proxy.cut();
    let now = etcd.get("x", None).await.unwrap();
    let revision = now.header().unwrap().revision();
    etcd.compact(revision, None).await.unwrap();
    near.submit(vec![task("a")]).await.remove(0).unwrap();
    proxy.mend();
    let fed = tokio::time::timeout(secs(30), fed).await.unwrap().unwrap();
    assert_eq!(fed.unwrap()[0].task.as_str(), "a");
}

/// Tasks of this node are deleted and submitted again while the watch is broken, and the history of
/// it is compacted: the list that follows has their ids.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_replaced_in_compacted_history_is_gone_for_its_node() {
    let server = Server::start();
    let proxy = Proxy::to(&[server.endpoint()]).await.unwrap();
    let near = connect(&server.url("ns")).await;
    let far = connect(&proxy.url("ns")).await;
    let lease = far.join(&spec("n"), secs(60)).await.unwrap();
    near.submit(vec![task("kept"), task("replaced")]).await;
    let mut events = far.watch(&lease, None).await.unwrap();
    let mut seen = Vec::new();
    while !seen.iter().any(|e| matches!(e, Event::Listed)) {
        seen.extend(events.next().await.unwrap());
    }
    let ids = ["kept", "replaced"].map(|name| name.parse().unwrap());
    let claims = far.claim(&lease, ids.to_vec()).await.into_iter();
    let claims: Vec<_> = claims.map(|claim| claim.unwrap().unwrap()).collect();
    proxy.cut();
    force_delete(&near, &ids[1]).await;
    near.submit(vec![task("replaced")]).await.remove(0).unwrap();
    let mut etcd = raw(&server.endpoint()).await;
    let now = etcd.get("x", None).await.unwrap();
    let revision = now.header().unwrap().revision();
    etcd.compact(revision, None).await.unwrap();
    proxy.mend();
    let (mut reset, mut gone, mut views) = (false, Vec::new(), Vec::new());
    let again = async {
        loop {
            for event in events.next().await.unwrap() {
                match event {
                    Event::Reset => reset = true,
                    Event::Gone { id, order, fence } if reset => gone.push((id, order, fence)),
                    Event::Task(view) if reset => views.push(view),
                    Event::Listed if reset => return,
                    _ => {}
                }
            }
        }
    };
    tokio::time::timeout(secs(30), again).await.unwrap();
    let first = &claims[1];
    let expected = (ids[1].clone(), first.order, Some(first.claim.fence));
    assert_eq!(gone, [expected]);
    let next = views.iter().find(|view| view.id == ids[1]).unwrap();
    assert!(next.order > first.order && next.claimed_by.is_none());
    // The same node claims the next one, and is free to write it.
    let claimed = far.claim(&lease, vec![ids[1].clone()]).await.remove(0);
    assert_eq!(claimed.unwrap().unwrap().order, next.order);
}

/// A task of this node is deleted while the watch is broken, and the history of it is compacted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_deleted_in_compacted_history_is_gone_for_its_node() {
    let server = Server::start();
    let proxy = Proxy::to(&[server.endpoint()]).await.unwrap();
    let near = connect(&server.url("ns")).await;
    let far = connect(&proxy.url("ns")).await;
    let lease = far.join(&spec("n"), secs(60)).await.unwrap();
    near.submit(vec![task("kept"), task("gone")]).await;
    let mut events = far.watch(&lease, None).await.unwrap();
    let mut seen = Vec::new();
    while !seen.iter().any(|e| matches!(e, Event::Listed)) {
        seen.extend(events.next().await.unwrap());
    }
    let ids = ["kept", "gone"].map(|name| name.parse().unwrap());
    for claim in far.claim(&lease, ids.to_vec()).await {
        claim.unwrap().unwrap();
    }
    proxy.cut();
    force_delete(&near, &ids[1]).await;
    let mut etcd = raw(&server.endpoint()).await;
    let now = etcd.get("x", None).await.unwrap();
    let revision = now.header().unwrap().revision();
    etcd.compact(revision, None).await.unwrap();
    proxy.mend();
    let (mut reset, mut gone) = (false, Vec::new());
    let again = async {
        loop {
            for event in events.next().await.unwrap() {
                match event {
                    Event::Reset => reset = true,
                    // A cut connection may still have brought it.
                    Event::Gone { id, .. } => gone.push(id),
                    Event::Listed if reset => return,
                    _ => {}
                }
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), again)
        .await
        .unwrap();
    assert_eq!(gone, ids[1..]);
}

/// Claims are released all the time; other tasks come in the meantime, and are reported as soon as
/// etcd reports them to anybody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_do_not_delay_the_events_of_other_tasks() {
    const RELEASED: usize = 16;
    const SUBMITS: usize = 101;
    let server = Server::start();
    let store = connect(&server.url("ns")).await;
    let lease = store.join(&spec("n"), secs(60)).await.unwrap();
    let released = (0..RELEASED).map(|n| task(&format!("released{n}")));
    for answer in store.submit(released.collect()).await {
        answer.unwrap();
    }
    let (to_test, mut from_watch) = tokio::sync::mpsc::unbounded_channel();
    let mut events = store.watch(&lease, None).await.unwrap();
    let is_other = |id: &str| id.starts_with("other");
    tokio::spawn(async move {
        while let Some(events) = events.next().await {
            let at = Instant::now();
            for event in events {
                if let Event::Task(view) = event
                    && is_other(view.id.as_str())
                {
                    let _ = to_test.send(at);
                }
            }
        }
    });
    let mut etcd = raw(&server.endpoint()).await;
    let options = WatchOptions::new().with_prefix();
    let mut stream = etcd.watch("/ns/tasks/other", Some(options)).await.unwrap();
    let (to_raw, mut from_raw) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok(Some(response)) = stream.message().await {
            let at = Instant::now();
            let puts = response.events().iter().filter_map(|event| event.kv());
            for kv in puts {
                if !kv.key_str().unwrap()["/ns/tasks/".len()..].contains('/') {
                    let _ = to_raw.send(at);
                }
            }
        }
    });
    let over = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for n in 0..RELEASED {
        let (over, mut etcd) = (over.clone(), raw(&server.endpoint()).await);
        writers.push(tokio::spawn(async move {
            let key = format!("/ns/tasks/released{n}/owner");
            while !over.load(Ordering::Relaxed) {
                let owner = r#"{"node":"m"}"#;
                etcd.put(key.as_str(), owner, None).await.unwrap();
                etcd.delete(key.as_str(), None).await.unwrap();
            }
        }));
    }
    let mut late = Vec::new();
    for n in 0..SUBMITS {
        let one = store.submit(vec![task(&format!("other{n}"))]);
        one.await.remove(0).unwrap();
        let soon = secs(30);
        let ours = tokio::time::timeout(soon, from_watch.recv()).await;
        let etcds = tokio::time::timeout(soon, from_raw.recv()).await;
        let (ours, etcds) = (ours.unwrap().unwrap(), etcds.unwrap().unwrap());
        late.push(ours.saturating_duration_since(etcds));
    }
    over.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    late.sort_unstable();
    // A delay would hold back each of them; a busy machine delays some.
    let (quarter, most) = (late[SUBMITS / 4], late[SUBMITS - 1]);
    assert!(
        quarter < Duration::from_millis(2),
        "a quarter {quarter:?}, at most {most:?}"
    );
}
