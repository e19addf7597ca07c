//! Several nodes: a rolling restart under load, and who may take what.

use std::time::Duration;

use jiff::SignedDuration;
use windlass::{
    BoxError, Client, Message, NewTask, Runner, TaskContext, TaskId,
    runner::Runner as Node,
    store::{ChangeKind, Filter, Page, Store},
};

use crate::{
    server::Server,
    support::{obeys, open, until},
};

const TASKS: u32 = 90;
const STEPS: u32 = 12;

/// Works in short steps, each durable, and releases the task when asked to.
async fn gives_way(task: TaskContext) -> Result<Message, BoxError> {
    let done: u32 = task.data()?.unwrap_or(0);
    for step in done..STEPS {
        if task.should_stop() {
            return Ok(task.stop_requested().await.message());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        task.checkpoint(&(step + 1)).await?;
    }
    Ok(Message::complete_with(STEPS))
}

async fn start(store: &Store, name: &str) -> Node {
    let node = Runner::builder(store).node(name).slots(10);
    let node = node.handler("k", gives_way);
    node.start().await.unwrap()
}

/// How many tasks have run on more than one node up to now.
async fn moved(client: &Client, ids: &[TaskId]) -> usize {
    let mut moved = 0;
    for id in ids {
        let record = client.get(id).await.unwrap();
        moved += usize::from(record.state.unwrap().claims > 1);
    }
    moved
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_under_load_loses_no_task_and_costs_no_attempt() {
    let server = Server::start();
    let (_, client) = open(&server.url("ns")).await;
    let names = ["n1", "n2", "n3"];
    let mut nodes = Vec::new();
    for name in names {
        let (store, _) = open(&server.url("ns")).await;
        nodes.push((start(&store, name).await, store));
    }
    let mut ids = Vec::new();
    for (node, name) in names.iter().enumerate() {
        for _ in 0..TASKS / 3 {
            let task = client.submit(NewTask::new("k")).await.unwrap();
            ids.push(task.into_id());
        }
        let node_name = Some(name.parse().unwrap());
        until("the node has work", async || {
            let all = client.list(&Default::default(), Default::default()).await;
            all.unwrap().iter().any(|task| task.node == node_name)
        })
        .await;
        // As a new version of the program would do it: the old one goes, then the new one comes.
        let (old, store) = nodes.remove(node);
        old.shutdown().await;
        nodes.insert(node, (start(&store, name).await, store));
    }
    for id in &ids {
        let done = client.wait(id).await.unwrap();
        assert_eq!(done.result::<u32>().unwrap(), STEPS, "{id}");
        assert_eq!(done.state.attempts, 0, "{id}");
        assert_eq!(done.state.errors.total(), 0, "{id}");
        let history = client.history(id, 100).await.unwrap();
        let lost = history
            .iter()
            .any(|c| matches!(c.what, ChangeKind::Lost { .. }));
        assert!(!lost, "{id}: {history:?}");
    }
    assert!(moved(&client, &ids).await > 0, "no task was interrupted");
    for (node, _) in nodes {
        node.shutdown().await;
    }
}

/// The promised time, plus a margin for a busy machine. Leases last for 15 s, so a claim that waits
/// for the end of a lease is far too late.
const HANDED_OVER: SignedDuration = SignedDuration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tasks_of_a_node_that_leaves_are_claimed_at_once() {
    let server = Server::start();
    let (store, client) = open(&server.url("ns")).await;
    let start = async |store: &Store, name: &str| {
        let node = Runner::builder(store).node(name).slots(TASKS);
        node.handler("k", obeys).start().await.unwrap()
    };
    let first = start(&store, "first").await;
    let mut ids = Vec::new();
    for _ in 0..TASKS {
        ids.push(client.submit(NewTask::new("k")).await.unwrap());
    }
    let run_by = async |name: &str| {
        let all = client.list(&Filter::default(), Page::default()).await;
        let all = all.unwrap();
        let name = name.parse().unwrap();
        all.iter().all(|task| task.node.as_ref() == Some(&name))
    };
    until("the first node has all tasks", async || {
        run_by("first").await
    })
    .await;
    let (other, _) = open(&server.url("ns")).await;
    let second = start(&other, "second").await;
    first.shutdown().await;
    until("the second node has all tasks", async || {
        run_by("second").await
    })
    .await;
    let mut longest = SignedDuration::ZERO;
    for id in &ids {
        let history = client.history(id, 100).await.unwrap();
        let [.., dropped, claimed] = &history[..] else {
            panic!("{id} was not handed over: {history:?}");
        };
        assert!(
            matches!(dropped.what, ChangeKind::Dropped { .. }),
            "{id}: {history:?}"
        );
        assert!(
            matches!(claimed.what, ChangeKind::Claimed { .. }),
            "{id}: {history:?}"
        );
        longest = longest.max(claimed.at.duration_since(dropped.at));
    }
    assert!(
        longest <= HANDED_OVER,
        "one was without a node for {longest:#}"
    );
    second.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kinds_and_labels_decide_who_may_claim() {
    let server = Server::start();
    let (store, client) = open(&server.url("ns")).await;
    let builder = |name: &str| Runner::builder(&store).node(name);
    let nodes = [
        builder("report").handler("report", obeys),
        (builder("berlin").select("site", "berlin")).handler("poll", obeys),
        (builder("oslo").select("site", "oslo")).handler("poll", obeys),
    ];
    let mut running = Vec::new();
    for node in nodes {
        running.push(node.start().await.unwrap());
    }
    let mut owners = Vec::new();
    for n in 0..10 {
        for (kind, site, owner) in [
            ("report", "oslo", Some("report")),
            ("poll", "berlin", Some("berlin")),
            ("poll", "oslo", Some("oslo")),
            ("poll", "rome", None),
            ("other", "oslo", None),
        ] {
            let task = NewTask::new(kind).id(format!("{kind}-{site}-{n}"));
            let id = client
                .submit(task.label("site", site))
                .await
                .unwrap()
                .into_id();
            owners.push((id, owner));
        }
    }
    let owner = async |id: &TaskId| {
        let record = client.get(id).await.unwrap();
        record.node.map(|node| node.to_string())
    };
    for (id, expected) in owners.iter().filter(|(_, expected)| expected.is_some()) {
        until("it is claimed", async || owner(id).await.is_some()).await;
        assert_eq!(owner(id).await.as_deref(), *expected, "{id}");
    }
    // These came before the last of those, and were seen by every node.
    for (id, _) in owners.iter().filter(|(_, expected)| expected.is_none()) {
        assert_eq!(owner(id).await, None, "{id}");
    }
    for node in running {
        node.shutdown().await;
    }
}
