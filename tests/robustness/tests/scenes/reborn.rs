//! A task is deleted and its id given to another task while its owner stands still: the old owner
//! changes nothing of the new task, which runs with its own kind and props.

use std::time::Duration;

use tokio::time::timeout;
use windlass::{Code, TaskId};
use windlass_robustness::{
    BoxError,
    reuse::{self, KINDS, Serving},
    scene::{Ground, Scene},
    settle::settle,
    terms::{SIDE, Terms},
    witness::{self, Said},
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
    until("every task has stored something", async || {
        let said = witness::read(&scene.site.witnesses())?;
        let saved = |id: &TaskId| {
            said.iter()
                .any(|l| matches!(&l.said, Said::Saved { task, .. } if task == id))
        };
        Ok(ids.iter().all(saved).then_some(()))
    })
    .await?;
    scene.man(&[on_side("new")])?;
    scene.wait_for_nodes(PATIENCE).await?;
    stop_unlocked(scene).await?;
    for (id, word) in ids.iter().zip(IDS..) {
        scene.traffic.delete_reused(id).await?;
        // Some of the new tasks end before the old owner wakes, the others run on.
        let upto = if word % 2 == 0 { 3 } else { 40 };
        submit_for(scene, id, KINDS[1], "new", serving(word, upto)).await?;
    }
    for id in ids.iter().step_by(2) {
        wait_for(scene, id, Code::Completed).await?;
    }
    scene.workers[0].go_on()?;
    settle(scene, PATIENCE).await?;
    let world = scene.end(PATIENCE).await?;
    scene.judge(&world)?;
    for (id, word) in ids.iter().zip(IDS..) {
        let subject = &world.subjects[id];
        assert_eq!(subject.record.task.kind.as_str(), KINDS[1], "{id}");
        assert_eq!(subject.code(), Some(Code::Completed), "{id}");
        assert_eq!(world.promised.reused[id], word, "{id}");
    }
    let of_the_old = |l: &&witness::Line| matches!(&l.said, Said::Fenced { .. });
    let fenced = world.witness.iter().filter(of_the_old).count();
    assert!(fenced > 0, "the old owner tried to write nothing");
    Ok(())
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
        if timeout(UNLOCKED, scene.client.delete(&probe)).await.is_ok() {
            return Ok(());
        }
        scene.workers[0].go_on()?;
    }
}
