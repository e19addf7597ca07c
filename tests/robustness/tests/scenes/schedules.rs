//! Nodes are killed while schedules fire: no time fires twice, and none is lost.

use std::time::Duration;

use tokio::time::sleep;
use windlass::{
    NewTask, StateKind, TaskId,
    schedule::{Missed, Overlap, Schedule},
};
use windlass_robustness::{
    BoxError,
    invariants::times,
    kinds::Job,
    scene::{Ground, Scene},
};

use crate::support::*;

/// How many schedules there are, and how many times each fires: one a second.
const SCHEDULES: u32 = 20;
const TIMES: u64 = 12;

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_die_neither_lose_nor_repeat_a_time() -> Result<(), BoxError> {
    play(Ground::File, Duration::ZERO, async |scene, rng| {
        fire(scene, rng).await
    })
    .await
}

#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_die_neither_lose_nor_repeat_a_time_on_etcd() -> Result<(), BoxError> {
    play(Ground::Etcd(1), Duration::ZERO, async |scene, rng| {
        fire(scene, rng).await
    })
    .await
}

async fn fire(scene: &mut Scene, mut rng: fastrand::Rng) -> Result<(), BoxError> {
    scene.man(&libraries(&["a", "b"]))?;
    scene.wait_for_nodes(PATIENCE).await?;
    let job = Job {
        total: 1,
        ms: 1,
        ..Job::default()
    };
    let mut ids: Vec<TaskId> = Vec::new();
    for n in 0..SCHEDULES {
        let spec = Schedule::new(NewTask::new("steps").props(&job))
            .every(Duration::from_secs(1), None)
            .count(TIMES)
            .overlap(Overlap::Allow(u32::MAX))
            .missed(Missed::All, Duration::from_secs(3600));
        let schedules = scene.client.schedules();
        ids.push(schedules.create(format!("every-{n}"), spec).await?);
    }
    // While the times come; each worker starts again on its own.
    for kill in 0..2 * TIMES {
        sleep(Duration::from_millis(rng.u64(100..700))).await;
        let worker = &mut scene.workers[(kill % 2) as usize];
        worker.kill().await?;
        worker.launch()?;
    }
    for id in &ids {
        wait_for(scene, id, StateKind::Completed).await?;
    }
    let world = scene.end(PATIENCE).await?;
    let found = times::check(&world)?;
    assert!(found.is_empty(), "{found:?}");
    let runs = world.subjects.len() - ids.len();
    assert_eq!(runs as u64, u64::from(SCHEDULES) * TIMES);
    Ok(())
}
