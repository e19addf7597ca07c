//! A copy is killed again and again and started again: in the end the target has what the source has,
//! and its tasks continue there.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use tokio::time::{Instant, sleep};
use windlass::{
    Client, Fence, TaskId,
    store::{ChangeKind, Filter},
};
use windlass_robustness::{
    BoxError, ground,
    plan::Plan,
    scene::{Ground, Scene},
    settle::settle,
    workers::SHUTDOWN,
    world::{Subject, World},
};

use crate::support::*;

/// The commands of the kind `exec` have folders beside the store, which no copy brings.
const LEFT_OUT: [&str; 1] = ["exec"];
const TASKS: usize = 600;
/// How often the copy is killed at most.
const KILLS: usize = 3;

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_is_killed_goes_on() -> Result<(), BoxError> {
    play(Ground::File, Duration::ZERO, async |scene, rng| {
        let target = format!("sqlite:{}", scene.site.folder.join("target.db").display());
        copy(scene, rng, &target).await
    })
    .await
}

#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_to_etcd_that_is_killed_goes_on() -> Result<(), BoxError> {
    play(Ground::File, Duration::ZERO, async |scene, rng| {
        let folder = scene.site.folder.clone();
        let etcd = windlass_robustness::cluster::Etcd::start(&folder, 1, 0).await?;
        copy(scene, rng, &etcd.cluster.url("target")).await
    })
    .await
}

async fn copy(scene: &mut Scene, mut rng: fastrand::Rng, target: &str) -> Result<(), BoxError> {
    scene.man(&libraries(&["one", "two"]))?;
    let mut plan = Plan::new(rng.u64(..), &scene.site.witnesses()).without(&LEFT_OUT);
    let over = Duration::from_secs(2);
    let until = Instant::now() + over;
    tokio::try_join!(
        scene.traffic.submit(&mut plan, TASKS, over.mul_f64(0.8)),
        scene.traffic.command_at_random(rng.fork(), until),
    )?;
    for worker in &mut scene.workers {
        worker.shut_down(SHUTDOWN).await?;
    }
    scene.workers.clear();
    let source = subjects(scene, &scene.client).await?;
    let to = Client::new(&ground::open(target).await?);
    let interrupted = copy_and_kill(scene, &to, target).await?;
    assert!(interrupted > 0, "the copy was over before it was killed");
    let copied = subjects(scene, &to).await?;
    assert_eq!(
        subjects(scene, &scene.client).await?.len(),
        source.len(),
        "the copy changed its source"
    );
    let wrong = unlike(&source, &copied);
    assert!(wrong.is_empty(), "{wrong:#?}");
    go_on(scene, to, target, &source).await
}

/// Everything that a store has, in submit order.
async fn subjects(scene: &Scene, client: &Client) -> Result<Vec<Subject>, BoxError> {
    let promised = scene.traffic.promised();
    let world = World::load(client, &scene.site.witnesses(), promised, None).await?;
    let mut subjects: Vec<Subject> = world.subjects.into_values().collect();
    subjects.sort_by_key(|s| s.record.order);
    Ok(subjects)
}

/// Runs the copy until it succeeds, and kills it as soon as it has brought more tasks; returns how
/// often it was killed in the middle.
async fn copy_and_kill(scene: &Scene, to: &Client, target: &str) -> Result<usize, BoxError> {
    let mut interrupted = 0;
    loop {
        let before = list_len(to).await?;
        let mut copy = Command::new(scene.site.programs.cli)
            .args(["copy", "--from", &scene.store, "--to", target])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let ended = loop {
            if let Some(status) = copy.try_wait()? {
                break Some(status);
            }
            if interrupted < KILLS && list_len(to).await? > before {
                copy.kill()?;
                copy.wait()?;
                break None;
            }
            sleep(Duration::from_millis(2)).await;
        };
        match ended {
            Some(status) if status.success() => return Ok(interrupted),
            Some(status) => {
                let mut said = String::new();
                if let Some(mut stderr) = copy.stderr.take() {
                    std::io::Read::read_to_string(&mut stderr, &mut said)?;
                }
                return Err(format!("the copy ended with {status}: {said}").into());
            }
            None => interrupted += 1,
        }
    }
}

async fn list_len(client: &Client) -> Result<u64, BoxError> {
    let counts = client.counts().await?;
    Ok(counts.iter().map(|count| count.tasks).sum())
}

/// Returns the differences of the tasks of the target.
fn unlike(source: &[Subject], target: &[Subject]) -> Vec<String> {
    let ids = |all: &[Subject]| -> Vec<TaskId> { all.iter().map(|s| s.id().clone()).collect() };
    if ids(source) != ids(target) {
        let (from, to) = (source.len(), target.len());
        return vec![format!("other tasks, or another order: {from} of {to}")];
    }
    let pairs = source.iter().zip(target);
    pairs
        .filter_map(|(from, to)| {
            let what = differs(from, to)?;
            Some(format!(
                "{}: {what}\n{}\n{}",
                from.id(),
                from.describe(),
                to.describe()
            ))
        })
        .collect()
}

fn differs(from: &Subject, to: &Subject) -> Option<&'static str> {
    if from.record.task != to.record.task {
        return Some("the task");
    }
    let (Ok(state), Ok(copied)) = (&from.record.state, &to.record.state) else {
        return Some("the state cannot be read");
    };
    let (mut state, mut copied) = (state.clone(), copied.clone());
    // Their numbers are those of the other store.
    (state.fence, copied.fence) = (Fence(0), Fence(0));
    for last in [&mut state.last_command, &mut copied.last_command] {
        last.iter_mut().for_each(|last| last.order = 0);
    }
    for pause in [&mut state.paused, &mut copied.paused] {
        let command = pause.as_mut().and_then(|pause| pause.command.as_mut());
        command.into_iter().for_each(|order| *order = 0);
    }
    (state.kept_signals, copied.kept_signals) = (0, 0);
    for deliveries in [&mut state.deliveries, &mut copied.deliveries] {
        deliveries.retain(|delivery| {
            delivery.order = 0;
            true
        });
    }
    if state != copied {
        return Some("the state");
    }
    let commands = |s: &Subject| -> Vec<_> {
        let commands = s.commands.iter();
        commands
            .map(|c| (c.id.clone(), c.command.clone(), c.outcome.clone()))
            .collect()
    };
    if commands(from) != commands(to) {
        return Some("the commands");
    }
    // A store may keep only the last part of a history.
    let (from, to) = (changes(from), changes(to));
    (!from.ends_with(&to) || to.is_empty()).then_some("the history")
}

/// The history without its numbers.
fn changes(subject: &Subject) -> Vec<String> {
    let history = subject.history.iter();
    history
        .map(|change| match &change.what {
            ChangeKind::Submitted { state } => format!("submitted {state}"),
            ChangeKind::Claimed {
                node, abandoned, ..
            } => format!("claimed {node} {abandoned}"),
            ChangeKind::Moved {
                message, from, to, ..
            } => format!("{message} {from} {to}"),
            ChangeKind::Checkpointed { .. } => "checkpointed".to_owned(),
            ChangeKind::Dropped { .. } => "dropped".to_owned(),
            ChangeKind::Lost { .. } => "lost".to_owned(),
            ChangeKind::Commanded { .. } => "commanded".to_owned(),
            other => format!("{other:?}"),
        })
        .collect()
}

/// Lets the tasks continue in the target, and checks that fences grow past those of the source.
async fn go_on(
    scene: &mut Scene,
    to: Client,
    target: &str,
    source: &[Subject],
) -> Result<(), BoxError> {
    scene.move_to(to, target).await?;
    scene.man(&libraries(&["three", "four"]))?;
    settle(scene, PATIENCE).await?;
    for worker in &mut scene.workers {
        worker.shut_down(SHUTDOWN).await?;
    }
    let after = list(scene, Filter::default()).await?;
    let mut claimed = 0;
    for record in &after {
        let before = source.iter().find(|s| s.id() == &record.task.id);
        let Some(before) = before else {
            continue;
        };
        let (old, new) = (&before.record, record);
        let claims = |r: &windlass::store::TaskRecord| r.state.as_ref().map_or(0, |s| s.claims);
        if claims(new) > claims(old) {
            claimed += 1;
            assert!(
                new.fence > old.fence,
                "{}: claim {} follows {}",
                record.task.id,
                new.fence,
                old.fence
            );
        }
    }
    assert!(claimed > 0, "no task went on in the target");
    Ok(())
}
