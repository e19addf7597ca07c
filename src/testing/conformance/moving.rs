//! Exports and imports: tasks keep everything that belongs to them, and fences and commands stay valid.

use windlass_statemachine::{Command, Fence, Message, Outcome, StateKind, TaskId};

use super::{
    Harness,
    kit::{Kit, assert_matches, command_of, field, id, one, with_data},
    strangers::{elsewhere, elsewhere_with, export, fill, import, stranger},
    wait::eventually,
};
use crate::store::{ChangeKind, Error, Exported, Purge};

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
    assert_eq!(came.len(), sent.len());
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

/// An import from another store keeps state, data, result, errors, commands and history.
pub async fn a_task_from_another_store_is_complete(harness: &dyn Harness) {
    arrive_whole(&elsewhere().await, &Kit::new(harness).await).await;
}

/// An import into another store keeps them too.
pub async fn a_task_for_another_store_is_complete(harness: &dyn Harness) {
    arrive_whole(&Kit::new(harness).await, &elsewhere().await).await;
}

/// Imported tasks come before later submits in the submit order.
pub async fn imported_tasks_come_before_later_submits(harness: &dyn Harness) {
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

/// The next claims have greater fences than the last one in the other store. A write of the old claim
/// is refused.
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
    kit.assert_fenced(&old, &Message::complete()).await;
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

    // Even when another task takes its id.
    kit.submit("b").await;
    let other = kit.claim(&node, "b").await;
    assert!(other.claim.fence > Fence(0));
    kit.commit(&mut again.clone(), &Message::complete()).await;
    kit.replace("a").await;
    assert!(kit.claim(&node, "a").await.claim.fence > again.claim.fence);
}

/// Queued commands are still queued after an import, in order, and the next claim returns them.
pub async fn waiting_commands_go_on_waiting(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let from = elsewhere().await;
    fill(&from).await;
    import(&kit, export(&from, &[id("asleep"), id("paused")]).await).await;
    // A command that is sent again is the same command.
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

/// Nodes see imported tasks: due ones at once, sleeping ones with their times.
pub async fn nodes_see_imported_tasks(harness: &dyn Harness) {
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

/// If two items of one call have the same id, the first is imported.
pub async fn one_id_twice_is_imported_once(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let tasks = vec![
        stranger("a", |e| e.state.attempts = 5).await,
        stranger("a", |e| e.state.attempts = 6).await,
    ];
    let answers = kit.transfer().import(tasks).await;
    assert_matches!(answers[..], [Ok(()), Err(Error::AlreadyExists { .. })]);
    assert_eq!(kit.state("a").await.attempts, 5);
}

/// An import of an id that exists is refused and changes nothing; the other items of the call are
/// imported.
pub async fn a_taken_id_takes_nothing(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
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
    assert_matches!(answers[0], Err(Error::AlreadyExists { .. }));
    assert!(answers[1].is_ok(), "{answers:?}");
    assert_matches!(answers[2], Err(Error::AlreadyFinished { .. }));
    assert_eq!(
        (kit.get("live").await.order, kit.state("over").await),
        before
    );
    assert_eq!(kit.state("fine").await.attempts, 5);

    // So is the id of a command.
    let from = elsewhere().await;
    from.submit("sender").await;
    from.send("sender", "c", Command::Pause).await;
    kit.submit("mine").await;
    kit.send("mine", "c", Command::Pause).await;
    let exported = export(&from, &[id("sender")]).await;
    let refused = one(kit.transfer().import(exported).await).unwrap_err();
    assert_eq!(field(&refused), "command id");
    let none = kit.registry().get(&id("sender")).await;
    assert_matches!(none, Err(Error::NotFound { .. }));
    assert_eq!(kit.get("mine").await.commands, 1);
}

/// A claimed task is not exported, because its owner could write at the same time.
pub async fn a_claimed_task_is_not_exported(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let node = kit.node("busy").await;
    kit.claimed(&node, "a").await;
    kit.submit("b").await;
    let ids = [id("a"), id("nobody"), id("b")];
    let mut reported = kit.transfer().export(&ids).await;
    assert!(reported.pop().unwrap().is_ok());
    assert_matches!(reported.pop().unwrap(), Err(Error::NotFound { .. }));
    let refused = reported.pop().unwrap().unwrap_err();
    assert_eq!(field(&refused), "task");
    assert!(refused.to_string().contains("busy"), "{refused}");
}

/// A claim that was lost before the export counts as an attempt after the import.
pub async fn a_lost_claim_counts_after_an_import(harness: &dyn Harness) {
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

    // The same in the other direction, with the same export.
    let back = Kit::new(harness).await;
    import(&back, vec![reported]).await;
    let node = back.node("back").await;
    let claimed = back.claim(&node, "a").await;
    assert!(claimed.abandoned);
    assert_eq!(claimed.state.attempts, 1);
}

/// A task that is larger than the store takes is refused with its field.
pub async fn a_task_that_is_too_large_is_refused(harness: &dyn Harness) {
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

/// Imported tasks that have ended can be retried and purged.
pub async fn imported_ended_tasks_can_be_retried_and_purged(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let from = elsewhere().await;
    let ids = fill(&from).await;
    import(&kit, export(&from, &ids).await).await;
    kit.retry("failed").await;
    let state = kit.state("failed").await;
    assert_eq!((state.code(), state.incarnation), (StateKind::Runnable, 1));
    let node = kit.node("here").await;
    let claimed = kit.claim(&node, "failed").await;
    assert_eq!(claimed.state.data.as_ref().unwrap().as_str(), r#"{"n":3}"#);
    let all = [StateKind::Completed, StateKind::Failed, StateKind::Killed];
    let later = kit.in_an_hour();
    assert_eq!(
        kit.registry().purge(&Purge::new(all, later)).await.unwrap(),
        2
    );
    kit.delete("asleep").await;
    let left = ["new", "later", "paused", "failed", "again"];
    assert_eq!(kit.list(Default::default()).await, left);
}

/// Fences of an id grow even when the task was imported with a great fence, was deleted, purged or
/// replaced, and was submitted again.
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
    kit.delete("a").await;
    kit.submit("a").await;
    claim(&kit, "a").await;
    let later = kit.in_an_hour();
    let purge = Purge::new([StateKind::Completed], later);
    let purged = kit.registry().purge(&purge).await;
    assert_eq!(purged.expect("purged"), 1);
    kit.submit("a").await;
    claim(&kit, "a").await;

    // A task that is deleted without a claim, and an import with a smaller fence.
    import(&kit, vec![stranger("b", had(2 * far)).await]).await;
    kit.delete("b").await;
    let mut smaller = stranger("a", had(5)).await;
    smaller.replaces = Some(kit.get("a").await.order);
    import(&kit, vec![smaller]).await;
    claim(&kit, "a").await;
    kit.submit("b").await;
    claim(&kit, "b").await;
    assert!(kit.get("b").await.fence > Fence(2 * far));
    kit.delete("b").await;
    if let Some(store) = harness.reopen(kit.store).await {
        kit = Kit { store };
        kit.submit("b").await;
        claim(&kit, "b").await;
    }
}
