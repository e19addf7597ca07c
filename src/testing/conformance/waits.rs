//! Waiting for other tasks: a waiting task is claimed when none of them is live, and watches report when that
//! changes.

use std::time::Duration;

use windlass_statemachine::{
    ActionKind, Command, Message, StateKind, Task, WaitOutcome, Waits, waits::WaitStage,
};

use super::{
    Harness,
    kit::{Kit, field, fresh, id, of_kind, one, task},
    strangers::{elsewhere, export, import},
    wait::Watcher,
};
use crate::store::{Claimed, Lease, Operation, Submit, TaskView, Transaction};

/// How long a case waits for an event that must not come.
const QUIET: Duration = Duration::from_millis(300);

fn waits(ids: &[&str]) -> Waits {
    Waits::new("after", ids.iter().copied()).expect("a legal wait")
}

/// Returns a task that waits for these.
pub(super) fn after(text: &str, ids: &[&str]) -> Task {
    Task {
        waits: Some(Box::new(waits(ids))),
        ..task(text)
    }
}

fn is_blocked(view: &TaskView) -> bool {
    view.claimed_by.is_none() && view.sleeping && view.due.is_none()
}

pub(super) fn is_ready(view: &TaskView) -> bool {
    view.claimed_by.is_none() && !view.sleeping && view.due.is_some()
}

pub(super) async fn blocked(watch: &mut Watcher, text: &str) {
    let what = format!("'{text}' waits for a live task");
    watch.task(text, &what, is_blocked).await;
}

pub(super) async fn ready(watch: &mut Watcher, text: &str) {
    let what = format!("'{text}' waits for no live task");
    watch.task(text, &what, is_ready).await;
}

impl Kit {
    pub(super) async fn assert_blocked(&self, node: &Lease, text: &str) {
        let claimed = self.try_claim(node, text).await.expect("an answer");
        assert!(claimed.is_none(), "'{text}' waits for a live task");
        assert!(self.state(text).await.is_waiting());
    }

    pub(super) async fn end(&self, node: &Lease, text: &str) {
        let mut claimed = self.claim(node, text).await;
        self.commit(&mut claimed, &Message::complete()).await;
    }
}

fn outcomes(claimed: &Claimed) -> Vec<(String, WaitOutcome)> {
    let waits = claimed.state.waits.as_ref().expect("a wait");
    let waited = waits.waited().into_iter();
    waited
        .map(|one| (one.task.to_string(), one.outcome))
        .collect()
}

/// A waiting task is not claimed while a task that it waits for is live, and is claimed when all have ended. The
/// claim has the outcome of each, and a later claim has the same outcomes.
pub async fn a_task_waits_for_others(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    for text in ["done", "failed", "killed", "deleted"] {
        kit.submit(text).await;
    }
    let all = ["done", "failed", "killed", "deleted", "never"];
    kit.submit_task(after("w", &all)).await;
    let state = kit.state("w").await;
    assert_eq!(state.code(), StateKind::Sleeping);
    assert_eq!(state.waits.as_deref(), Some(&waits(&all)));
    assert_eq!(kit.get("w").await.task, task("w"), "the state has the wait");
    kit.assert_blocked(&node, "w").await;
    kit.end(&node, "done").await;
    kit.assert_blocked(&node, "w").await;
    let mut killed = kit.claim(&node, "killed").await;
    kit.commit(&mut killed, &Message::kill()).await;
    kit.delete("failed").await;
    kit.ended(&node, "failed", &Message::error("no")).await;
    kit.assert_blocked(&node, "w").await;
    kit.delete("deleted").await;
    let mut claimed = kit.claim(&node, "w").await;
    assert_eq!(claimed.state.code(), StateKind::Runnable);
    let expected = [
        WaitOutcome::Completed,
        WaitOutcome::Failed,
        WaitOutcome::Killed,
        WaitOutcome::Unknown,
        WaitOutcome::Unknown,
    ];
    let expected: Vec<_> = all.map(str::to_owned).into_iter().zip(expected).collect();
    assert_eq!(outcomes(&claimed), expected);
    // A run that is lost or released has the outcomes of the first claim.
    kit.submit("never").await;
    kit.commit(&mut claimed, &Message::release()).await;
    assert_eq!(outcomes(&kit.claim(&node, "w").await), expected);
}

/// A message can wait, even for the tasks that it submits in the same write.
pub async fn a_message_waits(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    for text in ["child", "child-2"] {
        kit.submit(text).await;
    }
    let mut claimed = kit.claimed(&node, "parent").await;
    let message = Message::wait_for(["child", "child-2"]);
    kit.commit(&mut claimed, &message).await;
    kit.assert_blocked(&node, "parent").await;
    kit.end(&node, "child").await;
    kit.assert_blocked(&node, "parent").await;
    kit.end(&node, "child-2").await;
    let mut claimed = kit.claim(&node, "parent").await;
    let completed = |text: &str| (text.to_owned(), WaitOutcome::Completed);
    assert_eq!(
        outcomes(&claimed),
        [completed("child"), completed("child-2")]
    );
    kit.commit(&mut claimed, &Message::wait_for(["never"]))
        .await;
    let mut claimed = kit.claim(&node, "parent").await;
    kit.commit(&mut claimed, &Message::complete()).await;
    assert_eq!(kit.state("parent").await.code(), StateKind::Completed);
}

/// Watches report whether a waiting task can be claimed: in the list, and when that changes, even if the
/// other task is of a kind that the watch does not list.
pub async fn watches_report_waiters(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let kinds = Some(vec!["demo".parse().expect("a legal kind")]);
    let watch = kit.coordinator().watch(&node, kinds.clone()).await;
    let mut watch = Watcher::new(watch.expect("a watch"));
    watch.listed().await;
    kit.submit_task(of_kind("a", "other")).await;
    kit.submit_task(of_kind("b", "other")).await;
    kit.submit_task(after("w", &["a", "b"])).await;
    blocked(&mut watch, "w").await;
    let other = kit.node("other").await;
    let mut listed = kit
        .coordinator()
        .watch(&other, kinds.clone())
        .await
        .map(Watcher::new)
        .expect("a watch");
    assert!(is_blocked(&listed.listed().await[0]));
    kit.end(&node, "a").await;
    kit.delete("b").await;
    ready(&mut watch, "w").await;
    ready(&mut listed, "w").await;
    let mut listed = kit
        .coordinator()
        .watch(&node, kinds)
        .await
        .map(Watcher::new)
        .expect("a watch");
    assert!(is_ready(&listed.listed().await[0]));
    kit.submit_task(after("late", &["a", "never"])).await;
    ready(&mut watch, "late").await;
    kit.claim(&node, "w").await;
    kit.claim(&other, "late").await;
}

/// A waiting task is blocked again when a task that it waits for is live again before the claim.
pub async fn a_task_that_is_live_again_blocks(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut watch = kit.watch(&node).await;
    watch.listed().await;
    kit.ended(&node, "a", &Message::complete()).await;
    kit.submit_task(after("w", &["a", "b"])).await;
    ready(&mut watch, "w").await;
    kit.retry("a").await;
    blocked(&mut watch, "w").await;
    kit.assert_blocked(&node, "w").await;
    kit.end(&node, "a").await;
    ready(&mut watch, "w").await;
    kit.submit("b").await;
    blocked(&mut watch, "w").await;
    kit.assert_blocked(&node, "w").await;
    kit.end(&node, "b").await;
    ready(&mut watch, "w").await;
    kit.claim(&node, "w").await;
}

/// A deadline that is due ends a wait; the outcome of a task that has not ended is `live`.
pub async fn a_deadline_ends_a_wait(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut watch = kit.watch(&node).await;
    watch.listed().await;
    kit.submit("a").await;
    let until = |text: &str, deadline| {
        let mut task = after(text, &["a"]);
        task.waits.as_mut().expect("a wait").deadline = Some(deadline);
        task
    };
    let later = kit.in_an_hour();
    kit.submit_task(until("later", later)).await;
    let view = watch
        .task("later", "asleep until its deadline", |view| view.sleeping)
        .await;
    assert_eq!(view.due, Some(later));
    kit.assert_blocked(&node, "later").await;
    let soon = kit.later(Duration::from_millis(200));
    kit.submit_task(until("soon", soon)).await;
    let claimed = super::wait::eventually("the deadline", async || {
        kit.try_claim(&node, "soon").await.expect("an answer")
    })
    .await;
    assert_eq!(claimed.state.code(), StateKind::Runnable);
    assert_eq!(outcomes(&claimed), [("a".to_owned(), WaitOutcome::Live)]);
}

/// A command claims a waiting task. Unless the command ends the wait, the task keeps waiting, also after the
/// claim is lost.
pub async fn a_command_does_not_end_a_wait_by_itself(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let other = kit.node("other").await;
    kit.submit("a").await;
    kit.submit_task(after("w", &["a"])).await;
    kit.send("w", "c", Command::Run).await;
    let claimed = kit.claim(&node, "w").await;
    assert!(claimed.state.is_waiting());
    assert_eq!(outcomes(&claimed), [("a".to_owned(), WaitOutcome::Live)]);
    kit.coordinator().leave(&node).await.expect("left");
    let mut watch = kit.watch(&other).await;
    let listed = watch.listed().await;
    assert!(
        listed
            .iter()
            .any(|view| view.id == id("w") && view.commanded)
    );
    let claimed = kit.claim(&other, "w").await;
    assert!(claimed.state.is_waiting());
    let mut write = kit.write(&claimed, &Message::release());
    assert_eq!(write.steps[0].message, ActionKind::Release);
    let order = claimed.commands[0].order;
    let (from, to) = (StateKind::Sleeping, StateKind::Sleeping);
    super::kit::settle(
        &mut write,
        order,
        windlass_statemachine::Outcome::Applied { from, to },
    );
    kit.try_write(&claimed, write).await.expect("released");
    blocked(&mut watch, "w").await;
    kit.assert_blocked(&other, "w").await;
    kit.end(&other, "a").await;
    ready(&mut watch, "w").await;
    kit.claim(&other, "w").await;
}

/// A task that no longer waits is not reported when the other task ends; nor is a task that has ended.
pub async fn a_wait_that_is_over_is_forgotten(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit("a").await;
    kit.submit_task(after("w", &["a"])).await;
    kit.send("w", "c", Command::Pause).await;
    let claimed = kit.claim(&node, "w").await;
    let mut write = kit.write(&claimed, &Message::pause());
    let order = claimed.commands[0].order;
    let (from, to) = (StateKind::Sleeping, StateKind::Paused);
    super::kit::settle(
        &mut write,
        order,
        windlass_statemachine::Outcome::Applied { from, to },
    );
    kit.try_write(&claimed, write).await.expect("paused");
    let paused = kit.state("w").await;
    assert_eq!(paused.waits.expect("a wait").stage, WaitStage::Overridden);
    let mut watch = kit.watch(&node).await;
    watch.listed().await;
    kit.end(&node, "a").await;
    let rest = watch.rest(QUIET).await;
    let ready = |event: &crate::store::Event| matches!(event, crate::store::Event::Task(view) if is_ready(view));
    assert!(!rest.iter().any(ready), "it is paused: {rest:?}");
    assert!(
        kit.try_claim(&node, "w")
            .await
            .expect("an answer")
            .is_none()
    );
}

/// A task that ended with its wait waits again after a retry.
pub async fn a_retry_waits_again(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut watch = kit.watch(&node).await;
    watch.listed().await;
    kit.submit_task(after("w", &["a"])).await;
    kit.end(&node, "w").await;
    let state = StateKind::Sleeping;
    let first = kit.history("w").await.swap_remove(0).what;
    assert_eq!(first, crate::store::ChangeKind::Submitted { state });
    kit.submit("a").await;
    kit.retry("w").await;
    blocked(&mut watch, "w").await;
    kit.assert_blocked(&node, "w").await;
    kit.end(&node, "a").await;
    ready(&mut watch, "w").await;
    let claimed = kit.claim(&node, "w").await;
    assert_eq!(
        outcomes(&claimed),
        [("a".to_owned(), WaitOutcome::Completed)]
    );
}

/// One task waits for 200, and 200 wait for one.
pub async fn many_wait(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut watch = kit.watch(&node).await;
    watch.listed().await;
    let ids: Vec<String> = (0..200).map(|n| format!("t{n}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    kit.submit("one").await;
    let tasks = ids.iter().map(|text| fresh(after(text, &["one"])));
    for answer in kit.registry().submit(tasks.collect()).await {
        answer.expect("submitted");
    }
    kit.submit_task(after("all", &ids)).await;
    blocked(&mut watch, "all").await;
    kit.end(&node, "one").await;
    let mut missing: std::collections::BTreeSet<&str> = ids.iter().copied().collect();
    watch
        .until("every waiter", |event| {
            if let crate::store::Event::Task(view) = event
                && is_ready(view)
            {
                missing.remove(view.id.as_str());
            }
            missing.is_empty().then_some(())
        })
        .await;
    for (n, text) in ids.iter().enumerate() {
        if n % 50 == 49 {
            kit.assert_blocked(&node, "all").await;
        }
        kit.end(&node, text).await;
    }
    ready(&mut watch, "all").await;
    assert_eq!(outcomes(&kit.claim(&node, "all").await).len(), 200);
}

/// Tasks of one transaction that wait for each other in a circle are refused, and so is a task that waits for
/// itself. Nothing is submitted.
pub async fn a_circle_is_refused(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let submit = |task: Task| Operation::Submit(fresh(task));
    let circle = Transaction::new()
        .with(submit(after("a", &["b"])))
        .with(submit(after("b", &["a"])));
    let refused = one(kit.registry().apply(vec![circle]).await).expect_err("a circle");
    assert_eq!(field(&refused), "after", "{refused}");
    let text = refused.to_string();
    assert!(text.contains("a → b") || text.contains("b → a"), "{text}");
    let own = Submit {
        task: after("a", &["a"]),
        ..fresh(task("a"))
    };
    let refused = kit.try_submit(own).await.expect_err("it waits for itself");
    assert_eq!(field(&refused), "after", "{refused}");
    assert!(!kit.is_there("a").await && !kit.is_there("b").await);
}

/// A waiting task of another store waits here.
pub async fn a_move_keeps_the_wait(harness: &dyn Harness) {
    let there = elsewhere().await;
    there.submit("a").await;
    there.submit_task(after("w", &["a"])).await;
    let (kit, node) = Kit::with_node(harness).await;
    let mut watch = kit.watch(&node).await;
    watch.listed().await;
    import(&kit, export(&there, &[id("a"), id("w")]).await).await;
    blocked(&mut watch, "w").await;
    kit.assert_blocked(&node, "w").await;
    kit.end(&node, "a").await;
    ready(&mut watch, "w").await;
    kit.claim(&node, "w").await;
}
