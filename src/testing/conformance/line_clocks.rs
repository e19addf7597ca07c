//! The lines of limits, and clocks that were ahead and are set right.

use std::{slice::from_ref, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use windlass_statemachine::{Limit, Message};

use super::{
    Harness,
    kit::Kit,
    limits::{HOUR, at_once, held, ready, starts},
    wait::Watcher,
};
use crate::{
    store::{Lease, TaskView},
    testing::ManualClock,
};

/// By how much the clock was ahead.
const AHEAD: SignedDuration = SignedDuration::from_hours(3);

/// A store whose clock is ahead, with a node and its watch.
struct Ahead {
    kit: Kit,
    node: Lease,
    watch: Watcher,
    clock: Arc<ManualClock>,
    right: Timestamp,
}

impl Ahead {
    async fn new(harness: &dyn Harness, limits: &[Limit], tasks: &[&str]) -> Self {
        let right = Timestamp::now();
        let clock = Arc::new(ManualClock::new(right));
        let kit = Kit::with_clock(harness, clock.clone()).await;
        // The lease outlives the step of the clock.
        let node = kit.node_for("n", 10 * HOUR).await;
        let mut watch = kit.watch(&node).await;
        watch.listed().await;
        kit.limited(tasks, limits).await;
        clock.set(right + AHEAD);
        Self {
            kit,
            node,
            watch,
            clock,
            right,
        }
    }
}

/// The first of a line of starts is reported for the time at which a slot is free. When the clock that
/// determined the time is set right, the task is reported again, and claimed.
pub async fn a_time_in_advance_is_revised(harness: &dyn Harness) {
    let limit = starts("k", 1, Duration::from_secs(60));
    let mut ahead = Ahead::new(harness, from_ref(&limit), &["x", "a", "b"]).await;
    let (kit, watch) = (&ahead.kit, &mut ahead.watch);
    kit.admitted(&ahead.node, "x").await;
    kit.refused(&ahead.node, "a").await;
    let is_asleep = |view: &TaskView| view.sleeping && view.due.is_some();
    watch
        .task("a", "asleep until a slot is free", is_asleep)
        .await;
    kit.refused(&ahead.node, "b").await;
    ahead.clock.set(ahead.right);
    ready(watch, "a").await;
    kit.admitted(&ahead.node, "a").await;
    // The new start counts, for its period.
    let last = ahead.right + SignedDuration::from_secs(60);
    let is_soon = |view: &TaskView| view.sleeping && view.due.is_some_and(|due| due <= last);
    watch.task("b", "asleep for the period", is_soon).await;
    kit.refused(&ahead.node, "b").await;
    ahead.clock.set(last);
    kit.admitted(&ahead.node, "b").await;
}

/// A task that a clock which was ahead has reported, and that no node claims, holds back the next one of its line
/// no longer than with a right clock.
pub async fn patience_is_judged_by_the_clock_of_now(harness: &dyn Harness) {
    let limit = at_once("k", 1);
    let mut ahead = Ahead::new(harness, from_ref(&limit), &["x", "a", "b"]).await;
    let (kit, watch) = (&ahead.kit, &mut ahead.watch);
    let mut running = kit.admitted(&ahead.node, "x").await;
    kit.refused(&ahead.node, "a").await;
    kit.refused(&ahead.node, "b").await;
    held(watch, "b").await;
    kit.commit(&mut running, &Message::complete()).await;
    ready(watch, "a").await;
    ahead.clock.set(ahead.right + SignedDuration::from_secs(6));
    ready(watch, "b").await;
    kit.admitted(&ahead.node, "b").await;
}
