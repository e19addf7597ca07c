//! The process dies after the state store has the write and before the coordinator has.

use std::time::Duration;

use windlass::{
    ActionKind, Command, Message, Outcome, StateKind,
    statemachine::state::LastCommand,
    store::{Claimed, Commit, Lease},
    testing::{Fault, Operation},
};

use super::support::*;

/// A node that has claimed `a` and made a checkpoint.
async fn claimed() -> (Kit, Lease, Claimed) {
    let kit = Kit::new().await;
    let node = kit.node("first").await;
    kit.submit("a").await;
    let mut claimed = kit.claim(&node, "a").await.unwrap().unwrap();
    let first = Message::checkpoint().with_data(&1);
    kit.commit(&mut claimed, first, None).await.unwrap();
    (kit, node, claimed)
}

/// Claims `a`, and writes a message so that only the state store gets it; then the node is gone.
async fn half_written(message: Message, command: Option<Command>) -> (Kit, u64) {
    let (kit, node, mut claimed) = claimed().await;
    let mut order = None;
    if let Some(command) = command {
        order = Some(kit.send("a", "c1", command).await);
    }
    kit.faulty.fail(Operation::Commit, Fault::Before, 1);
    let error = kit.commit(&mut claimed, message, order).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    kit.store.coordinator().leave(&node).await.unwrap();
    (kit, order.unwrap_or(0))
}

#[tokio::test]
async fn a_transition_is_not_lost() {
    let pause = Message::pause().with_data(&2);
    let (kit, order) = half_written(pause, Some(Command::Pause)).await;
    kit.send("a", "c2", Command::Run).await;
    let node = kit.node("second").await;
    let mut claimed = kit.claim(&node, "a").await.unwrap().unwrap();
    assert_eq!(claimed.state.code(), StateKind::Paused);
    assert_eq!(claimed.state.data.as_ref().unwrap().as_str(), "2");
    let waiting: Vec<_> = claimed.commands.iter().map(|c| c.id.as_str()).collect();
    assert_eq!(waiting, ["c2"], "the first has had its effect");
    let applied = Outcome::Applied {
        from: StateKind::Runnable,
        to: StateKind::Paused,
    };
    assert_eq!(kit.outcome("c1").await, Some(applied));
    assert_eq!(kit.outcome("c2").await, None);

    let second = claimed.commands[0].order;
    let run = Message::run();
    kit.commit(&mut claimed, run, Some(second)).await.unwrap();
    assert_eq!(
        kit.moves("a").await[1..],
        [
            (StateKind::Runnable, StateKind::Paused, Some(order)),
            (StateKind::Paused, StateKind::Runnable, Some(second)),
        ]
    );
}

#[tokio::test]
async fn an_end_is_not_lost() {
    let complete = Message::complete_with("done");
    let (kit, order) = half_written(complete, Some(Command::Complete { result: None })).await;
    kit.send("a", "late", Command::Pause).await;
    assert_eq!(
        kit.state("a").await.code(),
        StateKind::Runnable,
        "no caller has its answer"
    );
    let node = kit.node("second").await;
    let claimed = kit.claim(&node, "a").await.unwrap();
    assert!(claimed.is_none(), "it has ended: {claimed:?}");
    let state = kit.state("a").await;
    let result = Some(windlass::Json::new("result", "done").unwrap());
    assert_eq!(state.status, windlass::TaskStatus::Completed { result });
    assert!(kit.outcome("c1").await.unwrap().is_applied());
    let late = kit.outcome("late").await;
    assert!(matches!(late, Some(Outcome::Rejected { .. })), "{late:?}");
    let moves = kit.moves("a").await;
    assert_eq!(
        moves.last(),
        Some(&(StateKind::Runnable, StateKind::Completed, Some(order)))
    );
    assert_eq!(kit.inner.registry().nodes().await.unwrap()[0].claims, 0);
}

#[tokio::test]
async fn a_failure_is_not_lost() {
    let (kit, _) = half_written(Message::error("disk full"), None).await;
    let node = kit.node("second").await;
    let claimed = kit.claim(&node, "a").await.unwrap().unwrap();
    assert_eq!(claimed.state.code(), StateKind::Fault);
    assert_eq!(claimed.state.errors.last().unwrap().error, "disk full");
    assert_eq!(
        kit.moves("a").await.last(),
        Some(&(StateKind::Runnable, StateKind::Fault, None))
    );
}

#[tokio::test]
async fn a_checkpoint_is_not_lost() {
    let checkpoint = Message::checkpoint().with_data(&2);
    let (kit, _) = half_written(checkpoint, None).await;
    let node = kit.node("second").await;
    let claimed = kit.claim(&node, "a").await.unwrap().unwrap();
    assert_eq!(claimed.state.data.unwrap().as_str(), "2");
    kit.moves("a").await;
}

/// Claims that are lost before they have written anything do not hide a newer state.
#[tokio::test]
async fn nothing_is_lost_by_many_crashes() {
    let pause = Message::pause().with_data(&2);
    let (kit, _) = half_written(pause, Some(Command::Pause)).await;
    for n in 0..4 {
        let node = kit.node(&format!("n{n}")).await;
        // Without the state store: the process dies between its two claims.
        let claimed = kit.inner.coordinator().claim(&node, vec![id("a")]).await;
        assert!(claimed[0].as_ref().unwrap().is_some());
        kit.store.coordinator().leave(&node).await.unwrap();
        let node = kit.node(&format!("m{n}")).await;
        // And one that is lost before the coordinator has caught up.
        kit.faulty.fail(Operation::Commit, Fault::Before, 1);
        let refused = kit.claim(&node, "a").await.unwrap_err();
        assert!(refused.is_retryable(), "{refused}");
        kit.store.coordinator().leave(&node).await.unwrap();
    }
    let node = kit.node("last").await;
    let claimed = kit.claim(&node, "a").await.unwrap().unwrap();
    assert_eq!(claimed.state.code(), StateKind::Paused);
    assert_eq!(claimed.state.data.unwrap().as_str(), "2");
    assert!(claimed.commands.is_empty());
    assert_eq!(
        kit.moves("a").await.len(),
        2,
        "checkpoint and pause, once each"
    );
}

/// The answer of the coordinator is lost, not its write: the same commit again succeeds.
#[tokio::test]
async fn a_lost_answer_is_resolved_by_repeating() {
    let kit = Kit::new().await;
    let node = kit.node("n").await;
    kit.submit("a").await;
    let mut claimed = kit.claim(&node, "a").await.unwrap().unwrap();
    kit.faulty.fail(Operation::Commit, Fault::After, 1);
    let write = kit.write(&mut claimed, Message::complete_with("done"), None);
    let commit = Commit::new(claimed.claim.clone(), write);
    let coordinator = kit.store.coordinator();
    let lost = coordinator.commit(vec![commit.clone()]).await.remove(0);
    let lost = lost.unwrap_err();
    assert!(lost.is_retryable(), "{lost}");
    coordinator.commit(vec![commit]).await.remove(0).unwrap();
    assert_eq!(kit.moves("a").await.len(), 1);
}

/// Regression: two commands were settled in the write that the coordinator missed, and the first got
/// the outcome of the second.
#[tokio::test]
async fn commands_of_one_missed_write_have_outcomes_of_their_own() {
    let (kit, node, mut claimed) = claimed().await;
    let pause = kit.send("a", "c1", Command::Pause).await;
    let complete = Command::Complete { result: None };
    let complete = kit.send("a", "c2", complete).await;
    let mut write = kit.write(&mut claimed, Message::pause(), Some(pause));
    let then = kit.write(&mut claimed, Message::complete(), Some(complete));
    write.state = then.state;
    write.state.version -= 1;
    write.steps.extend(then.steps);
    write.outcomes.extend(then.outcomes);
    kit.lose(&claimed, write).await;
    kit.store.coordinator().leave(&node).await.unwrap();

    let node = kit.node("second").await;
    let claimed = kit.claim(&node, "a").await.unwrap();
    assert!(claimed.is_none(), "it has ended: {claimed:?}");
    let applied = |from, to| Some(Outcome::Applied { from, to });
    let (c1, c2) = (kit.outcome("c1").await, kit.outcome("c2").await);
    assert_eq!(c1, applied(StateKind::Runnable, StateKind::Paused));
    assert_eq!(c2, applied(StateKind::Paused, StateKind::Completed));
    assert_eq!(
        kit.moves("a").await[1..],
        [
            (StateKind::Runnable, StateKind::Paused, Some(pause)),
            (StateKind::Paused, StateKind::Completed, Some(complete)),
        ]
    );
}

/// Regression: the last command that was settled in the write that the coordinator missed was rejected.
/// The earlier commands got its outcome, and no command made the step.
#[tokio::test]
async fn a_command_before_a_rejected_one_of_a_missed_write_keeps_its_effect() {
    let (kit, node, mut claimed) = claimed().await;
    let complete = Command::Complete { result: None };
    let complete = kit.send("a", "c1", complete).await;
    let pause = kit.send("a", "c2", Command::Pause).await;
    let mut write = kit.write(&mut claimed, Message::complete(), Some(complete));
    let rejected = Outcome::Rejected {
        reason: "a completed task does not take `pause`".into(),
    };
    write.outcomes.push((pause, rejected.clone()));
    write.state.last_command = Some(LastCommand::new(pause, rejected.clone()));
    kit.lose(&claimed, write).await;
    kit.store.coordinator().leave(&node).await.unwrap();

    let node = kit.node("second").await;
    let claimed = kit.claim(&node, "a").await.unwrap();
    assert!(claimed.is_none(), "it has ended: {claimed:?}");
    let (from, to) = (StateKind::Runnable, StateKind::Completed);
    assert_eq!(kit.outcome("c1").await, Some(Outcome::Applied { from, to }));
    assert_eq!(kit.outcome("c2").await, Some(rejected));
    assert_eq!(kit.moves("a").await[1..], [(from, to, Some(complete))]);
}

/// Regression: in the write that the coordinator missed, the handler failed instead of following the
/// command. The history had the shortest path to the state, a sleep, without the error that overrode the
/// command.
#[tokio::test]
async fn the_return_that_overrode_a_command_of_a_missed_write_is_a_step() {
    let (kit, node, mut claimed) = claimed().await;
    let checkpoint = kit.send("a", "c1", Command::Checkpoint).await;
    let run = kit.send("a", "c2", Command::Run).await;
    let mut write = kit.write(&mut claimed, Message::checkpoint(), Some(checkpoint));
    for message in [Message::error("no"), Message::sleep_for(Duration::ZERO)] {
        let then = kit.write(&mut claimed, message, None);
        write.state = then.state;
        write.steps.extend(then.steps);
    }
    let by = ActionKind::Error;
    let outcome = Outcome::Overridden { by };
    write.outcomes.push((run, outcome.clone()));
    write.state.version -= 2;
    write.state.last_command = Some(LastCommand::new(run, outcome.clone()));
    kit.lose(&claimed, write).await;
    kit.store.coordinator().leave(&node).await.unwrap();

    let node = kit.node("second").await;
    let claimed = kit.claim(&node, "a").await.unwrap().unwrap();
    assert_eq!(claimed.state.code(), StateKind::Sleeping);
    let (from, to) = (StateKind::Runnable, StateKind::Runnable);
    assert_eq!(kit.outcome("c1").await, Some(Outcome::Applied { from, to }));
    assert_eq!(kit.outcome("c2").await, Some(outcome));
    assert_eq!(
        kit.moves("a").await[1..],
        [
            (StateKind::Runnable, StateKind::Runnable, Some(checkpoint)),
            (StateKind::Runnable, StateKind::Fault, None),
            (StateKind::Fault, StateKind::Sleeping, None),
        ]
    );
}
