//! The events that a running handler receives: commands, and the request to stop.

use std::{
    fmt,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
};

use futures::{FutureExt, Stream, future::BoxFuture};
use tokio::sync::watch;
use windlass_statemachine::{Command, Message, StopReason, machine::Signal};

/// Why a handler should stop.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// A command was sent to the task for which a running handler has to stop.
    Command(Command),
    /// The node releases the task, or has lost it.
    Node(StopReason),
}

impl Stop {
    /// Returns the message that carries out the stop: that of the command, or a release.
    pub fn message<J>(&self) -> Message<J> {
        match self {
            Self::Command(command) => command.to_message(),
            Self::Node(_) => Message::release(),
        }
    }
}

impl<J> From<Stop> for Message<J> {
    fn from(stop: Stop) -> Self {
        stop.message()
    }
}

#[derive(Debug, Default)]
struct Delivered {
    /// The commands, each with its order.
    commands: Vec<(u64, Command)>,
    stop: Option<Stop>,
}

/// The runner's side.
#[derive(Debug)]
pub(crate) struct Signals(watch::Sender<Delivered>);

impl Signals {
    pub(crate) fn new() -> (Self, Received) {
        let (tx, rx) = watch::channel(Delivered::default());
        (
            Self(tx),
            Received {
                rx,
                seen: Arc::new(AtomicUsize::new(0)),
            },
        )
    }

    pub(crate) fn deliver(&self, signal: Signal) {
        self.0.send_modify(|reported| match signal {
            Signal::Command { order, command } => {
                if command.aborts() && reported.stop.is_none() {
                    reported.stop = Some(Stop::Command(command.clone()));
                }
                reported.commands.push((order, command));
            }
            // A lost claim replaces every earlier stop.
            Signal::Stop(reason) if reported.stop.is_none() || reason == StopReason::LeaseLost => {
                reported.stop = Some(Stop::Node(reason));
            }
            Signal::Stop(_) => {}
        });
    }
}

/// The handler's side: the signals as it receives them.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    rx: watch::Receiver<Delivered>,
    seen: Arc<AtomicUsize>,
}

impl Received {
    pub(crate) async fn stop_requested(&self) -> Stop {
        let mut rx = self.rx.clone();
        let reported = rx.wait_for(|reported| reported.stop.is_some()).await;
        match reported {
            Ok(reported) => reported
                .stop
                .clone()
                .unwrap_or(Stop::Node(StopReason::LeaseLost)),
            // The runner is gone: nothing that the handler does is stored.
            Err(_) => Stop::Node(StopReason::LeaseLost),
        }
    }

    pub(crate) fn stop(&self) -> Option<Stop> {
        if self.rx.has_changed().is_err() {
            return Some(Stop::Node(StopReason::LeaseLost));
        }
        self.rx.borrow().stop.clone()
    }

    /// Returns the order of the last command that the handler has received; 0 for none.
    pub(crate) fn took(&self) -> u64 {
        let seen = self.seen.load(Ordering::Acquire);
        let last = seen.checked_sub(1);
        let reported = self.rx.borrow();
        let last = last.and_then(|last| reported.commands.get(last));
        last.map_or(0, |(order, _)| *order)
    }

    async fn next(&self) -> Option<Command> {
        let mut rx = self.rx.clone();
        loop {
            let place = self.seen.load(Ordering::Acquire);
            let command = match rx
                .wait_for(|reported| reported.commands.len() > place)
                .await
            {
                Ok(reported) => reported.commands.get(place).map(|(_, c)| c.clone()),
                Err(_) => return None,
            };
            let next =
                self.seen
                    .compare_exchange(place, place + 1, Ordering::AcqRel, Ordering::Acquire);
            if next.is_ok() {
                return command;
            }
        }
    }
}

/// The commands that are sent to a task while its handler runs, in order: a [`Stream`] that ends when the
/// runner is gone. Clones share the commands: only one of them gets each command.
///
/// # Example
///
/// ```
/// use futures::StreamExt;
/// use windlass::{ActionKind, Command, Message, TaskContext, testing::Call};
///
/// /// Pauses at the second checkpoint that an operator asks for.
/// async fn watch(task: TaskContext) -> Message {
///     let checkpoints = task.commands().filter(|c| std::future::ready(*c == Command::Checkpoint));
///     checkpoints.take(2).for_each(|_| std::future::ready(())).await;
///     Message::pause()
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
/// let call = Call::new().command(Command::Checkpoint).command(Command::Checkpoint);
/// assert_eq!(call.run(watch).await?.kind(), ActionKind::Pause);
/// # Ok(()) }
/// ```
pub struct Commands {
    received: Received,
    /// The pending wait of the stream. The mutex makes the type `Sync`; it is never contended.
    waiting: Mutex<Option<BoxFuture<'static, Option<Command>>>>,
}

impl Commands {
    pub(super) fn new(received: Received) -> Self {
        let waiting = Mutex::new(None);
        Self { received, waiting }
    }

    /// Returns the next command; `None` when the runner is gone. Dropping the future does not lose a
    /// command.
    pub async fn next(&self) -> Option<Command> {
        self.received.next().await
    }

    /// Returns the next command if one is already in the queue. Call it in a loop to take the commands that have
    /// arrived, such as the signals that woke the task, without waiting for more.
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use windlass::{
    ///     ActionKind, Command, Message, TaskContext,
    ///     testing::Call,
    /// };
    ///
    /// /// Polls, with the interval of the last signal.
    /// async fn poll(task: TaskContext) -> Result<Message, windlass::BoxError> {
    ///     let mut every: u64 = task.data()?.unwrap_or(60);
    ///     let commands = task.commands();
    ///     while let Some(command) = commands.try_next() {
    ///         if let Command::Signal(signal) = command {
    ///             every = signal.payload()?;
    ///         }
    ///     }
    ///     Ok(Message::sleep_for(Duration::from_secs(every)).with_data(&every))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let ran = Call::new().command(Command::signal("every", &5)?).run(poll).await?;
    /// assert_eq!((ran.kind(), ran.data::<u64>()?), (ActionKind::Sleep, Some(5)));
    /// # Ok(()) }
    /// ```
    pub fn try_next(&self) -> Option<Command> {
        self.next().now_or_never().flatten()
    }
}

impl Stream for Commands {
    type Item = Command;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Command>> {
        let Self { received, waiting } = self.get_mut();
        let waiting = waiting.get_mut().unwrap_or_else(PoisonError::into_inner);
        let next = waiting.get_or_insert_with(|| {
            let received = received.clone();
            async move { received.next().await }.boxed()
        });
        let next = ready!(next.as_mut().poll(cx));
        *waiting = None;
        Poll::Ready(next)
    }
}

impl Clone for Commands {
    fn clone(&self) -> Self {
        Self::new(self.received.clone())
    }
}

impl fmt::Debug for Commands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Commands").finish_non_exhaustive()
    }
}
