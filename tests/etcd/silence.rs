//! Connections that stay open and go silent: they are detected and left, and nothing is lost.

use futures::StreamExt;
use windlass::{
    Client, NewTask, Runner,
    store::{Coordinator, Event, EventStream, Registry, Store},
};

use windlass_etcd_cluster::Proxy;

use crate::{
    server::Server,
    support::{connect, open, secs, spec, steps, task},
};

async fn listed(events: &mut EventStream) {
    let mut seen = Vec::new();
    while !seen.iter().any(|event| matches!(event, Event::Listed)) {
        seen.extend(events.next().await.unwrap());
    }
}

/// Waits until the watch has reported these tasks, each once, and not by a list.
async fn reported(events: &mut EventStream, names: &[&str]) {
    let mut names_seen = Vec::new();
    let reading = async {
        while names_seen.len() < names.len() {
            for event in events.next().await.unwrap() {
                match event {
                    Event::Reset => panic!("nothing was compacted"),
                    Event::Task(view) => names_seen.push(view.id.to_string()),
                    _ => {}
                }
            }
        }
    };
    tokio::time::timeout(secs(50), reading).await.unwrap();
    assert_eq!(names_seen, names);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_went_silent_goes_on_where_it_was() {
    let server = Server::start();
    let proxy = Proxy::to(&[server.endpoint()]).await.unwrap();
    let near = connect(&server.url("ns")).await;
    let far = connect(&proxy.url("ns")).await;
    let lease = far.join(&spec("n"), secs(60)).await.unwrap();
    let mut events = far.watch(&lease, None).await.unwrap();
    listed(&mut events).await;
    let mut changes = far.changes(None).await.unwrap();
    proxy.lose();
    near.submit(vec![task("a"), task("b")]).await;
    proxy.mend();
    near.submit(vec![task("c")]).await;
    reported(&mut events, &["a", "b", "c"]).await;
    // So does the clients' feed.
    let mut fed = Vec::new();
    let feeding = async {
        while fed.len() < 3 {
            fed.extend(changes.next().await.unwrap().unwrap());
        }
    };
    tokio::time::timeout(secs(60), feeding).await.unwrap();
    let fed: Vec<&str> = fed.iter().map(|change| change.task.as_str()).collect();
    assert_eq!(fed, ["a", "b", "c"]);
}

/// Two paths to the server; the one in use goes silent for good.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_that_went_silent_is_left_for_another() {
    let server = Server::start();
    let near = connect(&server.url("ns")).await;
    let (a, b) = (
        Proxy::to(&[server.endpoint()]).await.unwrap(),
        Proxy::to(&[server.endpoint()]).await.unwrap(),
    );
    let url = format!("etcd://{},{}/ns", a.endpoint(), b.endpoint());
    let far = connect(&url).await;
    let lease = far.join(&spec("n"), secs(60)).await.unwrap();
    let mut events = far.watch(&lease, None).await.unwrap();
    listed(&mut events).await;
    // Which one is in use is not known: each goes silent once.
    for (n, silent) in [&a, &b].into_iter().enumerate() {
        silent.lose();
        let name = format!("t{n}");
        near.submit(vec![task(&name)]).await;
        reported(&mut events, &[&name]).await;
        far.renew(&lease, &Default::default()).await.unwrap();
        // Open connections there stay silent; a new one would work.
        silent.mend();
    }
}

/// The lease outlives a silent connection, and its handlers are not disturbed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_keeps_its_claims_when_its_connection_goes_silent() {
    let server = Server::start();
    let proxy = Proxy::to(&[server.endpoint()]).await.unwrap();
    let (_, client) = open(&server.url("ns")).await;
    let store = Store::open(&proxy.url("ns")).await.unwrap();
    let node = Runner::builder(&store).node("n").handler("steps", steps);
    let node = node.lease_ttl(secs(30)).start().await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..5 {
        let task = NewTask::new("steps").props(&200);
        ids.push(client.submit(task).await.unwrap());
    }
    crate::support::until("all run", async || {
        node.snapshot().await.is_some_and(|s| s.tasks.len() == 5)
    })
    .await;
    let far = Client::new(&store);
    proxy.lose();
    // The first call detects the silence. Later calls succeed.
    proxy.mend();
    for id in &ids {
        let done = far.wait(id).await.unwrap();
        assert_eq!(done.result::<u32>().unwrap(), 200);
        assert_eq!((done.state.claims, done.state.attempts), (1, 0));
    }
    node.shutdown().await;
}
