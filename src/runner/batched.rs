//! [`Batched`]: one call of a handler for several tasks.

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use futures::FutureExt;
use tokio::sync::{mpsc, oneshot};
use windlass_statemachine::Message;

use super::spawn::panic_text;
use crate::handler::{IntoMessages, StatefulHandler, TaskBatch, TaskContext};

/// The handler of a kind that collects tasks, and calls a batch handler for them.
pub(super) struct Batched<H> {
    handler: Arc<H>,
    up_to: usize,
    within: Duration,
    /// The queue of the collector, which runs from the first task until this handler is dropped.
    queue: OnceLock<mpsc::UnboundedSender<Pending>>,
}

/// A task that waits for the message of the batch handler.
struct Pending {
    context: TaskContext,
    returns: oneshot::Sender<Message>,
}

impl<H> Batched<H> {
    pub(super) fn new(up_to: usize, within: Duration, handler: H) -> Self {
        Self {
            handler: Arc::new(handler),
            up_to: up_to.max(1),
            within,
            queue: OnceLock::new(),
        }
    }
}

#[async_trait]
impl<H, Fut> StatefulHandler for Batched<H>
where
    H: Fn(TaskBatch) -> Fut + Send + Sync + 'static,
    Fut: Future + Send + 'static,
    Fut::Output: IntoMessages,
{
    async fn run(&self, context: TaskContext) -> Message {
        let (returns, returned) = oneshot::channel();
        let queue = self.queue.get_or_init(|| {
            let (queue, pending) = mpsc::unbounded_channel();
            let handler = self.handler.clone();
            tokio::spawn(collect(pending, handler, self.up_to, self.within));
            queue
        });
        let ended = || Message::error("the batch handler ended without a message");
        if queue.send(Pending { context, returns }).is_err() {
            return ended();
        }
        returned.await.unwrap_or_else(|_| ended())
    }
}

/// Starts a call of the handler for each batch: when it is full, or when its first task has waited for `within`.
async fn collect<H, Fut>(
    mut queue: mpsc::UnboundedReceiver<Pending>,
    handler: Arc<H>,
    up_to: usize,
    within: Duration,
) where
    H: Fn(TaskBatch) -> Fut + Send + Sync + 'static,
    Fut: Future + Send + 'static,
    Fut::Output: IntoMessages,
{
    while let Some(first) = queue.recv().await {
        let mut batch = vec![first];
        let end = tokio::time::sleep(within);
        tokio::pin!(end);
        while batch.len() < up_to {
            tokio::select! {
                biased;
                next = queue.recv() => match next {
                    Some(next) => batch.push(next),
                    None => break,
                },
                () = &mut end => break,
            }
        }
        // Tasks that were stopped in the meantime are no longer in the batch.
        batch.retain(|pending| !pending.returns.is_closed());
        if !batch.is_empty() {
            tokio::spawn(run(batch, handler.clone()));
        }
    }
}

async fn run<H, Fut>(batch: Vec<Pending>, handler: Arc<H>)
where
    H: Fn(TaskBatch) -> Fut,
    Fut: Future,
    Fut::Output: IntoMessages,
{
    let (tasks, returns): (Vec<_>, Vec<_>) = batch
        .into_iter()
        .map(|Pending { context, returns }| (context, returns))
        .unzip();
    // The call is made inside the future, so that a panic before its first await is also caught.
    let called = async { handler(TaskBatch::new(tasks.clone())).await };
    let called = AssertUnwindSafe(called).catch_unwind().await;
    // Must be checked before an error becomes text.
    let missing = tasks.iter().find_map(TaskContext::missing_in_return);
    let messages = match called {
        Ok(returned) => returned.into_messages(returns.len()),
        Err(payload) => {
            let text = panic_text(payload.as_ref());
            Message::error(format!("the batch handler panicked: {text}"))
                .into_messages(returns.len())
        }
    };
    for (task, message) in tasks.iter().zip(&messages) {
        task.ends_without(missing.as_ref(), message);
    }
    for (returns, message) in returns.into_iter().zip(messages) {
        // A stopped task has ended already.
        let _ = returns.send(message);
    }
}
