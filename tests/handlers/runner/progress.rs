//! The progress of running handlers, as other processes see it.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use tokio::time::{Duration, Instant, sleep};
use windlass::{Message, TaskContext, TaskId, TaskState, store::ChangeKind};

use super::support::{World, secs};

async fn state(world: &World, id: &TaskId) -> TaskState {
    world.client.get(id).await.unwrap().state.unwrap()
}

#[tokio::test(start_paused = true)]
async fn progress_is_shown_to_every_client_within_two_seconds_by_a_write_in_two_seconds() {
    let world = World::new().await;
    let began = Instant::now();
    let (_node, id) = world
        .work(move |task: TaskContext| async move {
            loop {
                task.set_progress(None, began.elapsed().as_millis().to_string());
                sleep(Duration::from_millis(10)).await;
                if began.elapsed() > secs(20) {
                    task.stop_requested().await;
                    return Message::release();
                }
            }
        })
        .await;
    sleep(secs(2)).await;
    let first = state(&world, &id).await.version;
    for _ in 0..18 {
        let shown = state(&world, &id).await.progress.expect("progress");
        let age = began.elapsed() - Duration::from_millis(shown.text.parse().unwrap());
        assert!(age <= Duration::from_millis(2_050), "{age:?}");
        sleep(secs(1)).await;
    }
    let writes = state(&world, &id).await.version - first;
    assert!((8..=10).contains(&writes), "{writes}");
    // It does not change any more: nothing is written.
    sleep(secs(5)).await;
    let last = state(&world, &id).await.version;
    sleep(secs(60)).await;
    assert_eq!(state(&world, &id).await.version, last);
}

#[tokio::test(start_paused = true)]
async fn the_progress_of_the_run_before_is_not_shown_in_a_new_run() {
    let world = World::new().await;
    let runs = Arc::new(AtomicU32::new(0));
    let (_node, id) = world
        .work(move |task: TaskContext| {
            let run = runs.fetch_add(1, Ordering::SeqCst);
            async move {
                if run == 0 {
                    task.set_progress(0.9, "almost done");
                    return Message::sleep_for(secs(10));
                }
                task.stop_requested().await;
                Message::release()
            }
        })
        .await;
    sleep(secs(5)).await;
    let progress = state(&world, &id).await.progress;
    assert_eq!(progress.expect("progress").text, "almost done");
    sleep(secs(8)).await;
    assert_eq!(state(&world, &id).await.progress, None);
}

#[tokio::test(start_paused = true)]
async fn the_progress_of_a_short_run_costs_no_write_of_its_own() {
    let world = World::new().await;
    let (_node, id) = world
        .work(|task: TaskContext| async move {
            task.set_progress(0.5, "half");
            sleep(Duration::from_millis(500)).await;
            Message::complete()
        })
        .await;
    world.client.wait(&id).await.unwrap();
    let history = world.client.history(&id, 100).await.unwrap();
    let is_own = |what: &ChangeKind| matches!(what, ChangeKind::Checkpointed { .. });
    assert!(
        !history.iter().any(|change| is_own(&change.what)),
        "{history:?}"
    );
}
