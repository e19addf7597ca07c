//! The claim is lost, or was.

use std::time::Duration;

use windlass_statemachine::{Command, Fence, Message, NodeName, Retry, TaskState};

use super::{NONE, asleep};
use crate::common::{Rig, config, t, t0};

#[test]
fn a_lost_claim_ends_a_running_handler_and_writes_nothing() {
    let mut rig = Rig::running();
    assert_eq!(rig.fenced(), ["signal LeaseLost", "abort", "lost"]);
    assert!(rig.machine.is_done());
    assert_eq!(rig.returned(Message::complete()), NONE);
    assert_eq!(rig.aborted(), NONE);
    assert_eq!(rig.stored(), NONE);
    assert_eq!(
        rig.checkpoint(1, "1"),
        ["checkpoint 1 refused: the claim on this task is gone"]
    );
}

#[test]
fn a_claim_can_be_lost_in_every_phase() {
    // Before it has begun.
    let mut rig = Rig::new();
    assert_eq!(rig.fenced(), ["lost"]);
    assert_eq!(rig.begin(), NONE);
    // In a short sleep.
    let mut rig = Rig::of(asleep(5), Retry::default());
    rig.begin();
    assert_eq!(rig.fenced(), ["disarm wake", "lost"]);
    assert_eq!(rig.wake(), NONE);
    // While it is aborted.
    let mut rig = Rig::running();
    rig.command(Command::Kill);
    rig.at(30).grace();
    assert_eq!(rig.fenced(), ["disarm grace", "lost"]);
    // While it is stored.
    let mut rig = Rig::running();
    rig.returned(Message::complete());
    assert_eq!(rig.fenced(), ["lost"]);
    assert_eq!(rig.stored(), NONE, "an answer that comes too late");
    // With a checkpoint under way, and one that waits.
    let mut rig = Rig::running();
    rig.checkpoint(1, "1");
    rig.checkpoint(2, "2");
    assert_eq!(
        rig.fenced(),
        [
            "signal LeaseLost",
            "abort",
            "checkpoint 1 refused: the claim on this task is gone",
            "checkpoint 2 refused: the claim on this task is gone",
            "lost"
        ]
    );
    // When the handler has returned and its checkpoint is under way.
    let mut rig = Rig::running();
    rig.checkpoint(1, "1");
    rig.returned(Message::complete());
    assert_eq!(
        rig.fenced(),
        [
            "checkpoint 1 refused: the claim on this task is gone",
            "lost"
        ]
    );
}

#[test]
fn an_abandoned_claim_runs_again_at_once() {
    let state = TaskState::new(t0()).claimed(Fence(2), Some("n1"), t(1));
    assert_eq!(
        (state.attempts, state.claims, state.fence),
        (1, 1, Fence(2))
    );
    let mut rig = Rig::with(config(Retry::default()), state, true);
    assert_eq!(rig.begin(), ["start 2"]);
}

#[test]
fn an_abandoned_claim_fails_the_task_when_the_policy_gives_up() {
    let retry = Retry::exponential(3, Duration::from_secs(60));
    let mut state = TaskState::new(t0());
    state.attempts = 1;
    let state = state.claimed(Fence(2), Some("n1"), t0());
    let mut rig = Rig::with(config(retry.clone()), state.clone(), true);
    assert_eq!(rig.begin(), ["start 3"], "one is left");

    let state = state.claimed(Fence(3), Some("n2"), t0());
    let mut rig = Rig::with(config(retry.clone()), state.clone(), true);
    assert_eq!(rig.begin(), ["write failed: error error; drop"]);
    let errors = rig.written().errors.entries();
    assert_eq!(
        errors[1].error,
        "the claim was abandoned: node n2 was lost while it had the task"
    );
    assert_eq!(
        errors[2].error,
        "the retry policy gives up after 3 attempts: \
         the claim was abandoned: node n2 was lost while it had the task"
    );
    // Both name the node that was lost, and have one fingerprint for each node.
    let named = errors.iter().map(|entry| entry.node.as_ref());
    let named: Vec<_> = named.map(|node| node.map(NodeName::as_str)).collect();
    assert_eq!(named, [Some("n1"), Some("n2"), Some("n2")]);
    assert_eq!(errors[0].fingerprint(), errors[1].fingerprint());
    let mut elsewhere = errors[2].clone();
    elsewhere.error = elsewhere.error.replace("n2", "paris");
    elsewhere.node = "paris".parse().ok();
    assert_eq!(elsewhere.fingerprint(), errors[2].fingerprint());
    assert_eq!(rig.stored(), ["done failed"]);

    // A claim that was released counts for nothing.
    let mut rig = Rig::with(config(retry.clone()), state.clone(), false);
    assert_eq!(rig.begin(), ["start 4"]);

    // A kill that waits is older than the verdict.
    let mut rig = Rig::with(config(retry), state, true);
    rig.command(Command::Kill);
    assert_eq!(
        rig.begin(),
        ["write killed: kill#1; 1 applied runnable killed; drop"]
    );
}
