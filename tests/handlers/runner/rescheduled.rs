//! Tasks whose due time or priority changes while a node has them in its due index.

use std::{sync::Arc, time::Duration};

use tokio::sync::Notify;
use windlass::{
    Message, NewTask, Runner, StateKind, TaskContext, TaskId,
    jiff::SignedDuration,
    store::{ChangeKind, Done, Reschedule},
};

use super::support::{World, secs};

const HOUR: Duration = Duration::from_secs(3600);

impl World {
    async fn reschedule(&self, change: Reschedule) -> Vec<Done> {
        let transaction = self.client.transaction().reschedule(change);
        transaction.commit().await.unwrap().done().to_vec()
    }

    /// A node, and a task that starts in an hour.
    async fn with_a_sleeper() -> (Self, Runner, TaskId) {
        let world = Self::new().await;
        let node = world.node("n");
        let node = node.handler("quick", |_: TaskContext| async { Message::complete() });
        let node = node.start().await.unwrap();
        world.listed(&node).await;
        let task = NewTask::new("quick").id("a").start_in(HOUR);
        let id = world.client.submit(task).await.unwrap().into_id();
        (world, node, id)
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_rescheduled_to_now_runs_at_once() {
    let (world, _node, id) = World::with_a_sleeper().await;
    let done = world
        .reschedule(Reschedule::new(id.clone()).due(world.now()))
        .await;
    assert_eq!(done, [Done::Rescheduled(StateKind::Runnable)]);
    let submitted = world.now();
    world.rest(&id, StateKind::Completed).await;
    let waited = world.now().duration_since(submitted);
    assert!(waited < SignedDuration::from_secs(5), "{waited}");
}

#[tokio::test(start_paused = true)]
async fn a_rescheduled_task_waits_for_its_new_time() {
    let (world, _node, id) = World::with_a_sleeper().await;
    let due = world.now() + SignedDuration::from_hours(2);
    world.reschedule(Reschedule::new(id.clone()).due(due)).await;
    tokio::time::sleep(HOUR + HOUR / 2).await;
    let record = world.client.get(&id).await.unwrap();
    assert_eq!(
        record.state.unwrap().claims,
        0,
        "the earlier time is forgotten"
    );
    tokio::time::sleep(HOUR / 2 + secs(5)).await;
    assert_eq!(world.code(&id).await, StateKind::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_task_with_a_greater_priority_since_then_runs_first() {
    let world = World::new().await;
    let end = Arc::new(Notify::new());
    let ends = end.clone();
    let slow = move |_: TaskContext| {
        let ends = ends.clone();
        async move {
            ends.notified().await;
            Message::complete()
        }
    };
    let node = world.node("n").slots(1).handler("slow", slow);
    let node = node.handler("quick", |_: TaskContext| async { Message::complete() });
    let node = node.start().await.unwrap();
    world.listed(&node).await;
    world.running("slow").await;
    let mut ids = Vec::new();
    for id in ["a", "b", "c"] {
        let task = NewTask::new("quick").id(id);
        ids.push(world.client.submit(task).await.unwrap().into_id());
    }
    tokio::time::sleep(secs(1)).await;
    world
        .reschedule(Reschedule::new(ids[2].clone()).priority(9))
        .await;
    tokio::time::sleep(secs(1)).await;
    end.notify_one();
    let mut claimed = Vec::new();
    for id in &ids {
        world.rest(id, StateKind::Completed).await;
        let history = world.client.history(id, 99).await.unwrap();
        let mut claims = history
            .iter()
            .filter(|change| matches!(change.what, ChangeKind::Claimed { .. }));
        claimed.push((claims.next().unwrap().seq, id.as_str()));
    }
    claimed.sort_unstable();
    assert_eq!(claimed[0].1, "c", "{claimed:?}");
}
