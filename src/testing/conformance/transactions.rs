//! Transactions: several operations and guards in one atomic step.

use std::time::Duration;

use windlass_statemachine::{Command, Json, Message, StateKind};

use super::{
    Harness,
    kit::{Kit, assert_matches, field, fresh, id, of_kind, sending, task},
};
use crate::store::{
    ChangeKind, Done, Error, Event, IfExists, Part, Reason, Require, Reschedule, Submit, Submitted,
    Transaction,
};

/// Prepares four tasks, and returns a transaction with an operation of every kind on them.
async fn of_every_kind(kit: &Kit) -> Transaction {
    let node = kit.node("n").await;
    for text in ["gone", "live", "late"] {
        kit.submit(text).await;
    }
    let over = Message::complete();
    kit.ended(&node, "over", &over).await;
    Transaction::new()
        .submit(fresh(task("new")))
        .send(sending("live", "pause", Command::Pause))
        .delete(id("gone"))
        .retry(id("over"))
        .reschedule(
            Reschedule::new(id("late"))
                .due(kit.in_an_hour())
                .priority(7),
        )
}

/// A transaction applies an operation of every kind, and returns one result for each, in order.
pub async fn every_operation_is_applied(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let transaction = of_every_kind(&kit).await;
    let applied = kit.apply(&transaction).await;
    let order = kit.registry().command(&"pause".parse().unwrap()).await;
    let expected = [
        Done::Submitted(Submitted::New),
        Done::Sent(order.unwrap().order),
        Done::Deleted,
        Done::Retried,
        Done::Rescheduled(StateKind::Sleeping),
    ];
    assert_eq!(applied.done(), expected);
    assert_eq!(kit.state("new").await.code(), StateKind::Runnable);
    assert_eq!(kit.get("live").await.commands, 1);
    assert!(!kit.is_there("gone").await);
    let over = kit.state("over").await;
    assert_eq!((over.code(), over.incarnation), (StateKind::Runnable, 1));
    let late = kit.get("late").await;
    assert_eq!(late.task.priority, 7);
    assert_eq!(late.state.unwrap().code(), StateKind::Sleeping);
}

/// One refused operation or guard leaves every task unchanged, and the history too.
pub async fn one_refusal_leaves_everything_as_it_was(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let transaction = of_every_kind(&kit).await;
    let mut before = Vec::new();
    for text in ["gone", "live", "over", "late"] {
        before.push((text, kit.state(text).await, kit.events(text).await));
    }
    for refused in [
        transaction.clone().delete(id("unknown")),
        transaction.require(id("unknown"), Require::Exists),
    ] {
        assert_eq!(kit.refusals(&refused).await.len(), 1);
        assert!(!kit.is_there("new").await);
        assert_eq!(kit.get("live").await.commands, 0);
        assert_eq!(kit.get("late").await.task.priority, 0);
        for (text, state, events) in &before {
            assert_eq!(
                (kit.state(text).await, kit.events(text).await),
                (state.clone(), events.clone())
            );
        }
    }
}

/// A refusal lists every refused guard and operation, with its place, its task and its reason.
pub async fn each_refusal_names_its_operation(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit("live").await;
    kit.ended(&node, "over", &Message::complete()).await;
    kit.claimed(&node, "busy").await;
    let late = Reschedule::new(id("busy")).due(kit.in_an_hour());
    let transaction = Transaction::new()
        .require(id("live"), Require::Exists)
        .require(id("live"), Require::State(StateKind::Paused))
        .delete(id("unknown"))
        .submit(fresh(task("live")))
        .send(sending("over", "c", Command::Pause))
        .submit(fresh(task("new")))
        .reschedule(late);
    let state = Reason::State {
        is: StateKind::Runnable,
        required: vec![StateKind::Paused],
    };
    let expected = [
        (Part::Guard(1), "live", state),
        (Part::Operation(0), "unknown", Reason::Missing),
        (Part::Operation(1), "live", Reason::exists()),
        (Part::Operation(2), "over", Reason::finished()),
        (Part::Operation(4), "busy", Reason::Claimed),
    ]
    .map(|(part, task, reason)| (part, task.to_owned(), reason));
    assert_eq!(kit.refusals(&transaction).await, expected);
    assert!(!kit.is_there("new").await);
}

/// A repeated transaction changes nothing and returns the same result, even after its tasks have changed.
pub async fn a_repeated_id_has_no_further_effect(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let transaction = of_every_kind(&kit).await;
    let applied = kit.apply(&transaction).await;
    assert_eq!(kit.apply(&transaction).await, applied);
    assert_eq!(kit.get("live").await.commands, 1);
    kit.delete("new").await;
    kit.delete("over").await;
    kit.submit("gone").await;
    assert_eq!(kit.apply(&transaction).await, applied);
    assert!(!kit.is_there("new").await && !kit.is_there("over").await);
    assert!(kit.is_there("gone").await, "it was deleted once");
}

/// A refused transaction is decided again when it is repeated.
pub async fn a_refused_id_is_decided_again(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let transaction = Transaction::new().delete(id("a")).submit(fresh(task("b")));
    let missing = (Part::Operation(0), "a".to_owned(), Reason::Missing);
    assert_eq!(kit.refusals(&transaction).await, [missing]);
    kit.submit("a").await;
    kit.apply(&transaction).await;
    assert!(!kit.is_there("a").await && kit.is_there("b").await);
}

/// The id of an applied transaction is refused for one with other operations.
pub async fn an_id_of_another_transaction_is_refused(harness: &dyn Harness) {
    let (kit, applied) = (Kit::new(harness).await, Transaction::new());
    kit.submit("a").await;
    let new = || fresh(task("b"));
    let first = Reschedule::new(id("a")).priority(1);
    let others = [
        applied.clone().submit(new()),
        applied.clone().reschedule(first.clone()).submit(new()),
        applied
            .clone()
            .reschedule(first.clone().due(kit.in_an_hour())),
    ];
    kit.apply(&applied.reschedule(first)).await;
    for other in others {
        let wrong = kit.try_apply(&other).await.unwrap_err();
        assert_eq!(field(&wrong), "transaction id");
    }
    assert!(!kit.is_there("b").await);
}

/// A retention that is shorter than an hour does not make the store forget a transaction.
pub async fn retention_does_not_forget_a_transaction(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let transaction = Transaction::new()
        .submit(fresh(task("a")))
        .submit(fresh(task("b")));
    let applied = kit.apply(&transaction).await;
    kit.delete("a").await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let retention = Some(Duration::from_millis(1));
    kit.coordinator().maintain(retention).await.unwrap();
    assert_eq!(kit.apply(&transaction).await, applied);
    assert!(!kit.is_there("a").await);
}

/// With `Skip`, a task whose id exists is accepted, whatever that task is; in a transaction and
/// alone.
pub async fn a_taken_id_is_skipped(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit("live").await;
    kit.ended(&node, "over", &Message::complete()).await;
    let skip = |text: &str| Submit {
        task: of_kind(text, "another"),
        if_exists: IfExists::Skip,
    };
    let transaction = Transaction::new()
        .submit(skip("live"))
        .submit(skip("over"))
        .submit(skip("new"));
    let existing = |code| Done::Submitted(Submitted::Existing(code));
    let expected = [
        existing(StateKind::Runnable),
        existing(StateKind::Completed),
        Done::Submitted(Submitted::New),
    ];
    assert_eq!(kit.apply(&transaction).await.done(), expected);
    assert_eq!(kit.get("live").await.task.kind.as_str(), "demo");
    assert_eq!(
        kit.try_submit(skip("live")).await.unwrap(),
        Submitted::Existing(StateKind::Runnable)
    );
}

/// An unclaimed task sleeps until its new due time, a sleeping one gets another due time or wakes at
/// once, and the history has each change.
pub async fn an_unclaimed_task_is_rescheduled(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit("a").await;
    let reschedule = |due| Transaction::new().reschedule(Reschedule::new(id("a")).due(due));
    let (hour, day) = (kit.in_an_hour(), kit.later(Duration::from_secs(24 * 3600)));
    let mut version = kit.state("a").await.version;
    for due in [hour, day] {
        kit.apply(&reschedule(due)).await;
        let state = kit.state("a").await;
        version += 1;
        assert_eq!((state.due(), state.version), (Some(due), version));
        assert!(kit.try_claim(&node, "a").await.unwrap().is_none());
    }
    let past = kit.now();
    let awake = kit.apply(&reschedule(past)).await;
    assert_eq!(awake.done(), [Done::Rescheduled(StateKind::Runnable)]);
    kit.claim(&node, "a").await;
    let (runnable, sleeping) = (StateKind::Runnable, StateKind::Sleeping);
    let moved = |from, to| {
        let kind = None;
        ChangeKind::Rescheduled { from, to, kind }
    };
    let events = kit.events("a").await;
    let expected = [
        moved(runnable, sleeping),
        moved(sleeping, sleeping),
        moved(sleeping, runnable),
    ];
    assert_eq!(events[1..4], expected);
    if harness.takes_effects() {
        // A store that keeps data elsewhere refuses to change it.
        kit.submit("b").await;
        let data = Json::new("data", &7).unwrap();
        let change = Reschedule::new(id("b")).data(data.clone());
        let first = Transaction::new().require(id("b"), Require::Data(None));
        kit.apply(&first.clone().reschedule(change.clone())).await;
        assert_eq!(kit.state("b").await.data, Some(data));
        let again = first.with_id("again".parse().unwrap()).reschedule(change);
        let refused = (Part::Guard(0), "b".to_owned(), Reason::Data);
        assert_eq!(kit.refusals(&again).await, [refused]);
    }
}

/// A claimed task, a paused one, an ended one and an unknown one get no due time, and a change of nothing
/// is refused. A paused one can get another priority.
pub async fn other_tasks_are_not_rescheduled(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.claimed(&node, "busy").await;
    let mut paused = kit.claimed(&node, "paused").await;
    kit.commit(&mut paused, &Message::pause()).await;
    kit.ended(&node, "over", &Message::complete()).await;
    let due = kit.in_an_hour();
    let is = StateKind::Paused;
    let required = vec![StateKind::Runnable, StateKind::Sleeping];
    for (name, reason) in [
        ("busy", Reason::Claimed),
        ("paused", Reason::State { is, required }),
        ("over", Reason::finished()),
        ("nil", Reason::Missing),
    ] {
        let change = Reschedule::new(id(name)).due(due);
        let transaction = Transaction::new().reschedule(change);
        kit.assert_refused(&transaction, Part::Operation(0), reason)
            .await;
    }
    let nothing = Transaction::new().reschedule(Reschedule::new(id("paused")));
    let refused = kit.refusals(&nothing).await;
    assert_matches!(refused[0].2, Reason::Invalid(invalid) if invalid.field() == "reschedule");
    let urgent = Transaction::new().reschedule(Reschedule::new(id("paused")).priority(9));
    kit.apply(&urgent).await;
    let record = kit.get("paused").await;
    assert_eq!(record.task.priority, 9);
    assert_eq!(record.state.unwrap().code(), StateKind::Paused);
}

/// Two operations on one task are refused, and the error names the task.
pub async fn one_task_twice_is_refused(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    kit.submit("a").await;
    let twice = Transaction::new()
        .submit(fresh(task("b")))
        .delete(id("a"))
        .send(sending("a", "c", Command::Pause));
    let refused = kit.try_apply(&twice).await.unwrap_err();
    assert_eq!(field(&refused), "operations");
    assert!(refused.to_string().contains("'a'"), "{refused}");
    assert!(kit.is_there("a").await && !kit.is_there("b").await);
}

/// More operations and guards than the limit are refused, and the error names both numbers.
pub async fn the_limit_is_named(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let most = kit.registry().limits().max_operations;
    let mut large = Transaction::new();
    for n in 0..=most {
        large = large.submit(fresh(task(&format!("t{n}"))));
    }
    let refused = kit.try_apply(&large).await.unwrap_err();
    assert_eq!(field(&refused), "operations");
    let text = refused.to_string();
    for number in [most, most + 1] {
        assert!(text.contains(&number.to_string()), "{text}");
    }
    assert!(!kit.is_there("t0").await);
}

/// A refused transaction does not affect the others in the call, and each has its own result.
pub async fn transactions_are_independent(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let submit = |a: &str, b: &str| {
        let first = Transaction::new().submit(fresh(task(a)));
        first.submit(fresh(task(b)))
    };
    let answers = kit
        .registry()
        .apply(vec![submit("a", "b"), submit("b", "c"), submit("c", "d")])
        .await;
    assert_eq!(answers.len(), 3, "{answers:?}");
    assert!(answers[0].is_ok() && answers[2].is_ok(), "{answers:?}");
    assert_matches!(answers[1], Err(Error::Refused(refusals)) if refusals.iter().count() == 1);
}

/// The watches of nodes report every task that a transaction changes.
pub async fn watches_report_every_task(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let transaction = of_every_kind(&kit).await;
    let other = kit.node("other").await;
    let mut watch = kit.watch(&other).await;
    watch.listed().await;
    kit.apply(&transaction).await;
    let mut left = vec!["new", "live", "gone", "over", "late"];
    watch
        .until("every changed task", |event| {
            let reported = match event {
                Event::Task(view) => match view.id.as_str() {
                    "live" if !view.commanded => None,
                    "late" if !view.sleeping || view.priority != 7 => None,
                    name => Some(name.to_owned()),
                },
                Event::Gone { id, .. } if id.as_str() == "gone" => Some("gone".to_owned()),
                _ => None,
            };
            left.retain(|name| Some(*name) != reported.as_deref());
            left.is_empty().then_some(())
        })
        .await;
}

/// An acknowledged transaction is there when the store is opened again, and is not applied a second time.
pub async fn transactions_are_durable(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let transaction = of_every_kind(&kit).await;
    let applied = kit.apply(&transaction).await;
    let kit = kit.reopened(harness).await;
    assert!(kit.is_there("new").await && !kit.is_there("gone").await);
    assert_eq!(kit.state("over").await.incarnation, 1);
    assert_eq!(kit.get("late").await.task.priority, 7);
    kit.delete("new").await;
    assert_eq!(kit.apply(&transaction).await, applied);
    assert!(!kit.is_there("new").await);
}
