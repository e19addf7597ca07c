//! Nodes on etcd: the same runner and handlers as on every store.

use std::time::Duration;

use windlass::{
    BoxError, Code, Command, KindConfig, Message, NewTask, Outcome, Runner, TaskContext,
};

use crate::{
    server::Server,
    support::{code, obeys, open, raw, until},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_share_the_work_and_leave_nothing() {
    let server = Server::start();
    let (store, client) = open(&server.url("team")).await;
    let (other, _) = open(&server.url("team")).await;
    let double = |task: TaskContext| async move {
        let n: u64 = task.props()?;
        Ok::<_, BoxError>(Message::complete_with(&(n * 2))?)
    };
    let mut nodes = Vec::new();
    for (name, store) in [("n1", &store), ("n2", &other)] {
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
        assert_eq!(done.result::<u64>().unwrap(), Some(n * 2));
        assert_eq!((done.state.claims, done.state.attempts), (1, 0));
    }
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
    let id = client.submit(NewTask::new("k")).await.unwrap();
    until("it runs", async || {
        client.get(&id).await.unwrap().node.is_some()
    })
    .await;
    for (command, from, to) in [
        (Command::Pause, Code::Runnable, Code::Paused),
        (Command::Run, Code::Paused, Code::Runnable),
        (Command::Kill, Code::Runnable, Code::Killed),
    ] {
        let sent = client.command(&id, command).await.unwrap();
        let outcome = client.wait_outcome(&sent).await.unwrap();
        assert_eq!(outcome, Outcome::Applied { from, to });
    }
    assert_eq!(client.wait(&id).await.unwrap().code(), Code::Killed);
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sleeper_wakes_and_holds_no_claim_meanwhile() {
    let server = Server::start();
    let (store, client) = open(&server.url("ns")).await;
    let sleeps = |task: TaskContext| async move {
        match task.data::<u32>()? {
            None => Ok::<_, BoxError>(Message::sleep_for(Duration::from_secs(2)).with_data(&1)?),
            Some(n) => Ok(Message::complete_with(&n)?),
        }
    };
    let node = Runner::builder(&store).node("n").handler("k", sleeps);
    let node = node.park_after(Duration::from_millis(100));
    let node = node.start().await.unwrap();
    let id = client.submit(NewTask::new("k")).await.unwrap();
    until("it sleeps", async || {
        let record = client.get(&id).await.unwrap();
        record.node.is_none() && code(&client, &id).await == Some(Code::Sleeping)
    })
    .await;
    assert_eq!(client.nodes().await.unwrap()[0].claims, 0);
    let done = client.wait(&id).await.unwrap();
    assert_eq!(done.result::<u32>().unwrap(), Some(1));
    assert_eq!(done.state.claims, 2);
    node.shutdown().await;
}

/// What Metafora's client and commander write, byte for byte.
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
        ("pause", Code::Paused),
        ("run", Code::Runnable),
        ("kill", Code::Killed),
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

/// A node of Metafora takes a parked task, runs it for a while and gives it back, as its code does:
/// it writes owner and state, and knows nothing of what else is kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parked_task_goes_to_a_node_of_metafora_and_comes_back() {
    let server = Server::start();
    let (store, client) = open(&server.url("ns")).await;
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
