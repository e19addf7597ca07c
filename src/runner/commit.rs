//! Carrying writes to the store: until they are answered, or the lease that they hang on is gone.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, watch},
    time::sleep,
};
use tracing::warn;
use windlass_statemachine::{
    TaskId,
    machine::{Input, StopReason},
};

use super::input::{In, SlotId};
use crate::store::{Commit, Coordinator, Error};

/// The input of the machine that follows from the store's answer to a write of this task.
pub(crate) fn input_of(task: &TaskId, answer: Result<(), Error>) -> Input {
    match answer {
        Ok(()) => Input::Stored,
        Err(Error::Fenced(_)) => Input::Fenced(StopReason::LeaseLost),
        Err(Error::NotFound { what: "task", name }) if task.as_str() == name => {
            Input::Fenced(StopReason::Deleted)
        }
        Err(e) => Input::Refused {
            retryable: !matches!(e, Error::TooLarge { .. }),
            reason: e.to_string(),
        },
    }
}

/// Sends one batch of writes and tells the engine of each. A write that the store could not take
/// now is tried again; trying again is safe, because a store takes a write of the same claim and
/// version once.
pub(super) async fn carry(
    coordinator: Arc<dyn Coordinator>,
    mut batch: Vec<(SlotId, Commit)>,
    lease: watch::Receiver<Option<u64>>,
    to_engine: mpsc::UnboundedSender<In>,
) {
    let mut wait = Duration::from_millis(10);
    let mut reported = false;
    loop {
        let commits = batch.iter().map(|(_, commit)| commit.clone()).collect();
        let answers = coordinator.commit(commits).await;
        let mut again = Vec::new();
        let mut done = Vec::with_capacity(batch.len());
        let current = *lease.borrow();
        for ((slot, commit), answer) in batch.into_iter().zip(answers) {
            match answer {
                Err(e) if e.is_retryable() => {
                    if current == Some(commit.claim.lease) {
                        if !reported {
                            let task = &commit.claim.task;
                            warn!(target: super::REPORTS, %task, error = %e, "a transition could not be stored; trying again");
                            reported = true;
                        }
                        again.push((slot, commit));
                    } else {
                        done.push((slot, Err(Error::fenced(&commit.claim.task))));
                    }
                }
                answer => done.push((slot, answer)),
            }
        }
        if !done.is_empty() && to_engine.send(In::Committed(done)).is_err() {
            return;
        }
        if again.is_empty() {
            return;
        }
        batch = again;
        sleep(wait.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        wait = (wait * 2).min(Duration::from_secs(2));
    }
}
