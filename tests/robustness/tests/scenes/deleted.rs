//! Tasks are deleted while their handlers run and write nothing: the handlers are stopped in time.

use std::time::Duration;

use windlass::{NewTask, TaskId};
use windlass_robustness::{
    BoxError,
    kinds::Job,
    scene::{Ground, Scene},
    witness::{self, Said},
};

use crate::support::*;

/// How many tasks are deleted.
const TASKS: usize = 16;

/// How long a handler runs that is not stopped: for longer than a lease and its margin.
const LONG: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn the_handlers_of_deleted_tasks_are_stopped() -> Result<(), BoxError> {
    play(Ground::File, Duration::ZERO, async |scene, _| {
        delete_all(scene).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_handlers_of_deleted_tasks_are_stopped_on_a_split_store() -> Result<(), BoxError> {
    play(Ground::Split, Duration::ZERO, async |scene, _| {
        delete_all(scene).await
    })
    .await
}

#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread")]
async fn the_handlers_of_deleted_tasks_are_stopped_on_etcd() -> Result<(), BoxError> {
    play(Ground::Etcd(1), Duration::ZERO, async |scene, _| {
        delete_all(scene).await
    })
    .await
}

async fn delete_all(scene: &mut Scene) -> Result<(), BoxError> {
    scene.man(&libraries(&["one", "two"]))?;
    scene.wait_for_nodes(PATIENCE).await?;
    let job = Job {
        total: 1,
        ms: u64::try_from(LONG.as_millis())?,
        ..Job::default()
    };
    let ids: Vec<TaskId> = (0..TASKS)
        .map(|n| format!("task-{n:02}").parse())
        .collect::<Result<_, _>>()?;
    let task = |id: &TaskId| NewTask::new("naps").id(id.as_str()).props(&job);
    submit(scene, ids.iter().map(task).collect()).await?;
    until_all(scene, "every handler runs", &ids, |said| match said {
        Said::Start { task, .. } => Some(task),
        _ => None,
    })
    .await?;
    for id in &ids {
        scene.traffic.delete(id).await?;
    }
    // Without a stop they end on their own, which is too late for the checkers.
    until_all(scene, "every handler has ended", &ids, |said| match said {
        Said::End { task, .. } => Some(task),
        _ => None,
    })
    .await?;
    let world = scene.end(PATIENCE).await?;
    assert_eq!(world.promised.deleted.len(), TASKS);
    scene.check(&world)
}

/// Waits until the witnesses have said something of all tasks.
async fn until_all(
    scene: &Scene,
    what: &str,
    ids: &[TaskId],
    task: impl Fn(&Said) -> Option<&TaskId>,
) -> Result<(), BoxError> {
    until(what, async || {
        let lines = witness::read(&scene.site.witnesses())?;
        let all = ids
            .iter()
            .all(|id| lines.iter().any(|line| task(&line.said) == Some(id)));
        Ok(all.then_some(()))
    })
    .await
}
