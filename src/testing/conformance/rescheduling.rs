//! Changes of a task itself: another kind, other props and data, its version; what only force deletes.
//!
//! Beyond the duties: `a_schedule_has_the_props_of_one`.

use windlass_statemachine::{Command, Json, Kind, Limit, Message, StateKind, Task, Waits};

use super::{
    Harness,
    kit::{Kit, assert_matches, field, id, one, task},
    wait::Watcher,
};
use crate::store::{
    ChangeKind, Error, Event, Filter, IfExists, Lease, Operation, Part, Reason, Require,
    Reschedule, RetryTask, Submit, TaskView, Transaction,
};

fn kind(text: &str) -> Kind {
    text.parse().expect("a legal kind")
}

fn inbox(text: &str) -> Task {
    let mut task = task(text);
    task.kind = kind("inbox");
    task
}

fn schedule(text: &str) -> Task {
    let mut task = task(text);
    task.kind = kind(Kind::SCHEDULE);
    task.props = json(serde_json::json!({"run": {"kind": "report"}, "cron": ["@daily"]}));
    task
}

fn json(value: impl serde::Serialize) -> Json {
    Json::new("value", &value).expect("a JSON value")
}

fn changing(text: &str) -> Reschedule {
    Reschedule::new(id(text))
}

fn moving(text: &str) -> Reschedule {
    changing(text).kind(kind("inbox/err"))
}

impl Kit {
    async fn reschedule(&self, change: Reschedule) {
        self.apply(&Transaction::new().reschedule(change)).await;
    }

    async fn watch_kinds(&self, lease: &Lease, kinds: &[&str]) -> Watcher {
        let kinds = kinds.iter().map(|name| kind(name)).collect();
        let watch = self.coordinator().watch(lease, Some(kinds)).await;
        Watcher::new(watch.expect("a watch"))
    }
}

/// A task moves to another kind under its id, with its commands, in the state that it has. The history, the counts and
/// the filters follow, also those by the beginning of kinds.
pub async fn a_task_gets_another_kind(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit_task(inbox("a")).await;
    kit.submit_task(inbox("b")).await;
    kit.send("a", "c", Command::Pause).await;
    let before = kit.get("a").await;
    kit.reschedule(moving("a")).await;
    let after = kit.get("a").await;
    assert_eq!(after.task.kind, kind("inbox/err"));
    assert_eq!((after.order, after.commands), (before.order, 1));
    assert_eq!(
        after.state.unwrap().version,
        before.state.unwrap().version + 1
    );
    let is = StateKind::Runnable;
    let line = ChangeKind::Rescheduled {
        from: is,
        to: is,
        kind: Some(kind("inbox/err")),
    };
    assert_eq!(kit.events("a").await.last(), Some(&line));
    let counts = kit.registry().counts().await.unwrap();
    let count = |name: &str| {
        let of_kind = counts.iter().filter(|count| count.kind == kind(name));
        of_kind.map(|count| count.tasks).sum::<u64>()
    };
    assert_eq!((count("inbox"), count("inbox/err")), (1, 1));
    for (filter, expected) in [
        (Filter::new().kind(kind("inbox/err")), vec!["a"]),
        (Filter::new().kind(kind("inbox")), vec!["b"]),
        (Filter::new().kind_prefix("inbox/"), vec!["a"]),
        (Filter::new().kind_prefix("inbox"), vec!["a", "b"]),
        (Filter::new().kind_prefix("inboxes"), vec![]),
    ] {
        assert_eq!(kit.list(filter.clone()).await, expected, "{filter:?}");
    }
    let mut claimed = kit.claim(&node, "a").await;
    assert_eq!(claimed.task.kind, kind("inbox/err"));
    assert_eq!(claimed.commands.len(), 1);
    kit.commit(&mut claimed, &Message::release()).await;
    kit.reschedule(changing("a").kind(kind("inbox"))).await;
    assert_eq!(
        kit.list(Filter::new().kind(kind("inbox"))).await,
        ["a", "b"]
    );
}

/// A node that lists the old kind forgets the task, one that lists the new kind gets it: as it sleeps, waits for a
/// command or has one.
pub async fn watches_follow_the_kind(harness: &dyn Harness) {
    let (kit, old) = Kit::with_node(harness).await;
    let new = kit.node("new").await;
    let mut start = inbox("asleep");
    start.start_at = Some(kit.in_an_hour());
    kit.submit_task(start).await;
    for name in ["paused", "commanded"] {
        kit.submit_task(inbox(name)).await;
        let mut claimed = kit.claim(&old, name).await;
        kit.commit(&mut claimed, &Message::pause()).await;
    }
    kit.submit_task(inbox("fresh")).await;
    kit.send("commanded", "c", Command::Run).await;
    let (mut left, mut entered) = (
        kit.watch_kinds(&old, &["inbox"]).await,
        kit.watch_kinds(&new, &["inbox/err"]).await,
    );
    assert_eq!(left.listed().await.len(), 4);
    assert_eq!(entered.listed().await.len(), 0);
    for name in ["asleep", "paused", "commanded", "fresh"] {
        let order = kit.get(name).await.order;
        kit.reschedule(moving(name)).await;
        let gone = |event: &Event| match event {
            Event::Gone {
                id: gone,
                order: of,
                fence,
            } if *gone == id(name) => Some((*of, fence.is_some())),
            _ => None,
        };
        assert_eq!(left.until("the task to leave", gone).await, (order, true));
        // The parts of a task may arrive one after the other, so the first view need not be whole.
        let is_as = |view: &TaskView| match name {
            "asleep" => view.sleeping && view.due.is_some() && !view.commanded,
            "paused" => view.due.is_none() && !view.commanded,
            "commanded" => view.commanded,
            _ => view.due.is_some() && !view.sleeping,
        };
        let view = entered.task(name, "the task as it is", is_as).await;
        assert_eq!((view.kind, view.order), (kind("inbox/err"), order));
    }
    kit.reschedule(changing("paused").kind(kind("inbox"))).await;
    entered.gone("paused").await;
    let is_paused = |view: &TaskView| view.due.is_none();
    let back = left.task("paused", "the paused task", is_paused).await;
    assert_eq!(back.kind, kind("inbox"));
    assert!(kit.try_claim(&new, "commanded").await.unwrap().is_some());
}

/// A task that became one of the watched kind is waited for and ends as any other.
pub async fn waiters_follow_the_kind(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit_task(inbox("first")).await;
    let mut waiter = task("waiter");
    waiter.waits = Some(Box::new(
        Waits::new("after", ["first"]).expect("legal waits"),
    ));
    kit.submit_task(waiter).await;
    let other = kit.node("other").await;
    let mut watch = kit.watch_kinds(&other, &["demo"]).await;
    assert_eq!(watch.listed().await.len(), 1);
    for to in ["demo", "inbox/err"] {
        kit.reschedule(changing("first").kind(kind(to))).await;
    }
    let mut first = kit.claim(&node, "first").await;
    kit.commit(&mut first, &Message::complete()).await;
    let ready = |view: &crate::store::TaskView| view.due.is_some() && !view.sleeping;
    watch.task("waiter", "a waiter that can run", ready).await;
}

/// Every reschedule writes the next version, whatever it changes, and a guard sees it.
pub async fn a_reschedule_writes_the_next_version(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit("a").await;
    let seen = kit.state("a").await.version;
    kit.reschedule(changing("a").priority(3)).await;
    let state = kit.state("a").await;
    assert_eq!((state.version, state.reschedules), (seen + 1, 1));
    let outdated = Transaction::new()
        .require(id("a"), Require::Version(seen))
        .reschedule(changing("a").priority(4));
    let (is, required) = (seen + 1, seen);
    let reason = Reason::Version { is, required };
    kit.assert_refused(&outdated, Part::Guard(0), reason).await;
    kit.reschedule(changing("a").due(kit.now())).await;
    let mut claimed = kit.claim(&node, "a").await;
    // A state store beside the coordinator makes a write of its own at the first claim.
    let state = &claimed.state;
    assert!(state.version >= seen + 3 && state.reschedules == 2);
    kit.commit(&mut claimed, &Message::complete()).await;
    assert_eq!(kit.state("a").await.code(), StateKind::Completed);
}

/// The props of an unclaimed task are replaced, and count against the limit. A claimed task keeps its own.
pub async fn props_are_replaced(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit("a").await;
    kit.submit("b").await;
    let props = || json([9_007_199_254_740_993_u64]);
    for name in ["a", "b"] {
        kit.reschedule(changing(name).props(props())).await;
        assert_eq!(kit.get(name).await.task.props, props(), "{name}");
    }
    let claimed = kit.claim(&node, "a").await;
    assert_eq!(claimed.task.props, props());
    let change = Transaction::new().reschedule(changing("a").props(json(1)));
    kit.assert_refused(&change, Part::Operation(0), Reason::Claimed)
        .await;
    let most = kit.registry().limits().max_bytes;
    let large = Transaction::new().reschedule(changing("b").props(json("x".repeat(most))));
    let refused = kit.refusals(&large).await;
    assert_matches!(&refused[0].2, Reason::TooLarge { field: "props", .. });
    kit.reschedule(changing("b").props(Json::null())).await;
    assert!(kit.get("b").await.task.props.is_null());
}

/// A schedule without the props of one is refused, alone, in a transaction and as an effect: no worker could run it.
pub async fn a_schedule_has_the_props_of_one(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let wrong = || Task {
        props: Json::null(),
        ..schedule("wrong")
    };
    let alone = kit.try_submit(Submit::from(wrong())).await;
    assert_eq!(field(&alone.unwrap_err()), "props");
    let both = Transaction::new()
        .submit(schedule("right").into())
        .submit(wrong().into());
    let refused = kit.refusals(&both).await;
    assert_matches!(&refused[..], [(Part::Operation(1), _, Reason::Invalid(wrong))] if wrong.field() == "props");
    if harness.takes_effects() {
        let own = kit.claimed(&node, "own").await;
        let message = Message::checkpoint().and_submit(wrong());
        assert_matches!(kit.try_commit(&own, &message).await, Err(Error::Refused(_)));
    }
    assert!(!kit.is_there("wrong").await);
    kit.submit_task(schedule("right")).await;
}

/// A schedule keeps its kind, and no task becomes one.
pub async fn a_schedule_keeps_its_kind(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    kit.submit_task(schedule("nightly")).await;
    kit.submit_task(inbox("a")).await;
    for (name, to) in [("nightly", "inbox"), ("a", Kind::SCHEDULE)] {
        let change = changing(name).kind(kind(to));
        let refused = kit.refusals(&Transaction::new().reschedule(change)).await;
        assert_matches!(&refused[0].2, Reason::Invalid(invalid) if invalid.field() == "kind");
    }
}

/// Another time, other data and other props of a schedule are refused, also when it has ended: its handler reads what the
/// operations of schedules write.
pub async fn a_schedule_is_changed_by_its_own_operations(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit_task(schedule("nightly")).await;
    let change = || changing("nightly");
    let limit = Limit::at_once("key", 1).expect("a legal limit");
    let mut changes = vec![
        ("due", change().due(kit.in_an_hour())),
        ("props", change().props(json(1))),
        ("limits", change().limits(vec![limit])),
    ];
    if harness.takes_effects() {
        changes.push(("data", change().data(json(1))));
    }
    let assert_refused = async |operation: Operation, field: &str| {
        let refused = kit.refusals(&Transaction::new().with(operation)).await;
        assert_matches!(&refused[..], [(_, _, Reason::Invalid(wrong))] if wrong.field() == field);
    };
    for (field, change) in changes {
        assert_refused(Operation::Reschedule(change), field).await;
    }
    let mut other = schedule("nightly");
    other.priority = 1;
    let if_exists = IfExists::ReplaceWaiting;
    let replaced = kit
        .try_submit(Submit {
            task: other,
            if_exists,
        })
        .await;
    assert_matches!(replaced, Err(Error::AlreadyExists { .. }));
    kit.reschedule(change().priority(3)).await;
    let mut claimed = kit.claim(&node, "nightly").await;
    kit.commit(&mut claimed, &Message::complete()).await;
    let retry = RetryTask::new(id("nightly")).props(json(1));
    assert_refused(Operation::Retry(retry), "props").await;
    kit.retry("nightly").await;
}

/// A task gets no time after its deadlines: it would fail without a run.
pub async fn a_time_after_a_deadline_is_refused(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let mut late = task("a");
    late.start_by = Some(kit.in_an_hour());
    kit.submit_task(late).await;
    let after = changing("a").due(kit.later(std::time::Duration::from_secs(7200)));
    let refused = kit.refusals(&Transaction::new().reschedule(after)).await;
    assert_matches!(&refused[..], [(_, _, Reason::Invalid(wrong))] if wrong.field() == "due");
    let before = kit.later(std::time::Duration::from_secs(1800));
    kit.reschedule(changing("a").due(before)).await;
    assert_eq!(kit.state("a").await.due(), Some(before));
}

/// A retry may start an ended task with other props, and with other data where the store keeps data.
pub async fn a_retry_takes_other_props_and_data(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    for name in ["a", "live"] {
        kit.submit(name).await;
    }
    let mut first = kit.claim(&node, "a").await;
    kit.commit(&mut first, &Message::complete()).await;
    let mut edited = RetryTask::new(id("a")).props(json(["corrected"]));
    if harness.takes_effects() {
        edited = edited.data(json(7));
    }
    let retry = |retry: RetryTask| Transaction::new().with(Operation::Retry(retry));
    let live = retry(RetryTask::new(id("live")).props(json(1)));
    let refused = kit.refusals(&live).await;
    assert_matches!(
        &refused[0].2,
        Reason::State {
            is: StateKind::Runnable,
            ..
        }
    );
    kit.apply(&retry(edited)).await;
    let record = kit.get("a").await;
    assert_eq!(record.task.props, json(["corrected"]));
    let state = record.state.unwrap();
    assert_eq!((state.code(), state.incarnation), (StateKind::Runnable, 1));
    if harness.takes_effects() {
        assert_eq!(state.data, Some(json(7)));
    }
    let claimed = kit.claim(&node, "a").await;
    assert_eq!(claimed.task.props, json(["corrected"]));
}

/// A task that a node has claimed is deleted by force only.
pub async fn a_claimed_task_is_deleted_by_force_only(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit("a").await;
    kit.claim(&node, "a").await;
    let refused = one(kit.registry().delete(vec![id("a")]).await).unwrap_err();
    assert_matches!(refused, Error::Claimed(task) if task.as_str() == "a");
    let with_guard = Transaction::new()
        .require(id("a"), Require::Exists)
        .delete(id("a"));
    kit.assert_refused(&with_guard, Part::Operation(0), Reason::Claimed)
        .await;
    assert!(kit.is_there("a").await);
    kit.delete("a").await;
    assert!(!kit.is_there("a").await);
}

/// A transaction of guards alone is accepted, and answers whether they hold. One without any part is refused.
pub async fn guards_alone_are_answered(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    kit.submit("a").await;
    let exists = Transaction::new()
        .require(id("a"), Require::Exists)
        .require(id("b"), Require::Absent);
    assert!(kit.apply(&exists).await.done().is_empty());
    let paused = Transaction::new()
        .require(id("a"), Require::Exists)
        .require(id("a"), Require::State(StateKind::Paused));
    let is = StateKind::Runnable;
    let required = vec![StateKind::Paused];
    kit.assert_refused(&paused, Part::Guard(1), Reason::State { is, required })
        .await;
    let nothing = kit.try_apply(&Transaction::new()).await.unwrap_err();
    assert_eq!(field(&nothing), "operations");
}
