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

/// After so many turns at the latest slots are kept.
const TURNS: usize = 10;

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

    /// Frees the slot of a limit, offers it to a waiting task, and lets a new task take it. Returns `false` when the
    /// slot is kept from the new one, which waits then.
    async fn pass(&mut self, at: usize, waiting: &str) -> bool {
        self.kit
            .commit(&mut self.running[at], &Message::complete())
            .await;
        ready(&mut self.watch, waiting).await;
        self.kit.refused(&self.node, waiting).await;
        let new = format!("new-{}", self.next);
        self.next += 1;
        self.kit.limited(&[&new], from_ref(&self.limits[at])).await;
        match self
            .kit
            .try_claim(&self.node, &new)
            .await
            .expect("an answer")
        {
            Some(claimed) => {
                self.running[at] = claimed;
                true
            }
            None => false,
        }
    }

    /// Lets turns of a task pass until the slot of a limit is kept for it. Returns which limit is free then.
    async fn until_kept(&mut self, waiting: &str) -> usize {
        for turn in 0..TURNS {
            let at = turn % 2;
            if !self.pass(at, waiting).await {
                return at;
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
    let free = busy.until_kept("both").await;
    let other = &mut busy.running[1 - free];
    busy.kit.commit(other, &Message::complete()).await;
    ready(&mut busy.watch, "both").await;
    let mut both = busy.kit.admitted(&busy.node, "both").await;
    // Nothing is kept any longer.
    busy.kit.commit(&mut both, &Message::complete()).await;
    let new = format!("new-{}", busy.next - 1);
    ready(&mut busy.watch, &new).await;
    busy.kit.admitted(&busy.node, &new).await;
    busy.kit.limited(&["z"], from_ref(&limits[1 - free])).await;
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
    let free = busy.until_kept("first").await;
    busy.kit.refused(&busy.node, "second").await;
    let other = &mut busy.running[1 - free];
    busy.kit.commit(other, &Message::complete()).await;
    ready(&mut busy.watch, "first").await;
    busy.kit.refused(&busy.node, "second").await;
    let mut first = busy.kit.admitted(&busy.node, "first").await;
    busy.kit.commit(&mut first, &Message::complete()).await;
    ready(&mut busy.watch, "second").await;
    busy.kit.admitted(&busy.node, "second").await;
}

/// When the task that slots are kept for is deleted, the slots are for others.
pub async fn a_task_that_is_gone_keeps_no_slot(harness: &dyn Harness) {
    let mut busy = Busy::new(Kit::new(harness).await).await;
    let limits = busy.limits.clone();
    busy.kit.limited(&["both"], &limits).await;
    busy.kit.refused(&busy.node, "both").await;
    busy.until_kept("both").await;
    let new = format!("new-{}", busy.next - 1);
    held(&mut busy.watch, &new).await;
    busy.kit.delete("both").await;
    ready(&mut busy.watch, &new).await;
    busy.kit.admitted(&busy.node, &new).await;
}

/// A task that could be claimed and that no node claims keeps slots for 5 seconds, and not for ever.
pub async fn a_task_that_no_node_claims_keeps_no_slot(harness: &dyn Harness) {
    let start = jiff::Timestamp::now();
    let clock = Arc::new(ManualClock::new(start));
    let mut busy = Busy::new(Kit::with_clock(harness, clock.clone()).await).await;
    let limits = busy.limits.clone();
    busy.kit.limited(&["both"], &limits).await;
    busy.kit.refused(&busy.node, "both").await;
    let free = busy.until_kept("both").await;
    let new = format!("new-{}", busy.next - 1);
    held(&mut busy.watch, &new).await;
    let other = &mut busy.running[1 - free];
    busy.kit.commit(other, &Message::complete()).await;
    ready(&mut busy.watch, "both").await;
    clock.set(start + SignedDuration::from_secs(6));
    ready(&mut busy.watch, &new).await;
    busy.kit.admitted(&busy.node, &new).await;
}
