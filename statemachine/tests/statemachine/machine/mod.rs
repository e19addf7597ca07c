//! The machine, one story at a time.

mod adopting;
mod awaited;
mod beside;
mod checkpoints;
mod commands;
mod course;
mod data_versions;
mod deadlines;
mod errors;
mod losing;
mod many;
mod numbered;
mod oddities;
mod pace;
mod parked;
mod paused;
mod phases;
mod refused;
mod replies;
mod signals;
mod starts;
mod stopping;
mod waits;

use crate::common::{self, json, t, t0};
use windlass_statemachine::{Command, Decision, Failure, RetryPolicy, TaskState, TaskStatus};

/// No effects.
const NONE: [&str; 0] = [];

fn paused() -> TaskState {
    let mut state = TaskState::new(t0());
    state.status = TaskStatus::Paused;
    state
}

fn asleep(second: i64) -> TaskState {
    let mut state = TaskState::new(t0());
    state.status = TaskStatus::Sleeping { until: t(second) };
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
