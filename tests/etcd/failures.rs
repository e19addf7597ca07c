//! Servers that die, stand still, forget and fill up: nothing is lost and nothing gives up.

use std::time::{Duration, Instant};

use futures::StreamExt;
use windlass::{
    Client, NewTask, Runner, StateKind,
    store::{Coordinator, Error, Event, NodeStatus, Registry},
};

use windlass_etcd_cluster::Proxy;

use crate::{
    server::Server,
    support::{connect, obeys, open, raw, secs, spec, steps, task, until},
};

async fn submit_steps(client: &Client, tasks: u32, steps: u32) -> Vec<windlass::TaskId> {
    let mut ids = Vec::new();
    for _ in 0..tasks {
        let task = NewTask::new("steps").props(&steps);
        ids.push(client.submit(task).await.unwrap().into_id());
    }
    ids
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_and_restarted_costs_nothing() {
    let mut server = Server::start();
    let (store, client) = open(&server.url("ns")).await;
    let node = Runner::builder(&store).node("n").handler("steps", steps);
    let node = node.start().await.unwrap();
    let ids = submit_steps(&client, 20, 60).await;
    for steps in [10, 30] {
        until("the first task works", async || {
            let state = client.get(&ids[0]).await.unwrap().state.unwrap();
            let data = state.data.map(|data| data.as_str().parse::<u32>().unwrap());
            data.is_some_and(|done| done >= steps)
        })
        .await;
        server.kill();
        // The time for which there is no server.
        tokio::time::sleep(Duration::from_millis(700)).await;
        server.restart();
    }
    for id in &ids {
        let done = client.wait(id).await.unwrap();
        assert_eq!(done.result::<u32>().unwrap(), 60);
        assert_eq!((done.state.claims, done.state.attempts), (1, 0));
    }
    node.shutdown().await;
}

/// Its lease lives on: it would run its tasks without receiving commands, and the others would not see
/// it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_registration_was_deleted_stops_its_handlers_and_joins_again() {
    let server = Server::start();
    let (store, client) = open(&server.url("ns")).await;
    let node = Runner::builder(&store).node("n").lease_ttl(secs(6));
    let node = node.handler("k", obeys).start().await.unwrap();
    let id = client.submit(NewTask::new("k")).await.unwrap().into_id();
    let runs = async || node.snapshot().await.unwrap().tasks.len() == 1;
    until("it runs", runs).await;
    let before = client.get(&id).await.unwrap().fence;
    let mut etcd = raw(&server.endpoint()).await;
    etcd.delete("/ns/nodes/n/_metafora", None).await.unwrap();
    until(
        "the node has joined again, and its task runs again",
        async || {
            let nodes = client.nodes().await.unwrap();
            let fence = client.get(&id).await.unwrap().fence;
            nodes.len() == 1 && fence > before && runs().await
        },
    )
    .await;
    let pause = client.command(&id, windlass::Command::Pause).await.unwrap();
    client.wait_outcome(&pause).await.unwrap();
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stands_still_past_the_lease_costs_the_claims_and_no_task() {
    let server = Server::start();
    let (store, client) = open(&server.url("ns")).await;
    let node = Runner::builder(&store).node("n").lease_ttl(secs(5));
    let node = node.handler("steps", steps).start().await.unwrap();
    let ids = submit_steps(&client, 10, 100).await;
    until("all run", async || {
        node.snapshot().await.is_some_and(|s| s.tasks.len() == 10)
    })
    .await;
    let paused = Instant::now();
    server.pause();
    until("the handlers are stopped", async || {
        node.snapshot().await.is_some_and(|s| s.tasks.is_empty())
    })
    .await;
    let stopped = paused.elapsed();
    assert!(stopped < secs(5), "before the lease can end: {stopped:?}");
    // Longer than the lease in all.
    tokio::time::sleep(secs(3)).await;
    server.resume();
    for id in &ids {
        let done = client.wait(id).await.unwrap();
        assert_eq!(done.result::<u32>().unwrap(), 100);
        assert_eq!((done.state.claims, done.state.attempts), (2, 1));
    }
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_lease_is_taken_away_comes_back() {
    let server = Server::start();
    let (store, client) = open(&server.url("ns")).await;
    // The next renewal would come after 100 seconds; another node may have the tasks long before.
    let node = Runner::builder(&store).node("n").lease_ttl(secs(300));
    let node = node.handler("steps", steps).start().await.unwrap();
    let ids = submit_steps(&client, 5, 60).await;
    until("all run", async || {
        node.snapshot().await.is_some_and(|s| s.tasks.len() == 5)
    })
    .await;
    let lease = client.nodes().await.unwrap()[0].lease;
    raw(&server.endpoint())
        .await
        .lease_revoke(lease.try_into().unwrap())
        .await
        .unwrap();
    for id in &ids {
        let done = tokio::time::timeout(secs(60), client.wait(id)).await;
        let done = done.expect("it ends before the next renewal").unwrap();
        assert_eq!(done.code(), StateKind::Completed);
        assert_eq!((done.state.claims, done.state.attempts), (2, 1));
    }
    assert_ne!(client.nodes().await.unwrap()[0].lease, lease);
    node.shutdown().await;
}

/// One batch holds claims of two nodes, and one of them has lost its lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_lease_in_a_batch_fails_its_own_claims_only() {
    let server = Server::start();
    let store = connect(&server.url("ns")).await;
    let (a, b) = (
        store.join(&spec("a"), secs(60)).await.unwrap(),
        store.join(&spec("b"), secs(60)).await.unwrap(),
    );
    let names: Vec<String> = (0..100).map(|n| format!("t{n}")).collect();
    let tasks = names.iter().map(|name| task(name)).collect();
    store.submit(tasks).await.into_iter().for_each(|a| {
        a.unwrap();
    });
    raw(&server.endpoint())
        .await
        .lease_revoke(a.id.try_into().unwrap())
        .await
        .unwrap();
    let ids = |half: &[String]| half.iter().map(|name| name.parse().unwrap()).collect();
    let (of_a, of_b) = tokio::join!(
        store.claim(&a, ids(&names[..50])),
        store.claim(&b, ids(&names[50..])),
    );
    assert_eq!((of_a.len(), of_b.len()), (50, 50));
    assert!(
        of_a.iter()
            .all(|claim| matches!(claim, Err(Error::Fenced(_))))
    );
    assert!(of_b.iter().all(|claim| matches!(claim, Ok(Some(_)))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_that_is_compacted_under_a_watch_is_listed_again() {
    let server = Server::start();
    let proxy = Proxy::to(&[server.endpoint()]).await.unwrap();
    let near = connect(&server.url("ns")).await;
    let far = connect(&proxy.url("ns")).await;
    let lease = far.join(&spec("n"), secs(60)).await.unwrap();
    near.submit(vec![task("before"), task("gone")]).await;
    let mut events = far.watch(&lease, None).await.unwrap();
    let mut seen = Vec::new();
    while !seen.iter().any(|e| matches!(e, Event::Listed)) {
        seen.extend(events.next().await.unwrap());
    }
    proxy.cut();
    near.submit(vec![task("after")]).await;
    near.delete(vec!["gone".parse().unwrap()]).await;
    let mut raw = raw(&server.endpoint()).await;
    let now = raw.get("x", None).await.unwrap();
    raw.compact(now.header().unwrap().revision(), None)
        .await
        .unwrap();
    proxy.mend();
    let mut listed = Vec::new();
    let mut reset = false;
    let again = async {
        loop {
            for event in events.next().await.unwrap() {
                match event {
                    Event::Reset => reset = true,
                    Event::Task(view) if reset => listed.push(view.id.to_string()),
                    Event::Listed if reset => return,
                    _ => {}
                }
            }
        }
    };
    tokio::time::timeout(secs(30), again).await.unwrap();
    assert_eq!(listed, ["before", "after"]);
}

/// A watch whose connection breaks continues where it was, without a list.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_watch_goes_on_where_it_was() {
    let server = Server::start();
    let proxy = Proxy::to(&[server.endpoint()]).await.unwrap();
    let near = connect(&server.url("ns")).await;
    let far = connect(&proxy.url("ns")).await;
    let lease = far.join(&spec("n"), secs(60)).await.unwrap();
    let mut events = far.watch(&lease, None).await.unwrap();
    let mut seen = Vec::new();
    while !seen.iter().any(|e| matches!(e, Event::Listed)) {
        seen.extend(events.next().await.unwrap());
    }
    for n in 0..5 {
        proxy.cut();
        let name = format!("t{n}");
        near.submit(vec![task(&name)]).await;
        proxy.mend();
        let reported = async {
            loop {
                for event in events.next().await.unwrap() {
                    assert!(!matches!(event, Event::Reset), "nothing was compacted");
                    if matches!(&event, Event::Task(view) if view.id.as_str() == name) {
                        return;
                    }
                }
            }
        };
        tokio::time::timeout(secs(30), reported).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_quota_is_reported_and_overcome() {
    let quota = ["--quota-backend-bytes".to_owned(), (16 << 20).to_string()];
    let server = Server::start_with("http", &quota);
    let (store, client) = open(&server.url("ns")).await;
    let node = Runner::builder(&store).node("n").handler("k", obeys);
    let node = node.start().await.unwrap();
    let before = client.submit(NewTask::new("k")).await.unwrap();
    let mut raw = raw(&server.endpoint()).await;
    let filling = "x".repeat(1 << 20);
    while raw.put("/filling", filling.clone(), None).await.is_ok() {}
    let error = client.submit(NewTask::new("k")).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    let text = error.to_string();
    assert!(text.contains("quota") && text.contains("compact"), "{text}");

    let now = raw.get("x", None).await.unwrap();
    let revision = now.header().unwrap().revision();
    let physical = etcd_client::CompactionOptions::new().with_physical();
    raw.compact(revision, Some(physical)).await.unwrap();
    raw.defragment().await.unwrap();
    let nospace = etcd_client::AlarmType::Nospace;
    let get = etcd_client::AlarmAction::Get;
    let raised = raw.alarm(get, nospace, None).await.unwrap();
    for alarm in raised.alarms() {
        let mut of = etcd_client::AlarmOptions::new();
        of.with_member(alarm.member_id());
        let disarm = etcd_client::AlarmAction::Deactivate;
        raw.alarm(disarm, nospace, Some(of)).await.unwrap();
    }
    let after = client.submit(NewTask::new("k")).await.unwrap();
    for id in [&before, &after] {
        until("both run", async || {
            client.get(id).await.unwrap().node.is_some()
        })
        .await;
    }
    node.shutdown().await;
}

/// Regression: a node whose registration was deleted while its watch began renewed its lease for ever: each of its claims was
/// refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_finds_no_registration_ends_the_lease() {
    let server = Server::start();
    let store = connect(&server.url("ns")).await;
    store.submit(vec![task("a")]).await.remove(0).unwrap();
    let spec = spec("n");
    let lease = store.join(&spec, secs(60)).await.unwrap();
    let mut etcd = raw(&server.endpoint()).await;
    etcd.delete("/ns/nodes/n/_metafora", None).await.unwrap();
    let status = NodeStatus::default();
    store.renew(&lease, &status).await.unwrap();
    let claimed = store.claim(&lease, vec!["a".parse().unwrap()]).await;
    assert!(matches!(claimed[0], Err(Error::Fenced(_))), "{claimed:?}");
    let renewed = store.renew(&lease, &status).await;
    assert!(matches!(renewed, Err(Error::Fenced(_))), "{renewed:?}");
}
