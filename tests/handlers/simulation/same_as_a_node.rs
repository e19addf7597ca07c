//! A simulation and a node write the same history.

use std::{sync::Arc, time::Duration};

use windlass::{
    BoxError, Client, Command, KindConfig, Message, NewTask, Retry, Runner, Task, TaskContext,
    TaskId,
    store::{ChangeKind, Store},
    testing::{History, Simulation, TokioClock},
};

const KINDS: [&str; 8] = [
    "sleeps",
    "naps",
    "fails",
    "retried",
    "releases",
    "too-large",
    "parent",
    "too-late",
];

async fn handle(task: TaskContext) -> Result<Message, BoxError> {
    let step: u32 = task.data()?.unwrap_or(0);
    let next = |message: Message| message.with_data(&(step + 1));
    Ok(match (task.kind().as_str(), step) {
        ("sleeps", 0..3) => next(Message::sleep_for(Duration::from_secs(60))),
        ("too-late", _) => next(Message::sleep_for(Duration::from_secs(3600))),
        ("naps", 0..3) => next(Message::sleep_for(Duration::from_secs(2))),
        ("fails", _) => return Err("always".into()),
        ("retried", _) if task.attempt() < 3 => {
            task.checkpoint(&7).await?;
            return Err("twice".into());
        }
        ("releases", 0..2) => next(Message::release()),
        ("too-large", _) => Message::complete_with("x".repeat(2 << 20)),
        ("parent", _) => {
            let child = Task::new("child".parse()?, "child".parse()?);
            Message::complete()
                .and_submit(child.clone())
                .and_send(child.id, "c1", Command::Pause)
        }
        _ => Message::complete(),
    })
}

fn config() -> KindConfig {
    KindConfig::default().retry(Retry::strikes())
}

/// Returns the history without the parts that differ from node to node: names, fences and times.
async fn story(client: &Client, id: &TaskId) -> Vec<String> {
    let history = History::read(client, id).await.unwrap();
    let changes = history.changes().iter();
    let lines = changes.map(|change| match &change.what {
        ChangeKind::Moved {
            message, from, to, ..
        } => format!("{message}: {from} to {to}"),
        ChangeKind::Claimed { abandoned, .. } => format!("claimed, abandoned: {abandoned}"),
        ChangeKind::Checkpointed { .. } => "checkpoint".to_owned(),
        ChangeKind::Dropped { .. } => "dropped".to_owned(),
        ChangeKind::Commanded { .. } => "commanded".to_owned(),
        other => format!("{other:?}"),
    });
    lines.collect()
}

async fn submit(client: &Client) -> Vec<TaskId> {
    let mut ids = Vec::new();
    for kind in KINDS {
        let mut task = NewTask::new(kind).id(kind);
        if kind == "too-late" {
            task = task.end_within(Duration::from_secs(60));
        }
        ids.push(client.submit(task).await.unwrap().into_id());
    }
    ids
}

#[tokio::test(start_paused = true)]
async fn a_simulation_and_a_node_write_the_same_history() {
    let mut builder = Simulation::builder();
    let clock = Arc::new(TokioClock::new("2030-01-01T00:00:00Z".parse().unwrap()));
    let store = Store::open_with_clock("memory:", clock).await.unwrap();
    let mut node = Runner::builder(&store);
    for kind in KINDS.into_iter().chain(["child"]) {
        builder = builder.handler_with(kind, config(), handle);
        node = node.handler_with(kind, config(), handle);
    }
    let mut simulation = builder.start().await.unwrap();
    let ids = submit(simulation.client()).await;
    for id in &ids {
        simulation.run(id).await.unwrap();
    }
    simulation.advance(Duration::from_secs(60)).await.unwrap();

    let node = node.start().await.unwrap();
    let client = Client::new(&store);
    let ids_of_node = submit(&client).await;
    for id in &ids_of_node {
        client.wait(id).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(ids, ids_of_node);
    let child: TaskId = "child".parse().unwrap();
    let mut lines = 0;
    for id in ids.iter().chain([&child]) {
        let (simulated, real) = (story(simulation.client(), id), story(&client, id));
        let (simulated, real) = (simulated.await, real.await);
        assert_eq!(simulated, real, "{id}");
        lines += real.len();
    }
    assert!(lines > 50, "{lines} lines were compared");
    node.shutdown().await;
}
