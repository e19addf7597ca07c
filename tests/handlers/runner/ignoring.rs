//! Balancers that do not take a task before a time.

use std::sync::{Arc, Mutex};

use jiff::SignedDuration;
use tokio::time::Instant;
use windlass::{
    Command, Message, NewTask, Runner, StateKind, TaskContext, TaskId,
    balancer::{Balancer, Cluster, Decision},
    store::{Reschedule, TaskView},
};

use super::support::{World, secs};

/// Takes no task before a time, except commanded ones, and records the times at which it is asked.
#[derive(Debug)]
struct NotBefore {
    until: Instant,
    asked: Arc<Mutex<Vec<Instant>>>,
}

impl Balancer for NotBefore {
    fn takes(&self, _: &Cluster<'_>, task: &TaskView) -> Decision {
        let now = Instant::now();
        self.asked.lock().unwrap().push(now);
        match now < self.until && !task.commanded {
            true => Decision::NotBefore(self.until),
            false => Decision::Take,
        }
    }
}

struct Ignoring {
    world: World,
    node: Runner,
    start: Instant,
    until: Instant,
    asked: Arc<Mutex<Vec<Instant>>>,
}

impl Ignoring {
    async fn new() -> Self {
        let world = World::new().await;
        let (start, asked) = (Instant::now(), Arc::<Mutex<Vec<_>>>::default());
        let until = start + secs(600);
        let balancer = NotBefore {
            until,
            asked: asked.clone(),
        };
        let node = world.node("n").balancer(balancer);
        let node = node.handler("k", |_: TaskContext| async { Message::complete() });
        Self {
            node: node.start().await.unwrap(),
            world,
            start,
            until,
            asked,
        }
    }

    async fn submit(&self, task: NewTask) -> TaskId {
        let submitted = self.world.client.submit(task).await.unwrap();
        tokio::time::sleep(secs(5)).await;
        submitted.into_id()
    }

    fn asked(&self) -> Vec<Instant> {
        self.asked.lock().unwrap().clone()
    }
}

#[tokio::test(start_paused = true)]
async fn a_balancer_is_asked_again_at_its_time_and_not_before() {
    let ignoring = Ignoring::new().await;
    let id = ignoring.submit(NewTask::new("k")).await;
    assert_eq!(ignoring.asked().len(), 1);
    // The task changes, and another node has it for a moment.
    let change = Reschedule::new(id.clone()).priority(3);
    let client = &ignoring.world.client;
    client
        .transaction()
        .reschedule(change)
        .commit()
        .await
        .unwrap();
    tokio::time::sleep(secs(5)).await;
    let other = ignoring.world.node("other");
    let other = other.handler("k", |task: TaskContext| async move {
        task.stop_requested().await.message()
    });
    let other = other.start().await.unwrap();
    ignoring.world.claimed(&id).await;
    other.shutdown().await;
    tokio::time::sleep_until(ignoring.until - secs(2)).await;
    assert_eq!(ignoring.asked().len(), 1, "not before");
    ignoring.world.rest(&id, StateKind::Completed).await;
    let asked = ignoring.asked();
    assert_eq!(asked.len(), 2);
    assert!(asked[1] >= ignoring.until && asked[1] < ignoring.until + secs(1));
    ignoring.node.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_command_and_a_deadline_end_the_wait_for_a_time() {
    let ignoring = Ignoring::new().await;
    let killed = ignoring.submit(NewTask::new("k")).await;
    let outcome = ignoring.world.command(&killed, Command::Kill).await;
    assert!(outcome.is_applied(), "{outcome:?}");
    let by = ignoring.world.now() + SignedDuration::from_secs(60);
    let late = ignoring.submit(NewTask::new("k").start_by(by)).await;
    ignoring.world.rest(&late, StateKind::Failed).await;
    assert!(ignoring.start.elapsed() < secs(120));
    assert_eq!(ignoring.asked().len(), 4, "once, and once more, for each");
}
