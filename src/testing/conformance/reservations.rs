//! Tasks with several limits whose turn comes while another of their limits is full: after some turns, slots are kept
//! for one of them.

use std::{slice::from_ref, sync::Arc};

use jiff::SignedDuration;
use windlass_statemachine::{Limit, Message};

use super::{
    Harness,
    kit::Kit,
    limits::{HOUR, at_once, held, ready},
    wait::Watcher,
};
use crate::{
    store::{Claimed, Lease},
    testing::ManualClock,
};

/// The most turns after which slots must be kept.
const TURNS: usize = 20;

/// The limit whose slot is freed and taken again, and the one whose slot stays taken.
const FIRST: usize = 0;
const SECOND: usize = 1;

/// Two limits of one slot each, which are never free at the same time.
struct Busy {
    kit: Kit,
    node: Lease,
    watch: Watcher,
    limits: [Limit; 2],
    /// The claims that have the slots.
    running: [Claimed; 2],
    next: usize,
}

impl Busy {
    async fn new(kit: Kit) -> Self {
        let node = kit.node_for("n", HOUR).await;
        let mut watch = kit.watch(&node).await;
        watch.listed().await;
        let limits = [at_once("one", 1), at_once("two", 1)];
        kit.limited(&["x"], from_ref(&limits[0])).await;
        kit.limited(&["y"], from_ref(&limits[1])).await;
        let running = [
            kit.admitted(&node, "x").await,
            kit.admitted(&node, "y").await,
        ];
        Self {
            kit,
            node,
            watch,
            limits,
            running,
            next: 0,
        }
    }

    /// Frees the slot of the first limit, offers it to a waiting task, and lets a new task take it. Returns `false`
    /// when the slot is kept from the new task, which then waits.
    async fn pass(&mut self, waiting: &str) -> bool {
        self.kit
            .commit(&mut self.running[FIRST], &Message::complete())
            .await;
        ready(&mut self.watch, waiting).await;
        self.kit.refused(&self.node, waiting).await;
        let new = format!("new-{}", self.next);
        self.next += 1;
        self.kit
            .limited(&[&new], from_ref(&self.limits[FIRST]))
            .await;
        let claimed = self.kit.try_claim(&self.node, &new).await;
        let Some(claimed) = claimed.expect("an answer") else {
            return false;
        };
        self.running[FIRST] = claimed;
        // Both limits are full: the task waits for the first one again, whatever its claims have found
        // before.
        self.kit.refused(&self.node, waiting).await;
        true
    }

    /// Lets turns of a task pass until the slot of the first limit is kept for it.
    async fn until_kept(&mut self, waiting: &str) {
        for _ in 0..TURNS {
            if !self.pass(waiting).await {
                return;
            }
        }
        panic!("'{waiting}' has had {TURNS} turns, and no slot is kept for it");
    }
}

/// A task with two limits is claimed within a bounded number of turns, however many tasks with one of the limits come.
pub async fn a_task_with_two_limits_comes_to_its_turn(harness: &dyn Harness) {
    let mut busy = Busy::new(Kit::new(harness).await).await;
    let limits = busy.limits.clone();
    busy.kit.limited(&["both"], &limits).await;
    busy.kit.refused(&busy.node, "both").await;
    // It is in a line before a slot is freed.
    held(&mut busy.watch, "both").await;
    busy.until_kept("both").await;
    let other = &mut busy.running[SECOND];
    busy.kit.commit(other, &Message::complete()).await;
    ready(&mut busy.watch, "both").await;
    let mut both = busy.kit.admitted(&busy.node, "both").await;
    // Slots are no longer kept.
    busy.kit.commit(&mut both, &Message::complete()).await;
    let new = format!("new-{}", busy.next - 1);
    ready(&mut busy.watch, &new).await;
    busy.kit.admitted(&busy.node, &new).await;
    busy.kit.limited(&["z"], from_ref(&limits[SECOND])).await;
    busy.kit.admitted(&busy.node, "z").await;
}

/// Slots are kept for one task at a time, the oldest: two tasks never keep a slot each that the other one needs.
pub async fn slots_are_kept_for_one_task_at_a_time(harness: &dyn Harness) {
    let mut busy = Busy::new(Kit::new(harness).await).await;
    let [one, two] = busy.limits.clone();
    busy.kit
        .limited(&["first"], &[one.clone(), two.clone()])
        .await;
    busy.kit.limited(&["second"], &[two, one]).await;
    busy.kit.refused(&busy.node, "first").await;
    // It is in a line before a slot is freed.
    held(&mut busy.watch, "first").await;
    busy.until_kept("first").await;
    busy.kit.refused(&busy.node, "second").await;
    let other = &mut busy.running[SECOND];
    busy.kit.commit(other, &Message::complete()).await;
    ready(&mut busy.watch, "first").await;
    busy.kit.refused(&busy.node, "second").await;
    let mut first = busy.kit.admitted(&busy.node, "first").await;
    busy.kit.commit(&mut first, &Message::complete()).await;
    ready(&mut busy.watch, "second").await;
    busy.kit.admitted(&busy.node, "second").await;
}

/// When the task for which slots are kept is deleted, other tasks get the slots.
pub async fn a_task_that_is_gone_keeps_no_slot(harness: &dyn Harness) {
    let mut busy = Busy::new(Kit::new(harness).await).await;
    let limits = busy.limits.clone();
    busy.kit.limited(&["both"], &limits).await;
    busy.kit.refused(&busy.node, "both").await;
    // It is in a line before a slot is freed.
    held(&mut busy.watch, "both").await;
    busy.until_kept("both").await;
    let new = format!("new-{}", busy.next - 1);
    held(&mut busy.watch, &new).await;
    busy.kit.delete("both").await;
    ready(&mut busy.watch, &new).await;
    busy.kit.admitted(&busy.node, &new).await;
}

/// A task that could be claimed but that no node claims keeps slots for 5 seconds, not for ever.
pub async fn a_task_that_no_node_claims_keeps_no_slot(harness: &dyn Harness) {
    let start = jiff::Timestamp::now();
    let clock = Arc::new(ManualClock::new(start));
    let mut busy = Busy::new(Kit::with_clock(harness, clock.clone()).await).await;
    let limits = busy.limits.clone();
    busy.kit.limited(&["both"], &limits).await;
    busy.kit.refused(&busy.node, "both").await;
    // It is in a line before a slot is freed.
    held(&mut busy.watch, "both").await;
    busy.until_kept("both").await;
    let new = format!("new-{}", busy.next - 1);
    held(&mut busy.watch, &new).await;
    let other = &mut busy.running[SECOND];
    busy.kit.commit(other, &Message::complete()).await;
    ready(&mut busy.watch, "both").await;
    clock.set(start + SignedDuration::from_secs(6));
    ready(&mut busy.watch, &new).await;
    busy.kit.admitted(&busy.node, &new).await;
}
