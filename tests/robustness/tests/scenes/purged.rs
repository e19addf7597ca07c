//! Failed tasks are retried while they are purged and workers are killed: retried tasks live, and
//! only ended ones are deleted.

use std::{collections::BTreeMap, time::Duration};

use windlass::{Client, NewTask, Retry, StateKind, TaskId, store::Filter};
use windlass_robustness::{
    BoxError,
    disturb::kill_together,
    ground,
    kinds::Job,
    scene::{Ground, Scene},
    settle::settle,
};

use crate::support::*;

/// How many tasks fail, and how many sleep.
const FAILING: usize = 150;
const SLEEPING: usize = 20;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_retried_while_others_are_purged_lives() -> Result<(), BoxError> {
    play(Ground::File, Duration::ZERO, purge).await
}

#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread")]
async fn what_is_retried_while_others_are_purged_lives_on_etcd() -> Result<(), BoxError> {
    play(Ground::Etcd(1), Duration::ZERO, purge).await
}

async fn purge(scene: &mut Scene, mut rng: fastrand::Rng) -> Result<(), BoxError> {
    scene.man(&libraries(&["one", "two"]))?;
    scene.wait_for_nodes(PATIENCE).await?;
    let job = Job {
        total: 1,
        ms: 5,
        ..Job::default()
    };
    let task = |kind: &str, n: usize| NewTask::new(kind).id(format!("{kind}-{n:03}")).props(&job);
    let failing: Vec<_> = (0..FAILING)
        .map(|n| task("again", n).retry(Retry::Never).build())
        .collect::<Result<_, _>>()?;
    let ids: Vec<TaskId> = failing.iter().map(|s| s.task.id.clone()).collect();
    for answer in scene.client.submit_many(failing).await {
        answer?;
    }
    submit(scene, (0..SLEEPING).map(|n| task("far", n)).collect()).await?;
    until("all of them have failed or sleep", async || {
        let failed = count(scene, StateKind::Failed).await?;
        let sleeps = count(scene, StateKind::Sleeping).await?;
        Ok((failed == FAILING && sleeps == SLEEPING).then_some(()))
    })
    .await?;
    let purging = Client::new(&ground::open(&scene.store).await?);
    let mut order = ids.clone();
    rng.shuffle(&mut order);
    let (client, workers) = (&scene.client, &mut scene.workers);
    let (retried, purged, killed) = tokio::join!(
        retry(client, &order, rng.fork()),
        drop_ended(&purging, rng.fork()),
        kill_together(workers)
    );
    let (retried, purged) = (retried?, purged?);
    killed?;
    // What is left has not been reached by either.
    settle(scene, PATIENCE).await?;
    let all = list(scene, Filter::default()).await?;
    let there: BTreeMap<&TaskId, _> = all.iter().map(|r| (&r.task.id, r)).collect();
    let mut wrong = Vec::new();
    let mut gone = 0;
    for (id, answer) in &retried {
        let record = there.get(id);
        gone += u64::from(record.is_none());
        let incarnation = match record.map(|r| r.state.as_ref().map(|s| (s.incarnation, s.code())))
        {
            None => None,
            Some(Ok(state)) => Some(state),
            Some(Err(e)) => {
                wrong.push(format!("{id} cannot be read: {e}"));
                continue;
            }
        };
        let holds = match (answer, incarnation) {
            (Retried::Yes, found) => found == Some((1, StateKind::Sleeping)),
            (Retried::Gone, found) => found.is_none(),
            (Retried::Unknown, None | Some((1, StateKind::Sleeping))) => true,
            (Retried::Unknown, found) => found == Some((0, StateKind::Failed)),
        };
        if !holds {
            wrong.push(format!(
                "the retry of {id}: {answer:?}; it is {incarnation:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(gone, purged, "tasks that are gone, tasks that were purged");
    let lived = retried.values().filter(|a| **a == Retried::Yes).count();
    assert!(lived > 0 && gone > 0, "{lived} retried, {gone} purged");
    let world = scene.end(PATIENCE).await?;
    scene.check(&world)
}

async fn count(scene: &Scene, code: StateKind) -> Result<usize, BoxError> {
    let filter = Filter::new().states([code]);
    Ok(list(scene, filter).await?.len())
}

/// Retries tasks, some one by one and some many at once.
async fn retry(
    client: &Client,
    ids: &[TaskId],
    mut rng: fastrand::Rng,
) -> Result<BTreeMap<TaskId, Retried>, BoxError> {
    let mut retried = BTreeMap::new();
    let mut left = ids;
    while !left.is_empty() {
        let (some, rest) = left.split_at(rng.usize(1..=5).min(left.len()));
        left = rest;
        let answers = client.store().registry().retry(some.to_vec()).await;
        for (id, answer) in some.iter().zip(answers) {
            retried.insert(id.clone(), Retried::of(answer)?);
        }
    }
    Ok(retried)
}

/// Deletes ended tasks, a few at a time, until none is left; returns how many.
async fn drop_ended(client: &Client, mut rng: fastrand::Rng) -> Result<u64, BoxError> {
    let store = client.store();
    let mut purged = 0;
    loop {
        let ended = [StateKind::Completed, StateKind::Failed, StateKind::Killed];
        let limit = rng.u32(1..=4);
        let now = store.clock().now();
        let some = store
            .registry()
            .purge(&windlass::store::Purge::new(ended, now).limit(limit))
            .await?;
        purged += some;
        if some == 0 {
            return Ok(purged);
        }
    }
}
