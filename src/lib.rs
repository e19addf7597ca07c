//! windlass: persistent state-machine task running.

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
    ErrorEntry, ErrorLog, Failure, Fence, Invalid, Json, Kind, Message, NodeName, Outcome,
    Progress, QueuedCommand, Retry, RetryPolicy, State, Status, StopReason, Task, TaskId, Wake,
    task::Labels,
};
