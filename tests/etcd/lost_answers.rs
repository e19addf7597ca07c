//! Writes that were done and whose answers were lost: they are done once, whatever happened in the
//! meantime.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use windlass::{
    Client, Command, KindConfig, Message, NewTask, Retry, Runner, StateKind, TaskContext, TaskId,
    store::{
        Coordinator, Error, IfExists, NodeSpec, Registry, SendCommand, Submitted, etcd::EtcdStore,
    },
};

use windlass_etcd_cluster::Proxy;

use crate::{
    server::Server,
    support::{connect, in_time, open, task, write},
};

/// A node near the server, and a client far from it.
struct World {
    _server: Server,
    proxy: Proxy,
    client: Client,
    far: EtcdStore,
    node: Runner,
    runs: Arc<AtomicU32>,
}

impl World {
    /// The node ends each task at once, with this message.
    async fn new(message: Message) -> Self {
        let server = Server::start();
        let proxy = Proxy::to(&[server.endpoint()]).await.unwrap();
        let (store, client) = open(&server.url("ns")).await;
        let far = connect(&proxy.url("ns")).await;
        let runs = Arc::new(AtomicU32::new(0));
        let counted = runs.clone();
        let handler = move |_: TaskContext| {
            counted.fetch_add(1, Ordering::SeqCst);
            let message = message.clone();
            async move { message }
        };
        let config = KindConfig::default().retry(Retry::Never);
        let node = Runner::builder(&store).node("n");
        let node = node.handler_with("k", config, handler);
        let node = node.start().await.unwrap();
        Self {
            _server: server,
            proxy,
            client,
            far,
            node,
            runs,
        }
    }

    async fn ended(&self, id: &TaskId) -> u32 {
        self.client.wait(id).await.unwrap();
        self.runs.load(Ordering::SeqCst)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submit_without_an_answer_runs_once_though_it_has_ended_meanwhile() {
    let world = World::new(Message::complete()).await;
    let mut expected = 0;
    for (n, if_exists) in [IfExists::ReplaceFinished, IfExists::Refuse, IfExists::Same]
        .into_iter()
        .enumerate()
    {
        let mut submit = task(&format!("t{n}"));
        submit.if_exists = if_exists;
        let id = submit.task.id.clone();
        world.proxy.lose_answer_to(b"submitted_at");
        let answer = world.far.submit(vec![submit]).await.remove(0);
        assert!(matches!(answer, Ok(Submitted::New)), "{answer:?}");
        expected += 1;
        assert_eq!(world.proxy.lost_answers(), u64::from(expected));
        assert_eq!(world.ended(&id).await, expected);
    }
    world.node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_without_an_answer_runs_once_though_it_has_ended_meanwhile() {
    let world = World::new(Message::error("as it was told to")).await;
    let id = world
        .client
        .submit(NewTask::new("k"))
        .await
        .unwrap()
        .into_id();
    assert_eq!(world.ended(&id).await, 1);
    world.proxy.lose_answer_to(b"incarnation");
    let answer = world.far.retry(vec![id.clone()]).await.remove(0);
    answer.unwrap();
    assert_eq!(world.proxy.lost_answers(), 1);
    let ended = world.client.wait(&id).await.unwrap();
    assert_eq!(ended.code(), StateKind::Failed);
    let record = world.client.get(&id).await.unwrap();
    assert_eq!(record.state.unwrap().incarnation, 1);
    assert_eq!(world.ended(&id).await, 2);
    world.node.shutdown().await;
}

/// A task with more commands than go with it in one write: their ids are known until the task is
/// deleted, so that no id is applied twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delete_without_an_answer_forgets_no_command_of_a_live_task() {
    let server = Server::start();
    let proxy = Proxy::to(&[server.endpoint()]).await.unwrap();
    let near = connect(&server.url("ns")).await;
    let far = connect(&proxy.url("ns")).await;
    near.submit(vec![task("t")]).await.remove(0).unwrap();
    let id: TaskId = "t".parse().unwrap();
    let names: Vec<String> = (0..130).map(|n| format!("c{n:03}")).collect();
    let sends = names
        .iter()
        .map(|name| SendCommand::new(id.clone(), name.parse().unwrap(), Command::Pause));
    for answer in near.send(sends.collect()).await {
        answer.unwrap();
    }
    proxy.lose_answer_to(b"/ns/commands/c129");
    let answer = far.delete(vec![id.clone()]).await.remove(0);
    assert_eq!(proxy.lost_answers(), 1);
    match near.get(&id).await {
        Ok(_) => {
            for name in &names {
                let known = near.command(&name.parse().unwrap()).await;
                assert!(known.is_ok(), "{name} of a task that lives: {known:?}");
            }
        }
        Err(Error::NotFound { .. }) => answer.unwrap(),
        Err(e) => panic!("{e}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_ended_is_replaced_by_one_that_starts_later() {
    let world = World::new(Message::complete()).await;
    let mut submit = task("t");
    submit.if_exists = IfExists::ReplaceFinished;
    world
        .far
        .submit(vec![submit.clone()])
        .await
        .remove(0)
        .unwrap();
    assert_eq!(world.ended(&submit.task.id).await, 1);
    let later = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    submit.task.start_at = Some(later);
    let answer = world.far.submit(vec![submit]).await.remove(0);
    assert!(matches!(answer, Ok(Submitted::New)), "{answer:?}");
    world.node.shutdown().await;
}

/// The node remembers the state before the write whose answer was lost. The next write follows that write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_without_an_answer_supersedes_none_that_follows_it() {
    let server = Server::start();
    let proxy = Proxy::to(&[server.endpoint()]).await.unwrap();
    let (_, client) = open(&server.url("ns")).await;
    let far = connect(&proxy.url("ns")).await;
    let id: TaskId = "a".parse().unwrap();
    client.submit(NewTask::new("k").id("a")).await.unwrap();
    let spec = NodeSpec::new("n".parse().unwrap());
    let lease = far.join(&spec, Duration::from_secs(30)).await.unwrap();
    let claimed = far.claim(&lease, vec![id.clone()]).await.remove(0);
    let mut claimed = claimed.unwrap().unwrap();
    for n in 1..=4 {
        let message = Message::checkpoint().with_data(&format!("step-{n}"));
        let commit = write(&claimed, &message);
        let stored = commit.write.state.clone();
        if n % 2 == 1 {
            proxy.lose_answer_to(format!("step-{n}").as_bytes());
        }
        let committed = in_time("a commit", far.commit(vec![commit])).await;
        committed.into_iter().for_each(|answer| answer.unwrap());
        assert_eq!(client.get(&id).await.unwrap().state.unwrap(), stored);
        claimed.state = stored;
    }
    assert_eq!(proxy.lost_answers(), 2);
    far.leave(&lease).await.unwrap();
}

/// Regression: a node that gave up its join, while the answer to its registration was lost, could not join again before its
/// own lease had expired.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_that_is_given_up_without_an_answer_leaves_the_name_free() {
    let server = Server::start();
    let proxy = Proxy::to(&[server.endpoint()]).await.unwrap();
    let near = connect(&server.url("ns")).await;
    let far = connect(&proxy.url("ns")).await;
    let spec = NodeSpec::new("given-up".parse().unwrap());
    let hour = Duration::from_secs(3600);
    proxy.lose_answer_to(b"\"joined_at\"");
    let join = far.join(&spec, hour);
    let lost = async {
        while proxy.lost_answers() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        joined = join => panic!("{joined:?}"),
        () = in_time("the registration", lost) => {}
    }
    let joined = async {
        loop {
            match near.join(&spec, hour).await {
                Err(Error::AlreadyExists { .. }) => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                joined => return joined.unwrap(),
            }
        }
    };
    let lease = in_time("the join", joined).await;
    near.leave(&lease).await.unwrap();
}

/// Regression: of more commands than one write settles, the first got the outcome that the task had ended. The claim was lost before
/// that was stored, and the task went on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_that_are_settled_before_the_end_are_not_told_that_the_task_has_ended() {
    let server = Server::start();
    let proxy = Proxy::to(&[server.endpoint()]).await.unwrap();
    let near = connect(&server.url("ns")).await;
    let far = connect(&proxy.url("ns")).await;
    near.submit(vec![task("t")]).await.remove(0).unwrap();
    let id: TaskId = "t".parse().unwrap();
    let names = (0..130).map(|n| format!("c{n:03}"));
    let sends = names.map(|name| {
        let signal = Command::Signal(windlass::Signal::new("go"));
        SendCommand::new(id.clone(), name.parse().unwrap(), signal)
    });
    for answer in near.send(sends.collect()).await {
        answer.unwrap();
    }
    let spec = NodeSpec::new("n".parse().unwrap());
    let lease = far.join(&spec, Duration::from_secs(30)).await.unwrap();
    let claimed = far.claim(&lease, vec![id.clone()]).await.remove(0);
    let commit = write(&claimed.unwrap().unwrap(), &Message::complete());
    proxy.lose_answer_to(b"about to end");
    let lost = async {
        while proxy.lost_answers() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        committed = far.commit(vec![commit]) => panic!("{committed:?}"),
        () = in_time("the first of the commands", lost) => {}
    }
    let first = "c000".parse().unwrap();
    let settled = in_time("its outcome", async {
        loop {
            match near.command(&first).await.unwrap().outcome {
                Some(outcome) => return outcome,
                None => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    });
    let reason = "the task was about to end: completed".to_owned();
    assert_eq!(settled.await, windlass::Outcome::Rejected { reason });
    let state = near.get(&id).await.unwrap().state.unwrap();
    assert_eq!(state.code(), StateKind::Runnable);
}
