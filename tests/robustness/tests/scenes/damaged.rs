//! Stored states are damaged while tasks run and workers are killed: those tasks are quarantined,
//! run again after a repair or a retry, and nothing else is affected.

use std::time::Duration;

use windlass::{
    Command, StateKind, TaskId,
    store::{ChangeKind, Filter},
};
use windlass_robustness::{
    BoxError,
    damage::Backdoor,
    disturb::kill_together,
    reuse::{self, KINDS, Served, Serving},
    scene::{Ground, Scene},
    settle::settle,
    world::World,
};

use crate::support::*;

/// How many parked tasks there are; every second one is damaged.
const PARKED: u64 = 12;
/// How many tasks run in the meantime.
const RUNNING: usize = 30;

#[tokio::test(flavor = "multi_thread")]
async fn damaged_records_affect_nothing_else() -> Result<(), BoxError> {
    play(Ground::File, Duration::ZERO, async |scene, _| {
        damage(scene).await
    })
    .await
}

#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread")]
async fn damaged_records_affect_nothing_else_on_etcd() -> Result<(), BoxError> {
    play(Ground::Etcd(1), Duration::ZERO, async |scene, _| {
        damage(scene).await
    })
    .await
}

async fn damage(scene: &mut Scene) -> Result<(), BoxError> {
    let far = windlass_robustness::time::wall() + jiff::SignedDuration::from_hours(10);
    let ids: Vec<TaskId> = (0..PARKED)
        .map(|n| format!("parked-{n:02}").parse())
        .collect::<Result<_, _>>()?;
    for (id, word) in ids.iter().zip(0..) {
        let serving = Serving {
            word,
            upto: 3,
            pace: 20,
        };
        let task = reuse::task(id.as_str(), KINDS[0], serving).start_at(far);
        scene.traffic.submit_reused(task.build()?, word).await?;
    }
    scene.man(&libraries(&["one", "two"]))?;
    scene.wait_for_nodes(PATIENCE).await?;
    let running = (0..RUNNING).map(|n| steps(&format!("task-{n:02}"), 8, 100));
    submit(scene, running.collect()).await?;
    let backdoor = Backdoor::of(scene);
    let mut damaged = Vec::new();
    for id in ids.iter().step_by(2) {
        damaged.push(tokio::task::block_in_place(|| backdoor.damage(id))?);
    }
    for id in &ids {
        let wake = format!("wake-{id}");
        scene.traffic.command(id, &wake, Command::Run).await?;
    }
    let aside = Filter::new().quarantined(true);
    until("the damaged tasks are quarantined", async || {
        let there = list(scene, aside.clone()).await?.len();
        Ok((there == damaged.len()).then_some(()))
    })
    .await?;
    kill_together(&mut scene.workers).await?;
    for id in ids.iter().skip(1).step_by(2) {
        wait_for(scene, id, StateKind::Completed).await?;
    }
    let there = list(scene, aside).await?;
    let names: Vec<_> = there.iter().map(|r| &r.task.id).collect();
    let expected: Vec<_> = damaged.iter().map(|d| &d.task).collect();
    assert_eq!(names, expected, "only these are quarantined");
    assert!(there.iter().all(|r| r.state.is_err() && r.node.is_none()));
    // Half of them are repaired first; the others lose what their states kept.
    for damaged in damaged.iter().step_by(2) {
        tokio::task::block_in_place(|| backdoor.repair(damaged))?;
    }
    for damaged in &damaged {
        scene.client.retry(&damaged.task).await?;
    }
    // One that was repaired sleeps again until its time, and its command wakes it.
    settle(scene, PATIENCE).await?;
    let mut world = scene.end(PATIENCE).await?;
    let mut wrong = Vec::new();
    for damaged in &damaged {
        wrong.extend(quarantined_once(&mut world, &damaged.task));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    scene.check(&world)
}

/// Checks a task that was quarantined and retried, and takes it out of the world: its history breaks
/// the rules for other tasks.
fn quarantined_once(world: &mut World, id: &TaskId) -> Vec<String> {
    let Some(subject) = world.subjects.remove(id) else {
        return vec![format!("{id} is gone")];
    };
    world.promised.reused.remove(id);
    // The counts have it.
    for count in world.counts.iter_mut().flatten() {
        if count.kind == subject.record.task.kind && count.state == subject.code() {
            count.tasks -= 1;
        }
    }
    world.promised.commands.retain(|(task, _)| task != id);
    let mut wrong = Vec::new();
    let (mut aside, mut times) = (false, 0);
    for change in &subject.history {
        match &change.what {
            ChangeKind::Quarantined => (aside, times) = (true, times + 1),
            ChangeKind::Retried => aside = false,
            ChangeKind::Claimed { .. }
            | ChangeKind::Moved { .. }
            | ChangeKind::Checkpointed { .. }
                if aside =>
            {
                wrong.push(format!("{id}: {:?} while it was quarantined", change.what));
            }
            _ => {}
        }
    }
    if times != 1 || aside {
        wrong.push(format!(
            "{id} was quarantined {times} times; it still is: {aside}"
        ));
    }
    let state = match &subject.record.state {
        Ok(state) => state,
        Err(e) => return vec![format!("{id} cannot be read: {e}")],
    };
    let served = state.data.as_ref().map(|data| data.get::<Served>("data"));
    if state.code() != StateKind::Completed || !matches!(served, Some(Ok(Served { n: 3, .. }))) {
        wrong.push(format!("{id} did not run to its end: {state:?}"));
    }
    wrong
}
