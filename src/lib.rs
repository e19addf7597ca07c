//! windlass: persistent state-machine task running.

pub mod clock;
pub mod store;

pub use windlass_statemachine::{
    self as statemachine, Action, ActionKind, Code, Command, CommandId, Decision, Effects,
    ErrorEntry, ErrorLog, Failure, Fence, Invalid, Json, Kind, Message, NodeName, Outcome,
    Progress, QueuedCommand, Retry, RetryPolicy, State, Status, Task, TaskId, Wake,
    machine::StopReason, task::Labels,
};
