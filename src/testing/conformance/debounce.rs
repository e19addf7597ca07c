//! Submits that change a waiting task ([`IfExists::ReplaceWaiting`]): of many, the last one counts.
//!
//! Beyond the duties: `many_at_once_leave_one_task`.

use std::time::Duration;

use jiff::Timestamp;
use windlass_statemachine::{Command, IfExists, Json, Message, StateKind, Task, Unique, Waits};

use super::{
    Capability, Harness,
    capability::need,
    kit::{Kit, assert_matches, field, id, of_kind, one, task},
};
use crate::store::{
    ChangeKind, Done, Error, Part, Reason, Reschedule, Submit, Submitted, Transaction,
};

const HOUR: Duration = Duration::from_secs(3600);

/// Returns a submit of the task with these props, for this time, that replaces the task which waits with its key.
fn replacing(text: &str, props: u64, start_at: Option<Timestamp>) -> Submit {
    let task = Task {
        props: Json::new("props", &props).expect("JSON"),
        start_at,
        ..keyed(task(text))
    };
    waiting(task)
}

fn keyed(task: Task) -> Task {
    let unique = Some(Unique::new("index", HOUR).expect("a legal key"));
    Task { unique, ..task }
}

fn waiting(task: Task) -> Submit {
    let if_exists = IfExists::ReplaceWaiting;
    Submit { task, if_exists }
}

/// The task that waits with the key or with the id gets the props and the time, and keeps the rest. Its version grows,
/// and its history has the change.
pub async fn a_waiting_task_gets_the_props_and_the_time(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let (soon, later) = (kit.in_an_hour(), kit.later(2 * HOUR));
    let mut first = replacing("a", 1, Some(soon));
    first.task.priority = 5;
    assert_eq!(kit.try_submit(first).await.unwrap(), Submitted::New);
    let before = kit.get("a").await;
    let other = |state| Submitted::Other {
        task: id("a"),
        state,
    };
    let asleep = kit.try_submit(replacing("b", 2, Some(later))).await;
    assert_eq!(asleep.unwrap(), other(StateKind::Sleeping));
    assert_eq!(kit.list(Default::default()).await, ["a"]);
    let after = kit.get("a").await;
    let state = after.state.unwrap();
    assert_eq!((after.task.props.as_str(), after.task.priority), ("2", 5));
    assert_eq!((state.due(), after.order), (Some(later), before.order));
    assert_eq!(state.version, before.state.unwrap().version + 1);
    let (from, to) = (StateKind::Sleeping, StateKind::Sleeping);
    let line = ChangeKind::Rescheduled {
        from,
        to,
        kind: None,
    };
    assert_eq!(kit.events("a").await.last(), Some(&line));
    // By its id, without a time: it runs now.
    let mut by_id = replacing("a", 3, None);
    by_id.task.unique = None;
    let runnable = kit.try_submit(by_id).await.unwrap();
    assert_eq!(runnable, Submitted::Existing(StateKind::Runnable));
    let claimed = kit.claim(&node, "a").await;
    assert_eq!(claimed.task.props.as_str(), "3");
}

/// A claimed, a paused and a waiting task, and one of another kind, refuse the submit. An ended one is replaced: by its
/// id in its place, by its key beside it.
pub async fn only_a_task_that_waits_for_its_time_is_changed(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit_task(keyed(task("a"))).await;
    let refused = async |submit: Submit, what: &str| {
        let other = kit.try_submit(submit.clone()).await;
        let is_refused = matches!(&other, Err(Error::NotUnique { task, .. }) if *task == id("a"));
        assert!(is_refused, "{what}: {other:?}");
        let by_id = Task {
            id: id("a"),
            unique: None,
            ..submit.task
        };
        let same = kit.try_submit(waiting(by_id)).await;
        let is_refused = matches!(&same, Err(Error::AlreadyExists { .. }));
        assert!(is_refused, "{what}: {same:?}");
    };
    refused(waiting(keyed(of_kind("b", "next"))), "another kind").await;
    let mut claimed = kit.claim(&node, "a").await;
    refused(replacing("b", 2, None), "claimed").await;
    kit.commit(&mut claimed, &Message::pause()).await;
    refused(replacing("b", 2, None), "paused").await;
    assert!(kit.get("a").await.task.props.is_null());
    kit.send("a", "run", Command::Run).await;
    let mut claimed = kit.claim(&node, "a").await;
    kit.commit(&mut claimed, &Message::complete()).await;
    let beside = kit.try_submit(replacing("b", 2, None)).await;
    assert_eq!(beside.unwrap(), Submitted::New);
    let mut in_place = replacing("a", 3, None);
    in_place.task.unique = None;
    assert_eq!(kit.try_submit(in_place).await.unwrap(), Submitted::New);
    assert_eq!(kit.get("a").await.task.props.as_str(), "3");
    let waits = Some(Box::new(Waits::new("after", [id("b")]).unwrap()));
    let waiter = Task {
        waits,
        ..task("waiter")
    };
    kit.submit_task(waiter).await;
    let refused = kit.try_submit(waiting(task("waiter"))).await;
    assert_matches!(refused, Err(Error::AlreadyExists { .. }));
}

/// A submit that has terms which a waiting task cannot get is refused, whatever exists.
pub async fn terms_of_a_new_task_are_refused(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let paused = Task {
        paused: true,
        ..task("a")
    };
    let after = Task {
        waits: Some(Box::new(Waits::new("after", [id("b")]).unwrap())),
        ..task("a")
    };
    for (task, of) in [(paused, "paused"), (after, "after")] {
        let refused = kit.try_submit(waiting(task)).await.unwrap_err();
        assert_eq!(field(&refused), of);
    }
    assert!(kit.list(Default::default()).await.is_empty());
}

/// A transaction changes a waiting task at most once, and a repeat returns the first result and changes nothing.
pub async fn a_transaction_changes_a_waiting_task_once(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let later = kit.in_an_hour();
    kit.submit_task(replacing("a", 1, Some(later)).task).await;
    let once = Transaction::new().submit(replacing("b", 2, Some(later)));
    let twice = once.clone().submit(replacing("c", 3, Some(later)));
    let twice = twice.with_id(windlass_statemachine::TransactionId::new("twice").unwrap());
    let refusals = kit.refusals(&twice).await;
    assert_matches!(&refusals[..], [(Part::Operation(1), task, Reason::NotUnique { .. })] if task.as_str() == "c");
    let beside = Transaction::new()
        .reschedule(Reschedule::new(id("a")).priority(3))
        .submit(replacing("b", 2, Some(later)));
    let refusals = kit.refusals(&beside).await;
    assert_matches!(&refusals[..], [(Part::Operation(1), _, Reason::Invalid(wrong))] if wrong.field() == "operations");
    let fresh = Transaction::new()
        .submit(waiting(task("x")))
        .submit(waiting(task("y")));
    assert_eq!(kit.apply(&fresh).await.done().len(), 2);
    assert_eq!(kit.get("a").await.task.props.as_str(), "1");
    let done = [Done::Submitted(Submitted::Other {
        task: id("a"),
        state: StateKind::Sleeping,
    })];
    assert_eq!(kit.apply(&once).await.done(), done);
    let version = kit.state("a").await.version;
    assert_eq!(kit.apply(&once).await.done(), done);
    assert_eq!(kit.state("a").await.version, version);
    assert_eq!(kit.get("a").await.task.props.as_str(), "2");
}

/// An effect of a message follows the same rule, and never changes the message's own task.
pub async fn effects_change_a_waiting_task(harness: &dyn Harness) {
    need(Capability::Effects, harness.takes_effects().then_some(()));
    let (kit, node) = Kit::with_node(harness).await;
    let later = kit.in_an_hour();
    let mut own = kit.claimed(&node, "own").await;
    kit.submit_task(replacing("a", 1, Some(later)).task).await;
    let message = Message::checkpoint().and_submit(replacing("b", 2, Some(later)));
    kit.commit(&mut own, &message).await;
    assert_eq!(kit.get("a").await.task.props.as_str(), "2");
    assert_eq!(kit.list(Default::default()).await, ["own", "a"]);
    let twice = message.and_submit(replacing("c", 3, Some(later)));
    assert_matches!(kit.try_commit(&own, &twice).await, Err(Error::Refused(_)));
    let own_id = Message::sleep_until(later).and_submit(waiting(task("own")));
    assert_matches!(kit.try_commit(&own, &own_id).await, Err(Error::Refused(_)));
    assert_eq!(kit.get("a").await.task.props.as_str(), "2");
}

/// Of many concurrent submits one makes the task, and the props of one of the others are those of the task.
pub async fn many_at_once_leave_one_task(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let later = kit.in_an_hour();
    let submits = (0..12).map(|n| kit.try_submit(replacing(&format!("t{n}"), n, Some(later))));
    let answers = futures::future::join_all(submits).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let new = answers
        .iter()
        .filter(|one| matches!(one, Ok(Submitted::New)));
    assert_eq!(new.count(), 1, "{answers:?}");
    let listed = kit.list(Default::default()).await;
    assert_eq!(listed.len(), 1, "{listed:?}");
    // In one call, the last one counts.
    let submits = (20..24).map(|n| replacing(&format!("t{n}"), n, Some(later)));
    let answers = kit.registry().submit(submits.collect()).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(kit.get(&listed[0]).await.task.props.as_str(), "23");
    assert_matches!(
        one(kit
            .registry()
            .submit(vec![replacing("last", 9, None)])
            .await),
        Ok(Submitted::Other { .. })
    );
}
