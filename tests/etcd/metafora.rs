//! A namespace that is shared with Metafora: the writes of its clients, commanders and nodes, byte
//! for byte as in its code at 78a2f87 (January 2026), and the keys that its nodes leave.

use std::time::Duration;

use windlass::{
    Client, Command, KindConfig, NewTask, Runner, StateKind, TaskId,
    runner::Runner as Node,
    store::{Change, ChangeKind, Coordinator, NodeCommand, Store},
};

use crate::{
    server::Server,
    support::{code, connect, obeys, open, raw, spec, until},
};

/// A namespace that nodes of Metafora share.
fn shared(server: &Server) -> String {
    format!("{}?metafora-nodes=true", server.url("ns"))
}

/// The keys of a namespace as Metafora's nodes and clients write them.
struct Metafora {
    etcd: etcd_client::Client,
}

impl Metafora {
    async fn new(server: &Server) -> Self {
        let etcd = raw(&server.endpoint()).await;
        Self { etcd }
    }

    async fn put(&self, key: &str, value: &str) {
        let key = format!("/ns/{key}");
        self.etcd.kv_client().put(key, value, None).await.unwrap();
    }

    async fn get(&self, key: &str) -> Option<String> {
        let key = format!("/ns/{key}");
        let got = self.etcd.kv_client().get(key, None).await.unwrap();
        let kv = got.kvs().first()?;
        Some(kv.value_str().unwrap().to_owned())
    }

    async fn delete(&self, prefix: &str) {
        let options = etcd_client::DeleteOptions::new().with_prefix();
        let key = format!("/ns/{prefix}");
        let deleted = self.etcd.kv_client().delete(key, Some(options)).await;
        deleted.unwrap();
    }

    /// `Client.SubmitTask`.
    async fn submit(&self, id: &str) {
        let props = format!(r#"{{"id":"{id}"}}"#);
        self.put(&format!("tasks/{id}/props"), &props).await;
        self.put(&format!("tasks/{id}"), "").await;
    }

    /// `Commander.Send`.
    async fn send(&self, id: &str, message: &str) {
        self.put(&format!("tasks/{id}/commands"), message).await;
    }

    /// `Coordinator.Claim`, without its lease: a node that lives as long as the test.
    async fn claim(&self, id: &str) {
        self.put(&format!("tasks/{id}/owner"), r#"{"node":"go"}"#)
            .await;
    }

    /// `StateStore.Store`.
    async fn store(&self, id: &str, state: &str) {
        self.put(&format!("state/{id}"), state).await;
    }

    /// `Coordinator.Release`.
    async fn release(&self, id: &str) {
        self.delete(&format!("tasks/{id}/owner")).await;
    }
}

async fn node(store: &Store, name: &str) -> Node {
    let node = Runner::builder(store).node(name);
    let node = node.default_handler(KindConfig::default(), obeys);
    node.start().await.unwrap()
}

async fn runs_on(client: &Client, id: &str, node: &str) {
    let node = Some(node.parse().unwrap());
    until("it runs there", async || {
        (client.get(id).await).is_ok_and(|record| record.node == node)
    })
    .await;
}

/// The writes of Metafora's client and commander, byte for byte.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_of_metafora_is_run_and_commanded() {
    let server = Server::start();
    let (store, client) = open(&server.url("ns")).await;
    let node = Runner::builder(&store).node("n");
    let node = node
        .default_handler(KindConfig::default(), obeys)
        .start()
        .await
        .unwrap();
    let mut raw = raw(&server.endpoint()).await;
    raw.put("/ns/tasks/m/props", r#"{"id":"m"}"#, None)
        .await
        .unwrap();
    raw.put("/ns/tasks/m", "", None).await.unwrap();
    let id = "m".parse().unwrap();
    until("it runs", async || {
        client
            .get(&id)
            .await
            .is_ok_and(|record| record.node.is_some())
    })
    .await;
    let record = client.get(&id).await.unwrap();
    assert_eq!(record.task.kind.as_str(), "default");
    assert_eq!(record.task.props.as_str(), r#"{"id":"m"}"#);
    for (message, state) in [
        ("pause", StateKind::Paused),
        ("run", StateKind::Runnable),
        ("kill", StateKind::Killed),
    ] {
        let text = format!(r#"{{"message":"{message}"}}"#);
        raw.put("/ns/tasks/m/commands", text, None).await.unwrap();
        until(message, async || code(&client, &id).await == Some(state)).await;
    }
    // A node command, in Metafora's form.
    let freeze = r#"{"command":"freeze","parameters":null}"#;
    raw.put("/ns/nodes/n/commands/1", freeze, None)
        .await
        .unwrap();
    until("it is frozen", async || {
        node.snapshot()
            .await
            .is_some_and(|snapshot| snapshot.frozen)
    })
    .await;
    node.shutdown().await;
}

/// A node of Metafora takes a parked task, runs it for a while and releases it, as its code does:
/// it writes only owner and state.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parked_task_goes_to_a_node_of_metafora_and_comes_back() {
    let server = Server::start();
    let (store, client) = open(&shared(&server)).await;
    let node = Runner::builder(&store).node("n").handler("k", obeys);
    let node = node.start().await.unwrap();
    let id = client.submit(NewTask::new("k").id("t")).await.unwrap();
    until("it runs", async || {
        client.get(&id).await.unwrap().node.is_some()
    })
    .await;
    let sent = client.command(&id, Command::Pause).await.unwrap();
    client.wait_outcome(&sent).await.unwrap();
    until("it is parked", async || {
        client.get(&id).await.unwrap().node.is_none()
    })
    .await;

    let mut raw = raw(&server.endpoint()).await;
    raw.put("/ns/tasks/t/owner", r#"{"node":"go"}"#, None)
        .await
        .unwrap();
    until("its mark is gone", async || {
        raw.get("/ns/parked/t", None).await.unwrap().count() == 0
    })
    .await;
    assert_eq!(
        client.get(&id).await.unwrap().node,
        Some("go".parse().unwrap())
    );
    raw.put("/ns/state/t", r#"{"state":"runnable"}"#, None)
        .await
        .unwrap();
    raw.delete("/ns/tasks/t/owner", None).await.unwrap();
    until("it runs here", async || {
        client.get(&id).await.unwrap().node == Some("n".parse().unwrap())
    })
    .await;
    let sent = client.command(&id, Command::Kill).await.unwrap();
    assert!(client.wait_outcome(&sent).await.unwrap().is_applied());
    node.shutdown().await;
}

/// Every message of a commander, to a task that is run and parked here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_message_of_a_commander_is_obeyed() {
    let server = Server::start();
    let (store, client) = open(&shared(&server)).await;
    let node = node(&store, "n").await;
    let metafora = Metafora::new(&server).await;
    metafora.submit("m").await;
    runs_on(&client, "m", "n").await;
    let id = "m".parse().unwrap();
    for (message, state) in [
        // Go writes times in the zone of its machine, to the nanosecond.
        (
            r#"{"message":"sleep","until":"2190-11-21T15:38:20.960920031+02:00"}"#,
            StateKind::Sleeping,
        ),
        (r#"{"message":"checkpoint"}"#, StateKind::Sleeping),
        (r#"{"message":"release"}"#, StateKind::Sleeping),
        (r#"{"message":"pause"}"#, StateKind::Paused),
        (r#"{"message":"run"}"#, StateKind::Runnable),
        // Only a handler may return an error: this one is rejected, and has no effect.
        (r#"{"message":"error","error":{}}"#, StateKind::Runnable),
        (r#"{"message":"complete"}"#, StateKind::Completed),
    ] {
        metafora.send("m", message).await;
        until(message, async || {
            metafora.get("tasks/m/commands").await.is_none()
                && code(&client, &id).await == Some(state)
        })
        .await;
    }
    node.shutdown().await;
}

/// A node of Metafora that died between its last state and the deletion of the task; and a client
/// that submits an ended id again. A node removes both from the live ones, as Metafora does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_has_ended_is_removed_from_the_live_ones() {
    let server = Server::start();
    let (store, client) = open(&shared(&server)).await;
    let metafora = Metafora::new(&server).await;
    metafora.submit("m").await;
    metafora.store("m", r#"{"state":"completed"}"#).await;
    metafora.send("m", r#"{"message":"pause"}"#).await;
    let id = "m".parse().unwrap();
    let mut changes = client.changes(None).await.unwrap();
    let node = node(&store, "n").await;
    let done = client.wait(&id).await.unwrap();
    assert_eq!(done.code(), StateKind::Completed);
    until("it is not live any more", async || {
        metafora.get("tasks/m").await.is_none()
    })
    .await;
    assert_eq!(done.task.props.as_str(), r#"{"id":"m"}"#);
    let commands = client.commands(&id).await.unwrap();
    assert!(commands[0].outcome.is_some(), "{commands:?}");
    let reported = futures::StreamExt::next(&mut changes).await.unwrap();
    assert_eq!(reported.unwrap()[0].task, id, "the feed reports it");

    metafora.submit("m").await;
    until("nor is it after a second submit", async || {
        metafora.get("tasks/m").await.is_none()
    })
    .await;
    assert_eq!(client.get(&id).await.unwrap().state.unwrap().claims, 0);
    assert!(metafora.get("tasks/m/props").await.is_none());
    // A retry by an operator starts it again.
    client.retry(&id).await.unwrap();
    runs_on(&client, "m", "n").await;
    node.shutdown().await;
}

/// States that only Metafora stores.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn states_of_metafora_are_continued() {
    let server = Server::start();
    let (store, client) = open(&shared(&server)).await;
    let metafora = Metafora::new(&server).await;
    for (id, state) in [
        // A handler returned a sleep and named no time: Metafora continues at once.
        ("endless", r#"{"state":"sleeping"}"#),
        (
            "early",
            r#"{"state":"sleeping","until":"0001-01-01T00:00:00Z"}"#,
        ),
        (
            "run",
            r#"{"state":"runnable","until":"2020-01-01T00:00:00.1+02:00"}"#,
        ),
    ] {
        metafora.submit(id).await;
        metafora.store(id, state).await;
    }
    metafora.submit("fault").await;
    let errors = r#"[{"timestamp":"2026-01-21T16:30:00.123456789+02:00","error":"x"}]"#;
    let fault = format!(r#"{{"state":"fault","errors":{errors}}}"#);
    metafora.store("fault", &fault).await;
    let node = node(&store, "n").await;
    for id in ["endless", "early", "run"] {
        runs_on(&client, id, "n").await;
    }
    let id: TaskId = "fault".parse().unwrap();
    // The history keeps the sleep after its end, which a slow reader of the state misses.
    let is_sleep = |change: &Change| {
        let to = StateKind::Sleeping;
        matches!(change.what, ChangeKind::Moved { to: state, .. } if state == to)
    };
    until("the retry policy lets it sleep", async || {
        let history = client.history(&id, 100).await;
        history.unwrap().iter().any(is_sleep)
    })
    .await;
    let record = client.get(&id).await.unwrap().state.unwrap();
    assert_eq!(record.errors.entries()[0].error, "x");
    node.shutdown().await;
}

/// A task was paused here, run on a node of Metafora while no node of ours lived, and released.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outdated_mark_parks_no_task() {
    let server = Server::start();
    let (store, client) = open(&shared(&server)).await;
    let metafora = Metafora::new(&server).await;
    let first = node(&store, "first").await;
    for id in ["m", "stays"] {
        metafora.submit(id).await;
        runs_on(&client, id, "first").await;
        let sent = client.command(id, Command::Pause).await;
        client.wait_outcome(&sent.unwrap()).await.unwrap();
    }
    until("both are parked", async || {
        metafora.get("parked/m").await.is_some() && metafora.get("parked/stays").await.is_some()
    })
    .await;
    first.shutdown().await;
    metafora.claim("m").await;
    metafora.store("m", r#"{"state":"runnable"}"#).await;
    metafora.release("m").await;
    let second = node(&store, "second").await;
    runs_on(&client, "m", "second").await;
    assert!(metafora.get("parked/stays").await.is_some());
    let stays = client.get("stays").await.unwrap();
    assert_eq!(stays.state.unwrap().code(), StateKind::Paused);
    second.shutdown().await;
}

/// Metafora does not know `start_at`: it reads the sleep from the state, so there has to be a
/// state.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_with_a_start_time_sleeps_for_metafora_too() {
    let server = Server::start();
    let (_, client) = open(&shared(&server)).await;
    let metafora = Metafora::new(&server).await;
    let at = "2190-01-01T00:00:00Z".parse().unwrap();
    client
        .submit(NewTask::new("default").id("later").start_at(at))
        .await
        .unwrap();
    let state = metafora.get("state/later").await.unwrap();
    assert!(
        state.starts_with(r#"{"state":"sleeping","until":"2190-01-01T00:00:00Z""#),
        "{state}"
    );
    // Its nodes take no state over into a later task: it begins as it was submitted.
    client.force_delete("later").await.unwrap();
    assert!(metafora.get("state/later").await.is_none());
}

/// A node of Metafora is listed and obeys node commands, but no node balances with it: it reports
/// neither its claims nor its capacity.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_metafora_are_listed_and_not_balanced_with() {
    let server = Server::start();
    let (_, client) = open(&shared(&server)).await;
    let metafora = Metafora::new(&server).await;
    let record = r#"{"host":"h","created":"2026-01-21 14:38:52 +0000 UTC m=+31.7","node":"go"}"#;
    let mut leases = metafora.etcd.lease_client();
    let lease = leases.grant(60, None).await.unwrap().id();
    for key in ["", "nodes/go/", "nodes/go/commands/", "tasks/"] {
        let options = etcd_client::PutOptions::new().with_lease(lease);
        let key = format!("/ns/{key}_metafora");
        let mut etcd = metafora.etcd.kv_client();
        etcd.put(key, record, Some(options)).await.unwrap();
    }
    let store = connect(&shared(&server)).await;
    let lease = store.join(&spec("ours"), Duration::from_secs(15)).await;
    let names = |nodes: Vec<windlass::store::NodeRecord>| -> Vec<String> {
        nodes.iter().map(|n| n.spec.name.to_string()).collect()
    };
    assert_eq!(names(client.nodes().await.unwrap()), ["go", "ours"]);
    assert_eq!(names(store.peers().await.unwrap()), ["ours"]);
    let go = "go";
    let sent = client.command_node(go, NodeCommand::Freeze).await;
    sent.unwrap();
    assert!(
        client
            .list(&Default::default(), Default::default())
            .await
            .unwrap()
            .is_empty()
    );
    store.leave(&lease.unwrap()).await.unwrap();
}
