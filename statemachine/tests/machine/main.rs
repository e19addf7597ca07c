//! The machine, one story at a time.

#[path = "../common/mod.rs"]
mod common;

mod checkpoints;
mod commands;
mod course;
mod errors;
mod losing;
mod many;
mod oddities;
mod pace;
mod parked;
mod phases;
mod refused;
mod stopping;

use common::{json, t, t0};
use windlass_statemachine::{Command, Decision, Failure, RetryPolicy, State, Status};

/// No effects.
const NONE: [&str; 0] = [];

fn paused() -> State {
    let mut state = State::new(t0());
    state.status = Status::Paused;
    state
}

fn asleep(second: i64) -> State {
    let mut state = State::new(t0());
    state.status = Status::Sleeping { until: t(second) };
    state
}

fn result(text: &str) -> Command {
    Command::Complete {
        result: Some(json(text)),
    }
}

/// Tries again at once, always.
#[derive(Debug)]
struct AtOnce;
impl RetryPolicy for AtOnce {
    fn decide(&self, _: &Failure<'_>) -> Decision {
        Decision::Run
    }
}
