//! Programs that claim tasks in loops of their own beside nodes with handlers, and handlers of batches, while
//! workers are killed at random moments.

use std::time::Duration;

use windlass::{NewTask, Retry, store::ChangeKind};
use windlass_robustness::{
    BoxError,
    kinds::{BATCHED, Job},
    scene::{Ground, Post, Scene},
    settle::settle,
    terms::Terms,
    world::World,
};

use crate::support::*;

const KILLS: usize = 6;

#[tokio::test(flavor = "multi_thread")]
async fn programs_that_claim_tasks_work_beside_handlers() -> Result<(), BoxError> {
    play(Ground::File, Duration::ZERO, async |scene, rng| {
        pull(scene, rng).await
    })
    .await
}

#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread")]
async fn programs_that_claim_tasks_work_beside_handlers_on_etcd() -> Result<(), BoxError> {
    play(Ground::Etcd(1), Duration::ZERO, async |scene, rng| {
        pull(scene, rng).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_lose_and_double_nothing() -> Result<(), BoxError> {
    play(Ground::File, Duration::ZERO, async |scene, rng| {
        batches(scene, rng).await
    })
    .await
}

#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread")]
async fn batches_lose_and_double_nothing_on_etcd() -> Result<(), BoxError> {
    play(Ground::Etcd(1), Duration::ZERO, async |scene, rng| {
        batches(scene, rng).await
    })
    .await
}

/// A task of a kind whose kills and failures leave enough attempts, and no long pauses.
fn task(kind: &str, id: String, job: Job) -> NewTask {
    let retry = Retry::Exponential {
        base: Duration::from_millis(20),
        factor: 1.5,
        cap: Duration::from_millis(400),
        attempts: 1_000_000,
    };
    NewTask::new(kind).id(id).props(&job).retry(retry)
}

async fn pull(scene: &mut Scene, rng: fastrand::Rng) -> Result<(), BoxError> {
    let pulls = Terms {
        pulls: true,
        ..Terms::default()
    };
    let mut posts = libraries(&["handles-a", "handles-b"]);
    posts.push(Post::library("pulls-a", 1, pulls.clone()));
    posts.push(Post::library("pulls-b", 2, pulls));
    scene.man(&posts)?;
    scene.wait_for_nodes(PATIENCE).await?;
    let tasks = (0..60).map(|n| {
        let (kind, total, fails) = match n % 3 {
            0 => ("steps", 12, 0),
            1 => ("naps", 5, 0),
            _ => ("flaky", 6, 2),
        };
        let job = Job {
            total,
            ms: 60,
            fails,
            ..Job::default()
        };
        task(kind, format!("{kind}-{n}"), job)
    });
    submit(scene, tasks.collect()).await?;
    kill_some(&mut scene.workers, rng, KILLS).await?;
    settle(scene, PATIENCE).await?;
    let world = scene.end(PATIENCE).await?;
    scene.check(&world)?;
    for name in ["handles-", "pulls-"] {
        let claims = claims_of(&world, name);
        // Few, if the nodes were killed again and again while there was work.
        assert!(claims >= 3, "{name} nodes have made {claims} claims");
    }
    Ok(())
}

async fn batches(scene: &mut Scene, rng: fastrand::Rng) -> Result<(), BoxError> {
    scene.man(&libraries(&["one", "two", "three"]))?;
    scene.wait_for_nodes(PATIENCE).await?;
    let job = Job {
        total: 6,
        ms: 60,
        ..Job::default()
    };
    let tasks = (0..60).map(|n| task(BATCHED, format!("row-{n:02}"), job));
    submit(scene, tasks.collect()).await?;
    kill_some(&mut scene.workers, rng, KILLS).await?;
    settle(scene, PATIENCE).await?;
    let world = scene.end(PATIENCE).await?;
    scene.check(&world)
}

/// Returns how many claims nodes have made whose names begin so.
fn claims_of(world: &World, name: &str) -> usize {
    let changes = world.subjects.values().flat_map(|s| &s.history);
    let of = |what: &ChangeKind| matches!(what, ChangeKind::Claimed { node, .. } if node.as_str().starts_with(name));
    changes.filter(|change| of(&change.what)).count()
}
