//! [`Outbox`]: the writes and claims of this node on their way to the store.

use std::{
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::{Stream, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::time::{Instant, sleep};
use tracing::warn;

use crate::{
    runner::{
        input::{ClaimAnswers, SlotId},
        reports::REPORTS,
        store_answers::{Answers, Batch},
    },
    store::{Commit, Coordinator, Error, LogWrite},
    telemetry::{self, CommitMetrics},
};

/// Since when the store has accepted no write, and why.
#[derive(Debug)]
pub(super) struct Failing {
    pub(super) since: Instant,
    pub(super) reason: String,
}

/// A call to the store with its answer.
type Answered = (Batch, Vec<Result<(), Error>>);

/// Collects the writes of one turn, sends them to the store in one call, and receives the answers.
///
/// The engine polls the calls itself, immediately after it has enqueued them. In their own task they
/// would wait for a thread until the engine has no more inputs, while the store is idle.
pub(super) struct Outbox {
    coordinator: Arc<dyn Coordinator>,
    next: Vec<(SlotId, Commit)>,
    calls: FuturesUnordered<BoxFuture<'static, Answered>>,
    claims: FuturesUnordered<BoxFuture<'static, ClaimAnswers>>,
    next_logs: Vec<(SlotId, LogWrite)>,
    logs: FuturesUnordered<BoxFuture<'static, Answers>>,
    failing: Option<Failing>,
    metrics: CommitMetrics,
}

impl Outbox {
    pub(super) fn new(coordinator: Arc<dyn Coordinator>) -> Self {
        Self {
            coordinator,
            next: Vec::new(),
            calls: FuturesUnordered::new(),
            claims: FuturesUnordered::new(),
            next_logs: Vec::new(),
            logs: FuturesUnordered::new(),
            failing: None,
            metrics: CommitMetrics::new(),
        }
    }

    /// Returns since when the store has accepted no write; `None` after an accepted one.
    pub(super) fn failing(&self) -> Option<&Failing> {
        self.failing.as_ref()
    }

    /// Clears the failures: the writes under way belong to a lost lease.
    pub(super) fn forget_failures(&mut self) {
        self.failing = None;
    }

    /// Adds a write to the next call.
    pub(super) fn push(&mut self, slot: SlotId, commit: Commit) {
        self.next.push((slot, commit));
    }

    /// Adds log lines to the next call for lines.
    pub(super) fn push_log(&mut self, slot: SlotId, write: LogWrite) {
        self.next_logs.push((slot, write));
    }

    /// Polls the calls for log lines, and returns the next answers. Never ready without calls.
    pub(super) fn poll_logs(&mut self, cx: &mut Context<'_>) -> Poll<Answers> {
        // Nearly always; a poll costs more than the look.
        if self.logs.is_empty() {
            return Poll::Pending;
        }
        match self.logs.poll_next_unpin(cx) {
            Poll::Ready(Some(answers)) => Poll::Ready(answers),
            _ => Poll::Pending,
        }
    }

    /// Enqueues the collected writes as one call, and the collected log lines as another one.
    pub(super) fn enqueue(&mut self) {
        if !self.next_logs.is_empty() {
            let (slots, writes): (Vec<_>, Vec<_>) =
                mem::take(&mut self.next_logs).into_iter().unzip();
            let coordinator = self.coordinator.clone();
            self.logs.push(Box::pin(async move {
                let answers = coordinator.log(writes).await;
                slots.into_iter().zip(answers).collect()
            }));
        }
        if !self.next.is_empty() {
            let writes = mem::take(&mut self.next);
            self.send(Batch::new(writes));
        }
    }

    /// Enqueues a claim call. It is polled after the writes, so the store can commit both together.
    pub(super) fn claim(&self, call: impl Future<Output = ClaimAnswers> + Send + 'static) {
        self.claims.push(Box::pin(call));
    }

    /// Polls the claim calls, and returns the next answer. Never ready without calls.
    pub(super) fn poll_claims(&mut self, cx: &mut Context<'_>) -> Poll<ClaimAnswers> {
        match self.claims.poll_next_unpin(cx) {
            Poll::Ready(Some(answers)) => Poll::Ready(answers),
            _ => Poll::Pending,
        }
    }

    fn send(&self, batch: Batch) {
        let (coordinator, metrics) = (self.coordinator.clone(), self.metrics.clone());
        self.calls.push(Box::pin(async move {
            if !batch.pause.is_zero() {
                sleep(batch.pause).await;
            }
            let writes = batch.writes.iter();
            let commits = writes.map(|(_, commit)| commit.clone()).collect();
            let asked = Instant::now();
            let answers = coordinator.commit(commits).await;
            metrics.answered(asked.elapsed(), batch.writes.len());
            (batch, answers)
        }));
    }

    /// Polls the calls, and returns the next final answers. Writes that the store cannot apply now
    /// are sent again while their claims are attached to this lease. Never ready without calls.
    pub(super) fn poll_answers(
        &mut self,
        cx: &mut Context<'_>,
        lease: Option<u64>,
    ) -> Poll<Answers> {
        while let Poll::Ready(Some((batch, answers))) = Pin::new(&mut self.calls).poll_next(cx) {
            self.note(&answers);
            let sorted = batch.sort(answers, lease, fastrand::f64());
            if let Some(unavailable) = sorted.report {
                let (task, error) = (&unavailable.task, &unavailable.error);
                warn!(target: REPORTS, %task, %error, "could not store a transition; trying again");
            }
            if let Some(again) = sorted.again {
                self.send(again);
            }
            if !sorted.done.is_empty() {
                return Poll::Ready(sorted.done);
            }
        }
        Poll::Pending
    }

    /// Records whether the store accepts writes.
    fn note(&mut self, answers: &[Result<(), Error>]) {
        let failed = |answer: &Result<(), Error>| {
            let error = answer.as_ref().err().filter(|e| e.is_retryable())?;
            Some(error.to_string())
        };
        for error in answers.iter().filter_map(|answer| answer.as_ref().err()) {
            telemetry::store_error("commit", error);
        }
        let since = self.failing.take().map(|failing| failing.since);
        if answers.iter().any(Result::is_ok) {
            return;
        }
        self.failing = answers.iter().find_map(failed).map(|reason| Failing {
            since: since.unwrap_or_else(Instant::now),
            reason,
        });
    }

    /// Moves the calls under way to their own task, because the engine ends.
    pub(super) fn finish(mut self) {
        self.enqueue();
        if !self.calls.is_empty() {
            tokio::spawn(self.calls.for_each(|_| async {}));
        }
        if !self.logs.is_empty() {
            tokio::spawn(self.logs.for_each(|_| async {}));
        }
        if !self.claims.is_empty() {
            tokio::spawn(self.claims.for_each(|_| async {}));
        }
    }
}
