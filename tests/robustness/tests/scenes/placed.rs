//! Workers with different labels and kinds, and the fair balancer: a task runs only where it may, no
//! slot stays free while a task waits for it, and the nodes that can share tasks do.

use std::time::Duration;

use windlass::{
    NewTask, StateKind,
    store::{Filter, NodeCommand},
};
use windlass_robustness::{
    BoxError,
    disturb::kill_together,
    node_commands::End,
    scene::{Ground, Post, Scene},
    settle::settle,
    terms::{SIDE, Terms},
};

use crate::support::*;

/// How many tasks only the side `x` runs.
const ON_X: usize = 24;
/// How many of them one of its two nodes may have: 120 % of the half.
const FAIR: u64 = 15;

#[tokio::test(flavor = "multi_thread")]
async fn tasks_run_where_they_may_and_are_shared_fairly() -> Result<(), BoxError> {
    play(Ground::File, Duration::ZERO, async |scene, _| {
        place(scene).await
    })
    .await
}

#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread")]
async fn tasks_run_where_they_may_and_are_shared_fairly_on_etcd() -> Result<(), BoxError> {
    play(Ground::Etcd(1), Duration::ZERO, async |scene, _| {
        place(scene).await
    })
    .await
}

fn post(name: &'static str, side: &str, kinds: &[&str]) -> Post {
    let terms = Terms {
        slots: Some(40),
        kinds: kinds.iter().map(|k| (*k).to_owned()).collect(),
        side: (!side.is_empty()).then(|| side.to_owned()),
        fair: true,
        ..Terms::default()
    };
    Post::library(name, 0, terms)
}

async fn place(scene: &mut Scene) -> Result<(), BoxError> {
    scene.man(&[
        post("x-one", "x", &["steps"]),
        post("y", "y", &["steps"]),
        post("naps", "", &["naps"]),
    ])?;
    scene.wait_for_nodes(PATIENCE).await?;
    let on_x = (0..ON_X).map(|n| steps(&format!("x-{n:02}"), 1, 600_000).label(SIDE, "x"));
    submit(scene, on_x.collect()).await?;
    let others = (0..6).flat_map(|n| {
        let y = steps(&format!("y-{n}"), 3, 50).label(SIDE, "y");
        let naps = windlass_robustness::kinds::Job {
            total: 2,
            ms: 20,
            ..Default::default()
        };
        let naps = NewTask::new("naps").id(format!("naps-{n}")).props(&naps);
        [y, naps]
    });
    submit(scene, others.collect()).await?;
    // The other nodes have room, and it is of no use to these tasks.
    all_of_x_run(scene).await?;
    scene.man(&[post("x-two", "x", &["steps"])])?;
    scene.wait_for_nodes(PATIENCE).await?;
    balance_until_fair(scene).await?;
    all_of_x_run(scene).await?;
    kill_together(&mut scene.workers[..2]).await?;
    all_of_x_run(scene).await?;
    for n in 0..ON_X {
        let id = format!("x-{n:02}").parse()?;
        let done = windlass::Command::Complete { result: None };
        let name = format!("done-{n}");
        scene.traffic.command(&id, &name, done).await?;
    }
    settle(scene, PATIENCE).await?;
    scene.traffic.hear_nodes(TTL * 4).await?;
    let world = scene.end(PATIENCE).await?;
    scene.check(&world)?;
    let given = given_back(scene);
    assert!(given > 0, "no node gave a task to the other");
    // Only down to the fair share, and not back and forth.
    assert!(given <= ON_X as u64, "{given} tasks were released");
    Ok(())
}

async fn all_of_x_run(scene: &Scene) -> Result<(), BoxError> {
    until(
        "every task of the side x has a node that lives",
        async || {
            let nodes = scene.client.nodes().await?;
            let filter = Filter::new()
                .states([StateKind::Runnable])
                .labels([(SIDE.into(), Some("x".into()))]);
            let tasks = list(scene, filter).await?;
            let held = tasks.iter().filter(|task| {
                let mut names = nodes.iter().map(|node| &node.spec.name);
                names.any(|name| Some(name) == task.node.as_ref())
            });
            Ok((held.count() == ON_X).then_some(()))
        },
    )
    .await
}

/// Sends `balance` until neither node of the side has more than its share.
async fn balance_until_fair(scene: &Scene) -> Result<(), BoxError> {
    until("the two nodes of the side x share its tasks", async || {
        let nodes = scene.client.nodes().await?;
        let sides = nodes
            .iter()
            .filter(|n| n.spec.name.as_str().starts_with("x-"));
        let sides: Vec<_> = sides.collect();
        if sides.iter().all(|n| n.claims <= FAIR && n.claims > 0) && sides.len() == 2 {
            return Ok(Some(()));
        }
        for node in sides {
            scene.traffic.order(node, NodeCommand::Balance).await?;
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        Ok(None)
    })
    .await
}

/// Returns how many tasks the nodes released when they were asked to balance, by their answers.
fn given_back(scene: &Scene) -> u64 {
    let sent = scene.traffic.promised().node_commands;
    let given = sent.iter().filter_map(|sent| match &sent.end {
        End::Answered(answer) => answer
            .split_whitespace()
            .find_map(|word| word.parse::<u64>().ok()),
        _ => None,
    });
    given.sum()
}
