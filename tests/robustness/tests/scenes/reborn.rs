//! A task is deleted and its id given to another task while its owner stands still: the old owner
//! does not change the new task, which runs with its own kind and props.

use std::{collections::BTreeSet, time::Duration};

use tokio::time::timeout;
use windlass::{StateKind, TaskId};
use windlass_robustness::{
    BoxError,
    reuse::{self, KINDS, Serving},
    scene::{Ground, Scene},
    settle::settle,
    terms::{SIDE, Terms},
    witness::{self, Line, Said},
    zombie::HeldWrite,
};

use crate::support::*;

/// Some writes of the old owner are always under way.
const LATE: Duration = Duration::from_millis(120);

/// How many ids are given to other tasks.
const IDS: u64 = 6;

/// Where a stopped worker does not hold the lock of the file, a write takes less.
const UNLOCKED: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread")]
async fn the_old_owner_changes_nothing_of_the_new_task() -> Result<(), BoxError> {
    play(Ground::File, LATE, async |scene, _| give_away(scene).await).await
}

#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread")]
async fn the_old_owner_changes_nothing_of_the_new_task_on_etcd() -> Result<(), BoxError> {
    play(Ground::Etcd(1), LATE, async |scene, _| {
        give_away(scene).await
    })
    .await
}

async fn give_away(scene: &mut Scene) -> Result<(), BoxError> {
    let ids: Vec<TaskId> = (0..IDS)
        .map(|n| format!("reborn-{n}").parse())
        .collect::<Result<_, _>>()?;
    scene.man(&[on_side("old")])?;
    scene.wait_for_nodes(PATIENCE).await?;
    for (id, word) in ids.iter().zip(0..) {
        let endless = serving(word, 100_000);
        submit_for(scene, id, KINDS[0], "old", endless).await?;
    }
    until_said(scene, "every task has stored something", |lines| {
        ids.iter().all(|id| saved(lines, id, 1))
    })
    .await?;
    scene.man(&[on_side("new")])?;
    scene.wait_for_nodes(PATIENCE).await?;
    let held = HeldWrite::ask(&mut scene.workers[0]).await?;
    let held = held.ok_or("the old owner has no write under way")?;
    stop_unlocked(scene).await?;
    let stale = held.claims()?;
    assert!(!stale.is_empty(), "the write that is held is for no claim");
    let meets = |id: &TaskId| stale.iter().any(|(task, _)| task == id);
    for (id, word) in ids.iter().zip(IDS..) {
        scene.traffic.delete_reused(id).await?;
        // The tasks that the stale write meets run on, the others end before the old owner wakes.
        let upto = if meets(id) { 100 } else { 3 };
        submit_for(scene, id, KINDS[1], "new", serving(word, upto)).await?;
    }
    for id in ids.iter().filter(|id| !meets(id)) {
        wait_for(scene, id, StateKind::Completed).await?;
    }
    until_said(
        scene,
        "the new tasks of the stale write have begun",
        |lines| stale.iter().all(|(id, _)| saved(lines, id, 2)),
    )
    .await?;
    scene.workers[0].go_on()?;
    held.let_through()?;
    until_said(scene, "the store has rejected the stale write", |lines| {
        stale.iter().all(|(id, claim)| {
            let rejected = |l: &Line| matches!(&l.said, Said::Fenced { task, fence } if (task, fence) == (id, claim));
            lines.iter().any(rejected)
        })
    })
    .await?;
    settle(scene, PATIENCE).await?;
    let world = scene.end(PATIENCE).await?;
    scene.check(&world)?;
    for (id, word) in ids.iter().zip(IDS..) {
        let subject = &world.subjects[id];
        assert_eq!(subject.record.task.kind.as_str(), KINDS[1], "{id}");
        assert_eq!(subject.code(), Some(StateKind::Completed), "{id}");
        assert_eq!(world.promised.reused[id], word, "{id}");
    }
    Ok(())
}

/// Waits until the witnesses have written something down.
async fn until_said(
    scene: &Scene,
    what: &str,
    said: impl Fn(&[Line]) -> bool,
) -> Result<(), BoxError> {
    until(what, async || {
        let lines = witness::read(&scene.site.witnesses())?;
        Ok(said(&lines).then_some(()))
    })
    .await
}

/// Whether the first `tasks` tasks of an id have stored something.
fn saved(lines: &[Line], id: &TaskId, tasks: usize) -> bool {
    let orders = lines.iter().filter_map(|l| match &l.said {
        Said::Saved { task, order, .. } if task == id => Some(*order),
        _ => None,
    });
    orders.collect::<BTreeSet<_>>().len() >= tasks
}

fn serving(word: u64, upto: u64) -> Serving {
    Serving {
        word,
        upto,
        pace: 30,
    }
}

/// A worker that runs only the tasks of one side: no task comes back to the old owner.
fn on_side(name: &'static str) -> windlass_robustness::scene::Post {
    let terms = Terms {
        side: Some(name.to_owned()),
        ..Terms::default()
    };
    windlass_robustness::scene::Post::library(name, 0, terms)
}

async fn submit_for(
    scene: &Scene,
    id: &TaskId,
    kind: &str,
    side: &str,
    serving: Serving,
) -> Result<(), BoxError> {
    let task = reuse::task(id.as_str(), kind, serving).label(SIDE, side);
    scene
        .traffic
        .submit_reused(task.build()?, serving.word)
        .await?;
    Ok(())
}

/// Stops the first worker at a moment at which it does not hold the lock of the file.
async fn stop_unlocked(scene: &mut Scene) -> Result<(), BoxError> {
    loop {
        scene.workers[0].stop()?;
        let probe: TaskId = "no-such-task".parse()?;
        // A delete takes the lock before it finds out that there is nothing to delete.
        if timeout(UNLOCKED, scene.client.force_delete(&probe))
            .await
            .is_ok()
        {
            return Ok(());
        }
        scene.workers[0].go_on()?;
    }
}
