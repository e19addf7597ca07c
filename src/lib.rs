//! windlass: durable tasks, each a state machine whose every transition is on disk before the next
//! thing happens.
//!
//! You write a [`handler`]: an async function from the context of a task to a message. A [`Runner`]
//! is a node that claims tasks and runs their handlers; a [`Client`] submits tasks, lists them, sends
//! them commands and waits for them. Both work on a [`Store`]: one SQLite file (`sqlite:PATH`), a
//! cluster's etcd (`etcd://HOST:PORT/NAMESPACE`, feature `etcd`), or memory (`memory:`) for tests.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use windlass::{BoxError, Client, Job, Message, NewTask, Runner, Store, TaskContext};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Sum { numbers: Vec<u64> }                               // what is submitted
//!
//! impl Job for Sum {
//!     const KIND: &str = "sum";
//!     type Data = (usize, u64);                                  // what a checkpoint keeps
//!     type Output = u64;                                         // what the task completes with
//! }
//!
//! async fn sum(task: TaskContext<Sum>) -> Result<Message<Sum>, BoxError> {
//!     let (mut next, mut sum) = task.data()?.unwrap_or_default();  // the last checkpoint, if any
//!     while let Some(number) = task.job().numbers.get(next) {
//!         if task.should_stop() {
//!             return Ok(task.stop_requested().await.into());     // paused, killed, shut down
//!         }
//!         (next, sum) = (next + 1, sum + number);
//!         task.checkpoint(&(next, sum)).await?;                  // durable when it returns
//!     }
//!     Ok(Message::complete_with(sum))
//! }
//!
//! # #[tokio::main] async fn main() -> Result<(), BoxError> {
//! let folder = tempfile::tempdir()?;
//! let store = Store::open(&format!("sqlite:{}", folder.path().join("tasks.db").display())).await?;
//! let runner = Runner::builder(&store).job(sum).start().await?;
//!
//! let client = Client::new(&store);
//! let first = client.submit(NewTask::of(Sum { numbers: vec![1, 2, 3] }).id("first")).await?;
//! assert_eq!(first.wait().await?, 6);
//! runner.shutdown().await;
//! # Ok(()) }
//! ```
//!
//! Without types, for props that are known only at run time, see [`handler`] and [`NewTask`].
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
//! | `sqlite` (default) | the store in one file, with a SQLite that is built in; needs a C compiler |
//! | `sqlite-system` | the same with the SQLite library of the system, 3.51.3 or later; `default-features = false` |
//! | `etcd` | the store of a cluster; needs `protoc` |
//! | `testing` | helpers for tests of handlers, `docs/learn/testing.md` |
//! | `conformance` | the suite that tests a store of your own |
//! | `schema` | JSON Schemas of the types that programs read and write, `docs/reference/json.md` |
//!
//! # Modules
//!
//! | module | what |
//! |---|---|
//! | [`job`] | typed kinds: one type is the props, and names kind, data and output |
//! | [`handler`] | untyped handlers, and the context of a task |
//! | [`runner`] | a node: claims, runs, releases |
//! | [`schedule`] | tasks that submit others at times |
//! | [`client`] | submit, list, command, wait, retry, history |
//! | [`task`] | a builder of tasks to submit |
//! | [`balancer`] | which node takes a task, and which it releases |
//! | [`store`] | the stores of tasks and states, and the duties of a store |
//! | [`clock`] | where the wall clock is read |
//! | [`telemetry`] | every metric of the library, and its spans |
//! | [`wire`] | the JSON forms of what clients read |
//! | `testing` | for tests: runs of handlers, virtual time, crashes, clocks, a faulty store, the conformance suite (features `testing`, `conformance`) |
//!
//! # Stability
//!
//! | part | what a version may change |
//! |---|---|
//! | stable: [`handler`], [`job`], [`client`], [`task`], [`Runner`] and its builder, [`Store::open`], [`store::StateStore`], the persisted forms | additions only; anything else comes with a new major version (before 1.0: a new minor version, with a note in the changelog) |
//! | unstable: [`store::Coordinator`], [`store::Registry`], [`store::Transfer`], [`store::Doctor`] and their records, [`balancer::Balancer`], [`statemachine::machine`] | methods, duties and fields, in each minor version |
//!
//! A program that uses a [`Client`] and handlers uses stable parts only. A store of your own, a balancer or an
//! executor uses unstable ones: pin the version, and run the conformance suite at each update. Enums and
//! structs that will grow are `#[non_exhaustive]`; they have constructors.
//!
//! `docs/reference/guarantees.md` lists what windlass promises, and what it does not. `docs/reference/lifecycle.md`
//! describes the states and the transitions between them.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod balancer;
pub mod client;
pub mod clock;
pub mod handler;
mod hash;
pub mod job;
mod machine_fault;
pub mod runner;
pub mod schedule;
pub mod store;
pub mod task;
pub mod telemetry;
#[cfg(feature = "conformance")]
pub mod testing;
mod unique_id;
pub mod wire;
pub mod workers;

pub use async_trait::async_trait;
pub use client::Client;
pub use handler::{
    AnswerError, BoxError, CheckpointError, IntoMessage, MissingState, PropsError, StatefulHandler,
    Stop, TaskContext,
};
pub use jiff;
pub use job::{Job, Untyped};
pub use machine_fault::MachineFault;
pub use runner::{KindConfig, Runner};
pub use store::Store;
pub use task::NewTask;

pub use windlass_statemachine::{
    self as statemachine, Action, ActionKind, Author, AwaitedSignal, Bound, Command, CommandId,
    Decision, Effects, ErrorEntry, ErrorLog, FailedAttempt, Failure, Fence, Invalid, Json, Kind,
    Limit, Message, Meta, NodeName, Note, Outcome, Progress, QueuedCommand, Retry, RetryPolicy,
    Signal, StateKind, StopReason, SubmitTask, Task, TaskId, TaskState, TaskStatus, Trace,
    TransactionId, Unique, WaitOutcome, Waited, Waits, Wake, fingerprint, task::Labels,
};

/// Compiles the code of the tutorial.
#[cfg(doctest)]
#[doc = include_str!("../docs/learn/tutorial.md")]
pub struct TutorialPage;

/// Compiles the code of the page about data versions.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../docs/learn/data-versions.md")]
pub struct DataVersionsPage;

/// Compiles the code of the page about waiting for other tasks.
#[cfg(doctest)]
#[doc = include_str!("../docs/learn/waiting.md")]
pub struct WaitingPage;

/// Compiles the code of the page about signals.
#[cfg(doctest)]
#[doc = include_str!("../docs/learn/signals.md")]
pub struct SignalsPage;

/// Compiles the code of the page about limits.
#[cfg(doctest)]
#[doc = include_str!("../docs/learn/limits.md")]
pub struct LimitsPage;

/// Compiles the code of the page about deadlines.
#[cfg(doctest)]
#[doc = include_str!("../docs/learn/deadlines.md")]
pub struct DeadlinesPage;

/// Compiles the code of the page about unique keys.
#[cfg(doctest)]
#[doc = include_str!("../docs/learn/unique.md")]
pub struct UniquePage;

/// Compiles the code of the page about transactions.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../docs/learn/transactions.md")]
pub struct TransactionsPage;

/// Compiles the code of the README.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../README.md")]
pub struct Readme;
