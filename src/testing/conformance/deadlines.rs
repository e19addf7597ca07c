//! Deadlines: at its deadline a task can be claimed, whatever it waits for.
//!
//! Beyond the duties: `a_retry_ignores_deadlines_that_have_passed`.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use windlass_statemachine::{Command, Message, StateKind, Task, Waits, state::Deadlines};

use super::{
    Harness,
    kit::{Kit, fresh, id, one, task},
    strangers::{elsewhere_with, export, import},
};
use crate::testing::ManualClock;

const MINUTE: Duration = Duration::from_secs(60);

fn start() -> Timestamp {
    "2030-01-01T00:00:00Z".parse().expect("a time")
}

fn minutes(n: i64) -> Timestamp {
    start() + SignedDuration::from_mins(n)
}

/// Returns a task that has to start within two minutes, and to end within four.
fn timed(text: &str) -> Task {
    let mut task = task(text);
    (task.start_by, task.end_by) = (Some(minutes(2)), Some(minutes(4)));
    task
}

async fn kit(harness: &dyn Harness) -> (Kit, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(start()));
    (Kit::with_clock(harness, clock.clone()).await, clock)
}

/// A task that sleeps, is paused or waits for others is claimed at its deadline and not before. The claim
/// does not change its state.
pub async fn a_parked_task_is_claimed_at_its_deadline(harness: &dyn Harness) {
    let (kit, clock) = kit(harness).await;
    let mut sleeper = timed("sleeper");
    (sleeper.start_at, sleeper.start_by) = (Some(minutes(3)), Some(minutes(3)));
    sleeper.end_by = None;
    let mut waiter = timed("waiter");
    waiter.waits = Some(Box::new(Waits::new("after", ["blocks"]).expect("one task")));
    kit.submit("blocks").await;
    kit.submit_task(sleeper).await;
    kit.submit_task(waiter).await;
    kit.submit_task(timed("paused")).await;
    let node = kit.node("n").await;
    let mut claimed = kit.claim(&node, "paused").await;
    let until = minutes(600);
    kit.commit(&mut claimed, &Message::pause()).await;
    let mut asleep = kit.claimed(&node, "asleep").await;
    kit.commit(&mut asleep, &Message::sleep_until(until)).await;
    clock.advance(MINUTE);
    let node = kit.node("m").await;
    for text in ["waiter", "paused"] {
        let early = kit.try_claim(&node, text).await.unwrap();
        assert!(early.is_none(), "{text}: {early:?}");
    }
    clock.advance(MINUTE);
    let node = kit.node("o").await;
    for (text, code) in [
        ("waiter", StateKind::Sleeping),
        ("paused", StateKind::Paused),
    ] {
        let claimed = kit.claim(&node, text).await;
        assert_eq!(claimed.state.code(), code, "{text}");
        assert_eq!(claimed.state.deadline(), Some(minutes(2)), "{text}");
    }
    let never = kit.try_claim(&node, "asleep").await.unwrap();
    assert!(never.is_none(), "it has no deadline: {never:?}");
}

/// A watch reports the next deadline of each task, in each state.
pub async fn watches_report_deadlines(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let (soon, late) = (kit.later(MINUTE), kit.in_an_hour());
    let timed = |text: &str| {
        let mut task = task(text);
        (task.start_by, task.end_by) = (Some(soon), Some(late));
        task
    };
    kit.submit_task(timed("new")).await;
    let mut later = timed("later");
    (later.start_at, later.start_by) = (Some(soon), None);
    kit.submit_task(later).await;
    kit.submit("without").await;
    kit.submit_task(timed("ran")).await;
    let mut ran = kit.claim(&node, "ran").await;
    // As a machine writes the task after its handler was started.
    let mut write = kit.write(&ran, &Message::pause());
    write.state.deadlines = Some(Box::new(Deadlines {
        start_by: None,
        end_by: Some(late),
    }));
    ran.state = write.state.clone();
    kit.try_write(&ran, write).await.expect("paused");
    let other = kit.node("m").await;
    let mut watch = kit.watch(&other).await;
    let views = watch.listed().await;
    for (text, deadline) in [
        ("new", Some(soon)),
        ("later", Some(late)),
        ("without", None),
        ("ran", Some(late)),
    ] {
        let view = views.iter().find(|view| view.id == id(text));
        assert_eq!(view.expect("it is live").deadline, deadline, "{text}");
    }
    assert_eq!(kit.state("ran").await.deadline(), Some(late));
}

/// A retry counts as a start, and ignores deadlines that have passed.
pub async fn a_retry_ignores_deadlines_that_have_passed(harness: &dyn Harness) {
    let (kit, clock) = kit(harness).await;
    kit.submit_task(timed("a")).await;
    kit.submit_task(timed("b")).await;
    let node = kit.node("n").await;
    for text in ["a", "b"] {
        let mut claimed = kit.claim(&node, text).await;
        kit.commit(&mut claimed, &Message::kill()).await;
    }
    kit.retry("a").await;
    assert_eq!(kit.state("a").await.deadline(), Some(minutes(4)));
    clock.advance(MINUTE * 5);
    kit.retry("b").await;
    assert_eq!(kit.state("b").await.deadline(), None);
    let node = kit.node("m").await;
    let claimed = kit.claim(&node, "b").await;
    assert_eq!(claimed.state.missed(kit.now()), None);
}

/// Deadlines outlive the process.
pub async fn deadlines_are_durable(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let mut timed = task("a");
    timed.end_by = Some(kit.in_an_hour());
    let end_by = timed.end_by;
    one(kit.registry().submit(vec![fresh(timed)]).await).expect("submitted");
    let kit = kit.reopened(harness).await;
    assert_eq!(kit.state("a").await.deadline(), end_by);
    kit.send("a", "pause", Command::Pause).await;
    let node = kit.node("n").await;
    assert_eq!(kit.claim(&node, "a").await.state.deadline(), end_by);
}

/// A task that moves to another store has its deadlines there.
pub async fn a_moved_task_has_its_deadlines(harness: &dyn Harness) {
    let (kit, clock) = kit(harness).await;
    kit.transfer();
    let from = elsewhere_with(clock).await;
    from.submit_task(timed("a")).await;
    import(&kit, export(&from, &[id("a")]).await).await;
    assert_eq!(kit.state("a").await.deadline(), Some(minutes(2)));
    let node = kit.node("n").await;
    let mut watch = kit.watch(&node).await;
    let views = watch.listed().await;
    assert_eq!(views[0].deadline, Some(minutes(2)));
}
