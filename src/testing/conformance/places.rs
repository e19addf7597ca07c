//! The position of a task among the claimable ones: it depends on the time since which the task can be claimed,
//! not on its submit.

use std::time::Duration;

use windlass_statemachine::{Command, Message, Outcome, StateKind};

use super::{
    Harness,
    kit::{Kit, id, settle},
    wait::Watcher,
};
use crate::store::{Event, Lease, Reschedule, TaskView, Transaction};
use jiff::{SignedDuration, Timestamp};

/// A pause between two times that every clock distinguishes.
const MOMENT: Duration = Duration::from_millis(5);

fn is_ready(view: &TaskView) -> bool {
    view.claimed_by.is_none() && !view.sleeping && view.due.is_some() && !view.commanded
}

fn asleep() -> Message {
    Message::sleep_until(Timestamp::now() + SignedDuration::from_hours(100_000))
}

/// A task that cannot be claimed, and another one that was submitted after it.
struct Two {
    kit: Kit,
    node: Lease,
    watch: Watcher,
}

impl Two {
    async fn new(harness: &dyn Harness, parked: &Message) -> Self {
        let (kit, node) = Kit::with_node(harness).await;
        let mut claimed = kit.claimed(&node, "earlier").await;
        kit.end_by(&mut claimed, parked).await;
        tokio::time::sleep(MOMENT).await;
        kit.submit("later").await;
        tokio::time::sleep(MOMENT).await;
        let watch = kit.watch(&kit.node("watches").await).await;
        Self { kit, node, watch }
    }

    /// Ends the wait of the task with a command, and releases the task.
    async fn run(&self) {
        let order = self.kit.send("earlier", "c", Command::Run).await;
        let mut claimed = self.kit.claim(&self.node, "earlier").await;
        let mut write = self.kit.write(&claimed, &Message::run());
        let (from, to) = (claimed.state.code(), write.state.code());
        settle(&mut write, order, Outcome::Applied { from, to });
        claimed.state = write.state.clone();
        let written = self.kit.try_write(&claimed, write).await;
        written.expect("the command is applied");
        self.kit.commit(&mut claimed, &Message::release()).await;
    }

    /// Asserts that an open watch and a new one report the task behind the other one.
    async fn stands_behind(mut self) {
        let state = self.kit.state("earlier").await;
        assert_eq!(state.code(), StateKind::Runnable);
        let other = self.kit.watch(&self.kit.node("lists").await).await;
        for (which, watch) in [
            ("an open watch", &mut self.watch),
            ("a list", &mut { other }),
        ] {
            let mut later = None;
            let what = format!("{which}: 'earlier' can be claimed after 'later'");
            watch
                .until(&what, |event| match event {
                    Event::Task(view) if view.id == id("later") => {
                        later = view.due;
                        None
                    }
                    Event::Task(view) if is_ready(view) && later < view.due => Some(()),
                    _ => None,
                })
                .await;
        }
    }
}

/// A task that was paused and resumed is behind those that could be claimed before.
pub async fn a_resumed_task_stands_behind_those_before_it(harness: &dyn Harness) {
    let two = Two::new(harness, &Message::pause()).await;
    two.run().await;
    two.stands_behind().await;
}

/// A sleeping task that a command has woken is behind those that could be claimed before.
pub async fn a_woken_task_stands_behind_those_before_it(harness: &dyn Harness) {
    let two = Two::new(harness, &asleep()).await;
    two.run().await;
    two.stands_behind().await;
}

/// A sleeping task that is rescheduled to now is behind those that could be claimed before.
pub async fn a_task_that_is_rescheduled_to_now_stands_behind_those_before_it(
    harness: &dyn Harness,
) {
    let two = Two::new(harness, &asleep()).await;
    let now = Reschedule::new(id("earlier")).due(two.kit.now());
    two.kit.apply(&Transaction::new().reschedule(now)).await;
    two.stands_behind().await;
}

/// A retried task is behind those that could be claimed before.
pub async fn a_retried_task_stands_behind_those_before_it(harness: &dyn Harness) {
    let two = Two::new(harness, &Message::complete()).await;
    two.kit.retry("earlier").await;
    two.stands_behind().await;
}
