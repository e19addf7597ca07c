//! Tasks on their way to and from other stores: nothing of them is lost, and nothing that was true of
//! their claims and commands stops being true.

use std::sync::Arc;

use windlass_statemachine::{Command, Fence, Message, Outcome, StateKind, TaskId};

use super::{
    Harness,
    kit::{Kit, command_of, field, id, one, settle, task, with_data},
    wait::eventually,
};
use crate::{
    clock::{Clock, SystemClock},
    store::{ChangeKind, Error, Exported, IfExists, Store, Submit, Submitted},
};

/// A store of another kind.
pub(super) async fn elsewhere() -> Kit {
    elsewhere_with(SystemClock::shared()).await
}

async fn elsewhere_with(clock: Arc<dyn Clock>) -> Kit {
    let store = Store::open_with_clock("memory:", clock).await;
    let store = store.expect("a store in memory");
    Kit { store }
}

/// Tasks in every state that a move may find them in; in submit order.
async fn fill(kit: &Kit) -> Vec<TaskId> {
    let node = kit.node("n").await;
    let mut new = task("new");
    new.priority = -3;
    new.labels = [("team".to_owned(), "x".to_owned())].into();
    new.props = serde_json::json!({ "big": 9_007_199_254_740_993_u64, "ü": [null] }).into();
    kit.submit_task(new).await;
    let mut later = task("later");
    later.start_at = Some(kit.in_an_hour());
    later.retry = Some(windlass_statemachine::Retry::Never);
    kit.submit_task(later).await;

    let mut asleep = kit.claimed(&node, "asleep").await;
    let until = kit.in_an_hour();
    kit.commit(&mut asleep, &with_data(Message::sleep_until(until), 7))
        .await;
    kit.send("asleep", "wait-1", Command::Run).await;
    kit.send("asleep", "wait-2", Command::Kill).await;

    let mut paused = kit.claimed(&node, "paused").await;
    let order = kit.send("paused", "done", Command::Pause).await;
    let mut write = kit.write(&paused, &with_data(Message::pause(), 1));
    let (from, to) = (StateKind::Runnable, StateKind::Paused);
    settle(&mut write, order, Outcome::Applied { from, to });
    write.steps[0].command = Some(order);
    paused.state = write.state.clone();
    kit.try_write(&paused, write).await.expect("paused");

    let ends = [
        ("completed", with_data(Message::complete_with(&"done"), 2)),
        ("failed", with_data(Message::error("out of luck"), 3)),
        ("killed", Message::kill()),
    ];
    for (name, message) in ends {
        kit.ended(&node, name, &message).await;
    }
    kit.ended(&node, "again", &Message::error("once")).await;
    one(kit.registry().retry(vec![id("again")]).await).expect("retried");
    kit.coordinator().leave(&node).await.expect("left");
    kit.transfer().ids().await.expect("the ids")
}

pub(super) async fn export(kit: &Kit, ids: &[TaskId]) -> Vec<Exported> {
    let exported = kit.transfer().export(ids).await;
    exported.into_iter().map(|e| e.expect("exported")).collect()
}

pub(super) async fn import(kit: &Kit, tasks: Vec<Exported>) {
    for answer in kit.transfer().import(tasks).await {
        answer.expect("imported");
    }
}

/// A task of another store with one thing changed.
pub(super) async fn stranger(name: &str, change: impl FnOnce(&mut Exported)) -> Exported {
    let kit = elsewhere().await;
    kit.submit(name).await;
    let mut exported = export(&kit, &[id(name)]).await;
    let mut exported = exported.remove(0);
    change(&mut exported);
    exported
}

async fn arrive_whole(from: &Kit, to: &Kit) {
    let ids = fill(from).await;
    let names: Vec<&str> = ids.iter().map(TaskId::as_str).collect();
    let order = [
        "new",
        "later",
        "asleep",
        "paused",
        "completed",
        "failed",
        "killed",
        "again",
    ];
    assert_eq!(names, order, "in submit order");
    let sent = export(from, &ids).await;
    let counts = from.registry().counts().await.unwrap();
    import(to, sent.clone()).await;
    assert_eq!(to.transfer().ids().await.unwrap(), ids);
    assert_eq!(to.list(Default::default()).await, order);
    assert_eq!(to.registry().counts().await.unwrap(), counts);
    let came = export(to, &ids).await;
    for (sent, came) in sent.iter().zip(&came) {
        assert_eq!(sent.difference(came), None, "{sent:#?} became {came:#?}");
        let reported = |e: &Exported| -> Vec<ChangeKind> {
            let history = e.clone().renumbered(1).history;
            history.into_iter().map(|c| c.what).collect()
        };
        assert_eq!(reported(sent), reported(came), "the history");
        assert!(came.fence >= sent.fence);
    }
    let record = to.registry().command(&command_of("done")).await.unwrap();
    assert_eq!(record.task, id("paused"));
    assert!(matches!(record.outcome, Some(Outcome::Applied { .. })));
}

/// What another store tells arrives here: state, data, result, errors, commands, history.
pub async fn what_comes_from_elsewhere_is_whole(harness: &dyn Harness) {
    arrive_whole(&elsewhere().await, &Kit::new(harness).await).await;
}

/// What this store tells arrives in another one.
pub async fn what_goes_elsewhere_is_whole(harness: &dyn Harness) {
    arrive_whole(&Kit::new(harness).await, &elsewhere().await).await;
}

/// What has come is submitted before what is submitted here later.
pub async fn what_came_is_before_what_is_submitted_later(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    kit.submit("before").await;
    let far = |e: &mut Exported| *e = e.clone().renumbered(1 << 50);
    import(
        &kit,
        vec![stranger("one", far).await, stranger("two", |_| ()).await],
    )
    .await;
    kit.submit("after").await;
    assert_eq!(
        kit.list(Default::default()).await,
        ["before", "one", "two", "after"]
    );
}

/// The next claim has a greater fence than the last one elsewhere, and so on; what the old claim
/// writes is refused.
pub async fn fences_go_on_growing(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let far = Fence(1 << 42);
    let had = |e: &mut Exported| {
        e.fence = far;
        e.state.fence = far;
        e.state.version = 9;
        e.state.claims = 9;
    };
    import(&kit, vec![stranger("a", had).await]).await;
    assert_eq!(kit.get("a").await.fence, far);
    let node = kit.node("n").await;
    let mut claimed = kit.claim(&node, "a").await;
    let fence = claimed.claim.fence;
    assert!(fence > far, "{fence:?}");
    assert_eq!(claimed.state.fence, fence);
    assert_eq!(kit.get("a").await.fence, fence);
    let mut old = claimed.clone();
    old.claim.fence = far;
    let refused = kit.try_commit(&old, &Message::complete()).await;
    assert!(matches!(refused, Err(Error::Fenced(_))), "{refused:?}");
    kit.commit(&mut claimed, &with_data(Message::release(), 1))
        .await;
    let again = kit.claim(&node, "a").await;
    assert!(again.claim.fence > fence);
    let reported = kit.events("a").await;
    let claims = reported.iter().filter_map(|what| match what {
        ChangeKind::Claimed { fence, .. } => Some(*fence),
        _ => None,
    });
    assert_eq!(claims.collect::<Vec<_>>(), [fence, again.claim.fence]);

    // Also when its id is taken by another task.
    kit.submit("b").await;
    let other = kit.claim(&node, "b").await;
    assert!(other.claim.fence > Fence(0));
    kit.commit(&mut again.clone(), &Message::complete()).await;
    let replaced = kit.try_submit(Submit {
        task: task("a"),
        if_exists: IfExists::ReplaceFinished,
    });
    assert_eq!(replaced.await.unwrap(), Submitted::New);
    assert!(kit.claim(&node, "a").await.claim.fence > again.claim.fence);
}

/// Commands that waited there wait here, in their order, and are reported with the claim.
pub async fn commands_that_waited_go_on_waiting(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let from = elsewhere().await;
    fill(&from).await;
    import(&kit, export(&from, &[id("asleep"), id("paused")]).await).await;
    // The same command, sent again, is the same.
    let known = kit.registry().command(&command_of("wait-2")).await.unwrap();
    assert_eq!(
        kit.send("asleep", "wait-2", Command::Kill).await,
        known.order
    );
    kit.send("asleep", "wait-3", Command::Checkpoint).await;
    let node = kit.node("here").await;
    let claimed = kit.claim(&node, "asleep").await;
    let reported: Vec<_> = claimed
        .commands
        .iter()
        .map(|c| c.id.as_str().to_owned())
        .collect();
    assert_eq!(reported, ["wait-1", "wait-2", "wait-3"]);
    assert!(claimed.commands.is_sorted_by_key(|c| c.order));

    let order = kit.send("paused", "resume", Command::Run).await;
    let claimed = kit.claim(&node, "paused").await;
    let last = claimed
        .state
        .last_command
        .as_ref()
        .expect("the last command");
    assert!(
        last.order < order,
        "a new command is newer than the last one"
    );
    assert_eq!(claimed.commands.len(), 1);
}

/// Nodes see what has come: what is due at once, what sleeps when it is.
pub async fn nodes_see_what_has_come(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let from = elsewhere_with(kit.store.clock().clone()).await;
    fill(&from).await;
    let ids = from.transfer().ids().await.unwrap();
    let sent = export(&from, &ids).await;
    import(&kit, sent.clone()).await;
    let node = kit.node("here").await;
    let listed = kit.watch(&node).await.listed().await;
    let live: Vec<_> = sent
        .iter()
        .filter(|e| !e.state.code().is_terminal())
        .collect();
    assert_eq!(listed.len(), live.len());
    for exported in live {
        let id = &exported.task.id;
        let view = listed.iter().find(|v| v.id == *id).expect("it is listed");
        assert_eq!(view.claimed_by, None);
        match exported.state.code() {
            StateKind::Sleeping | StateKind::Paused => {
                assert_eq!(view.due, exported.state.due(), "{id}");
            }
            _ => assert!(view.due.is_some_and(|due| due <= kit.now()), "{id}"),
        }
    }
    assert!(kit.try_claim(&node, "completed").await.unwrap().is_none());
    assert!(kit.try_claim(&node, "later").await.unwrap().is_none());
    kit.claim(&node, "new").await;
    kit.claim(&node, "again").await;
}

/// Of two items of one call that bring one id, the first is imported.
pub async fn one_id_twice_is_imported_once(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let tasks = vec![
        stranger("a", |e| e.state.attempts = 5).await,
        stranger("a", |e| e.state.attempts = 6).await,
    ];
    let answers = kit.transfer().import(tasks).await;
    assert!(
        matches!(answers[..], [Ok(()), Err(Error::AlreadyExists { .. })]),
        "{answers:?}"
    );
    assert_eq!(kit.state("a").await.attempts, 5);
}

/// An id that is taken is refused, and what has it stays as it is; others are not touched by that.
pub async fn a_taken_id_takes_nothing(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let node = kit.node("n").await;
    kit.submit("live").await;
    kit.ended(&node, "over", &with_data(Message::complete(), 1))
        .await;
    let before = (kit.get("live").await.order, kit.state("over").await);
    let change = |e: &mut Exported| e.state.attempts = 5;
    let tasks = vec![
        stranger("live", change).await,
        stranger("fine", change).await,
        stranger("over", change).await,
    ];
    let answers = kit.transfer().import(tasks).await;
    assert!(
        matches!(answers[0], Err(Error::AlreadyExists { .. })),
        "{answers:?}"
    );
    assert!(answers[1].is_ok(), "{answers:?}");
    assert!(
        matches!(answers[2], Err(Error::AlreadyFinished(_))),
        "{answers:?}"
    );
    assert_eq!(
        (kit.get("live").await.order, kit.state("over").await),
        before
    );
    assert_eq!(kit.state("fine").await.attempts, 5);

    // The id of a command, too.
    let from = elsewhere().await;
    from.submit("sender").await;
    from.send("sender", "c", Command::Pause).await;
    kit.submit("mine").await;
    kit.send("mine", "c", Command::Pause).await;
    let exported = export(&from, &[id("sender")]).await;
    let refused = one(kit.transfer().import(exported).await).unwrap_err();
    assert_eq!(field(&refused), "command id");
    let none = kit.registry().get(&id("sender")).await;
    assert!(matches!(none, Err(Error::NotFound { .. })), "{none:?}");
    assert_eq!(kit.get("mine").await.commands, 1);
}

/// A claimed task is not reported: what its owner writes meanwhile would be missed.
pub async fn a_claimed_task_is_not_told(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let node = kit.node("busy").await;
    kit.claimed(&node, "a").await;
    kit.submit("b").await;
    let ids = [id("a"), id("nobody"), id("b")];
    let mut reported = kit.transfer().export(&ids).await;
    assert!(reported.pop().unwrap().is_ok());
    let missing = reported.pop().unwrap();
    assert!(
        matches!(missing, Err(Error::NotFound { .. })),
        "{missing:?}"
    );
    let refused = reported.pop().unwrap().unwrap_err();
    assert_eq!(field(&refused), "task");
    assert!(refused.to_string().contains("busy"), "{refused}");
}

/// A claim that was lost there is an attempt here.
pub async fn a_lost_claim_counts_after_the_move(harness: &dyn Harness) {
    let from = Kit::new(harness).await;
    from.submit("a").await;
    let lost = from.node_for("lost", harness.short_lease()).await;
    from.claim(&lost, "a").await;
    let reported = eventually("the end of a lease", async || {
        one(from.transfer().export(&[id("a")]).await).ok()
    });
    let reported = reported.await;
    let to = elsewhere().await;
    import(&to, vec![reported.clone()]).await;
    let node = to.node("here").await;
    let claimed = to.claim(&node, "a").await;
    assert!(claimed.abandoned);
    assert_eq!(claimed.state.attempts, 1);

    // And the other way: what is reported again is the same.
    let back = Kit::new(harness).await;
    import(&back, vec![reported]).await;
    let node = back.node("back").await;
    let claimed = back.claim(&node, "a").await;
    assert!(claimed.abandoned);
    assert_eq!(claimed.state.attempts, 1);
}

/// What is larger than the store takes is refused by name.
pub async fn what_is_too_large_is_refused(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let limit = kit.registry().limits().max_bytes;
    let large = |e: &mut Exported| {
        e.state.data = Some(serde_json::Value::from("x".repeat(limit)).into());
        e.state.version = 1;
        e.state.claims = 1;
    };
    let refused = one(kit
        .transfer()
        .import(vec![stranger("a", large).await])
        .await);
    assert_eq!(field(&refused.unwrap_err()), "data");
    kit.submit("a").await;
}

/// What ended there can be retried and purged here.
pub async fn what_has_ended_can_be_retried_and_purged(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let from = elsewhere().await;
    let ids = fill(&from).await;
    import(&kit, export(&from, &ids).await).await;
    one(kit.registry().retry(vec![id("failed")]).await).unwrap();
    let state = kit.state("failed").await;
    assert_eq!((state.code(), state.incarnation), (StateKind::Runnable, 1));
    let node = kit.node("here").await;
    let claimed = kit.claim(&node, "failed").await;
    assert_eq!(claimed.state.data.as_ref().unwrap().as_str(), r#"{"n":3}"#);
    let all = [StateKind::Completed, StateKind::Failed, StateKind::Killed];
    let later = kit.in_an_hour();
    assert_eq!(kit.registry().purge(&all, later, 100).await.unwrap(), 2);
    one(kit.registry().delete(vec![id("asleep")]).await).unwrap();
    let left = ["new", "later", "paused", "failed", "again"];
    assert_eq!(kit.list(Default::default()).await, left);
}

/// No claim of an id has a fence that an earlier claim of that id had, also when the task came with a
/// great fence, was deleted, purged or replaced, and was submitted again.
pub async fn fences_grow_past_a_delete(harness: &dyn Harness) {
    let mut kit = Kit::new(harness).await;
    let had = |fence| {
        move |e: &mut Exported| {
            e.fence = Fence(fence);
            e.state.fence = Fence(fence);
            (e.state.version, e.state.claims) = (9, 9);
        }
    };
    let far = 1_000_000;
    import(&kit, vec![stranger("a", had(far)).await]).await;
    let mut greatest = Fence(far);
    let mut claim = async |kit: &Kit, name: &str| {
        let node = kit.node("n").await;
        let mut claimed = kit.claim(&node, name).await;
        let fence = claimed.claim.fence;
        assert!(fence > greatest, "{name}: {fence:?} after {greatest:?}");
        greatest = fence;
        kit.commit(&mut claimed, &Message::complete()).await;
        kit.coordinator().leave(&node).await.expect("left");
    };
    claim(&kit, "a").await;
    one(kit.registry().delete(vec![id("a")]).await).expect("deleted");
    kit.submit("a").await;
    claim(&kit, "a").await;
    let later = kit.in_an_hour();
    let purged = kit
        .registry()
        .purge(&[StateKind::Completed], later, 10)
        .await;
    assert_eq!(purged.expect("purged"), 1);
    kit.submit("a").await;
    claim(&kit, "a").await;

    // A task that leaves without a claim, and a smaller fence than before.
    import(&kit, vec![stranger("b", had(2 * far)).await]).await;
    one(kit.registry().delete(vec![id("b")]).await).expect("deleted");
    let mut smaller = stranger("a", had(5)).await;
    smaller.replaces = Some(kit.get("a").await.order);
    import(&kit, vec![smaller]).await;
    claim(&kit, "a").await;
    kit.submit("b").await;
    claim(&kit, "b").await;
    assert!(kit.get("b").await.fence > Fence(2 * far));
    one(kit.registry().delete(vec![id("b")]).await).expect("deleted");
    if let Some(store) = harness.reopen(kit.store).await {
        kit = Kit { store };
        kit.submit("b").await;
        claim(&kit, "b").await;
    }
}
