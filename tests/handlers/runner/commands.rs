//! Commands to tasks that run, sleep, are paused, ignore them, or have ended.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use tokio::time::Instant;
use windlass::{
    ActionKind, BoxError, Command, KindConfig, Message, NewTask, Outcome, StateKind, Stop,
    StopReason, TaskContext, TaskStatus,
    store::Error,
    testing::{Fault, Operation},
};

use super::support::{RunEnds, World, applied, secs};

async fn obeys(task: TaskContext) -> Message {
    task.stop_requested().await.message()
}

async fn ignores(_: TaskContext) -> Message {
    std::future::pending().await
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_obeys_pauses_resumes_and_is_killed() {
    let world = World::new().await;
    let _node = world
        .node("n")
        .handler("obeys", obeys)
        .start()
        .await
        .unwrap();
    let id = world.running("obeys").await;
    assert_eq!(
        world.command(&id, Command::Pause).await,
        applied(StateKind::Runnable, StateKind::Paused)
    );
    world.rest(&id, StateKind::Paused).await;
    assert_eq!(
        world.command(&id, Command::Run).await,
        applied(StateKind::Paused, StateKind::Runnable)
    );
    let until = world.now() + jiff::SignedDuration::from_hours(1);
    let slept = world.command(&id, Command::Sleep { until }).await;
    assert_eq!(slept, applied(StateKind::Runnable, StateKind::Sleeping));
    world.rest(&id, StateKind::Sleeping).await;
    assert_eq!(
        world.command(&id, Command::Kill).await,
        applied(StateKind::Sleeping, StateKind::Killed)
    );
    let refused = world.client.command(&id, Command::Run).await;
    assert!(
        matches!(refused, Err(Error::AlreadyFinished { .. })),
        "{refused:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_ignores_a_command_is_aborted_after_its_grace() {
    let world = World::new().await;
    let grace = KindConfig::default().stop_grace(secs(30));
    let _node = world
        .node("n")
        .handler_with("ignores", grace, ignores)
        .start()
        .await
        .unwrap();
    let id = world.running("ignores").await;
    let before = world.now();
    assert_eq!(
        world.command(&id, Command::Pause).await,
        applied(StateKind::Runnable, StateKind::Paused)
    );
    let took = world.now().duration_since(before).as_secs();
    assert!((29..33).contains(&took), "{took} s");
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_returns_instead_overrides_the_command_but_never_a_kill() {
    let world = World::new().await;
    let _node = world
        .node("n")
        .handler("completes", |task: TaskContext| async move {
            task.stop_requested().await;
            Message::complete()
        })
        .start()
        .await
        .unwrap();
    let id = world.running("completes").await;
    let outcome = world.command(&id, Command::Pause).await;
    assert_eq!(
        outcome,
        Outcome::Overridden {
            by: ActionKind::Complete
        }
    );
    assert_eq!(world.code(&id).await, StateKind::Completed);
    let id = world.running("completes").await;
    assert_eq!(
        world.command(&id, Command::Kill).await,
        applied(StateKind::Runnable, StateKind::Killed)
    );
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_command_does_not_stop_the_handler() {
    let world = World::new().await;
    let _node = world
        .node("n")
        .handler("saves", |task: TaskContext| async move {
            let commands = task.commands();
            while let Some(command) = commands.next().await {
                if command == Command::Checkpoint {
                    task.checkpoint("saved").await?;
                    return Ok::<_, BoxError>(task.stop_requested().await.message());
                }
            }
            Ok(Message::release())
        })
        .handler("ignores", ignores)
        .start()
        .await
        .unwrap();
    let still = applied(StateKind::Runnable, StateKind::Runnable);
    let id = world.running("saves").await;
    assert_eq!(world.command(&id, Command::Checkpoint).await, still);
    let record = world.client.get(&id).await.unwrap();
    assert_eq!(record.state.unwrap().data.unwrap().as_str(), "\"saved\"");
    // A handler that does not reply continues anyway.
    let id = world.running("ignores").await;
    let fence = world.client.get(&id).await.unwrap().fence;
    assert_eq!(world.command(&id, Command::Checkpoint).await, still);
    assert_eq!(world.client.get(&id).await.unwrap().fence, fence);
}

#[tokio::test(start_paused = true)]
async fn commands_wait_for_an_owner_and_are_applied_in_order() {
    let world = World::new().await;
    let id = world
        .client
        .submit(NewTask::new("late"))
        .await
        .unwrap()
        .into_id();
    let mut sent = Vec::new();
    for command in [
        Command::Pause,
        Command::Run,
        Command::Pause,
        Command::Checkpoint,
    ] {
        sent.push(world.client.command(&id, command).await.unwrap());
    }
    for id in &sent {
        assert_eq!(world.client.outcome(id).await.unwrap(), None);
    }
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let _node = world
        .node("n")
        .handler("late", move |_: TaskContext| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { Message::complete() }
        })
        .start()
        .await
        .unwrap();
    let mut outcomes = Vec::new();
    for id in &sent {
        outcomes.push(world.client.wait_outcome(id).await.unwrap());
    }
    assert_eq!(
        outcomes,
        [
            applied(StateKind::Runnable, StateKind::Paused),
            applied(StateKind::Paused, StateKind::Runnable),
            applied(StateKind::Runnable, StateKind::Paused),
            applied(StateKind::Paused, StateKind::Paused),
        ]
    );
    assert_eq!(runs.load(Ordering::SeqCst), 0, "the handler never ran");
    world.rest(&id, StateKind::Paused).await;
}

#[tokio::test(start_paused = true)]
async fn the_same_command_id_is_the_same_command() {
    let world = World::new().await;
    let id = world
        .client
        .submit(NewTask::new("any"))
        .await
        .unwrap()
        .into_id();
    let command: windlass::CommandId = "deploy-7".parse().unwrap();
    for _ in 0..3 {
        world
            .client
            .command_with_id(&id, command.clone(), Command::Pause)
            .await
            .unwrap();
    }
    assert_eq!(world.client.commands(&id).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_command_completes_a_paused_task() {
    let world = World::new().await;
    let _node = world
        .node("n")
        .handler("obeys", obeys)
        .start()
        .await
        .unwrap();
    let id = world.running("obeys").await;
    world.command(&id, Command::Pause).await;
    let result = Some(serde_json::json!({"by": "hand"}).into());
    world
        .command(
            &id,
            Command::Complete {
                result: result.clone(),
            },
        )
        .await;
    let done = world.client.wait(&id).await.unwrap();
    assert_eq!(done.state.status, TaskStatus::Completed { result });
}

#[tokio::test(start_paused = true)]
async fn a_kill_reaches_a_paused_task_though_every_slot_is_taken() {
    let world = World::new().await;
    let _node = world
        .node("n")
        .slots(1)
        .handler("obeys", obeys)
        .start()
        .await
        .unwrap();
    let paused = world.running("obeys").await;
    world.command(&paused, Command::Pause).await;
    world.rest(&paused, StateKind::Paused).await;
    let runs = world.running("obeys").await;
    assert_eq!(
        world.command(&paused, Command::Kill).await,
        applied(StateKind::Paused, StateKind::Killed)
    );
    assert_eq!(world.code(&runs).await, StateKind::Runnable);
}

#[tokio::test(start_paused = true)]
async fn a_kill_whose_claim_failed_once_still_needs_no_slot() {
    let world = World::new().await;
    let node = world.node("n").slots(1).handler("obeys", obeys);
    let _node = node.start().await.unwrap();
    let runs = world.running("obeys").await;
    let waits = world
        .client
        .submit(NewTask::new("obeys"))
        .await
        .unwrap()
        .into_id();
    world.faults.fail(Operation::Claim, Fault::Before, 1);
    let killed = tokio::time::timeout(secs(5), world.command(&waits, Command::Kill)).await;
    assert_eq!(
        killed.expect("it waits for a slot"),
        applied(StateKind::Runnable, StateKind::Killed)
    );
    assert_eq!(world.code(&runs).await, StateKind::Runnable);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_resumed_beyond_the_limit_waits_its_turn() {
    let world = World::new().await;
    let node = world
        .node("n")
        .slots(1)
        .handler("obeys", obeys)
        .start()
        .await
        .unwrap();
    let paused = world.running("obeys").await;
    world.command(&paused, Command::Pause).await;
    let runs = world.running("obeys").await;
    assert_eq!(
        world.command(&paused, Command::Run).await,
        applied(StateKind::Paused, StateKind::Runnable)
    );
    world.rest(&paused, StateKind::Runnable).await;
    let running = node.snapshot().await.unwrap().tasks;
    assert_eq!(running.iter().map(|t| &t.id).collect::<Vec<_>>(), [&runs]);
    world.command(&runs, Command::Kill).await;
    world.claimed(&paused).await;
}

#[tokio::test(start_paused = true)]
async fn deleting_a_task_stops_its_handler() {
    let world = World::new().await;
    let ends = RunEnds::default();
    let guards = ends.clone();
    let node = world
        .node("n")
        .handler("ignores", move |task| guards.clone().hold(task))
        .start()
        .await
        .unwrap();
    let id = world.running("ignores").await;
    world.client.force_delete(&id).await.unwrap();
    let deleted = Instant::now();
    world
        .until("the handler is gone", || async {
            !ends.all().is_empty() && node.snapshot().await.unwrap().tasks.is_empty()
        })
        .await;
    let end = ends.all().remove(0);
    assert_eq!(end.stop, Some(Stop::Node(StopReason::Deleted)));
    let after = end.at - deleted;
    assert!(after < secs(1), "a deleted task has no grace: {after:?}");
    let gone = world.client.get(&id).await;
    assert!(matches!(gone, Err(Error::NotFound { .. })), "{gone:?}");
}

#[tokio::test(start_paused = true)]
async fn a_retry_runs_a_failed_task_again_with_its_data() {
    let world = World::new().await;
    let _node = world
        .node("n")
        .handler_with(
            "once",
            KindConfig::default().retry(windlass::Retry::Never),
            |task: TaskContext| async move {
                if task.incarnation() == 0 {
                    task.checkpoint("found").await?;
                    return Err("no".into());
                }
                assert_eq!(task.attempt(), 1, "attempts begin again");
                let data: Option<String> = task.data()?;
                Ok::<_, BoxError>(Message::complete_with(&data))
            },
        )
        .start()
        .await
        .unwrap();
    let id = world
        .client
        .submit(NewTask::new("once"))
        .await
        .unwrap()
        .into_id();
    assert_eq!(
        world.client.wait(&id).await.unwrap().code(),
        StateKind::Failed
    );
    world.client.retry(&id).await.unwrap();
    let done = world.client.wait(&id).await.unwrap();
    assert_eq!(done.result::<String>().unwrap(), "found");
    assert_eq!(done.state.errors.total(), 1, "the error is kept");
    let refused = world.client.retry(&id).await;
    assert!(
        refused.is_ok(),
        "an ended task may be run again: {refused:?}"
    );
}
