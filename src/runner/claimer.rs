//! [`Claimer`]: claims tasks for a program that works on them itself, without handlers.

use std::{
    collections::VecDeque,
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use tokio::sync::oneshot;
use windlass_statemachine::{Message, NodeName, StateKind};

use super::{
    builder::Builder,
    control::{Change, ChangeRequest, Control},
    kinds::KindEntry,
    node::Runner,
    start::StartError,
};
use crate::{
    handler::{StatefulHandler, Stored, TaskContext},
    store::{Error, Store},
};

/// How long [`Claimer::try_claim`] waits: nearly always a node claims a due task within this time.
const TRY: Duration = Duration::from_millis(100);

/// Claims tasks one at a time for a program that works on them itself: a loop of your own, a test, a bridge to
/// another system. Clones share one node.
///
/// # Flow
///
/// 1. [`start`](Self::start) joins the namespace as a node that runs nothing.
/// 2. [`claim`](Self::claim) waits for a due task of one of the kinds, and returns it as a [`ClaimedTask`].
/// 3. The program works on the task, and ends its claim with [`ClaimedTask::finish`].
/// 4. [`shutdown`](Self::shutdown) releases the tasks that are still claimed, and leaves.
///
/// # Guarantees
///
/// Those of a [`Runner`]: one owner, fenced writes, the lease renewed in the background, commands delivered
/// while the task is claimed. The node claims no more tasks than the program has asked for.
///
/// # Caveats
///
/// A task without a [`finish`](ClaimedTask::finish) is released when its [`ClaimedTask`] is dropped: it keeps its
/// last data, and another claim runs it again. A task that was claimed for a caller that has stopped waiting at
/// the same time is released as well.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use windlass::{Client, Message, NewTask, runner::Claimer, store::Store};
///
/// # #[tokio::main] async fn main() -> Result<(), windlass::BoxError> {
/// let store = Store::open("memory:").await?;
/// let client = Client::new(&store);
/// let id = client.submit(NewTask::new("resize").props(&640)).await?;
///
/// let claimer = Claimer::start(&store, ["resize"]).await?;
/// while let Some(task) = claimer.try_claim().await? {
///     let width: u32 = task.props()?;
///     task.checkpoint(&"read").await?;
///     task.finish(Message::complete_with(width / 2)).await?;
/// }
/// claimer.shutdown().await;
/// assert_eq!(client.wait(&id).await?.result::<u32>()?, 320);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Claimer {
    shared: Arc<Shared>,
}

/// A task that a [`Claimer`] has claimed, with everything that a handler has ([`TaskContext`]), and
/// [`finish`](Self::finish) instead of a returned message.
///
/// [`TaskContext::stop_requested`] resolves when a command or the node asks to stop. The claim is aborted at the
/// end of the grace of the kind; `finish` then returns [`FinishError::Lost`].
#[derive(Debug)]
pub struct ClaimedTask {
    // Dropped first: the node would claim the next task for the slot when the message is returned.
    permit: Permit,
    context: TaskContext,
    returns: oneshot::Sender<Message>,
}

/// Why a claimer returns no tasks any more.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// The node of the claimer has stopped. The source is the reason; none if it was asked to stop.
    #[error("could not claim a task: the node {node} has stopped; start another claimer")]
    Stopped {
        /// The node.
        node: NodeName,
        /// Why it has stopped on its own.
        #[source]
        failure: Option<Error>,
    },
}

/// Why a message was not applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FinishError {
    /// The claim ended before the message was stored: the lease was lost, the task was deleted, or a command
    /// stopped the task and its grace is over. The task keeps its last stored state.
    #[error("could not finish the task: its claim is over; claim the task again")]
    Lost,
    /// The store refused the message: it is too large, or one of its effects was refused. The attempt has failed, and
    /// the retry policy has decided what follows.
    #[error("could not finish the task: {0}; the attempt has failed")]
    Refused(String),
}

/// The state that the clones of a claimer share.
#[derive(Debug)]
struct Shared {
    runner: Runner,
    callers: Arc<Callers>,
}

/// The callers that wait for a task, oldest first.
#[derive(Debug, Default)]
struct Callers {
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    callers: VecDeque<oneshot::Sender<Handed>>,
    /// How many slots are asked for: one for each caller, and one for each claimed task.
    slots: u32,
}

/// A task for a caller.
#[derive(Debug)]
struct Handed {
    context: TaskContext,
    returns: oneshot::Sender<Message>,
}

/// A slot of the node, while a caller waits or has a task.
#[derive(Debug)]
struct Permit {
    shared: Arc<Shared>,
}

impl Callers {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the task to the caller that has waited longest. Returns false if no caller waits.
    fn hand(&self, mut handed: Handed) -> bool {
        let mut waiting = self.lock();
        while let Some(caller) = waiting.callers.pop_front() {
            match caller.send(handed) {
                Ok(()) => return true,
                Err(back) => handed = back,
            }
        }
        false
    }
}

impl Shared {
    /// Changes the number of slots. The lock orders the requests.
    fn resize(&self, change: impl FnOnce(u32) -> u32) {
        let mut waiting = self.callers.lock();
        waiting.slots = change(waiting.slots);
        let change = Change::Slots(waiting.slots);
        let (done, _) = oneshot::channel();
        self.runner
            .request(Control::Change(ChangeRequest { change, done }));
    }
}

impl Permit {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.resize(|slots| slots.saturating_add(1));
        Self {
            shared: shared.clone(),
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.shared.resize(|slots| slots.saturating_sub(1));
    }
}

/// The handler of a claimer's node: passes each task to a caller.
struct Pass {
    callers: Arc<Callers>,
}

#[async_trait]
impl StatefulHandler for Pass {
    async fn run(&self, context: TaskContext) -> Message {
        let (returns, returned) = oneshot::channel();
        if !self.callers.hand(Handed { context, returns }) {
            return Message::release();
        }
        returned.await.unwrap_or_else(|_| Message::release())
    }
}

impl Claimer {
    /// Joins the namespace as a node that claims tasks of these kinds on request.
    ///
    /// # Errors
    ///
    /// [`StartError`]: a kind is invalid, or the store does not respond.
    pub async fn start<I>(store: &Store, kinds: I) -> Result<Self, StartError>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        Self::start_with(Runner::builder(store), kinds).await
    }

    /// Joins like [`start`](Self::start), with settings of the node: its name, labels, lease and balancer. The slots
    /// of the builder are replaced, and the claimer runs no schedules. Handlers of the builder run as on any node,
    /// within the slots that callers ask for.
    ///
    /// # Errors
    ///
    /// The errors of [`start`](Self::start).
    pub async fn start_with<I>(builder: Builder, kinds: I) -> Result<Self, StartError>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let callers = Arc::new(Callers::default());
        let pass = |kind: I::Item| {
            let callers = callers.clone();
            (
                kind.into(),
                KindEntry::new(<_>::default(), Pass { callers }),
            )
        };
        let mut builder = builder.without_schedules();
        builder.kinds.extend(kinds.into_iter().map(pass));
        builder.config.slots = 0;
        builder.config.on_demand = true;
        let runner = builder.start().await?;
        let shared = Shared { runner, callers };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Returns the name of the node.
    pub fn node(&self) -> &NodeName {
        self.shared.runner.node()
    }

    /// Claims a due task, or waits for one for at most `wait`; then returns `None`. Callers get tasks in the order in
    /// which they asked. Dropping the future claims nothing.
    ///
    /// # Errors
    ///
    /// [`ClaimError::Stopped`].
    pub async fn claim(&self, wait: Duration) -> Result<Option<ClaimedTask>, ClaimError> {
        let (caller, mut handed) = oneshot::channel();
        self.shared.callers.lock().callers.push_back(caller);
        let permit = Permit::new(&self.shared);
        let found = tokio::select! {
            biased;
            found = &mut handed => found.ok(),
            () = self.shared.runner.tx.closed() => {
                let failure = self.shared.runner.failure();
                let node = self.node().clone();
                return Err(ClaimError::Stopped { node, failure });
            }
            () = tokio::time::sleep(wait) => {
                handed.close();
                handed.try_recv().ok()
            }
        };
        Ok(found.map(|Handed { context, returns }| ClaimedTask {
            permit,
            context,
            returns,
        }))
    }

    /// Claims a task that is due now; `None` when the node finds none within 100 ms.
    ///
    /// # Errors
    ///
    /// The errors of [`claim`](Self::claim).
    pub async fn try_claim(&self) -> Result<Option<ClaimedTask>, ClaimError> {
        self.claim(TRY).await
    }

    /// Asks for the release of every claimed task, aborts those that are still claimed at the end of the grace of their
    /// kinds, and leaves the namespace. Only returns when another clone or a [`ClaimedTask`] exists: the last of them
    /// stops the node in the background.
    pub async fn shutdown(self) {
        if let Some(Shared { runner, .. }) = Arc::into_inner(self.shared) {
            runner.shutdown().await;
        }
    }
}

impl ClaimedTask {
    /// Returns the message of the task, as a handler returns one, and waits until it is stored. Returns the state of the
    /// task since then. A message that runs the task again ([`Message::run`], [`Message::checkpoint`]) makes it claimable
    /// again.
    ///
    /// # Errors
    ///
    /// [`FinishError`].
    pub async fn finish(self, message: Message) -> Result<StateKind, FinishError> {
        let Self {
            permit,
            context,
            returns,
        } = self;
        let (stored, is_stored) = oneshot::channel();
        context.expect_stored(Stored(stored));
        drop(context);
        drop(permit);
        let passed = returns.send(message);
        passed.map_err(|_| FinishError::Lost)?;
        let finished = is_stored.await.map_err(|_| FinishError::Lost)?;
        finished.map_err(FinishError::Refused)
    }
}

impl Deref for ClaimedTask {
    type Target = TaskContext;

    fn deref(&self) -> &TaskContext {
        &self.context
    }
}
