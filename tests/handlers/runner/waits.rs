//! Tasks that wait for other tasks.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use jiff::SignedDuration;
use windlass::{Command, Message, NewTask, StateKind, TaskContext, WaitOutcome, runner::Builder};

use super::support::World;

/// Adds the kinds of these tests: `work`, which completes, and `bad`, which fails.
fn kinds(node: Builder) -> Builder {
    node.handler("work", |_: TaskContext| async { Message::complete() })
        .handler("bad", |_: TaskContext| async { Message::fail("no") })
}

fn waited(task: &TaskContext) -> Vec<(String, WaitOutcome)> {
    let waited = task.waited().iter();
    waited
        .map(|one| (one.task.to_string(), one.outcome))
        .collect()
}

fn pair(id: &str, outcome: WaitOutcome) -> (String, WaitOutcome) {
    (id.to_owned(), outcome)
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_submits_tasks_and_waits_for_them_gets_their_outcomes() {
    let world = World::new().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = seen.clone();
    let join = move |task: TaskContext| {
        let sees = sees.clone();
        async move {
            if task.waited().is_empty() {
                let message = Message::wait_for(["a", "b"]);
                let message = message.and_submit(NewTask::new("work").id("a"));
                return message.and_submit(NewTask::new("bad").id("b"));
            }
            sees.lock().unwrap().push(waited(&task));
            match task.attempt() {
                1 => Message::error("once more"),
                _ => Message::complete(),
            }
        }
    };
    let node = kinds(world.node("n")).handler("join", join);
    let _node = node.start().await.unwrap();
    let task = NewTask::new("join").id("j");
    let id = world.client.submit(task).await.unwrap().into_id();
    world.rest(&id, StateKind::Completed).await;
    let outcomes = vec![
        pair("a", WaitOutcome::Completed),
        pair("b", WaitOutcome::Failed),
    ];
    assert_eq!(
        *seen.lock().unwrap(),
        [outcomes.clone(), outcomes],
        "each attempt gets them"
    );
}

#[tokio::test(start_paused = true)]
async fn a_task_of_another_nodes_kind_ends_a_wait() {
    let world = World::new().await;
    let waiter = world.node("waiter");
    let waiter = waiter.handler("wait", |_: TaskContext| async { Message::complete() });
    let _waiter = waiter.start().await.unwrap();
    world
        .client
        .submit(NewTask::new("work").id("a"))
        .await
        .unwrap();
    let task = NewTask::new("wait").id("w").after(["a"]);
    let id = world.client.submit(task).await.unwrap().into_id();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let state = world.client.get(&id).await.unwrap().state.unwrap();
    assert!(state.is_waiting());
    assert_eq!(state.claims, 0, "no node has tried");
    let _worker = kinds(world.node("worker")).start().await.unwrap();
    let started = world.now();
    world.rest(&id, StateKind::Completed).await;
    let took = world.now().duration_since(started);
    assert!(took < SignedDuration::from_secs(5), "{took}");
}

#[tokio::test(start_paused = true)]
async fn a_failure_fails_every_task_that_needs_it_and_no_handler_runs() {
    let world = World::new().await;
    let runs = Arc::new(AtomicUsize::new(0));
    let counts = runs.clone();
    let needs = move |_: TaskContext| {
        counts.fetch_add(1, Ordering::Relaxed);
        async { Message::complete() }
    };
    let node = kinds(world.node("n")).handler("needs", needs);
    let _node = node.start().await.unwrap();
    let (a, b, c) = (
        NewTask::new("bad").id("a"),
        NewTask::new("needs").id("b").after_ok(["a"]),
        NewTask::new("needs").id("c").after_ok(["b"]),
    );
    for answer in world.client.submit_many([a, b, c]).await {
        answer.unwrap();
    }
    world.rest(&"c".parse().unwrap(), StateKind::Failed).await;
    let state = world.client.get("c").await.unwrap().state.unwrap();
    assert_eq!(
        state.errors.last().unwrap().error,
        "could not run: task 'b' has to complete first (after_ok) and failed; retry the task that failed first, then \
         those that wait for it"
    );
    assert_eq!(runs.load(Ordering::Relaxed), 0);
    assert_eq!(state.attempts, 0);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_and_a_command_end_a_wait() {
    let world = World::new().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = seen.clone();
    let handler = move |task: TaskContext| {
        sees.lock()
            .unwrap()
            .push((task.id().to_string(), waited(&task)));
        async { Message::complete() }
    };
    let node = world.node("n").handler("wait", handler);
    let _node = node.start().await.unwrap();
    world
        .client
        .submit(NewTask::new("work").id("a"))
        .await
        .unwrap();
    let deadline = world.now() + SignedDuration::from_hours(1);
    let late = NewTask::new("wait")
        .id("late")
        .after(["a"])
        .after_deadline(deadline);
    let late = world.client.submit(late).await.unwrap().into_id();
    let task = NewTask::new("wait").id("commanded").after(["a"]);
    let run = world.client.submit(task).await.unwrap().into_id();
    world.client.command(&run, Command::Run).await.unwrap();
    world.rest(&run, StateKind::Completed).await;
    tokio::time::sleep(Duration::from_secs(3599)).await;
    assert_eq!(world.code(&late).await, StateKind::Sleeping);
    world.rest(&late, StateKind::Completed).await;
    assert!(world.now() >= deadline);
    let live = || vec![pair("a", WaitOutcome::Live)];
    let expected = [
        ("commanded".to_owned(), live()),
        ("late".to_owned(), live()),
    ];
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_waits_for_its_own_task_fails() {
    let world = World::new().await;
    let node = world
        .node("n")
        .handler("self", |task: TaskContext| async move {
            Message::wait_for([task.id().clone()])
        });
    let _node = node.start().await.unwrap();
    let id = world
        .client
        .submit(NewTask::new("self").id("s"))
        .await
        .unwrap()
        .into_id();
    world.rest(&id, StateKind::Failed).await;
    let state = world.client.get(&id).await.unwrap().state.unwrap();
    assert_eq!(
        state.errors.last().unwrap().error,
        "wait_for: names the task 's' itself; name other tasks"
    );
}
