//! Tasks that wait for one slot are claimed by priority, also by the worker that follows one that was
//! killed.

use std::time::Duration;

use windlass::StateKind;
use windlass_robustness::{
    BoxError,
    invariants::priorities::{self, QUEUED},
    scene::{Ground, Post, Scene},
    settle::settle,
    terms::Terms,
};

use crate::support::*;

const WAITING: usize = 25;

#[tokio::test(flavor = "multi_thread")]
async fn one_slot_takes_the_highest_priority_first() -> Result<(), BoxError> {
    play(Ground::File, Duration::ZERO, queue).await
}

#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread")]
async fn one_slot_takes_the_highest_priority_first_on_etcd() -> Result<(), BoxError> {
    play(Ground::Etcd(1), Duration::ZERO, queue).await
}

async fn queue(scene: &mut Scene, mut rng: fastrand::Rng) -> Result<(), BoxError> {
    let terms = Terms {
        slots: Some(1),
        ..Terms::default()
    };
    scene.man(&[Post::library("single", 0, terms)])?;
    scene.wait_for_nodes(PATIENCE).await?;
    // It has the slot until the others wait.
    submit(scene, vec![steps("first", 1, 600_000).priority(100)]).await?;
    let first: windlass::TaskId = "first".parse()?;
    until("the first task runs", async || {
        Ok(scene.client.get(&first).await?.node)
    })
    .await?;
    let tasks = (0..WAITING).map(|n| {
        steps(&format!("queued-{n:02}"), 1, 10)
            .label(QUEUED, "yes")
            .priority(rng.i32(-3..=3))
    });
    submit(scene, tasks.collect()).await?;
    // The worker that comes next finds all of them in its list, and the first task among them. While
    // the lease of the dead node lives, the new one leaves it the tasks that it ranks first for.
    scene.workers[0].kill().await?;
    until("the node is gone", async || {
        let nodes = scene.client.nodes().await?;
        Ok(nodes.is_empty().then_some(()))
    })
    .await?;
    scene.workers[0].launch()?;
    until("the first task runs again", async || {
        let record = scene.client.get(&first).await?;
        Ok(record
            .node
            .filter(|_| record.state.is_ok_and(|s| s.claims > 1)))
    })
    .await?;
    let done = windlass::Command::Complete { result: None };
    scene.traffic.command(&first, "done", done).await?;
    wait_for(scene, &first, StateKind::Completed).await?;
    settle(scene, PATIENCE).await?;
    let world = scene.end(PATIENCE).await?;
    scene.check(&world)?;
    let wrong = priorities::check(&world);
    assert!(wrong.is_empty(), "{wrong:#?}");
    Ok(())
}
