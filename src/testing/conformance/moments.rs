//! Moments: an export reads one state that the store had, whatever is written meanwhile.

use windlass_statemachine::{Command, Message, StateKind, TaskId};

use super::{
    Harness,
    kit::{Kit, fresh, id, one, task, with_data},
};
use crate::store::{Error, Exported, Moment, Operation, Transaction};

async fn moment(kit: &Kit) -> Moment {
    kit.transfer().moment().await.expect("a moment")
}

async fn read(moment: &Moment, ids: &[TaskId]) -> Vec<Exported> {
    let read = moment.export(ids).await;
    let whole = |one: Result<Exported, Error>| one.expect("exported");
    read.into_iter().map(whole).collect()
}

/// A transaction that deletes one task and submits another is in the moment or not: the export has one of the two.
pub async fn what_a_transaction_moves_is_exported_once(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    for name in ["a", "x"] {
        kit.submit(name).await;
    }
    let before = moment(&kit).await;
    let moved = Transaction::from(Operation::Delete(id("a").into()))
        .with(Operation::Submit(fresh(task("b"))));
    one(kit.registry().apply(vec![moved]).await).expect("moved");
    let after = moment(&kit).await;
    for (moment, expected) in [(before, ["a", "x"]), (after, ["x", "b"])] {
        assert_eq!(moment.ids, expected.map(id));
        let tasks = read(&moment, &moment.ids).await;
        let names: Vec<&str> = tasks.iter().map(|one| one.task.id.as_str()).collect();
        assert_eq!(names, expected);
    }
}

/// What is written after the moment is not in it: a command, a checkpoint, an end, a retry, a log line, a deletion.
pub async fn a_moment_does_not_change(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    for name in ["a", "b", "c"] {
        kit.submit(name).await;
    }
    kit.ended(
        &node,
        "done",
        &with_data(Message::complete_with("first"), 1),
    )
    .await;
    kit.send("a", "waits", Command::Checkpoint).await;
    let ids = kit.transfer().ids().await.expect("the ids");
    let moment = moment(&kit).await;
    let first = read(&moment, &ids).await;
    assert_eq!(moment.ids, ids);

    kit.send("b", "later", Command::Pause).await;
    let mut claimed = kit.claim(&node, "c").await;
    kit.checkpoint(&mut claimed, 2).await;
    kit.commit(&mut claimed, &Message::complete()).await;
    kit.retry("done").await;
    kit.delete("a").await;
    kit.submit("a").await;
    kit.submit("new").await;
    let again = read(&moment, &ids).await;
    assert_eq!(again, first, "the same, with their histories");
    let present = kit.transfer().export(&ids).await;
    let same = present.into_iter().zip(&first);
    let same = same.filter(|(now, then)| now.as_ref().is_ok_and(|now| now == *then));
    assert_eq!(same.count(), 0, "each has changed");
    assert_eq!(first[2].state.code(), StateKind::Runnable);
}

/// A node that joins later, and its claims, are not in the moment. Those of the moment stay in it after their end.
pub async fn nodes_and_claims_are_those_of_the_moment(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    kit.submit("a").await;
    let before = moment(&kit).await;
    let node = kit.node("n").await;
    let mut claimed = kit.claim(&node, "a").await;
    let meanwhile = moment(&kit).await;
    kit.commit(&mut claimed, &Message::complete()).await;
    kit.coordinator().leave(&node).await.expect("left");
    let after = moment(&kit).await;
    for (moment, nodes, claims) in [(&before, 0, 0), (&meanwhile, 1, 1), (&after, 0, 0)] {
        assert_eq!((moment.nodes.len(), moment.claimed), (nodes, claims));
    }
    assert_eq!(read(&before, &[id("a")]).await[0].state.claims, 0);
    let claimed = meanwhile.export(&[id("a")]).await.remove(0);
    assert!(claimed.is_err(), "a claimed task is not exported");
    let state = read(&after, &[id("a")]).await.remove(0).state;
    assert_eq!(state.code(), StateKind::Completed);
}

/// The times of a submit, of a command and of a change have the precision that every store keeps, so a copy has the same times.
pub async fn times_of_a_task_are_the_same_in_every_store(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit("a").await;
    kit.ended(&node, "b", &Message::complete()).await;
    kit.send("a", "waits", Command::Pause).await;
    let ids = [id("a"), id("b")];
    let whole = |time: jiff::Timestamp| time.as_nanosecond() % 1000 == 0;
    for sent in read(&moment(&kit).await, &ids).await {
        assert!(whole(sent.submitted_at), "{}", sent.submitted_at);
        assert_eq!(
            kit.get(sent.task.id.as_str()).await.submitted_at,
            sent.submitted_at
        );
        assert!(sent.commands.iter().all(|command| whole(command.sent_at)));
        assert!(
            sent.history.iter().all(|change| whole(change.at)),
            "{:?}",
            sent.history
        );
        let mut other = sent.clone();
        other.submitted_at += jiff::SignedDuration::from_nanos(1);
        assert_eq!(sent.difference(&other), Some("submitted_at"));
    }
}
