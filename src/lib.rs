//! windlass: durable tasks, each a state machine whose every transition is on disk before the next
//! thing happens.
//!
//! You write a [`handler`]: an async function from a [`TaskContext`] to a [`Message`]. A
//! [`Runner`] is a node that claims tasks and runs their handlers; a [`Client`] submits tasks,
//! lists them, sends them commands and waits for them. Both work on a [`store::Store`]: one SQLite
//! file (`sqlite:PATH`), a cluster's etcd (`etcd://HOST:PORT/NAMESPACE`, feature `etcd`), or memory
//! (`memory:`) for tests.
//!
//! ```
//! use windlass::{BoxError, Client, Message, NewTask, Runner, TaskContext, store::Store};
//!
//! async fn sum(task: TaskContext) -> Result<Message, BoxError> {
//!     let numbers: Vec<u64> = task.props()?;                     // what was submitted, typed
//!     let (mut next, mut sum) = task.data()?.unwrap_or((0, 0));  // the last checkpoint, if any
//!     while let Some(number) = numbers.get(next) {
//!         if task.is_stopped() {
//!             return Ok(task.stopped().await.message());         // paused, killed, shut down
//!         }
//!         (next, sum) = (next + 1, sum + number);
//!         task.checkpoint(&(next, sum)).await?;                  // durable when it returns
//!     }
//!     Ok(Message::complete_with(&sum)?)
//! }
//!
//! # #[tokio::main] async fn main() -> Result<(), BoxError> {
//! let folder = tempfile::tempdir()?;
//! let store = Store::open(&format!("sqlite:{}", folder.path().join("tasks.db").display())).await?;
//! let runner = Runner::builder(&store).handler("sum", sum).start().await?;
//!
//! let client = Client::new(&store);
//! let id = client.submit(NewTask::new("sum").id("first").props(&[1, 2, 3])).await?;
//! assert_eq!(client.wait(&id).await?.result::<u64>()?, Some(6));
//! runner.shutdown().await;
//! # Ok(()) }
//! ```
//!
//! # Features
//!
//! ```toml
//! [dependencies]
//! windlass = "0.1"
//!
//! [dev-dependencies]
//! windlass = { version = "0.1", features = ["testing"] }
//! ```
//!
//! | feature | what |
//! |---|---|
//! | `sqlite` (default) | the store in one file; needs a C compiler |
//! | `etcd` | the store of a cluster; needs `protoc` |
//! | `testing` | helpers for tests of handlers, `docs/testing.md` |
//! | `conformance` | the suite that tests a store of your own |
//!
//! # Modules
//!
//! | module | what |
//! |---|---|
//! | [`handler`] | what you write, and what it is given |
//! | [`runner`] | a node: claims, runs, gives back |
//! | [`client`] | submit, list, command, wait, retry, history |
//! | [`task`] | putting a task together |
//! | [`balancer`] | which node takes a task, and which it gives back |
//! | [`store`] | what holds tasks and states, and the duties of one |
//! | [`clock`] | where the wall clock is read |
//! | `testing` | for tests: runs of handlers, virtual time, crashes, clocks, a faulty store, the conformance suite (features `testing`, `conformance`) |
//!
//! What is promised, and what is not: `docs/guarantees.md`. The states and what moves between them:
//! `docs/lifecycle.md`.

pub mod balancer;
pub mod client;
pub mod clock;
pub mod handler;
pub mod runner;
pub mod store;
pub mod task;
#[cfg(feature = "conformance")]
pub mod testing;

pub use async_trait::async_trait;
pub use client::Client;
pub use handler::{BoxError, CheckpointError, IntoMessage, StatefulHandler, Stop, TaskContext};
pub use runner::{KindConfig, Runner};
pub use task::NewTask;

pub use windlass_statemachine::{
    self as statemachine, Action, ActionKind, Code, Command, CommandId, Decision, Effects,
    ErrorEntry, ErrorLog, FailedAttempt, Failure, Fence, Invalid, Json, Kind, Message, NodeName,
    Outcome, Progress, QueuedCommand, Retry, RetryPolicy, State, Status, StopReason, SubmitTask,
    Task, TaskId, Wake, task::Labels,
};

/// Compiles the code of the README.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../README.md")]
pub struct Readme;
