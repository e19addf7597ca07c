//! The clock is set while a node works: only wake-ups follow it.

use std::{future::pending, sync::Arc, time::Duration};

use jiff::SignedDuration;
use tokio::time::{Instant, sleep};
use windlass::{Command, KindConfig, Message, NewTask, StateKind, TaskContext};

use super::support::{SettableClock, World, applied, secs};

const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// A node whose handlers ignore every command, and have a grace of two seconds.
async fn deaf() -> (World, Arc<SettableClock>, windlass::Runner) {
    let (world, clock) = World::with_settable_clock().await;
    let config = KindConfig::default().stop_grace(secs(2));
    let node = world
        .node("n")
        .handler_with("deaf", config, |_: TaskContext| pending::<Message>())
        .start()
        .await
        .unwrap();
    (world, clock, node)
}

fn about_two_seconds(took: Duration) {
    assert!(took >= secs(2) && took < secs(4), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_kill_takes_its_grace_however_the_clock_is_set() {
    for offset in [-HOUR, HOUR] {
        let (world, clock, _node) = deaf().await;
        let id = world.running("deaf").await;
        let began = Instant::now();
        let sent = world.client.command(&id, Command::Kill).await.unwrap();
        sleep(Duration::from_millis(500)).await;
        clock.set_by(offset);
        let outcome = world.client.wait_outcome(&sent).await.unwrap();
        assert_eq!(outcome, applied(StateKind::Runnable, StateKind::Killed));
        about_two_seconds(began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_takes_its_grace_however_the_clock_is_set() {
    for offset in [-HOUR, HOUR] {
        let (world, clock, node) = deaf().await;
        let id = world.running("deaf").await;
        let began = Instant::now();
        let set = async {
            sleep(Duration::from_millis(500)).await;
            clock.set_by(offset);
        };
        tokio::join!(node.shutdown(), set);
        about_two_seconds(began.elapsed());
        world.rest(&id, StateKind::Runnable).await;
    }
}

/// A node leaves a task that it has released to others for a moment, and a claim that the store
/// refuses is tried again after a moment: neither is a wake-up.
#[tokio::test(start_paused = true)]
async fn a_released_task_is_taken_again_though_the_clock_is_set_back() {
    let (world, clock) = World::with_settable_clock().await;
    let sets_back = clock.clone();
    let _node = world
        .node("n")
        .handler("gives-way", move |task: TaskContext| {
            let clock = sets_back.clone();
            async move {
                if task.data::<bool>().unwrap().is_some() {
                    return Message::complete();
                }
                clock.set_by(-HOUR);
                Message::release().with_data(&true)
            }
        })
        .start()
        .await
        .unwrap();
    let began = Instant::now();
    let id = world
        .client
        .submit(NewTask::new("gives-way"))
        .await
        .unwrap()
        .into_id();
    // Set back once more while the task is left to others.
    sleep(Duration::from_millis(300)).await;
    clock.set_by(-HOUR);
    world.rest(&id, StateKind::Completed).await;
    assert!(began.elapsed() < secs(5), "{:?}", began.elapsed());
}

/// A task that wakes at once when the clock is set forward, and one that a node keeps for its short
/// sleep.
#[tokio::test(start_paused = true)]
async fn wake_ups_follow_the_clock() {
    let (world, clock) = World::with_settable_clock().await;
    let _node = world
        .node("n")
        .handler("naps", |task: TaskContext| async move {
            match task.data::<bool>().unwrap() {
                Some(_) => Message::complete(),
                None => Message::sleep_for(secs(8)).with_data(&true),
            }
        })
        .start()
        .await
        .unwrap();
    let id = world.running("naps").await;
    let began = Instant::now();
    world
        .until("it naps", || async {
            world.code(&id).await == StateKind::Sleeping
        })
        .await;
    clock.set_by(HOUR);
    world.rest(&id, StateKind::Completed).await;
    assert!(began.elapsed() < secs(3), "{:?}", began.elapsed());
}

/// The store's clock is behind the node's here, as if the node's had been set back between its
/// decision to claim and the claim.
#[tokio::test(start_paused = true)]
async fn a_sleeper_that_the_store_finds_asleep_is_claimed_later() {
    let (world, clock) = World::with_settable_clock().await;
    let _node = world
        .node("n")
        .handler("k", |_: TaskContext| async { Message::complete() })
        .start()
        .await
        .unwrap();
    let began = Instant::now();
    let asleep = NewTask::new("k").start_at(world.now() + HOUR);
    let id = world.client.submit(asleep).await.unwrap().into_id();
    sleep(secs(10)).await;
    clock.set_by(HOUR);
    sleep(secs(10)).await;
    assert_eq!(world.code(&id).await, StateKind::Sleeping);
    clock.set_by(-HOUR);
    world.rest(&id, StateKind::Completed).await;
    let took = began.elapsed();
    assert!(took >= secs(3600) && took < secs(3603), "{took:?}");
}

/// A handler reads the clock by which its node judges wake-ups, not that of the machine, and not that of the store's file.
#[tokio::test(start_paused = true)]
async fn a_handler_reads_the_clock_of_its_node() {
    let (world, clock) = World::with_settable_clock().await;
    let _node = world
        .node("n")
        .handler("reads", |task: TaskContext| async move {
            Message::complete_with(task.now())
        })
        .start()
        .await
        .unwrap();
    for offset in [HOUR, -HOUR * 3] {
        clock.set_by(offset);
        let before = world.now();
        let task = world.client.submit(NewTask::new("reads")).await.unwrap();
        let done = world.client.wait(&task).await.unwrap();
        let read: jiff::Timestamp = done.result().unwrap();
        assert!(
            before <= read && read <= world.now(),
            "{read} after {before}"
        );
    }
}
