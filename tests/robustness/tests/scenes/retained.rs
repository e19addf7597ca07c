//! Nodes prune ended tasks while the same tasks are retried and workers are killed: retried tasks
//! live, and only tasks that ended at least the retention ago are deleted.

use std::{collections::BTreeMap, time::Duration};

use futures::future::try_join_all;
use tokio::time::{Instant, sleep, sleep_until};
use windlass::{
    NewTask, Retry, StateKind, TaskId,
    store::{Error, Filter},
};
use windlass_robustness::{
    BoxError,
    disturb::kill_together,
    invariants::retention,
    kinds::Job,
    scene::{Ground, Post, Scene},
    settle::settle,
    terms::Terms,
    traffic::Traffic,
};

use crate::support::*;

/// How long tasks are kept after their end.
const RETENTION: Duration = Duration::from_secs(3);

/// How many tasks fail and are retried about when their retention is over.
const RETRIED: usize = 300;

/// One begins after the other: some are about to be pruned whenever a node prunes.
const APART: Duration = Duration::from_millis(25);

/// How many tasks run for longer than the retention and are not retried.
const LONG: usize = 20;

#[tokio::test(flavor = "multi_thread")]
async fn nodes_prune_only_what_ended_the_retention_ago() -> Result<(), BoxError> {
    play(Ground::File, Duration::ZERO, prune).await
}

#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread")]
async fn nodes_prune_only_what_ended_the_retention_ago_on_etcd() -> Result<(), BoxError> {
    play(Ground::Etcd(1), Duration::ZERO, prune).await
}

async fn prune(scene: &mut Scene, mut rng: fastrand::Rng) -> Result<(), BoxError> {
    let terms = Terms {
        retention: Some(RETENTION),
        ..Terms::default()
    };
    let posts = ["one", "two"].map(|name| Post::library(name, 0, terms.clone()));
    scene.man(&posts)?;
    scene.wait_for_nodes(PATIENCE).await?;
    // They end when their submits are older than the retention.
    let long = |n| steps(&format!("long-{n:02}"), 10, 400).build();
    let long: Vec<_> = (0..LONG).map(long).collect::<Result<_, _>>()?;
    for answer in scene.client.submit_many(long).await {
        answer?;
    }
    let start = Instant::now();
    let mut retries = Vec::new();
    let mut begins = start;
    for n in 0..RETRIED {
        // From a little before its retention is over until a node has surely pruned.
        let after = RETENTION.mul_f64(0.9 + 0.7 * rng.f64());
        retries.push(fail_and_retry(&scene.traffic, n, begins, after));
        begins += APART;
    }
    let kill = async {
        sleep_until(start + APART * RETRIED as u32 / 2).await;
        kill_together(&mut scene.workers).await
    };
    let (retried, killed) = tokio::join!(try_join_all(retries), kill);
    let retried: BTreeMap<TaskId, Retried> = retried?.into_iter().collect();
    killed?;
    settle(scene, PATIENCE).await?;
    until("what has ended is pruned", async || {
        let ended = Filter::new().states([StateKind::Completed, StateKind::Failed]);
        Ok(list(scene, ended).await?.is_empty().then_some(()))
    })
    .await?;
    let world = scene.end(PATIENCE).await?;
    scene.check(&world)?;
    let wrong = retention::check(&world, RETENTION);
    assert!(wrong.is_empty(), "{wrong:#?}");
    let back = retried
        .iter()
        .filter(|(id, answer)| **answer == Retried::Gone && world.subjects.contains_key(*id));
    let back: Vec<_> = back.collect();
    assert!(back.is_empty(), "were gone, and are there: {back:?}");
    let pruned = retention::count(&world);
    let all = world.subjects.len() + pruned;
    assert_eq!(all, RETRIED + LONG, "tasks that are there or were pruned");
    // Those whose worker was killed have failed again, and were pruned later.
    let lived = retried.values().filter(|a| **a == Retried::Yes).count();
    assert!(lived > 0 && pruned > LONG, "{lived} lived, {pruned} pruned");
    Ok(())
}

/// Submits a task that fails, and retries it so long `after` it begins.
async fn fail_and_retry(
    traffic: &Traffic,
    number: usize,
    begins: Instant,
    after: Duration,
) -> Result<(TaskId, Retried), BoxError> {
    let job = Job {
        total: 1,
        ms: 5,
        ..Job::default()
    };
    let id = format!("again-{number:03}");
    let task = NewTask::new("again").id(id).props(&job).retry(Retry::Never);
    sleep_until(begins).await;
    let client = traffic.client();
    let id = client.submit(task).await?.into_id();
    sleep_until(begins + after).await;
    loop {
        match client.retry(&id).await {
            // No worker has run it so far: they were killed.
            Err(Error::Invalid(_)) => sleep(Duration::from_millis(50)).await,
            answer => {
                let retried = Retried::of(answer)?;
                if retried == Retried::Yes {
                    traffic.promise_retry(&id, 1);
                }
                return Ok((id, retried));
            }
        }
    }
}
