//! A kind whose tasks are worked on in batches: each call counts one step of every task.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;
use windlass::{BoxError, Message, handler::TaskBatch, runner::Builder};

use super::Run;
use crate::{terms::Terms, witness::Journal};

/// The kind.
pub const BATCHED: &str = "batched";

/// How many tasks a batch has at most, and how long its first task waits for the others.
const UP_TO: usize = 7;
const WITHIN: Duration = Duration::from_millis(15);

/// Adds the batch handler, if the node takes its kind.
pub(super) fn add(builder: Builder, journal: &Arc<Journal>, terms: &Terms) -> Builder {
    if !terms.take(BATCHED) {
        return builder;
    }
    let journal = journal.clone();
    builder.batch_handler(BATCHED, UP_TO, WITHIN, move |batch: TaskBatch| {
        let journal = journal.clone();
        async move { step(&journal, &batch).await }
    })
}

async fn step(journal: &Arc<Journal>, batch: &TaskBatch) -> Result<Vec<Message>, BoxError> {
    let tasks = batch.tasks().iter().cloned();
    let runs = tasks.map(|task| Run::start(journal.clone(), task));
    let runs: Vec<Run> = runs.collect::<Result<_, _>>()?;
    let ms = runs.iter().map(|run| run.job.ms).max().unwrap_or_default();
    tokio::select! {
        biased;
        (at, stop) = batch.stop_requested() => {
            let message = |n| if n == at { stop.message() } else { Message::release() };
            return Ok((0..runs.len()).map(message).collect());
        }
        () = sleep(Duration::from_millis(ms)) => {}
    }
    Ok(runs.iter().map(Run::step_of_a_batch).collect())
}

impl Run {
    fn step_of_a_batch(&self) -> Message {
        if self.n >= self.job.total {
            return Message::complete_with(self.n);
        }
        let kept = self.asks(self.n + 1);
        // Some steps release the claim and some keep it.
        let nap = if self.n.is_multiple_of(2) { 20 } else { 500 };
        Message::sleep_for(Duration::from_millis(nap)).with_data(&kept)
    }
}
