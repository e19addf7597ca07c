//! Two workers, then all of them, are killed at the same time: their tasks are claimed again within
//! the time of a lease and a margin.

use std::time::Duration;

use windlass::{StateKind, store::Filter};
use windlass_robustness::{
    BoxError,
    disturb::kill_together,
    invariants::takeover::{self, Within},
    scene::{Ground, Scene},
    settle::settle,
};

use crate::support::*;

/// The extra time on a busy machine of two cores: a process has to start, and all of its tasks are
/// claimed.
const MARGIN: Duration = Duration::from_secs(4);

/// Long enough to outlive the first owner, and short enough to end within the scene.
const TASKS: usize = 24;

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_killed_workers_are_taken_over_in_time() -> Result<(), BoxError> {
    play(Ground::File, Duration::ZERO, async |scene, _| {
        kill_all(scene).await
    })
    .await
}

#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_killed_workers_are_taken_over_in_time_on_etcd() -> Result<(), BoxError> {
    play(Ground::Etcd(1), Duration::ZERO, async |scene, _| {
        kill_all(scene).await
    })
    .await
}

async fn kill_all(scene: &mut Scene) -> Result<(), BoxError> {
    scene.man(&libraries(&["one", "two", "three"]))?;
    scene.wait_for_nodes(PATIENCE).await?;
    let tasks = (0..TASKS).map(|n| steps(&format!("task-{n:02}"), 40, 200));
    submit(scene, tasks.collect()).await?;
    for killed in [2, 3] {
        all_run(scene).await?;
        kill_together(&mut scene.workers[..killed]).await?;
    }
    all_run(scene).await?;
    settle(scene, PATIENCE).await?;
    let world = scene.end(PATIENCE).await?;
    scene.check(&world)?;
    // The first two have about two thirds of the tasks, and all of them have all.
    let taken_over = takeover::count(&world);
    assert!(taken_over >= TASKS, "only {taken_over} claims were lost");
    let within = Within {
        lost: TTL + MARGIN,
        claimed: Some(TTL + MARGIN),
    };
    let late = takeover::check(&world, within);
    assert!(late.is_empty(), "{late:#?}");
    Ok(())
}

async fn all_run(scene: &Scene) -> Result<(), BoxError> {
    until("every task has an owner that lives", async || {
        let nodes = scene.client.nodes().await?;
        let live = Filter::new().states([StateKind::Runnable]);
        let tasks = list(scene, live).await?;
        let runs = tasks.iter().all(|task| {
            let mut names = nodes.iter().map(|node| &node.spec.name);
            names.any(|name| Some(name) == task.node.as_ref())
        });
        Ok(runs.then_some(()))
    })
    .await
}
