//! Deadlines: tasks that have not started or ended in time fail.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU32, Ordering},
};

use windlass::{
    Command, KindConfig, Message, NewTask, StateKind, Stop, StopReason, TaskContext, TaskId,
};

use super::support::{RunEnds, World, secs};

/// The newest error of a task that failed, and how many attempts it had.
async fn failure(world: &World, id: &TaskId) -> (String, u32) {
    let done = world.client.wait(id).await.unwrap();
    assert_eq!(done.code(), StateKind::Failed);
    let state = world.client.get(id).await.unwrap().state.unwrap();
    let error = state.errors.last().unwrap().error.clone();
    (error, state.attempts)
}

async fn submit(world: &World, task: NewTask) -> TaskId {
    world.client.submit(task).await.unwrap().into_id()
}

#[tokio::test(start_paused = true)]
async fn a_task_without_room_fails_at_its_start_beside_full_slots() {
    let world = World::new().await;
    let runs = Arc::new(AtomicU32::new(0));
    let count = runs.clone();
    let node = world
        .node("n")
        .slots(1)
        .handler("k", move |task: TaskContext| {
            count.fetch_add(1, Ordering::SeqCst);
            async move {
                task.stop_requested().await;
                Message::release()
            }
        })
        .start()
        .await
        .unwrap();
    world.running("k").await;
    let before = world.now();
    let late = submit(&world, NewTask::new("k").start_within(secs(60))).await;
    let (error, attempts) = failure(&world, &late).await;
    assert!(error.starts_with("did not start by "), "{error}");
    assert_eq!((attempts, runs.load(Ordering::SeqCst)), (0, 1), "no run");
    let passed = world.now().duration_since(before).as_secs();
    assert!((60..70).contains(&passed), "{passed} s");
    node.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn parked_tasks_fail_at_their_deadlines() {
    let world = World::new().await;
    let _node = world
        .node("n")
        .handler("k", |task: TaskContext| async move {
            match task.attempt() {
                1 => Message::error("first"),
                _ => Message::complete(),
            }
        })
        .handler("pauses", |_: TaskContext| async { Message::pause() })
        .handler("sleeps", |_: TaskContext| async {
            Message::sleep_for(secs(3600))
        })
        .start()
        .await
        .unwrap();
    let before = world.now();
    let blocks = submit(&world, NewTask::new("nobody")).await;
    let in_time = |task: NewTask| task.end_within(secs(100));
    // Without jitter.
    let retries = windlass::Retry::Strikes {
        errors: 5,
        window: secs(24 * 3600),
        sleep: secs(3600),
    };
    let mut ids = Vec::new();
    for task in [
        NewTask::new("pauses"),
        NewTask::new("sleeps"),
        NewTask::new("k").after([blocks]),
        NewTask::new("k").retry(retries),
    ] {
        ids.push(submit(&world, in_time(task)).await);
    }
    for id in ids {
        let (error, _) = failure(&world, &id).await;
        assert!(error.starts_with("did not end by "), "{id}: {error}");
    }
    let passed = world.now().duration_since(before).as_secs();
    assert!((100..110).contains(&passed), "{passed} s");
}

#[tokio::test(start_paused = true)]
async fn a_running_handler_is_asked_to_stop_at_the_end() {
    let world = World::new().await;
    let stops = Arc::new(Mutex::new(Vec::new()));
    let seen = stops.clone();
    let _node = world
        .node("n")
        .handler("k", move |task: TaskContext| {
            let seen = seen.clone();
            async move {
                let stop = task.stop_requested().await;
                seen.lock().unwrap().push(stop);
                Message::complete_with("late")
            }
        })
        .start()
        .await
        .unwrap();
    let id = submit(&world, NewTask::new("k").end_within(secs(60))).await;
    let (error, attempts) = failure(&world, &id).await;
    assert!(error.starts_with("did not end by "), "{error}");
    assert_eq!(attempts, 0);
    assert_eq!(*stops.lock().unwrap(), [Stop::Node(StopReason::Deadline)]);
    // A retry runs it: the deadline has passed.
    world.client.retry(&id).await.unwrap();
    world.claimed(&id).await;
    world.client.command(&id, Command::Kill).await.unwrap();
    assert_eq!(
        world.client.wait(&id).await.unwrap().code(),
        StateKind::Killed
    );
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_ignores_its_deadline_is_aborted_after_the_grace() {
    let world = World::new().await;
    let ends = RunEnds::default();
    let held = ends.clone();
    let config = KindConfig::default().stop_grace(secs(7));
    let _node = world
        .node("n")
        .handler_with("k", config, move |task: TaskContext| {
            held.clone().hold(task)
        })
        .start()
        .await
        .unwrap();
    let before = world.now();
    let id = submit(&world, NewTask::new("k").end_within(secs(60))).await;
    failure(&world, &id).await;
    let passed = world.now().duration_since(before).as_secs();
    assert!((67..75).contains(&passed), "{passed} s");
    assert_eq!(ends.all().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_starts_and_ends_in_time_is_left_alone() {
    let world = World::new().await;
    let _node = world
        .node("n")
        .handler("k", |task: TaskContext| async move {
            match task.data::<u32>() {
                Ok(Some(_)) => Message::complete(),
                _ => Message::sleep_for(secs(100)).with_data(&1),
            }
        })
        .start()
        .await
        .unwrap();
    // The start is met by the first run, long before the second.
    let task = NewTask::new("k")
        .start_within(secs(50))
        .end_within(secs(3600));
    let id = submit(&world, task).await;
    assert_eq!(
        world.client.wait(&id).await.unwrap().code(),
        StateKind::Completed
    );
}
