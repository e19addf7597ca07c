//! An idle node only sends keep-alives to its server.

use std::collections::BTreeMap;

use futures::StreamExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use windlass::{
    Message, NewTask, Runner, TaskContext,
    store::{Event, NodeSpec},
};

use crate::{
    server::Server,
    support::{open, secs, until},
};

/// The lines of the server's metrics that begin so.
async fn metrics(server: &Server, name: &str) -> Vec<String> {
    let mut stream = tokio::net::TcpStream::connect(server.endpoint())
        .await
        .unwrap();
    let request = "GET /metrics HTTP/1.0\r\nHost: etcd\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let lines = text.lines().filter(|line| line.starts_with(name));
    lines.map(str::to_owned).collect()
}

fn value(line: &str) -> u64 {
    let value: f64 = line.rsplit(' ').next().unwrap().parse().unwrap();
    value as u64
}

/// The server's counter without labels.
pub(crate) async fn total(server: &Server, name: &str) -> u64 {
    let lines = metrics(server, &format!("{name} ")).await;
    value(lines.first().unwrap())
}

/// The server's counters that begin so, by method.
pub(crate) async fn counters(server: &Server, name: &str) -> BTreeMap<String, u64> {
    let mut counters = BTreeMap::new();
    for line in metrics(server, name).await {
        let method = line.split("grpc_method=\"").nth(1).unwrap();
        let method = method.split('"').next().unwrap().to_owned();
        *counters.entry(method).or_default() += value(&line);
    }
    assert!(!counters.is_empty(), "etcd reports its requests");
    counters
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_node_with_parked_tasks_asks_for_nothing() {
    let server = Server::start();
    let (store, client) = open(&server.url("ns")).await;
    let later = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(100);
    let tasks = (0..2000).map(|n| NewTask::new("k").id(format!("t{n}")).start_at(later));
    for answer in client.submit_many(tasks).await {
        answer.unwrap();
    }
    let handler = |_: TaskContext| async { Message::complete() };
    let mut nodes = Vec::new();
    for name in ["a", "b"] {
        // Without a retention the node does not look for old records.
        let node = Runner::builder(&store).node(name).retention(None);
        nodes.push(node.handler("k", handler).start().await.unwrap());
    }
    for node in &nodes {
        until("it has listed them", async || {
            let now = node.snapshot().await.unwrap();
            now.listed && now.parked == 2000
        })
        .await;
    }
    let peers = async || store.coordinator().peers().await.unwrap().len();
    until("they know each other", async || peers().await == 2).await;

    let quiet = secs(12);
    let (calls, messages) = (
        "grpc_server_started_total",
        "grpc_server_msg_received_total",
    );
    // The start may take a moment. A node that never rests fails here.
    until("they rest", async || {
        let before = counters(&server, calls).await;
        tokio::time::sleep(secs(2)).await;
        before == counters(&server, calls).await
    })
    .await;
    let before = (
        counters(&server, calls).await,
        counters(&server, messages).await,
    );
    tokio::time::sleep(quiet).await;
    let after = (
        counters(&server, calls).await,
        counters(&server, messages).await,
    );
    // The stream that keeps the lease alive is opened when that is first due.
    let is_call = |(method, _): &(&String, &u64)| *method != "LeaseKeepAlive";
    let made = |counters: &BTreeMap<String, u64>| -> BTreeMap<String, u64> {
        let calls = counters.iter().filter(is_call);
        calls.map(|(method, n)| (method.clone(), *n)).collect()
    };
    assert_eq!(made(&before.0), made(&after.0), "no call was made");
    let sent: BTreeMap<&str, u64> = after
        .1
        .iter()
        .map(|(method, count)| (method.as_str(), count - before.1.get(method).unwrap_or(&0)))
        .filter(|(_, count)| *count > 0)
        .collect();
    let methods: Vec<&str> = sent.keys().copied().collect();
    assert_eq!(methods, ["LeaseKeepAlive", "Watch"], "{sent:?}");
    // Every five seconds each.
    assert!(sent.values().all(|count| *count <= 2 * 4), "{sent:?}");

    // Their view of each other is current anyway.
    nodes.remove(0).shutdown().await;
    until("the other is alone", async || peers().await == 1).await;
    nodes.remove(0).shutdown().await;
}

/// The others learn from the watch that a node shuts down, and do not wait for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_of_a_node_reaches_the_others_at_once() {
    let server = Server::start();
    let (store, _) = open(&server.url("ns")).await;
    let handler = |_: TaskContext| async { Message::complete() };
    let node = async |name: &str| {
        let node = Runner::builder(&store).node(name).handler("k", handler);
        node.start().await.unwrap()
    };
    let mut spec = NodeSpec::new("listener".parse().unwrap());
    spec.kinds = Some(Vec::new());
    spec.slots = 0;
    let lease = store.coordinator().join(&spec, secs(30)).await.unwrap();
    let mut events = store.coordinator().watch(&lease, None).await.unwrap();
    let mut peers_seen = async || loop {
        let batch = tokio::time::timeout(secs(30), events.next()).await;
        let batch = batch.unwrap().unwrap();
        if batch.iter().any(|event| matches!(event, Event::Peers)) {
            return store.coordinator().peers().await.unwrap();
        }
    };
    let other = node("other").await;
    while peers_seen().await.len() < 2 {}
    other.freeze();
    while !peers_seen().await.iter().any(|peer| peer.status.frozen) {}
    other.shutdown().await;
    while peers_seen().await.len() > 1 {}
    store.coordinator().leave(&lease).await.unwrap();
}
