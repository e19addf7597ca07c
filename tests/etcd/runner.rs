//! Nodes on etcd: the same runner and handlers as on every store.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use windlass::{BoxError, Command, Message, NewTask, Outcome, Runner, StateKind, TaskContext};

use crate::{
    server::Server,
    support::{code, obeys, open, raw, until},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_share_the_work_and_leave_nothing() {
    let server = Server::start();
    let (store, client) = open(&server.url("team")).await;
    let (other, _) = open(&server.url("team")).await;
    let mut nodes = Vec::new();
    let runs = [(); 2].map(|()| Arc::new(AtomicU32::new(0)));
    for ((name, store), runs) in [("n1", &store), ("n2", &other)].into_iter().zip(&runs) {
        let runs = runs.clone();
        let double = move |task: TaskContext| {
            runs.fetch_add(1, Ordering::SeqCst);
            async move {
                let n: u64 = task.props()?;
                Ok::<_, BoxError>(Message::complete_with(n * 2))
            }
        };
        let builder = Runner::builder(store).node(name).slots(20);
        nodes.push(builder.handler("double", double).start().await.unwrap());
    }
    let mut ids = Vec::new();
    for n in 0..200_u64 {
        let task = NewTask::new("double").props(&n);
        ids.push((n, client.submit(task).await.unwrap()));
    }
    for (n, id) in &ids {
        let done = client.wait(id).await.unwrap();
        assert_eq!(done.result::<u64>().unwrap(), n * 2);
        assert_eq!((done.state.claims, done.state.attempts), (1, 0));
    }
    let runs = runs.map(|runs| runs.load(Ordering::SeqCst));
    assert_eq!(runs.iter().sum::<u32>(), 200, "{runs:?}");
    assert!(runs.iter().all(|runs| *runs >= 20), "shared: {runs:?}");
    for node in nodes {
        node.shutdown().await;
    }
    assert!(client.nodes().await.unwrap().is_empty());
    let mut raw = raw(&server.endpoint()).await;
    let options = etcd_client::GetOptions::new()
        .with_prefix()
        .with_count_only();
    let left = raw.get("/team/tasks/", Some(options)).await.unwrap();
    assert_eq!(left.count(), 0, "Metafora's list shows live tasks only");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_reach_running_and_parked_tasks() {
    let server = Server::start();
    let (store, client) = open(&server.url("ns")).await;
    let node = Runner::builder(&store).node("n").handler("k", obeys);
    let node = node.start().await.unwrap();
    let id = client.submit(NewTask::new("k")).await.unwrap().into_id();
    until("it runs", async || {
        client.get(&id).await.unwrap().node.is_some()
    })
    .await;
    for (command, from, to) in [
        (Command::Pause, StateKind::Runnable, StateKind::Paused),
        (Command::Run, StateKind::Paused, StateKind::Runnable),
        (Command::Kill, StateKind::Runnable, StateKind::Killed),
    ] {
        let sent = client.command(&id, command).await.unwrap();
        let outcome = client.wait_outcome(&sent).await.unwrap();
        assert_eq!(outcome, Outcome::Applied { from, to });
    }
    assert_eq!(client.wait(&id).await.unwrap().code(), StateKind::Killed);
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sleeper_wakes_and_holds_no_claim_meanwhile() {
    let server = Server::start();
    let (store, client) = open(&server.url("ns")).await;
    let sleeps = |task: TaskContext| async move {
        match task.data::<u32>()? {
            None => Ok::<_, BoxError>(Message::sleep_for(Duration::from_secs(2)).with_data(&1)),
            Some(n) => Ok(Message::complete_with(n)),
        }
    };
    let node = Runner::builder(&store).node("n").handler("k", sleeps);
    let node = node.park_after(Duration::from_millis(100));
    let node = node.start().await.unwrap();
    let id = client.submit(NewTask::new("k")).await.unwrap().into_id();
    until("it sleeps", async || {
        let record = client.get(&id).await.unwrap();
        record.node.is_none() && code(&client, &id).await == Some(StateKind::Sleeping)
    })
    .await;
    assert_eq!(client.nodes().await.unwrap()[0].claims, 0);
    let done = client.wait(&id).await.unwrap();
    assert_eq!(done.result::<u32>().unwrap(), 1);
    assert_eq!(done.state.claims, 2);
    node.shutdown().await;
}
