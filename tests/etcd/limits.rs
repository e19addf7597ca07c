//! Servers that accept less in one request than usual: configured by the URL, or learned.

use jiff::{SignedDuration, Timestamp};
use windlass::{
    Command, Json, KindConfig, Message, NewTask, Outcome, Runner, StateKind, TaskContext, TaskId,
    store::{Error, Registry},
};

use crate::{
    server::Server,
    support::{connect, obeys, open, raw, task, until},
};

fn small(operations: u32, bytes: u32) -> Server {
    let arguments = [
        "--max-txn-ops".to_owned(),
        operations.to_string(),
        "--max-request-bytes".to_owned(),
        bytes.to_string(),
    ];
    Server::start_with("http", &arguments)
}

/// Many tasks at once, with every operation of nodes and clients.
async fn work(url: &str) {
    let (store, client) = open(url).await;
    let tasks: Vec<NewTask> = (0..300)
        .map(|n| NewTask::new("k").id(format!("t{n}")))
        .collect();
    let tasks = tasks.into_iter().map(|task| task.props(&"x".repeat(500)));
    for answer in client.submit_many(tasks).await {
        answer.unwrap();
    }
    let ids: Vec<TaskId> = (0..300).map(|n| format!("t{n}").parse().unwrap()).collect();
    let handler = |_: TaskContext| async { Message::pause() };
    let node = Runner::builder(&store).node("n").slots(300);
    let node = node.handler("k", handler).start().await.unwrap();
    crate::support::until("all are paused", async || {
        node.snapshot()
            .await
            .is_some_and(|now| now.parked == 300 && now.tasks.is_empty())
    })
    .await;
    for id in &ids {
        for _ in 0..2 {
            client.command(id, Command::Pause).await.unwrap();
        }
        client.command(id, Command::Kill).await.unwrap();
    }
    for id in &ids {
        assert_eq!(client.wait(id).await.unwrap().code(), StateKind::Killed);
    }
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_limits_of_the_servers_are_learned() {
    let server = small(24, 16_384);
    work(&server.url("ns")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_limits_of_the_servers_can_be_given() {
    let server = small(24, 16_384);
    let url = format!(
        "{}?max-txn-ops=24&max-request-bytes=16000",
        server.url("ns")
    );
    work(&url).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_task_that_is_too_large_fails_alone() {
    let server = small(128, 16_384);
    let store = connect(&server.url("ns")).await;
    let mut large = task("large");
    large.task.props = windlass::Json::new("props", &"x".repeat(50_000)).unwrap();
    let answers = store.submit(vec![task("a"), large, task("b")]).await;
    let [a, large, b] = answers.try_into().unwrap();
    assert!(a.is_ok() && b.is_ok());
    let error = large.unwrap_err();
    assert!(error.to_string().contains("--max-request-bytes"), "{error}");
    assert!(!error.is_retryable());
    let found = store.get(&"large".parse().unwrap()).await;
    assert!(matches!(found, Err(Error::NotFound { .. })));
    store.submit(vec![task("c")]).await.remove(0).unwrap();
}

/// A handler whose data are larger than the server accepts gets an error; other handlers of its
/// node do not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_that_are_too_large_for_the_server_are_an_error_of_their_task() {
    let server = small(128, 16_384);
    let (store, client) = open(&server.url("ns")).await;
    let handler = |task: TaskContext| async move {
        let bytes: usize = task.props()?;
        Ok::<_, windlass::BoxError>(Message::complete_with("x".repeat(bytes)))
    };
    let config = KindConfig::default().retry(windlass::Retry::Never);
    let node = Runner::builder(&store).node("n");
    let node = node.handler_with("k", config, handler);
    let node = node.start().await.unwrap();
    let mut ids = Vec::new();
    for bytes in [100_usize, 50_000, 100] {
        ids.push(
            client
                .submit(NewTask::new("k").props(&bytes))
                .await
                .unwrap(),
        );
    }
    let mut ended = Vec::new();
    for id in &ids {
        ended.push(client.wait(id).await.unwrap());
    }
    let codes = ended.iter().map(|done| done.code());
    let [a, large, b] = codes.collect::<Vec<_>>().try_into().unwrap();
    assert_eq!(
        (a, large, b),
        (
            StateKind::Completed,
            StateKind::Failed,
            StateKind::Completed
        )
    );
    let error = format!("{:?}", ended[1].state.errors);
    assert!(error.contains("--max-request-bytes"), "{error}");
    node.shutdown().await;
}

/// Sends `count` commands to a task that has no owner yet, then lets a node claim it.
async fn settle_many(server: &Server, count: usize) {
    let (store, client) = open(&server.url("ns")).await;
    let later = Timestamp::now() + SignedDuration::from_hours(24);
    let id = client
        .submit(NewTask::new("k").start_at(later))
        .await
        .unwrap()
        .into_id();
    let mut sent = Vec::new();
    for n in 0..count {
        let command = match n + 1 == count {
            true => Command::Kill,
            false => Command::Pause,
        };
        sent.push(client.command(&id, command).await.unwrap());
    }
    let node = Runner::builder(&store).node("n").handler("k", obeys);
    let node = node.start().await.unwrap();
    for command in &sent {
        let outcome = client.wait_outcome(command).await.unwrap();
        assert!(matches!(outcome, Outcome::Applied { .. }), "{outcome:?}");
    }
    let ended = client.wait(&id).await.unwrap();
    assert_eq!(ended.state.code(), StateKind::Killed);
    assert!(ended.state.claims <= 4, "{} claims", ended.state.claims);
    node.shutdown().await;
}

/// Regression: one write contained all of them, and every server refused it: no node could run the
/// task.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_commands_that_waited_are_settled() {
    let server = Server::start();
    settle_many(&server, 200).await;
}

/// The first claim learns that the server accepts less than configured.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_that_waited_are_settled_by_a_server_with_small_limits() {
    let server = small(24, 16_384);
    settle_many(&server, 30).await;
}

/// The result is in the state of the task; the record of the command does not hold it once more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_to_complete_may_bring_as_large_a_result_as_any() {
    let server = Server::start();
    let (store, client) = open(&server.url("ns")).await;
    let node = Runner::builder(&store).node("n").handler("k", obeys);
    let node = node.start().await.unwrap();
    for bytes in [1000, 1_000_000] {
        let id = client.submit(NewTask::new("k")).await.unwrap().into_id();
        let result = Json::new("result", &"x".repeat(bytes)).unwrap();
        let result = Some(result);
        let command = Command::Complete { result };
        client.command(&id, command).await.unwrap();
        let done = client.wait(&id).await.unwrap();
        assert_eq!(done.code(), StateKind::Completed);
        assert_eq!(done.result::<String>().unwrap().len(), bytes);
        let record = client.commands(&id).await.unwrap().remove(0);
        assert!(
            matches!(record.command, Command::Complete { result } if result.is_some() == (bytes == 1000))
        );
    }
    node.shutdown().await;
}

/// A process that has not learned the servers' limits yet can also delete and purge.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_deleted_and_purged_fits_small_limits() {
    for operations in [24, 16] {
        what_is_deleted_and_purged_fits(operations).await;
    }
}

async fn what_is_deleted_and_purged_fits(operations: u32) {
    let server = small(operations, 1 << 20);
    let (store, client) = open(&server.url("ns")).await;
    let handler = |_: TaskContext| async { Message::complete() };
    let node = Runner::builder(&store).node("n").handler("k", handler);
    let node = node.start().await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..60 {
        ids.push(client.submit(NewTask::new("k")).await.unwrap());
    }
    for id in &ids {
        client.wait(id).await.unwrap();
    }
    node.shutdown().await;
    let fresh = connect(&server.url("ns")).await;
    let ended = [StateKind::Completed];
    let gone = fresh
        .purge(&windlass::store::Purge::new(ended, jiff::Timestamp::MAX).limit(1000))
        .await;
    assert_eq!(gone.unwrap(), 60);

    let commanded = task_with_commands(&client, 130).await;
    let fresh = connect(&server.url("ns")).await;
    fresh.delete(vec![commanded]).await.remove(0).unwrap();
    let left = keys(&server, "/ns/commands/").await;
    assert_eq!(left, 0, "nothing points to what is gone");
}

async fn keys(server: &Server, prefix: &str) -> i64 {
    let options = etcd_client::GetOptions::new().with_prefix();
    let mut etcd = raw(&server.endpoint()).await;
    let found = etcd.get(prefix, Some(options.with_count_only())).await;
    found.unwrap().count()
}

async fn task_with_commands(client: &windlass::Client, count: u32) -> TaskId {
    let id = client.submit(NewTask::new("k")).await.unwrap().into_id();
    for _ in 0..count {
        client.command(&id, Command::Pause).await.unwrap();
    }
    id
}

/// A task that a node of Metafora has ended, with many commands of ours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ended_task_with_many_commands_fits_small_limits() {
    let server = small(24, 1 << 20);
    let (store, client) = open(&server.url("ns")).await;
    let id = task_with_commands(&client, 35).await;
    let mut etcd = raw(&server.endpoint()).await;
    let ended = r#"{"state":"completed"}"#;
    etcd.put(format!("/ns/state/{id}"), ended, None)
        .await
        .unwrap();
    let node = Runner::builder(&store).node("n").handler("k", obeys);
    let node = node.start().await.unwrap();
    until("it is not live any more", async || {
        keys(&server, "/ns/tasks/").await == 0
    })
    .await;
    let commands = client.commands(&id).await.unwrap();
    assert_eq!(commands.len(), 35);
    for command in commands {
        assert!(command.outcome.is_some(), "{command:?}");
    }
    node.shutdown().await;
}
