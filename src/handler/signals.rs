//! What a running handler receives: commands, and the request to stop.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::watch;
use windlass_statemachine::{Command, Message, StopReason, machine::Signal};

/// Why a handler should stop.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// A command that a running handler has to stop for was sent to the task.
    Command(Command),
    /// The node releases the task, or has lost it.
    Node(StopReason),
}

impl Stop {
    /// Returns the message that does what the stop asks for: that of the command, or a release.
    pub fn message(&self) -> Message {
        match self {
            Self::Command(command) => command.to_message(),
            Self::Node(_) => Message::release(),
        }
    }
}

#[derive(Debug, Default)]
struct Delivered {
    commands: Vec<Command>,
    stop: Option<Stop>,
}

/// The side of the runner.
#[derive(Debug)]
pub(crate) struct Signals(watch::Sender<Delivered>);

impl Signals {
    pub(crate) fn new() -> (Self, Heard) {
        let (tx, rx) = watch::channel(Delivered::default());
        (
            Self(tx),
            Heard {
                rx,
                seen: Arc::new(AtomicUsize::new(0)),
            },
        )
    }

    pub(crate) fn deliver(&self, signal: Signal) {
        self.0.send_modify(|reported| match signal {
            Signal::Command(command) => {
                if command.aborts() && reported.stop.is_none() {
                    reported.stop = Some(Stop::Command(command.clone()));
                }
                reported.commands.push(command);
            }
            // A lost claim replaces every earlier stop.
            Signal::Stop(reason) if reported.stop.is_none() || reason == StopReason::LeaseLost => {
                reported.stop = Some(Stop::Node(reason));
            }
            Signal::Stop(_) => {}
        });
    }
}

/// The side of the handler.
#[derive(Debug, Clone)]
pub(crate) struct Heard {
    rx: watch::Receiver<Delivered>,
    seen: Arc<AtomicUsize>,
}

impl Heard {
    pub(crate) async fn stop_requested(&self) -> Stop {
        let mut rx = self.rx.clone();
        let reported = rx.wait_for(|reported| reported.stop.is_some()).await;
        match reported {
            Ok(reported) => reported
                .stop
                .clone()
                .unwrap_or(Stop::Node(StopReason::LeaseLost)),
            // The runner is gone: nothing that the handler does is kept.
            Err(_) => Stop::Node(StopReason::LeaseLost),
        }
    }

    pub(crate) fn stop(&self) -> Option<Stop> {
        if self.rx.has_changed().is_err() {
            return Some(Stop::Node(StopReason::LeaseLost));
        }
        self.rx.borrow().stop.clone()
    }

    async fn next(&self) -> Option<Command> {
        let mut rx = self.rx.clone();
        loop {
            let place = self.seen.load(Ordering::Acquire);
            let command = match rx
                .wait_for(|reported| reported.commands.len() > place)
                .await
            {
                Ok(reported) => reported.commands.get(place).cloned(),
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

/// The commands that are sent to a task while its handler runs, in order. Each is returned
/// once, to the first caller.
#[derive(Debug, Clone)]
pub struct Commands(pub(crate) Heard);

impl Commands {
    /// The next command; `None` when there will be none any more. Safe to drop while it waits.
    pub async fn next(&self) -> Option<Command> {
        self.0.next().await
    }
}
