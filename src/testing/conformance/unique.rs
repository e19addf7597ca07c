//! Unique keys: while a task has one, no other task with the key is submitted.
//!
//! Beyond the duties: `a_key_is_taken_at_once_by_one_of_many`.

use std::{sync::Arc, time::Duration};

use jiff::SignedDuration;
use windlass_statemachine::{IfExists, Message, StateKind, Task, Unique};

use super::{
    Capability, Harness,
    capability::need,
    kit::{Kit, assert_matches, fresh, id, of_kind, same, task},
    strangers::{elsewhere, export, import},
};
use crate::{
    store::{Done, Error, Reason, Submit, Submitted, Transaction},
    testing::ManualClock,
};

const HOUR: Duration = Duration::from_secs(3600);

/// Returns a time from which a case moves the clock.
fn kit_start() -> jiff::Timestamp {
    "2030-01-01T00:00:00Z".parse().expect("a time")
}

/// Returns a task with the unique key `mail`, for an hour.
fn unique(text: &str) -> Task {
    with_key(task(text), "mail", HOUR)
}

fn with_key(mut task: Task, key: &str, within: Duration) -> Task {
    task.unique = Some(Unique::new(key, within).expect("a legal key"));
    task
}

fn with_rule(task: Task, if_exists: IfExists) -> Submit {
    Submit { task, if_exists }
}

fn other(text: &str, state: StateKind) -> Submitted {
    let task = id(text);
    Submitted::Other { task, state }
}

async fn assert_refused(kit: &Kit, submit: Submit, holder: &str) {
    let refused = kit.try_submit(submit).await;
    assert_matches!(refused, Err(Error::NotUnique { key, task, .. }) if key == "mail" && task.as_str() == holder);
}

/// A second task with the key is refused while the first has it, live or ended. Another key is free.
pub async fn a_taken_key_is_refused(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit_task(unique("a")).await;
    assert_refused(&kit, fresh(unique("b")), "a").await;
    kit.submit_task(with_key(task("c"), "mail-2", HOUR)).await;
    kit.submit("d").await;
    let mut claimed = kit.claim(&node, "a").await;
    kit.commit(&mut claimed, &Message::complete()).await;
    assert_refused(&kit, fresh(unique("b")), "a").await;
    assert_eq!(kit.list(Default::default()).await, ["a", "c", "d"]);
    let Err(Error::NotUnique { until, .. }) = kit.try_submit(fresh(unique("b"))).await else {
        panic!("the key is taken");
    };
    let submitted_at = kit.get("a").await.submitted_at;
    assert_eq!(until.duration_since(submitted_at).as_secs(), 3600);
}

/// With `Same` and `Skip`, the submit returns the id of the task that has the key.
pub async fn the_same_task_is_that_with_the_key(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit_task(unique("a")).await;
    let answer = kit.try_submit(same(unique("b"))).await;
    assert_eq!(answer.unwrap(), other("a", StateKind::Runnable));
    let different = with_key(of_kind("b", "next"), "mail", HOUR);
    assert_refused(&kit, same(different.clone()), "a").await;
    let skipped = with_rule(different, IfExists::Skip);
    let answer = kit.try_submit(skipped.clone()).await;
    assert_eq!(answer.unwrap(), other("a", StateKind::Runnable));
    let mut claimed = kit.claim(&node, "a").await;
    kit.commit(&mut claimed, &Message::complete()).await;
    let answer = kit.try_submit(skipped).await;
    assert_eq!(answer.unwrap(), other("a", StateKind::Completed));
    assert_eq!(kit.list(Default::default()).await, ["a"]);
}

/// The id is decided first: a repeat of the same submit is the same task.
pub async fn the_id_is_decided_first(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit_task(unique("a")).await;
    let again = kit.try_submit(same(unique("a"))).await;
    assert_eq!(again.unwrap(), Submitted::Existing(StateKind::Runnable));
    let refused = kit.try_submit(fresh(unique("a"))).await;
    assert_matches!(refused, Err(Error::AlreadyExists { .. }));
    let mut claimed = kit.claim(&node, "a").await;
    kit.commit(&mut claimed, &Message::complete()).await;
    let replaced = with_rule(unique("a"), IfExists::ReplaceFinished);
    assert_eq!(kit.try_submit(replaced).await.unwrap(), Submitted::New);
    assert_refused(&kit, fresh(unique("b")), "a").await;
}

/// A task that may replace an ended one takes its key, but leaves the ended task in the store.
pub async fn an_ended_task_loses_its_key_to_a_replacement(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit_task(unique("a")).await;
    let replacing = with_rule(unique("b"), IfExists::ReplaceFinished);
    assert_refused(&kit, replacing.clone(), "a").await;
    let mut claimed = kit.claim(&node, "a").await;
    kit.commit(&mut claimed, &Message::complete()).await;
    assert_eq!(kit.try_submit(replacing).await.unwrap(), Submitted::New);
    assert_eq!(kit.list(Default::default()).await, ["a", "b"]);
    assert_refused(&kit, fresh(unique("c")), "b").await;
    // The end of the task that had it changes nothing.
    kit.delete("a").await;
    assert_refused(&kit, fresh(unique("c")), "b").await;
}

/// A deleted task has no key, and the next task with its id has none either.
pub async fn a_deleted_task_has_no_key(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    kit.submit_task(unique("a")).await;
    kit.delete("a").await;
    kit.submit("a").await;
    kit.submit_task(unique("b")).await;
    assert_refused(&kit, fresh(unique("c")), "b").await;
}

/// The key is free after its period, whatever the task does.
pub async fn a_key_is_free_after_its_period(harness: &dyn Harness) {
    let clock = Arc::new(ManualClock::new(kit_start()));
    let kit = Kit::with_clock(harness, clock.clone()).await;
    kit.submit_task(unique("a")).await;
    clock.advance(HOUR - Duration::from_secs(1));
    assert_refused(&kit, fresh(unique("b")), "a").await;
    clock.advance(Duration::from_secs(1));
    kit.submit_task(unique("b")).await;
    assert_refused(&kit, fresh(unique("c")), "b").await;
}

/// A key that was taken by a submit with a clock a day ahead is free soon after that clock is set right: at the latest
/// after the period and a minute.
pub async fn a_key_of_a_clock_that_was_ahead_is_free(harness: &dyn Harness) {
    let clock = Arc::new(ManualClock::new(
        kit_start() + SignedDuration::from_hours(24),
    ));
    let kit = Kit::with_clock(harness, clock.clone()).await;
    let short = |text| with_key(task(text), "mail", Duration::from_secs(2));
    kit.submit_task(short("a")).await;
    assert_refused(&kit, fresh(short("b")), "a").await;
    clock.set(kit_start());
    clock.advance(Duration::from_secs(63));
    kit.submit_task(short("b")).await;
    assert_refused(&kit, fresh(short("c")), "b").await;
    clock.advance(Duration::from_secs(2));
    kit.submit_task(short("c")).await;
}

/// Two submits of one transaction with the same key are decided in order, and refusals name both tasks.
pub async fn a_transaction_takes_a_key_once(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let both = Transaction::new()
        .submit(fresh(unique("a")))
        .submit(fresh(unique("b")));
    let refused = kit.registry().apply(vec![both]).await.remove(0);
    let Err(Error::Refused(refusals)) = refused else {
        panic!("the key is taken: {refused:?}");
    };
    let refused: Vec<_> = refusals.iter().collect();
    assert_matches!(refused[..], [one] if one.task == id("b")
        && matches!(&one.reason, Reason::NotUnique { task, .. } if *task == id("a")));
    assert!(kit.list(Default::default()).await.is_empty());
    let skipping = Transaction::new()
        .submit(fresh(unique("a")))
        .submit(with_rule(unique("b"), IfExists::Skip));
    let done = kit.registry().apply(vec![skipping.clone()]).await.remove(0);
    let expected = [
        Done::Submitted(Submitted::New),
        Done::Submitted(other("a", StateKind::Runnable)),
    ];
    assert_eq!(done.unwrap().done(), expected);
    assert_eq!(kit.list(Default::default()).await, ["a"]);
    // A repeat returns the same.
    let again = kit.registry().apply(vec![skipping]).await.remove(0);
    assert_eq!(again.unwrap().done(), expected);
}

/// An effect of a message follows the same rule.
pub async fn effects_follow_the_keys(harness: &dyn Harness) {
    need(Capability::Effects, harness.takes_effects().then_some(()));
    let (kit, node) = Kit::with_node(harness).await;
    let mut claimed = kit.claimed(&node, "own").await;
    kit.submit_task(unique("a")).await;
    let skipped = Message::checkpoint().and_submit(with_rule(unique("b"), IfExists::Skip));
    kit.commit(&mut claimed, &skipped).await;
    assert_eq!(kit.list(Default::default()).await, ["own", "a"]);
    let message = Message::complete().and_submit(unique("b"));
    let Err(Error::Refused(refusals)) = kit.try_commit(&claimed, &message).await else {
        panic!("the key is taken");
    };
    let reasons: Vec<_> = refusals.iter().map(|one| &one.reason).collect();
    assert_matches!(reasons[..], [Reason::NotUnique { task, .. }] if task.as_str() == "a");
    let free = with_key(task("c"), "other", HOUR);
    let message = Message::complete().and_submit(free);
    kit.commit(&mut claimed, &message).await;
    let late = kit
        .try_submit(fresh(with_key(task("d"), "other", HOUR)))
        .await;
    assert_matches!(late, Err(Error::NotUnique { task, .. }) if task.as_str() == "c");
}

/// Of many concurrent submits, one is new.
pub async fn a_key_is_taken_at_once_by_one_of_many(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let submits = (0..20).map(|n| fresh(unique(&format!("t{n}")))).collect();
    let answers = kit.registry().submit(submits).await;
    let new = answers.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(new, 1, "{answers:?}");
    let submits = (20..30).map(|n| kit.try_submit(same(unique(&format!("t{n}")))));
    let answers = futures::future::join_all(submits).await;
    assert!(
        answers.iter().all(
            |answer| matches!(answer, Ok(Submitted::Other { task, .. }) if task.as_str() == "t0")
        ),
        "{answers:?}"
    );
}

/// A key outlives the process.
pub async fn keys_are_durable(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    kit.submit_task(unique("a")).await;
    let kit = kit.reopened(harness).await;
    assert_refused(&kit, fresh(unique("b")), "a").await;
}

/// A task that moves to another store has its key there.
pub async fn a_moved_task_has_its_key(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    kit.transfer();
    let from = elsewhere().await;
    from.submit_task(unique("a")).await;
    import(&kit, export(&from, &[id("a")]).await).await;
    assert_refused(&kit, fresh(unique("b")), "a").await;
}

/// After an import each key has the holder that it had in the other store, whatever its period is, and a key that was free
/// is free. The comparison of two tasks names the key.
pub async fn moved_keys_keep_their_holders(harness: &dyn Harness) {
    let (here, there) = (Kit::new(harness).await, elsewhere().await);
    let node = there.node("n").await;
    // Two have taken a key from an ended task with a longer period. One of the two is deleted later.
    for (key, old, new) in [("mail", "a", "b"), ("free", "c", "d")] {
        there.submit_task(with_key(task(old), key, 24 * HOUR)).await;
        let mut claimed = there.claim(&node, old).await;
        there.commit(&mut claimed, &Message::complete()).await;
        let replacing = with_key(task(new), key, HOUR);
        let submitted = there.try_submit(with_rule(replacing, IfExists::ReplaceFinished));
        assert_eq!(submitted.await.expect("submitted"), Submitted::New);
    }
    there.delete("d").await;
    there.coordinator().leave(&node).await.expect("left");
    let ids = there.transfer().ids().await.expect("the ids");
    let sent = export(&there, &ids).await;
    let back = elsewhere().await;
    for (from, to) in [(&there, &here), (&here, &back)] {
        import(to, export(from, &ids).await).await;
        let came = export(to, &ids).await;
        for (sent, came) in sent.iter().zip(&came) {
            assert_eq!(sent.holds_key, came.holds_key, "{}", sent.task.id);
            assert_eq!(sent.difference(came), None);
        }
        assert_refused(to, fresh(unique("other")), "b").await;
    }
    for kit in [&here, &back] {
        kit.submit_task(with_key(task("e"), "free", HOUR)).await;
    }
    let holders = sent.iter().map(|one| one.holds_key);
    let expected = [Some(false), Some(true), Some(false)];
    assert_eq!(holders.collect::<Vec<_>>(), expected);
}
