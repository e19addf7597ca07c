//! The pure state machine.

use std::{hint::black_box, path::Path, sync::Arc, time::Duration};

use windlass::{
    Message, Retry, TaskState,
    jiff::Timestamp,
    statemachine::machine::{Config, Effect, Env, Input, Machine},
};

use crate::data;

/// A handler returns Checkpoint with data, the write is stored, and the handler starts again.
pub(crate) fn checkpoints(count: u64, _: &Path) {
    let config = Config {
        stop_grace: Duration::from_secs(30),
        park_after: Duration::from_secs(10),
        retry: Arc::new(Retry::default()),
        max_data_bytes: 1 << 20,
        data_version: 1,
        max_outcomes: 100,
        takes_signals: false,
        idle_runs: 100,
        named_runs: false,
        claim_per_attempt: false,
    };
    let state = TaskState::new(Timestamp::UNIX_EPOCH);
    let mut machine = Machine::new(config, state, false);
    let mut out = Vec::new();
    machine.input(Input::Begin, at(0), &mut out);
    for n in 0..count {
        out.clear();
        let message = Message::checkpoint().with_data(&data(n));
        machine.input(Input::Returned(message), at(n), &mut out);
        let stores = |effect: &Effect| matches!(effect, Effect::Persist(_));
        assert!(out.iter().any(stores), "{out:?}");
        black_box(&out);
        out.clear();
        machine.input(Input::Stored, at(n), &mut out);
        let starts = |effect: &Effect| matches!(effect, Effect::Start { .. });
        assert!(out.iter().any(starts), "{out:?}");
    }
}

/// A second passes with each run.
fn at(n: u64) -> Env {
    Env {
        now: Timestamp::UNIX_EPOCH + Duration::from_secs(n),
        elapsed: Duration::from_secs(n),
        jitter: 0.5,
    }
}
