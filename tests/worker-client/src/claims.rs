//! Starts, stops and ends runs.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use windlass::{
    Json,
    workers::protocol::{Exchanged, Held, RunPhase, Start, What},
};

use crate::{
    Ctl, Fault, Handler,
    state::{Claim, Name, Shared, State},
};

/// The part of the TTL after which handlers stop.
const PART: f64 = 0.8;

/// Starts runs, each at most once.
pub(crate) fn start_all(shared: &Arc<Shared>, handler: &Handler, starts: Vec<Start>) {
    for start in starts {
        if let Some(name) = note_start(&mut shared.lock(), &start) {
            run(shared, handler, name, start);
        }
    }
    shared.notify();
}

/// Notes a run that is to start; `None` for a run that has started before.
fn note_start(state: &mut State, start: &Start) -> Option<Name> {
    let name = Name {
        id: start.id.clone(),
        fence: start.fence,
        run: start.run,
    };
    // The answer may have come late: another worker may have the task by now.
    if is_over(state) {
        return None;
    }
    if !state.started.insert(name.clone()) {
        let is_replaced = state.claim(&name).is_none() && state.has(Fault::StartsEarlier);
        return (is_replaced || state.has(Fault::StartsTwice)).then_some(name);
    }
    // An answer that comes late may have a run that a later one, of the same claim or of a later claim, has replaced.
    let is_later = |other: &&Name| (other.fence, other.run) > (name.fence, name.run);
    let mut of_task = state.started.iter().filter(|other| other.id == name.id);
    if of_task.any(|other| is_later(&other)) {
        return None;
    }
    // A greater fence means that an earlier claim of the task is over.
    let earlier = |(id, fence): &&(_, _)| *id == start.id && *fence < start.fence;
    let earlier: Vec<_> = state.claims.keys().filter(earlier).cloned().collect();
    for key in earlier {
        state.claims.remove(&key);
    }
    let n = match state.has(Fault::NumbersPerRun) {
        true => 0,
        false => start.n.saturating_sub(1),
    };
    let mut held = Held::new(start.id.clone(), start.fence, start.run);
    held.took = start.signals.iter().map(|s| s.order).max().unwrap_or(0);
    let claim = Claim::new(held, n, Duration::from_millis(start.grace_ms));
    state.claims.insert((start.id.clone(), start.fence), claim);
    Some(name)
}

/// Runs a handler on a thread of its own.
fn run(shared: &Arc<Shared>, handler: &Handler, name: Name, start: Start) {
    let shared = Arc::clone(shared);
    let handler = Arc::clone(handler);
    thread::spawn(move || {
        let ctl = Ctl {
            shared: Arc::clone(&shared),
            name: name.clone(),
        };
        let returned = catch_unwind(AssertUnwindSafe(|| handler(&start, &ctl)));
        let message = returned
            .unwrap_or_else(|_| json!({"message": "error", "error": "the handler panicked"}));
        let mut state = shared.lock();
        if let Some(claim) = state.claim_mut(&name).filter(|claim| !claim.over) {
            claim.end(What::Return(as_json(&message)));
        }
        drop(state);
        shared.notify();
    });
}

fn as_json(message: &Value) -> Json {
    Json::new("return", message).unwrap_or_else(|_| Json::null())
}

/// Takes the answer of an exchange, except for the runs to start.
pub(crate) fn take(state: &mut State, answer: &Exchanged) {
    state.renewed(answer.renewed_seq);
    state.drain = answer.drain;
    for lost in &answer.lost {
        state.lose(&(lost.id.clone(), lost.fence));
    }
    let ignores = state.has(Fault::IgnoresStop);
    for stop in answer.stop.iter().filter(|_| !ignores) {
        let name = Name {
            id: stop.id.clone(),
            fence: stop.fence,
            run: stop.run,
        };
        if let Some(claim) = state.claim_mut(&name) {
            let grace = Duration::from_millis(stop.grace_ms).min(claim.grace);
            claim.stop_at.get_or_insert(Instant::now() + grace);
            claim.held.took = claim.held.took.max(stop.order.unwrap_or(0));
            if claim.held.phase == RunPhase::Running {
                claim.held.phase = RunPhase::Stopping;
            }
        }
    }
    for signal in &answer.signals {
        let name = Name {
            id: signal.id.clone(),
            fence: signal.fence,
            run: signal.run,
        };
        if let Some(claim) = state.claim_mut(&name)
            && signal.order > claim.held.took
        {
            claim.held.took = signal.order;
            claim.signals.push(signal.clone());
        }
    }
}

/// Returns whether the lease was not renewed for too long.
fn is_over(state: &State) -> bool {
    let until = state
        .renewed
        .map(|sent| sent + state.ttl.mul_f64(PART))
        .filter(|_| !state.has(Fault::OutlivesTtl));
    until.is_some_and(|until| until <= Instant::now())
}

/// Aborts the handlers whose grace is over, and all of them when the lease was not renewed for too long.
pub(crate) fn watch(state: &mut State) {
    let now = Instant::now();
    let is_over = is_over(state);
    for claim in state.claims.values_mut().filter(|claim| !claim.over) {
        if is_over || claim.stop_at.is_some_and(|at| at <= now) {
            claim.end(What::Aborted);
        }
    }
}
