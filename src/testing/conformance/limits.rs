//! Limits: how many tasks with a key are claimed at once, how many claims begin within a period, and the line of
//! tasks that wait for a slot.

use std::{slice::from_ref, sync::Arc, time::Duration};

use windlass_statemachine::{Command, Limit, Message, Outcome, Signal, StateKind, Task};

use super::{
    Harness,
    kit::{Kit, id, settle, task},
    strangers::{elsewhere, export, import},
    wait::{Watcher, eventually},
};
use crate::{
    store::{Claimed, Lease, LimitedBy, TaskView},
    testing::ManualClock,
};

pub(super) const HOUR: Duration = Duration::from_secs(3600);

pub(super) fn at_once(key: &str, most: u32) -> Limit {
    Limit::at_once(key, most).expect("a legal limit")
}

pub(super) fn starts(key: &str, most: u32, within: Duration) -> Limit {
    Limit::starts(key, most, within).expect("a legal limit")
}

pub(super) fn limited(text: &str, limits: &[Limit]) -> Task {
    Task {
        limits: limits.to_vec(),
        ..task(text)
    }
}

pub(super) fn is_held(view: &TaskView) -> bool {
    view.claimed_by.is_none() && view.due.is_none() && !view.commanded
}

pub(super) fn is_ready(view: &TaskView) -> bool {
    view.claimed_by.is_none() && view.due.is_some() && !view.sleeping
}

pub(super) async fn held(watch: &mut Watcher, text: &str) {
    let what = format!("'{text}' is held back");
    watch.task(text, &what, is_held).await;
}

pub(super) async fn ready(watch: &mut Watcher, text: &str) {
    let what = format!("'{text}' can be claimed");
    watch.task(text, &what, is_ready).await;
}

impl Kit {
    pub(super) async fn limited(&self, texts: &[&str], limits: &[Limit]) {
        for text in texts {
            self.submit_task(limited(text, limits)).await;
        }
    }

    pub(super) async fn refused(&self, node: &Lease, text: &str) {
        let claimed = self.try_claim(node, text).await.expect("an answer");
        assert!(claimed.is_none(), "'{text}' finds no slot: {claimed:?}");
    }

    /// Claims a task with a slot of each of its limits.
    pub(super) async fn admitted(&self, node: &Lease, text: &str) -> Claimed {
        let claimed = self.claim(node, text).await;
        assert!(!claimed.over_limit, "'{text}' has its slots");
        claimed
    }
}

/// Returns whether claims of this store respect limits.
pub(super) async fn are_kept(kit: &Kit) -> bool {
    let node = kit.node("n").await;
    kit.limited(&["x", "y"], &[at_once("k", 1)]).await;
    kit.claim(&node, "x").await;
    let second = kit.try_claim(&node, "y").await;
    second.expect("an answer").is_none()
}

/// Answers the first command of a claim with a message, like the state machine.
async fn obey(kit: &Kit, claimed: &Claimed, message: &Message) {
    let mut write = kit.write(claimed, message);
    let (from, to) = (claimed.state.code(), write.state.code());
    let order = claimed.commands[0].order;
    settle(&mut write, order, Outcome::Applied { from, to });
    kit.try_write(claimed, write).await.expect("written");
}

/// As many tasks with a key as its limit allows are claimed at once. Tasks with other keys and without limits
/// are claimed as well.
pub async fn at_most_so_many_are_claimed_at_once(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let other = kit.node("other").await;
    kit.limited(&["a", "b", "c"], &[at_once("k", 2)]).await;
    kit.limited(&["other-key"], &[at_once("other", 1)]).await;
    kit.submit("free").await;
    kit.admitted(&node, "a").await;
    let mut second = kit.admitted(&other, "b").await;
    kit.refused(&node, "c").await;
    kit.refused(&other, "c").await;
    kit.admitted(&node, "other-key").await;
    kit.admitted(&node, "free").await;
    kit.commit(&mut second, &Message::complete()).await;
    kit.admitted(&node, "c").await;
}

/// However a claim ends, it frees its slot: the next task is reported and can be claimed.
pub async fn every_end_of_a_claim_frees_its_slot(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut watch = kit.watch(&node).await;
    watch.listed().await;
    let until = kit.in_an_hour();
    let ends = [
        ("completed", Some(Message::complete())),
        ("killed", Some(Message::kill())),
        ("asleep", Some(Message::sleep_until(until))),
        ("paused", Some(Message::pause())),
        ("waiting", Some(Message::wait_for(["next"]))),
        ("released", Some(Message::release())),
        ("deleted", None),
    ];
    let limit = [at_once("k", 1)];
    for (text, end) in ends {
        kit.limited(&[text, "next"], &limit).await;
        let mut claimed = kit.admitted(&node, text).await;
        kit.refused(&node, "next").await;
        held(&mut watch, "next").await;
        match end {
            Some(message) => kit.commit(&mut claimed, &message).await,
            None => kit.delete(text).await,
        }
        ready(&mut watch, "next").await;
        kit.admitted(&node, "next").await;
        if text == "released" {
            kit.refused(&node, text).await;
        }
        kit.delete("next").await;
    }
    let leaving = kit.node("leaving").await;
    kit.limited(&["left", "last"], &[at_once("l", 1)]).await;
    kit.admitted(&leaving, "left").await;
    kit.refused(&node, "last").await;
    kit.coordinator().leave(&leaving).await.expect("left");
    ready(&mut watch, "last").await;
    kit.admitted(&node, "last").await;
    kit.refused(&node, "left").await;
}

/// The end of a lost lease frees the slots of its claims.
pub async fn a_lost_lease_frees_its_slots(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut watch = kit.watch(&node).await;
    watch.listed().await;
    kit.limited(&["a", "b", "c"], &[at_once("k", 2)]).await;
    let lost = kit.node_for("lost", harness.short_lease()).await;
    kit.admitted(&lost, "a").await;
    kit.admitted(&lost, "b").await;
    kit.refused(&node, "c").await;
    held(&mut watch, "c").await;
    ready(&mut watch, "c").await;
    kit.admitted(&node, "c").await;
    let claimed = eventually("the lost task", async || {
        kit.try_claim(&node, "a").await.expect("an answer")
    })
    .await;
    assert!(claimed.abandoned && !claimed.over_limit);
    kit.refused(&node, "b").await;
}

/// A lease that claims its task again, after a lost answer, keeps the slots and takes no others.
pub async fn a_lost_answer_takes_no_second_slot(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let limits = [at_once("k", 2), starts("s", 2, HOUR)];
    kit.limited(&["a", "b", "c"], &limits).await;
    kit.admitted(&node, "a").await;
    let mut again = kit.admitted(&node, "a").await;
    kit.admitted(&node, "b").await;
    kit.refused(&node, "c").await;
    kit.commit(&mut again, &Message::checkpoint()).await;
    kit.refused(&node, "c").await;
    kit.send("c", "kill", Command::Kill).await;
    assert!(kit.claim(&node, "c").await.over_limit);
    assert!(kit.claim(&node, "c").await.over_limit, "claimed again");
}

/// As many claims as a limit on starts allows begin within any period of its length, by the store's clock,
/// however soon they end.
pub async fn starts_are_counted_within_the_period(harness: &dyn Harness) {
    let start: jiff::Timestamp = "2026-01-02T03:04:05Z".parse().expect("a time");
    let after = |seconds| start + jiff::SignedDuration::from_secs(seconds);
    let clock = Arc::new(ManualClock::new(start));
    let kit = Kit::with_clock(harness, clock.clone()).await;
    let node = kit.node_for("n", HOUR).await;
    let limit = [starts("k", 2, Duration::from_secs(60))];
    kit.limited(&["a", "b", "c", "d", "e"], &limit).await;
    let mut first = kit.admitted(&node, "a").await;
    kit.commit(&mut first, &Message::complete()).await;
    clock.set(after(20));
    kit.admitted(&node, "b").await;
    kit.refused(&node, "c").await;
    clock.set(after(59));
    kit.refused(&node, "c").await;
    clock.set(after(60));
    kit.admitted(&node, "c").await;
    kit.refused(&node, "d").await;
    clock.set(after(79));
    kit.refused(&node, "d").await;
    clock.set(after(80));
    kit.admitted(&node, "d").await;
    kit.refused(&node, "e").await;
    let until = kit
        .get("e")
        .await
        .limited_by
        .expect("it is held back")
        .until;
    assert_eq!(until, Some(after(120)));
}

/// A command claims a task that is held back, without a slot. If the task could run after that, it is held back
/// again when its claim ends.
pub async fn a_commanded_task_is_claimed_over_the_limit(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut watch = kit.watch(&node).await;
    watch.listed().await;
    kit.limited(&["x", "a", "b"], &[at_once("k", 1)]).await;
    let mut running = kit.admitted(&node, "x").await;
    kit.refused(&node, "a").await;
    held(&mut watch, "a").await;
    kit.refused(&node, "b").await;
    kit.send("a", "run", Command::Run).await;
    watch.task("a", "commanded", |view| view.commanded).await;
    let claimed = kit.claim(&node, "a").await;
    assert!(claimed.over_limit);
    obey(&kit, &claimed, &Message::release()).await;
    held(&mut watch, "a").await;
    kit.refused(&node, "a").await;
    kit.send("a", "run-2", Command::Run).await;
    let lost = kit.node_for("lost", harness.short_lease()).await;
    assert!(kit.claim(&lost, "a").await.over_limit);
    let is_lost = |view: &TaskView| view.claimed_by == Some(lost.id);
    watch.task("a", "the claim", is_lost).await;
    watch
        .task("a", "lost and commanded", |view| {
            view.claimed_by.is_none() && view.commanded
        })
        .await;
    let claimed = kit.claim(&node, "a").await;
    assert!(claimed.over_limit && claimed.abandoned);
    obey(&kit, &claimed, &Message::pause()).await;
    assert_eq!(kit.state("a").await.code(), StateKind::Paused);
    kit.send("b", "kill", Command::Kill).await;
    let claimed = kit.claim(&node, "b").await;
    assert!(claimed.over_limit);
    obey(&kit, &claimed, &Message::kill()).await;
    assert_eq!(kit.state("b").await.code(), StateKind::Killed);
    // Neither has taken the slot, and neither is in the line.
    kit.limited(&["c"], &[at_once("k", 1)]).await;
    kit.refused(&node, "c").await;
    kit.commit(&mut running, &Message::complete()).await;
    ready(&mut watch, "c").await;
    kit.admitted(&node, "c").await;
}

/// A signal needs the handler, so it waits with a task that is held back.
pub async fn a_signal_waits_with_a_held_back_task(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut watch = kit.watch(&node).await;
    watch.listed().await;
    kit.limited(&["x", "a"], &[at_once("k", 1)]).await;
    let mut running = kit.admitted(&node, "x").await;
    kit.refused(&node, "a").await;
    held(&mut watch, "a").await;
    kit.send("a", "s", Command::Signal(Signal::new("approve")))
        .await;
    kit.refused(&node, "a").await;
    held(&mut watch, "a").await;
    kit.commit(&mut running, &Message::complete()).await;
    ready(&mut watch, "a").await;
    assert_eq!(kit.admitted(&node, "a").await.commands.len(), 1);
}

/// Tasks with one key may have different numbers: each considers only the slots below its own number. Limits of
/// the two forms with one key have separate slots.
pub async fn each_task_has_its_own_number(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.limited(&["a", "b"], &[at_once("k", 1)]).await;
    kit.limited(&["c", "d"], &[at_once("k", 2)]).await;
    kit.limited(&["s"], &[starts("k", 1, HOUR)]).await;
    let mut a = kit.admitted(&node, "a").await;
    kit.refused(&node, "b").await;
    let mut c = kit.admitted(&node, "c").await;
    kit.refused(&node, "d").await;
    kit.admitted(&node, "s").await;
    kit.commit(&mut c, &Message::complete()).await;
    kit.refused(&node, "b").await;
    kit.admitted(&node, "d").await;
    kit.commit(&mut a, &Message::complete()).await;
    kit.admitted(&node, "b").await;
}

/// A record names the limit that holds its task back, and no limit otherwise.
pub async fn a_record_names_the_limit(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let limit = at_once("customer=acme", 1);
    kit.limited(&["x", "a"], from_ref(&limit)).await;
    let mut running = kit.admitted(&node, "x").await;
    kit.refused(&node, "a").await;
    let expected = Some(LimitedBy::new(limit.clone()));
    assert_eq!(kit.get("a").await.limited_by, expected);
    let page = crate::store::Page::default();
    let listed = kit
        .registry()
        .list(&Default::default(), page)
        .await
        .expect("a list");
    let named: Vec<_> = listed.into_iter().map(|record| record.limited_by).collect();
    assert_eq!(named, [None, expected]);
    assert_eq!(kit.get("a").await.task.limits, [limit]);
    kit.commit(&mut running, &Message::complete()).await;
    kit.admitted(&node, "a").await;
    assert_eq!(kit.get("a").await.limited_by, None);
}

/// Slots and lines are still there when the store is opened again.
pub async fn slots_and_lines_are_durable(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.limited(&["x", "a", "b"], &[at_once("k", 1)]).await;
    let mut running = kit.admitted(&node, "x").await;
    kit.refused(&node, "a").await;
    kit.refused(&node, "b").await;
    let kit = kit.reopened(harness).await;
    let node = kit.node("again").await;
    kit.refused(&node, "a").await;
    let mut watch = kit.watch(&node).await;
    let views = watch.listed().await;
    assert_eq!(
        views.iter().filter(|view| is_held(view)).count(),
        2,
        "{views:?}"
    );
    kit.commit(&mut running, &Message::complete()).await;
    ready(&mut watch, "a").await;
    kit.admitted(&node, "a").await;
    kit.refused(&node, "b").await;
}

/// A task from another store has its limits, and no slot.
pub async fn a_move_keeps_the_limits(harness: &dyn Harness) {
    let there = elsewhere().await;
    let limit = [at_once("k", 1)];
    for text in ["a", "b"] {
        there.submit_task(limited(text, &limit)).await;
    }
    let (kit, node) = Kit::with_node(harness).await;
    import(&kit, export(&there, &[id("a"), id("b")]).await).await;
    assert_eq!(kit.get("a").await.task.limits, limit);
    let mut claimed = kit.admitted(&node, "a").await;
    kit.refused(&node, "b").await;
    kit.commit(&mut claimed, &Message::complete()).await;
    kit.admitted(&node, "b").await;
}
