//! Inputs that make no sense, and numbers at their end.

use windlass_statemachine::{Fence, Message, TaskState};

use super::{AtOnce, NONE};
use crate::common::{Rig, t0};

#[test]
fn inputs_out_of_place_have_no_effect() {
    let mut rig = Rig::new();
    assert_eq!(rig.stored(), NONE);
    assert_eq!(rig.refused(), NONE);
    assert_eq!(rig.returned(Message::kill()), NONE);
    assert_eq!(rig.aborted(), NONE);
    assert_eq!(rig.wake(), NONE);
    assert_eq!(rig.grace(), NONE);
    assert_eq!(
        rig.checkpoint(1, "1"),
        ["checkpoint 1 refused: the handler is being stopped; return a message instead"]
    );
    assert_eq!(rig.begin(), ["start 1"]);
    assert_eq!(rig.begin(), NONE);
    assert_eq!(rig.stored(), NONE);
    assert_eq!(rig.refused(), NONE);
    assert_eq!(rig.wake(), NONE);
    assert_eq!(rig.grace(), NONE);
    assert!(rig.machine.is_running());
}

#[test]
fn a_counter_at_its_end_does_not_overflow() {
    let mut state = TaskState::new(t0());
    state.version = u64::MAX;
    state.claims = u64::MAX;
    state.attempts = u32::MAX;
    state.incarnation = u32::MAX;
    let state = state
        .claimed(Fence(u64::MAX), Some("n"), t0())
        .retried(t0());
    assert_eq!(
        (state.claims, state.version, state.attempts),
        (u64::MAX, u64::MAX, 0)
    );
    let mut state = state.claimed(Fence(u64::MAX), None, t0());
    state.attempts = u32::MAX;
    let mut rig = Rig::of(state, AtOnce);
    assert_eq!(rig.begin(), [format!("start {}", u32::MAX)]);
    assert_eq!(
        rig.returned(Message::error("no")),
        ["write runnable: error run"]
    );
}

#[test]
fn a_handler_that_was_aborted_without_a_stop_starts_again() {
    let mut rig = Rig::running();
    assert_eq!(rig.aborted(), ["write runnable"]);
    assert_eq!(rig.stored(), ["start 1"]);
}
