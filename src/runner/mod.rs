//! [`Runner`]: a node. It claims tasks of the kinds it has handlers for, and runs them.

mod builder;
mod commit;
mod config;
mod due;
mod engine;
mod handle;
mod input;
mod lease;
mod maintain;
mod spawn;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};
use tracing::{info, warn};
use windlass_statemachine::NodeName;

pub use self::{
    builder::{Builder, StartError},
    config::KindConfig,
    handle::{RunningTask, Snapshot},
};
use self::{handle::Control, input::In};
use crate::store::{Error, Store};

/// A running node. Dropping it stops the node as [`abort`](Self::abort) does, in the background.
///
/// # Flow
///
/// 1. [`Runner::builder`] names the node and its handlers; [`Builder::start`] joins the namespace.
/// 2. The node lists the tasks, then watches: whatever is due and has room is claimed and run.
/// 3. [`shutdown`](Self::shutdown) gives everything back and leaves.
///
/// # Guarantees
///
/// The numbered ones of `docs/guarantees.md`: one owner, fenced writes, durable before acted on, no
/// lost task, commands once and in order, stop in time.
///
/// # Caveats
///
/// It needs a multi-threaded tokio runtime to be in time when handlers block.
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
///         Ok::<_, windlass::BoxError>(Message::complete_with(&(n * 2))?)
///     })
///     .start()
///     .await?;
///
/// let id = client.submit(NewTask::new("double").props(&21)).await?;
/// let done = client.wait(&id).await?;
/// assert_eq!(done.result::<u64>()?, Some(42));
/// runner.shutdown().await;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Runner {
    node: NodeName,
    tx: mpsc::UnboundedSender<In>,
    ended: Option<JoinHandle<()>>,
    failure: Arc<OnceLock<Error>>,
}

impl Runner {
    /// Begins to put a node together.
    pub fn builder(store: &Store) -> Builder {
        Builder::new(store)
    }

    /// The node's name.
    pub fn node(&self) -> &NodeName {
        &self.node
    }

    /// Whether the node has stopped.
    pub fn is_stopped(&self) -> bool {
        self.ended.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Returns why the node stops, or has stopped, by itself: its store is gone
    /// ([`Error::StoreGone`]). `None` while it works, and when it was told to stop.
    pub fn failure(&self) -> Option<Error> {
        self.failure.get().cloned()
    }

    /// What the node is doing; `None` when it has stopped.
    pub async fn snapshot(&self) -> Option<Snapshot> {
        let (tx, rx) = oneshot::channel();
        self.tell(Control::Snapshot(tx));
        rx.await.ok()
    }

    /// Claims nothing more; what runs goes on.
    pub fn freeze(&self) {
        self.tell(Control::Freeze);
    }

    /// Claims again, after a freeze or a drain.
    pub fn unfreeze(&self) {
        self.tell(Control::Unfreeze);
    }

    /// Claims nothing more and gives everything back; returns when the node is empty. It stays, and
    /// [`unfreeze`](Self::unfreeze) makes it work again; when that comes before the node is empty,
    /// this returns at once ([`snapshot`](Self::snapshot) tells what the node has).
    pub async fn drain(&self) {
        let (tx, rx) = oneshot::channel();
        self.tell(Control::Drain(tx));
        // An error means that the node has stopped: it is empty.
        let _ = rx.await;
    }

    /// Stops: claims nothing more, asks every handler to give its task back, aborts those that have
    /// not within their grace, ends the lease. Returns when all that is done.
    pub async fn shutdown(mut self) {
        self.tell(Control::Shutdown);
        self.wait().await;
    }

    /// Stops at once: every handler is aborted, its task is given back as it was last persisted,
    /// and the lease is ended. When the store does not answer, it is not waited for longer than about
    /// ten seconds: what is not given back by then is free when the lease has ended.
    pub async fn abort(mut self) {
        self.tell(Control::Abort);
        self.wait().await;
    }

    /// Runs until the process is told to end (ctrl-c, or SIGTERM on Unix), then shuts down. A second
    /// signal aborts.
    ///
    /// # Errors
    ///
    /// When the process cannot listen for signals, and when the node has stopped by itself: the
    /// error then holds the [`failure`](Self::failure).
    pub async fn run_until_signal(self) -> std::io::Result<()> {
        self.run_until(std::future::pending()).await.map(drop)
    }

    /// Runs until `done` resolves or the process is told to end, whichever comes first, then shuts
    /// down. A signal that comes after that aborts. Answers the last signal, if there was one.
    ///
    /// # Errors
    ///
    /// When the process cannot listen for signals, and when the node has stopped by itself: the
    /// error then holds the [`failure`](Self::failure).
    pub async fn run_until(
        mut self,
        done: impl Future<Output = ()>,
    ) -> std::io::Result<Option<&'static str>> {
        let mut signals = Signals::listen()?;
        let mut told = None;
        if let Some(ended) = self.ended.as_mut() {
            tokio::select! {
                _ = ended => return self.outcome(None),
                () = done => {}
                name = signals.next() => {
                    info!(node = %self.node, signal = name, "shutting down; a second signal aborts");
                    told = Some(name);
                }
            }
        }
        self.tell(Control::Shutdown);
        if let Some(ended) = self.ended.as_mut() {
            tokio::select! {
                _ = ended => return self.outcome(told),
                name = signals.next() => {
                    warn!(node = %self.node, signal = name, "another signal: aborting");
                    told = Some(name);
                }
            }
        }
        self.abort().await;
        Ok(told)
    }

    /// How a node that has ended has ended.
    fn outcome(&self, told: Option<&'static str>) -> std::io::Result<Option<&'static str>> {
        match self.failure() {
            Some(error) => Err(std::io::Error::other(error)),
            None => Ok(told),
        }
    }

    fn tell(&self, control: Control) {
        // The only failure is that the node has stopped already.
        let _ = self.tx.send(In::Control(control));
    }

    async fn wait(&mut self) {
        if let Some(ended) = self.ended.take()
            && let Err(e) = ended.await
        {
            tracing::error!(node = %self.node, error = %e, "the runner ended badly");
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.tell(Control::Abort);
    }
}

/// The signals that end a process.
struct Signals {
    #[cfg(unix)]
    term: tokio::signal::unix::Signal,
    #[cfg(unix)]
    int: tokio::signal::unix::Signal,
}

impl Signals {
    #[cfg(unix)]
    fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
        })
    }

    #[cfg(not(unix))]
    fn listen() -> std::io::Result<Self> {
        Ok(Self {})
    }

    #[cfg(unix)]
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.term.recv() => "SIGTERM",
            _ = self.int.recv() => "SIGINT",
        }
    }

    #[cfg(not(unix))]
    async fn next(&mut self) -> &'static str {
        match tokio::signal::ctrl_c().await {
            Ok(()) => "ctrl-c",
            Err(_) => std::future::pending().await,
        }
    }
}

/// How often a node prunes what is past its retention.
const MAINTAIN_EVERY: Duration = Duration::from_secs(3600);
