//! [`Runner`]: a running node, for the program that started it.

use std::sync::{Arc, OnceLock};

use futures::{Stream, StreamExt, stream};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::Instant,
};
use tracing::{info, warn};
use windlass_statemachine::NodeName;

use super::{
    control::Control,
    input::EngineInput,
    os_signals::StopSignals,
    snapshot::{Snapshot, Unstored},
};
use crate::{handler::Shared, store::Error};

/// A running node. Dropping it stops the node in the background, like [`abort`](Self::abort).
///
/// # Flow
///
/// 1. [`Runner::builder`] names the node and its handlers; [`Builder::start`](super::Builder::start) joins the namespace.
/// 2. The node lists the tasks, then watches. It claims and runs the tasks that are due, within its
///    slots.
/// 3. [`shutdown`](Self::shutdown) releases every task and leaves.
///
/// # Guarantees
///
/// The numbered guarantees of `docs/reference/guarantees.md`: one owner, fenced writes, durable before acted
/// on, no lost task, commands once and in order, stop in time.
///
/// # Caveats
///
/// If handlers block, the node meets its deadlines only on a multi-threaded tokio runtime.
///
/// # Example
///
/// ```
/// use windlass::{Client, Message, NewTask, Runner, TaskContext, store::Store};
///
/// # #[tokio::main] async fn main() -> Result<(), windlass::BoxError> {
/// let store = Store::open("memory:").await?;
/// let client = Client::new(&store);
/// let runner = Runner::builder(&store)
///     .handler("double", |task: TaskContext| async move {
///         let n: u64 = task.props()?;
///         Ok::<_, windlass::BoxError>(Message::complete_with(n * 2))
///     })
///     .start()
///     .await?;
///
/// let id = client.submit(NewTask::new("double").props(&21)).await?;
/// let done = client.wait(&id).await?;
/// assert_eq!(done.result::<u64>()?, 42);
/// runner.shutdown().await;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Runner {
    pub(super) shared: Shared,
    pub(super) node: NodeName,
    pub(super) tx: mpsc::UnboundedSender<EngineInput>,
    pub(super) ended: Option<JoinHandle<()>>,
    pub(super) failure: Arc<OnceLock<Error>>,
    pub(super) until: watch::Receiver<Instant>,
    pub(super) unstored: watch::Receiver<Unstored>,
}

impl Runner {
    /// Returns the node's name.
    pub fn node(&self) -> &NodeName {
        &self.node
    }

    /// Returns whether the node has stopped.
    pub fn is_stopped(&self) -> bool {
        self.ended.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Returns why the node has stopped, or is stopping, on its own: its store is gone ([`Error::StoreGone`]), or has
    /// failed as often as [`exit_after_store_errors`](super::Builder::exit_after_store_errors) allows
    /// ([`Error::Unavailable`]). `None` while the node works, and when it was asked to stop.
    pub fn failure(&self) -> Option<Error> {
        self.failure.get().cloned()
    }

    /// Returns the present activity of the node; `None` when it has stopped.
    pub async fn snapshot(&self) -> Option<Snapshot> {
        let (tx, rx) = oneshot::channel();
        self.request(Control::Snapshot(tx));
        rx.await.ok()
    }

    /// Yields the times until which the node trusts its lease: the present one first, then one for each renewal. The node
    /// stops its handlers at that time, [`lease_margin`](super::lease_margin) before the store can let the lease end. A
    /// time in the past means that the lease is lost. A time that was replaced before it was read is left out. The stream
    /// ends with the node.
    pub fn lease_deadlines(&self) -> impl Stream<Item = std::time::Instant> + Send + use<> {
        let mut until = self.until.clone();
        until.mark_changed();
        stream::unfold(until, |mut until| async move {
            until.changed().await.ok()?;
            let moment = until.borrow_and_update().into_std();
            Some((moment, until))
        })
    }

    /// Returns a receiver of the results that the store does not accept at present. The receiver remains
    /// valid after the node has stopped.
    pub fn unstored(&self) -> watch::Receiver<Unstored> {
        self.unstored.clone()
    }

    /// Stops claiming tasks. Running tasks continue.
    pub fn freeze(&self) {
        self.request(Control::Freeze);
    }

    /// Claims tasks again, after a freeze or a drain.
    pub fn unfreeze(&self) {
        self.request(Control::Unfreeze);
    }

    /// Stops claiming and releases every task. Returns when the node is empty. The node stays, and works
    /// again after [`unfreeze`](Self::unfreeze). An unfreeze before the node is empty ends this call at
    /// once ([`snapshot`](Self::snapshot) lists the tasks that the node still has).
    pub async fn drain(&self) {
        let (tx, rx) = oneshot::channel();
        self.request(Control::Drain(tx));
        // An error means that the node has stopped: it is empty.
        let _ = rx.await;
    }

    /// Stops the node: claims no more tasks, asks every handler to release its task, aborts handlers at
    /// the end of their grace, and ends the lease. Returns when the lease has ended.
    ///
    /// While the store accepts no writes, the node keeps sending the results of its handlers until the
    /// grace has ended, and for at least 6 s after the first failure. Then it gives the results up
    /// ([`unstored`](Self::unstored)): their tasks keep their last persisted state, and run again.
    pub async fn shutdown(mut self) {
        self.request(Control::Shutdown);
        self.wait().await;
    }

    /// Stops the node at once: aborts every handler, releases its task with its last persisted
    /// state, and ends the lease. It waits about ten seconds at most for a store that does not
    /// respond: a task that is not released by then is free when the lease has ended.
    pub async fn abort(mut self) {
        self.request(Control::Abort);
        self.wait().await;
    }

    /// Runs until the process receives one of the [`StopSignals`], then shuts down. A second signal
    /// aborts.
    ///
    /// # Errors
    ///
    /// When the process cannot listen for signals, and when the node has stopped on its own: the
    /// error then contains the [`failure`](Self::failure).
    pub async fn run_until_signal(self) -> std::io::Result<()> {
        self.run_until(std::future::pending()).await.map(drop)
    }

    /// Runs until `done` resolves or the process receives one of the [`StopSignals`], whichever comes
    /// first, then shuts down. A signal after that aborts. Returns the last signal, if there was one.
    ///
    /// # Errors
    ///
    /// When the process cannot listen for signals, and when the node has stopped on its own: the
    /// error then contains the [`failure`](Self::failure).
    pub async fn run_until(
        self,
        done: impl Future<Output = ()>,
    ) -> std::io::Result<Option<&'static str>> {
        let signals = StopSignals::listen()?;
        let stopped = self.run_until_stopped(done, signals).await;
        stopped.map_err(std::io::Error::other)
    }

    /// Like [`run_until`](Self::run_until), for a program with other reasons to stop than signals.
    /// Each item of `stops` names a reason: the first shuts the node down, the next aborts. Returns
    /// the last reason, if there was one. The end of the stream stops nothing.
    ///
    /// # Errors
    ///
    /// The [`failure`](Self::failure) of a node that has stopped on its own.
    pub async fn run_until_stopped(
        mut self,
        done: impl Future<Output = ()>,
        stops: impl Stream<Item = &'static str> + Unpin,
    ) -> Result<Option<&'static str>, Error> {
        let mut stops = stops.chain(stream::pending());
        let mut last = None;
        if let Some(ended) = self.ended.as_mut() {
            tokio::select! {
                biased;
                _ = ended => return self.outcome(None),
                () = done => {}
                reason = stops.next() => {
                    let signal = reason.unwrap_or_default();
                    info!(node = %self.node, signal, "shutting down; a second signal aborts");
                    last = reason;
                }
            }
        }
        self.request(Control::Shutdown);
        if let Some(ended) = self.ended.as_mut() {
            tokio::select! {
                biased;
                _ = ended => return self.outcome(last),
                reason = stops.next() => {
                    let signal = reason.unwrap_or_default();
                    warn!(node = %self.node, signal, "another signal: aborting");
                    last = reason;
                }
            }
        }
        self.abort().await;
        Ok(last)
    }

    /// Returns how the node has ended: the reason that stopped it, or its own failure.
    fn outcome(&self, reason: Option<&'static str>) -> Result<Option<&'static str>, Error> {
        self.failure().map_or(Ok(reason), Err)
    }

    pub(super) fn request(&self, control: Control) {
        // Sending fails only when the node has already stopped.
        let _ = self.tx.send(EngineInput::Control(control));
    }

    async fn wait(&mut self) {
        if let Some(ended) = self.ended.take()
            && let Err(e) = ended.await
        {
            tracing::error!(node = %self.node, error = %e, "the runner failed");
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.request(Control::Abort);
    }
}
