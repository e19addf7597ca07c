//! [`Outbox`]: the writes of this node on their way to the store.

use std::{
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::{Stream, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::time::sleep;
use tracing::warn;

use crate::{
    runner::{
        commit::{Answers, Batch},
        input::SlotId,
        reports::REPORTS,
    },
    store::{Commit, Coordinator, Error},
};

/// A call of the store that is answered.
type Answered = (Batch, Vec<Result<(), Error>>);

/// The writes of one turn come together here, go to the store in one call, and are answered here.
///
/// The engine polls the calls itself, at once after it has enqueued them. A task of their own would wait
/// for a thread until the engine has no more inputs, and the store would be idle meanwhile.
pub(super) struct Outbox {
    coordinator: Arc<dyn Coordinator>,
    next: Vec<(SlotId, Commit)>,
    calls: FuturesUnordered<BoxFuture<'static, Answered>>,
}

impl Outbox {
    pub(super) fn new(coordinator: Arc<dyn Coordinator>) -> Self {
        Self {
            coordinator,
            next: Vec::new(),
            calls: FuturesUnordered::new(),
        }
    }

    /// Adds a write to the next call.
    pub(super) fn push(&mut self, slot: SlotId, commit: Commit) {
        self.next.push((slot, commit));
    }

    /// Enqueues the writes that have come together, as one call.
    pub(super) fn enqueue(&mut self) {
        if !self.next.is_empty() {
            let writes = mem::take(&mut self.next);
            self.send(Batch::new(writes));
        }
    }

    fn send(&self, batch: Batch) {
        let coordinator = self.coordinator.clone();
        self.calls.push(Box::pin(async move {
            if !batch.pause.is_zero() {
                sleep(batch.pause).await;
            }
            let writes = batch.writes.iter();
            let commits = writes.map(|(_, commit)| commit.clone()).collect();
            let answers = coordinator.commit(commits).await;
            (batch, answers)
        }));
    }

    /// Polls the calls, and returns the next final answers. Writes that the store cannot take now are
    /// sent again while their claims are attached to this lease. Never ready without calls.
    pub(super) fn poll_answers(
        &mut self,
        cx: &mut Context<'_>,
        lease: Option<u64>,
    ) -> Poll<Answers> {
        while let Poll::Ready(Some((batch, answers))) = Pin::new(&mut self.calls).poll_next(cx) {
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

    /// Leaves the calls that are under way to a task of their own: the engine ends.
    pub(super) fn finish(mut self) {
        self.enqueue();
        if !self.calls.is_empty() {
            tokio::spawn(self.calls.for_each(|_| async {}));
        }
    }
}
