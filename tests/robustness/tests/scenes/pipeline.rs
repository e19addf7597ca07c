//! Tasks go through three kinds under their ids, while workers are killed at random moments: two clients compete
//! to move each task that has ended its stage. No task is lost, moved twice, or worked on by another kind than
//! its own.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::{Instant, sleep};
use windlass::{
    Client, NewTask, StateKind, TaskId,
    store::{ChangeKind, Error, Filter, Page, Require, Reschedule, TaskRecord},
};
use windlass_robustness::{
    BoxError, ground,
    kinds::{Job, STAGES},
    scene::{Ground, Scene},
    settle::settle,
    witness::Said,
    world::World,
};

use crate::support::*;

const TASKS: usize = 40;
/// How far each task counts: two steps in each kind.
const TOTAL: u64 = 2 * STAGES.len() as u64;
const KILLS: usize = 6;

#[tokio::test(flavor = "multi_thread")]
async fn tasks_keep_their_ids_through_a_pipeline_of_kinds() -> Result<(), BoxError> {
    play(Ground::File, Duration::ZERO, async |scene, rng| {
        flow(scene, rng).await
    })
    .await
}

#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread")]
async fn tasks_keep_their_ids_through_a_pipeline_of_kinds_on_etcd() -> Result<(), BoxError> {
    play(Ground::Etcd(1), Duration::ZERO, async |scene, rng| {
        flow(scene, rng).await
    })
    .await
}

async fn flow(scene: &mut Scene, rng: fastrand::Rng) -> Result<(), BoxError> {
    scene.man(&libraries(&["one", "two", "three"]))?;
    scene.wait_for_nodes(PATIENCE).await?;
    let job = Job {
        total: TOTAL,
        ms: 40,
        ..Job::default()
    };
    let task = |n| {
        NewTask::new(STAGES[0])
            .id(format!("flow-{n:02}"))
            .props(&job)
    };
    submit(scene, (0..TASKS).map(task).collect()).await?;
    let other = Client::new(&ground::open(&scene.store).await?);
    let (killed, mine, theirs) = tokio::join!(
        kill_some(&mut scene.workers, rng, KILLS),
        move_all(&scene.client, "mine"),
        move_all(&other, "theirs"),
    );
    killed?;
    let mut moves = mine?;
    moves.extend(theirs?);
    settle(scene, PATIENCE).await?;
    let world = scene.end(PATIENCE).await?;
    scene.check(&world)?;
    each_was_moved_once(&world, moves);
    each_run_was_of_its_kind(&world);
    Ok(())
}

/// Moves the tasks that sleep at the end of a stage to the next kind, until all have completed. Returns the
/// moves that were applied.
async fn move_all(client: &Client, who: &str) -> Result<Vec<(TaskId, &'static str)>, BoxError> {
    let deadline = Instant::now() + PATIENCE;
    let mut moves = Vec::new();
    let filter = Filter::new().kind_prefix("stage/");
    loop {
        let tasks = match client.list(&filter, Page::new(10_000)).await {
            Ok(tasks) => tasks,
            Err(e) if e.is_retryable() => Vec::new(),
            Err(e) => return Err(e.into()),
        };
        let completed = |t: &&TaskRecord| code(t) == Some(StateKind::Completed);
        if tasks.iter().filter(completed).count() == TASKS {
            return Ok(moves);
        }
        let at_end = |t: &&TaskRecord| code(t) == Some(StateKind::Sleeping) && t.node.is_none();
        for task in tasks.iter().filter(at_end) {
            moves.extend(move_on(client, who, task).await?);
        }
        if Instant::now() > deadline {
            let left: Vec<_> = tasks.iter().filter(|t| !completed(t)).collect();
            return Err(format!("these tasks are left after {PATIENCE:?}: {left:#?}").into());
        }
        sleep(Duration::from_millis(30)).await;
    }
}

fn code(record: &TaskRecord) -> Option<StateKind> {
    record.state.as_ref().ok().map(windlass::TaskState::code)
}

/// Moves a task on, unless it has changed since it was read.
async fn move_on(
    client: &Client,
    who: &str,
    record: &TaskRecord,
) -> Result<Option<(TaskId, &'static str)>, BoxError> {
    let (id, kind) = (&record.task.id, record.task.kind.as_str());
    let at = STAGES.iter().position(|stage| *stage == kind);
    let next = *at
        .and_then(|at| STAGES.get(at + 1))
        .ok_or_else(|| format!("{id} sleeps as {kind}"))?;
    let version = record.state.as_ref().map_err(Clone::clone)?.version;
    let change = Reschedule::new(id.clone()).kind(next.parse()?);
    let moved = client
        .transaction()
        .id(format!("{who}-{id}-{version}"))
        .require(id, Require::Version(version))
        .reschedule(change.due(windlass_robustness::time::wall()));
    loop {
        match moved.commit().await {
            Ok(_) => return Ok(Some((id.clone(), next))),
            Err(Error::Refused(_)) => return Ok(None),
            Err(e) if e.is_retryable() => sleep(Duration::from_millis(50)).await,
            Err(e) => return Err(e.into()),
        }
    }
}

fn each_was_moved_once(world: &World, moves: Vec<(TaskId, &'static str)>) {
    let mut of = BTreeMap::<TaskId, Vec<&str>>::new();
    for (id, kind) in moves {
        of.entry(id).or_default().push(kind);
    }
    assert_eq!((of.len(), world.subjects.len()), (TASKS, TASKS));
    for (id, mut kinds) in of {
        kinds.sort_unstable();
        assert_eq!(kinds, STAGES[1..], "{id} was moved to these kinds");
        let history = world.subjects[&id].history.iter();
        let kinds = history.filter_map(|change| match &change.what {
            ChangeKind::Rescheduled { kind, .. } => kind.as_ref(),
            _ => None,
        });
        let kinds: Vec<&str> = kinds.map(windlass::Kind::as_str).collect();
        assert_eq!(kinds, STAGES[1..], "the history of {id}");
        assert_eq!(world.subjects[&id].count(), Some(TOTAL), "{id}");
    }
}

/// Each run has found the steps of all earlier kinds, and none of a later kind.
fn each_run_was_of_its_kind(world: &World) {
    let steps = TOTAL / STAGES.len() as u64;
    for line in &world.witness {
        let Said::Start { task, fence, n } = &line.said else {
            continue;
        };
        let history = world.subjects[task].history.iter().map(|c| &c.what);
        let is_claim = |what: &&ChangeKind| matches!(what, ChangeKind::Claimed { fence: by, .. } if by == fence);
        let before = history.take_while(|what| !is_claim(what));
        let is_move = |what: &&ChangeKind| matches!(what, ChangeKind::Rescheduled { .. });
        let moves = before.filter(is_move).count();
        let least = moves as u64 * steps;
        assert!(
            (least..=least + steps).contains(n),
            "{task} was run as {} with a count of {n}",
            STAGES[moves]
        );
    }
}
