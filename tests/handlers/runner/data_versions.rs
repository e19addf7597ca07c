//! Data versions: a node claims no task whose data it cannot read, and migrates what is older.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{
    BoxError, Command, Job, Json, KindConfig, Message, NewTask, Runner, StateKind, TaskContext,
    balancer::Fair,
    client::WaitReason,
    statemachine::machine::Write,
    store::{Commit, NodeCommand, NodeSpec},
    testing::Operation,
};

use super::support::{World, secs};

/// Counts to `to`, one a run, with a sleep that parks the task.
#[derive(Serialize, Deserialize)]
struct CountV1 {
    to: u64,
}

impl Job for CountV1 {
    const KIND: &'static str = "count";
    type Data = u64;
    type Output = String;
}

async fn count_v1(task: TaskContext<CountV1>) -> Result<Message<CountV1>, BoxError> {
    let n = task.data()?.unwrap_or(0);
    if n == task.job().to {
        return Ok(Message::complete_with(format!("v1 {n}")));
    }
    Ok(Message::sleep_for(secs(60)).with_data(&(n + 1)))
}

/// The same with other data.
#[derive(Serialize, Deserialize)]
struct CountV2 {
    to: u64,
}

#[derive(Serialize, Deserialize)]
struct Counted {
    n: u64,
    migrated: u64,
}

impl Job for CountV2 {
    const KIND: &'static str = "count";
    type Data = Counted;
    type Output = String;
    const DATA_VERSION: u32 = 2;

    fn migrate(from: u32, data: Json) -> Result<Counted, BoxError> {
        assert_eq!(from, 1);
        let n = data.get("data")?;
        if n == 13 {
            return Err("13 was never written".into());
        }
        Ok(Counted { n, migrated: 1 })
    }
}

async fn count_v2(task: TaskContext<CountV2>) -> Result<Message<CountV2>, BoxError> {
    let Counted { n, migrated } = task.data()?.unwrap_or(Counted { n: 0, migrated: 0 });
    if n == task.job().to {
        return Ok(Message::complete_with(format!(
            "v2 {n}, {migrated} migrated"
        )));
    }
    let n = n + 1;
    Ok(Message::sleep_for(secs(60)).with_data(&Counted { n, migrated }))
}

async fn old(world: &World) -> Runner {
    world.node("old").job(count_v1).start().await.unwrap()
}

async fn new(world: &World) -> Runner {
    world.node("new").job(count_v2).start().await.unwrap()
}

/// A task that has counted once, on its own node that is gone.
async fn counted_by<J: Job<Output = String>>(
    world: &World,
    node: Runner,
    task: NewTask<J>,
) -> windlass::client::Handle<J> {
    let handle = world.client.submit(task).await.unwrap();
    world.rest(handle.id(), StateKind::Sleeping).await;
    node.shutdown().await;
    handle
}

#[tokio::test(start_paused = true)]
async fn a_task_waits_for_a_node_that_reads_its_data() {
    let world = World::new().await;
    let node = new(&world).await;
    let task = counted_by(&world, node, NewTask::of(CountV2 { to: 2 }).id("a")).await;
    let old = old(&world).await;
    world.listed(&old).await;
    let claims = world.faults.calls(Operation::Claim);
    // A command does not make it readable either.
    world.client.command(&task, Command::Run).await.unwrap();
    tokio::time::sleep(secs(600)).await;
    assert_eq!(world.faults.calls(Operation::Claim), claims);

    let record = world.client.get(&task).await.unwrap();
    assert_eq!(record.state.as_ref().unwrap().data_version, 2);
    let nodes = world.client.nodes().await.unwrap();
    assert_eq!(
        WaitReason::of(&record, &nodes, world.now()),
        Some(WaitReason::DataVersion {
            version: 2,
            nodes: vec!["old".parse().unwrap()]
        })
    );

    let new = new(&world).await;
    assert_eq!(task.wait().await.unwrap(), "v2 2, 0 migrated");
    old.shutdown().await;
    new.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_rolling_upgrade_loses_nothing() {
    let world = World::new().await;
    let first = old(&world).await;
    let mut tasks = Vec::new();
    for n in 0..50 {
        let task = NewTask::of(CountV1 { to: 5 }).id(format!("t{n}"));
        tasks.push(world.client.submit(task).await.unwrap());
    }
    tokio::time::sleep(secs(90)).await;
    let second = new(&world).await;
    // Longer than two sleeps: the old node meets tasks that the new one has written.
    tokio::time::sleep(secs(130)).await;
    first.shutdown().await;
    let mut migrated = 0;
    for task in &tasks {
        let output = task.wait().await.unwrap();
        assert!(output.starts_with("v2 5") || output == "v1 5", "{output}");
        migrated += u32::from(output == "v2 5, 1 migrated");
        let history = world.client.history(task, 100).await.unwrap();
        let moved = history.iter().filter(|c| {
            use windlass::store::ChangeKind::Moved;
            matches!(
                c.what,
                Moved {
                    to: StateKind::Sleeping,
                    ..
                }
            )
        });
        assert_eq!(moved.count(), 5, "each number is counted once");
        let state = world.client.get(task).await.unwrap().state.unwrap();
        assert_eq!(state.errors.total(), 0, "{:?}", state.errors.last());
    }
    assert_eq!(migrated, 50, "none was finished before the upgrade");
    second.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_leaves_newer_data_waiting_and_runs_the_rest() {
    let world = World::new().await;
    let node = new(&world).await;
    let newer = counted_by(&world, node, NewTask::of(CountV2 { to: 2 }).id("newer")).await;
    let node = old(&world).await;
    let older = world
        .client
        .submit(NewTask::of(CountV1 { to: 2 }).id("older"))
        .await;
    assert_eq!(older.unwrap().wait().await.unwrap(), "v1 2");
    let waiting = world.client.get(&newer).await.unwrap();
    let state = waiting.state.unwrap();
    assert_eq!((state.code(), state.claims), (StateKind::Sleeping, 1));
    assert_eq!(state.data.unwrap().as_str(), r#"{"n":1,"migrated":0}"#);
    node.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn data_that_cannot_be_migrated_fails_the_task_and_is_kept() {
    let world = World::new().await;
    let unlucky = |_: TaskContext| async { Message::sleep_for(secs(60)).with_data(&13) };
    let node = world.node("old").handler("count", unlucky);
    let node = node.start().await.unwrap();
    let task = counted_by(&world, node, NewTask::of(CountV2 { to: 1 }).id("a")).await;
    let node = new(&world).await;
    let error = task.wait().await.unwrap_err().to_string();
    assert_eq!(
        error,
        "task 'a' failed: data: could not be migrated from version 1 to 2: 13 was never written; fix \
         the migration, then retry the task"
    );
    let state = world.client.get(&task).await.unwrap().state.unwrap();
    assert_eq!((state.data_version, state.attempts), (1, 1));
    assert_eq!(state.data.unwrap().as_str(), "13");
    node.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_untyped_handler_reads_the_version_that_it_finds() {
    let world = World::new().await;
    let seen = |task: TaskContext| async move {
        let before = task.data_version();
        task.checkpoint(&1).await?;
        Ok::<_, BoxError>(Message::complete_with((before, task.data_version())))
    };
    let first = |_: TaskContext| async { Message::sleep_for(secs(60)).with_data(&0) };
    let node = world.node("a").handler("k", first).start().await.unwrap();
    let id = world.client.submit(NewTask::new("k")).await.unwrap();
    world.rest(id.id(), StateKind::Sleeping).await;
    node.shutdown().await;
    let config = KindConfig::default().data_version(3);
    let node = world.node("b").handler_with("k", config, seen);
    let node = node.start().await.unwrap();
    let done = world.client.wait(&id).await.unwrap();
    let seen: (Option<u32>, Option<u32>) = done.result().unwrap();
    assert_eq!(seen, (Some(1), Some(3)));
    let state = world.client.get(&id).await.unwrap().state.unwrap();
    assert_eq!(state.data_version, 3);
    node.shutdown().await;
}

/// The watch is behind: the node claims a task whose data another node has written since.
#[tokio::test(start_paused = true)]
async fn a_claim_of_data_that_became_newer_is_given_back() {
    let world = World::new().await;
    let old = old(&world).await;
    world.listed(&old).await;
    let soon = world.now() + Duration::from_millis(100);
    let task = NewTask::of(CountV1 { to: 1 }).id("a").start_at(soon);
    let task = world.client.submit(task).await.unwrap();
    world
        .until("the node knows it", || async {
            old.snapshot().await.unwrap().parked == 1
        })
        .await;
    world.faults.break_watches();
    let coordinator = world.store.coordinator();
    let spec = NodeSpec::new("other".parse().unwrap());
    let lease = coordinator.join(&spec, secs(60)).await.unwrap();
    world.client.command(&task, Command::Release).await.unwrap();
    let claimed = coordinator.claim(&lease, vec![task.id().clone()]).await;
    let claimed = claimed[0].as_ref().unwrap().clone().unwrap();
    let mut state = claimed.state;
    (state.data, state.data_version) = (Some(Json::new("data", &7).unwrap()), 2);
    let write = Write::releasing(state);
    let claim = claimed.claim;
    let written = coordinator.commit(vec![Commit::new(claim, write)]).await;
    assert!(written[0].is_ok());
    let claims = world.faults.calls(Operation::Claim);
    world
        .until("the node claims it", || async {
            world.faults.calls(Operation::Claim) > claims
        })
        .await;
    world
        .until("it gives the task back", || async {
            world.client.get(&task).await.unwrap().node.is_none()
        })
        .await;
    tokio::time::sleep(secs(600)).await;
    let state = world.client.get(&task).await.unwrap().state.unwrap();
    assert_eq!((state.claims, state.data_version), (2, 2));
    assert_eq!(state.data.unwrap().as_str(), "7");
    old.shutdown().await;
}

/// A node that reads only older versions is not a reason to release tasks that only this one reads.
#[tokio::test(start_paused = true)]
async fn a_balanced_node_keeps_what_the_others_cannot_read() {
    let world = World::new().await;
    let holds = |task: TaskContext| async move {
        task.checkpoint(&1).await?;
        Ok::<_, BoxError>(task.stop_requested().await.message())
    };
    let config = KindConfig::default().data_version(2);
    let new = world.node("new").balancer(Fair::default());
    let new = new.handler_with("k", config, holds).start().await.unwrap();
    for n in 0..10 {
        let task = NewTask::new("k").id(format!("t{n}"));
        world.client.submit(task).await.unwrap();
    }
    world
        .until("ten run", || async {
            new.snapshot().await.unwrap().tasks.len() == 10
        })
        .await;
    let old = world.node("old").handler("k", holds).start().await.unwrap();
    world.listed(&old).await;
    tokio::time::sleep(secs(5)).await;
    let sent = world.client.command_node(new.node(), NodeCommand::Balance);
    let sent = sent.await.unwrap();
    let look = || async { world.client.node_outcome(sent).await.unwrap() };
    world
        .until("it answers", || async { look().await.is_some() })
        .await;
    assert_eq!(look().await.unwrap(), "balanced: 0 tasks released");
    assert_eq!(new.snapshot().await.unwrap().tasks.len(), 10);
    old.shutdown().await;
    new.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn data_version_0_is_refused() {
    let world = World::new().await;
    let none = || KindConfig::default().data_version(0);
    let done = |_: TaskContext| async { Message::complete() };
    for node in [
        world.node("n").handler_with("k", none(), done),
        world.node("n").default_handler(none(), done),
    ] {
        let error = node.start().await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "data_version: is 0; the first version is 1, and a kind without versions has it"
        );
    }
}
