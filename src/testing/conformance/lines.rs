//! The lines of tasks that wait for a slot of a limit.

use std::{slice::from_ref, sync::Arc, time::Duration};

use windlass_statemachine::{Limit, Message, StateKind, TaskStatus};

use super::{
    Harness,
    kit::{Kit, id},
    limits::{HOUR, at_once, held, is_held, is_ready, limited, ready, starts},
};
use crate::{
    store::{Event, Operation, Require, Reschedule, TaskView, Transaction},
    testing::ManualClock,
};

/// How long a case waits for an event that must not come.
const QUIET: Duration = Duration::from_millis(300);

/// Returns whether an event reports a task that can be claimed, and that is not this one.
fn is_other_ready(event: &Event, but: &str) -> bool {
    matches!(event, Event::Task(view) if is_ready(view) && view.id != id(but))
}

/// Tasks that find no slot are not reported as claimable. When a slot is free, the first of them is reported, by
/// priority, due time and submit order: one task for each free slot.
pub async fn a_line_reports_one_task_for_each_slot(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut watch = kit.watch(&node).await;
    watch.listed().await;
    let limit = [at_once("k", 2)];
    kit.limited(&["x", "y", "a", "b"], &limit).await;
    let mut urgent = limited("urgent", &limit);
    urgent.priority = 7;
    kit.submit_task(urgent).await;
    let mut running = vec![
        kit.admitted(&node, "x").await,
        kit.admitted(&node, "y").await,
    ];
    for text in ["b", "urgent", "a"] {
        kit.refused(&node, text).await;
        held(&mut watch, text).await;
    }
    let other = kit.node("other").await;
    let mut listed = kit.watch(&other).await;
    let views = listed.listed().await;
    assert_eq!(
        views.iter().filter(|view| is_held(view)).count(),
        3,
        "{views:?}"
    );
    for next in ["urgent", "a", "b"] {
        let mut ended = running.remove(0);
        kit.commit(&mut ended, &Message::complete()).await;
        ready(&mut watch, next).await;
        ready(&mut listed, next).await;
        let rest = watch.rest(QUIET).await;
        assert!(
            !rest.iter().any(|event| is_other_ready(event, next)),
            "one slot, one task: {rest:?}"
        );
        running.push(kit.admitted(&node, next).await);
    }
}

/// The first of the line of a limit on starts is reported as asleep until the next slot is free.
pub async fn the_first_of_a_line_of_starts_sleeps(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut watch = kit.watch(&node).await;
    watch.listed().await;
    kit.limited(&["x", "a", "b"], &[starts("k", 1, HOUR)]).await;
    let before = kit.now();
    kit.admitted(&node, "x").await;
    let after = kit.now();
    kit.refused(&node, "a").await;
    let is_asleep = |view: &TaskView| view.sleeping && view.due.is_some();
    let first = watch
        .task("a", "asleep until a slot is free", is_asleep)
        .await;
    let due = first.due.expect("a time");
    let hour = jiff::SignedDuration::from_hours(1);
    let second = jiff::SignedDuration::from_secs(1);
    assert!(
        due >= before + hour - second && due <= after + hour + second,
        "{due}"
    );
    kit.refused(&node, "b").await;
    held(&mut watch, "b").await;
    kit.delete("a").await;
    watch.task("b", "the first now", is_asleep).await;
    kit.refused(&node, "b").await;
}

/// A task that joins a line of starts ahead of the one that is reported in advance replaces it.
pub async fn a_task_that_goes_before_the_next_is_the_next(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut watch = kit.watch(&node).await;
    watch.listed().await;
    let limit = [starts("k", 1, HOUR)];
    kit.limited(&["x", "a"], &limit).await;
    kit.admitted(&node, "x").await;
    kit.refused(&node, "a").await;
    let is_asleep = |view: &TaskView| view.sleeping && view.due.is_some();
    watch.task("a", "the first", is_asleep).await;
    let mut urgent = limited("urgent", &limit);
    urgent.priority = 7;
    kit.submit_task(urgent).await;
    kit.refused(&node, "urgent").await;
    let (mut urgent, mut before) = (false, true);
    watch
        .until(
            "'urgent' sleeps until a slot is free, and 'a' is held back",
            |event| {
                if let Event::Task(view) = event {
                    match view.id.as_str() {
                        "urgent" => urgent = is_asleep(view),
                        _ => before = !is_held(view),
                    }
                }
                (urgent && !before).then_some(())
            },
        )
        .await;
    kit.delete("urgent").await;
    watch.task("a", "the first again", is_asleep).await;
}

/// Limits on starts with one key and different periods are different limits: each has its own slots and its own line. A
/// task may have both.
pub async fn another_period_is_another_limit(harness: &dyn Harness) {
    let start = jiff::Timestamp::now();
    let clock = Arc::new(ManualClock::new(start));
    let after = |seconds| clock.set(start + jiff::SignedDuration::from_secs(seconds));
    let kit = Kit::with_clock(harness, clock.clone()).await;
    let node = kit.node_for("n", 9 * HOUR).await;
    let five = Duration::from_secs(5);
    let (long, short) = (starts("k", 1, HOUR), starts("k", 1, five));
    kit.limited(&["x", "long"], from_ref(&long)).await;
    kit.limited(&["short", "next"], from_ref(&short)).await;
    kit.limited(&["both"], &[short, long]).await;
    kit.admitted(&node, "x").await;
    kit.refused(&node, "long").await;
    kit.admitted(&node, "short").await;
    kit.refused(&node, "next").await;
    let used = kit.registry().limits_in_use().await.expect("limits in use");
    let used: Vec<_> = used.iter().map(|one| (one.within, one.taken)).collect();
    assert_eq!(used, [(Some(five), 1), (Some(HOUR), 1)]);
    after(6);
    kit.admitted(&node, "next").await;
    after(12);
    kit.refused(&node, "both").await;
    after(3601);
    kit.admitted(&node, "both").await;
    kit.refused(&node, "long").await;
    after(7202);
    kit.admitted(&node, "long").await;
}

/// A task that leaves the line without a claim does not block it: it is deleted, rescheduled, or
/// paused.
pub async fn a_task_that_leaves_the_line_lets_the_next_pass(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut watch = kit.watch(&node).await;
    watch.listed().await;
    kit.limited(&["x", "a", "b", "c"], &[at_once("k", 1)]).await;
    let mut running = kit.admitted(&node, "x").await;
    for text in ["a", "b", "c"] {
        kit.refused(&node, text).await;
    }
    kit.commit(&mut running, &Message::complete()).await;
    ready(&mut watch, "a").await;
    kit.delete("a").await;
    ready(&mut watch, "b").await;
    let due = kit.in_an_hour();
    let reschedule = Reschedule::new(id("b")).due(due);
    let transaction = Transaction::from(Operation::Reschedule(reschedule));
    let applied = kit.registry().apply(vec![transaction]).await;
    applied
        .into_iter()
        .for_each(|one| drop(one.expect("rescheduled")));
    watch
        .task("b", "asleep until then", |view| view.due == Some(due))
        .await;
    assert_eq!(
        kit.state("b").await.status,
        TaskStatus::Sleeping { until: due }
    );
    ready(&mut watch, "c").await;
    kit.admitted(&node, "c").await;
}

/// A reschedule changes the limits of a task. If the task waits for a slot, it looks for one again.
pub async fn a_reschedule_changes_the_limits(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut watch = kit.watch(&node).await;
    watch.listed().await;
    kit.limited(&["x", "a", "b"], &[at_once("k", 1)]).await;
    kit.submit("plain").await;
    kit.admitted(&node, "x").await;
    kit.refused(&node, "a").await;
    kit.refused(&node, "b").await;
    held(&mut watch, "b").await;
    let to = async |text: &str, limits: &[Limit]| {
        let change = Reschedule::new(id(text)).limits(limits.to_vec());
        let change = Transaction::new()
            .require(id(text), Require::Exists)
            .reschedule(change);
        let applied = kit.registry().apply(vec![change]).await.remove(0);
        applied.map(drop)
    };
    let two = [at_once("k", 2)];
    to("b", &two).await.expect("rescheduled");
    ready(&mut watch, "b").await;
    assert_eq!(kit.get("b").await.task.limits, two);
    kit.admitted(&node, "b").await;
    kit.refused(&node, "a").await;
    to("plain", &two).await.expect("rescheduled");
    kit.refused(&node, "plain").await;
    assert_eq!(
        kit.get("plain").await.limited_by.map(|by| by.limit),
        Some(two[0].clone())
    );
    to("a", &[]).await.expect("rescheduled");
    ready(&mut watch, "a").await;
    let claimed = kit.admitted(&node, "a").await;
    assert!(claimed.task.limits.is_empty());
    let claimed = to("a", &two).await;
    assert!(claimed.is_err(), "a claimed task keeps its limits");
    let twice = to("plain", &[at_once("k", 1), at_once("k", 2)]).await;
    assert!(twice.is_err(), "no task may have these");
}

/// A reported task that no node claims does not block the tasks behind it for ever.
pub async fn a_task_that_no_node_claims_does_not_block(harness: &dyn Harness) {
    let start = jiff::Timestamp::now();
    let clock = Arc::new(ManualClock::new(start));
    let kit = Kit::with_clock(harness, clock.clone()).await;
    let node = kit.node_for("n", HOUR).await;
    let mut watch = kit.watch(&node).await;
    watch.listed().await;
    kit.limited(&["x", "a", "b"], &[at_once("k", 1)]).await;
    let mut running = kit.admitted(&node, "x").await;
    kit.refused(&node, "a").await;
    kit.refused(&node, "b").await;
    kit.commit(&mut running, &Message::complete()).await;
    ready(&mut watch, "a").await;
    clock.set(start + jiff::SignedDuration::from_secs(6));
    ready(&mut watch, "b").await;
    kit.admitted(&node, "b").await;
    kit.refused(&node, "a").await;
}

/// A claim takes a slot of every limit or of none. A task waits in the line of the first limit that is full.
pub async fn a_claim_takes_a_slot_of_every_limit(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut watch = kit.watch(&node).await;
    watch.listed().await;
    let (one, two) = (at_once("one", 1), at_once("two", 1));
    kit.limited(&["x"], from_ref(&one)).await;
    kit.limited(&["y"], from_ref(&two)).await;
    kit.limited(&["a"], &[one.clone(), two.clone()]).await;
    kit.limited(&["b"], from_ref(&one)).await;
    let mut x = kit.admitted(&node, "x").await;
    let mut y = kit.admitted(&node, "y").await;
    kit.refused(&node, "a").await;
    kit.refused(&node, "b").await;
    held(&mut watch, "b").await;
    kit.commit(&mut x, &Message::complete()).await;
    // `a` waits in the line of `one`; when it finds `two` full, it waits there, and `b` is the next.
    ready(&mut watch, "a").await;
    kit.refused(&node, "a").await;
    ready(&mut watch, "b").await;
    let limit = kit
        .get("a")
        .await
        .limited_by
        .expect("it is held back")
        .limit;
    assert_eq!(limit, two);
    let mut b = kit.admitted(&node, "b").await;
    kit.commit(&mut y, &Message::complete()).await;
    ready(&mut watch, "a").await;
    kit.refused(&node, "a").await;
    kit.limited(&["z"], &[two]).await;
    let mut z = kit.admitted(&node, "z").await;
    kit.commit(&mut z, &Message::complete()).await;
    kit.commit(&mut b, &Message::complete()).await;
    ready(&mut watch, "a").await;
    kit.admitted(&node, "a").await;
}

/// Watches report the key of the first limit on tasks at once, by which tasks take turns.
pub async fn watches_report_the_key(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let (rate, one) = (starts("rate", 9, HOUR), at_once("acme", 9));
    kit.limited(&["keyed"], &[rate.clone(), one, at_once("other", 9)])
        .await;
    let mut watch = kit.watch(&node).await;
    let views = watch.listed().await;
    let keys: Vec<_> = views.iter().map(|view| view.fair_key.as_deref()).collect();
    assert_eq!(keys, [Some("acme")], "in the list: {views:?}");
    for (text, limits, key) in [
        ("late", vec![at_once("late", 9)], Some("late")),
        ("rated", vec![rate], None),
        ("plain", vec![], None),
    ] {
        kit.limited(&[text], &limits).await;
        let view = watch.task(text, "it is reported", |_| true).await;
        assert_eq!(view.fair_key.as_deref(), key, "{view:?}");
    }
}

/// A task that waits in a full line is claimed at its deadline, without a slot, and fails. It neither takes nor
/// frees a slot.
pub async fn a_late_task_is_claimed_over_a_full_limit(harness: &dyn Harness) {
    let start: jiff::Timestamp = "2030-01-02T03:04:05Z".parse().expect("a time");
    let clock = Arc::new(ManualClock::new(start));
    let kit = Kit::with_clock(harness, clock.clone()).await;
    let node = kit.node_for("n", HOUR).await;
    let mut watch = kit.watch(&node).await;
    watch.listed().await;
    let limit = [at_once("k", 1)];
    let end_by = start + jiff::SignedDuration::from_secs(60);
    let mut late = limited("late", &limit);
    late.end_by = Some(end_by);
    kit.limited(&["x"], &limit).await;
    kit.submit_task(late).await;
    kit.limited(&["next"], &limit).await;
    let mut running = kit.admitted(&node, "x").await;
    kit.refused(&node, "late").await;
    let has_deadline = |view: &TaskView| is_held(view) && view.deadline == Some(end_by);
    watch
        .task("late", "held back, with its deadline", has_deadline)
        .await;
    kit.refused(&node, "next").await;
    held(&mut watch, "next").await;
    clock.set(end_by);
    let mut claimed = kit.claim(&node, "late").await;
    assert!(claimed.over_limit, "it has no slot");
    assert!(claimed.state.missed(kit.now()).is_some(), "it is late");
    let reason = Message::fail("did not end in time");
    kit.end_by(&mut claimed, &reason).await;
    assert_eq!(kit.state("late").await.code(), StateKind::Failed);
    kit.refused(&node, "next").await;
    kit.commit(&mut running, &Message::complete()).await;
    ready(&mut watch, "next").await;
    kit.admitted(&node, "next").await;
}
