//! Faults of the machine: they cost no attempt, and another node takes the task.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

use tokio::time::Instant;
use windlass::{Message, NewTask, StateKind, TaskContext};

use super::support::{World, secs};

#[tokio::test(start_paused = true)]
async fn a_fault_of_the_machine_costs_no_attempt_and_slows_only_its_kind() {
    let world = World::new().await;
    let broken = Arc::new(AtomicBool::new(true));
    let runs = Arc::new(AtomicU32::new(0));
    let (is_broken, counted) = (broken.clone(), runs.clone());
    let _node = world
        .node("n")
        .handler("k", move |task: TaskContext| {
            let (is_broken, counted) = (is_broken.clone(), counted.clone());
            async move {
                counted.fetch_add(1, Ordering::SeqCst);
                match is_broken.load(Ordering::SeqCst) {
                    true => task.node_fault("no file descriptors left"),
                    false => Message::complete(),
                }
            }
        })
        .handler("other", |_: TaskContext| async { Message::complete() })
        .start()
        .await
        .unwrap();
    let ids = [(); 20].map(|()| NewTask::new("k"));
    let mut tasks = Vec::new();
    for task in ids {
        tasks.push(world.client.submit(task).await.unwrap());
    }
    tokio::time::sleep(secs(600)).await;
    // All twenty at first at most, then single trials after 1, 2, 4 … 60 s, each with jitter.
    let tried = runs.load(Ordering::SeqCst);
    assert!(
        (10..=20 + 26).contains(&tried),
        "{tried} runs in 10 minutes"
    );
    let other = world.client.submit(NewTask::new("other")).await.unwrap();
    world.rest(other.id(), StateKind::Completed).await;
    for id in &tasks {
        let state = world.client.get(id).await.unwrap().state.unwrap();
        assert_eq!(state.code(), StateKind::Runnable);
        assert_eq!((state.attempts, state.errors.total()), (0, 0), "{id}");
    }
    broken.store(false, Ordering::SeqCst);
    let fixed = Instant::now();
    for id in &tasks {
        world.rest(id.id(), StateKind::Completed).await;
        let state = world.client.get(id).await.unwrap().state.unwrap();
        assert_eq!((state.attempts, state.errors.total()), (0, 0), "{id}");
    }
    assert!(fixed.elapsed() < secs(63), "{:?}", fixed.elapsed());
}

#[tokio::test(start_paused = true)]
async fn another_node_takes_what_a_machine_with_a_fault_cannot_run() {
    let world = World::new().await;
    let faulty = |task: TaskContext| async move { task.node_fault("no memory left") };
    let _faulty = world.node("faulty").handler("k", faulty).start().await;
    let id = world.client.submit(NewTask::new("k")).await.unwrap();
    world
        .until("it was released", || async {
            let record = world.client.get(&id).await.unwrap();
            record.node.is_none() && record.state.unwrap().claims > 0
        })
        .await;
    let well = |_: TaskContext| async { Message::complete() };
    let _well = world.node("well").handler("k", well).start().await.unwrap();
    let began = Instant::now();
    world.rest(id.id(), StateKind::Completed).await;
    assert!(began.elapsed() < secs(10), "{:?}", began.elapsed());
}
