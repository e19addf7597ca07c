//! The pure state machine of windlass.
//!
//! Nothing in this crate reads a clock, does I/O, draws a random number, logs, or knows of an
//! async runtime. Time and jitter are arguments; effects are returned as data, which the library
//! `windlass` carries out. `clippy.toml` of this crate bans the rest.
//!
//! The map:
//!
//! | module | what |
//! |---|---|
//! | [`id`] | [`TaskId`], [`Kind`], [`NodeName`], [`CommandId`], [`TransactionId`], [`Fence`]: names that are checked when they are made |
//! | [`json`] | [`Json`]: a JSON document kept as its text, so that no number is rounded |
//! | [`task`] | [`Task`]: the immutable envelope of a unit of work |
//! | [`meta`] | [`Meta`]: text that travels with a task |
//! | [`author`] | [`Author`]: who made a change |
//! | [`state`] | [`TaskState`], [`TaskStatus`], [`StateKind`]: where a task is |
//! | [`errors`] | [`ErrorLog`]: the bounded history of errors of a task |
//! | [`attempt`] | [`FailedAttempt`]: the last failed attempt of a task, in one line |
//! | [`message`] | [`Message`], [`Action`], [`Effects`]: what a handler may return |
//! | [`operation`] | [`Operation`], [`Guard`]: what effects and the transactions of clients share |
//! | [`time`] | reading times, with errors that name the field |
//! | [`command`] | [`Command`], [`Outcome`]: what an operator may send, and its outcome |
//! | [`waits`] | [`Waits`], [`WaitOutcome`]: the tasks that a task waits for, and the outcome of each |
//! | [`signal`] | [`Signal`]: a named value for a handler, which replies to it |
//! | [`awaited`] | [`AwaitedSignal`]: the signal that a task waits for, as its handler has declared it |
//! | [`mod@transition`] | [`transition()`]: the table |
//! | [`retry`] | [`RetryPolicy`] and the policies [`Retry`] that ship with it |
//! | [`wire`] | [`wire::TaskForm`], [`wire::Line`]: the JSON forms that people and programs write |
//! | [`machine`] | [`Machine`]: one claimed task, as inputs in and effects out |
//!
//! # Example
//!
//! ```
//! use windlass_statemachine::{StateKind, Message, TaskState, transition};
//! use jiff::Timestamp;
//!
//! let now = Timestamp::UNIX_EPOCH;
//! let state = TaskState::new(now);
//! let paused = transition(&state, &Message::pause(), now).unwrap();
//! assert_eq!(paused.code(), StateKind::Paused);
//!
//! // Terminal states take nothing.
//! let killed = transition(&paused, &Message::kill(), now).unwrap();
//! let refused = transition(&killed, &Message::run(), now).unwrap_err();
//! assert_eq!(refused.to_string(), "a killed task does not take `run`: killed is final (retry starts it again)");
//! ```

pub mod attempt;
pub mod author;
pub mod awaited;
pub mod backoff;
pub mod command;
pub mod errors;
mod fingerprint;
pub mod id;
pub mod invalid;
pub mod job;
pub mod json;
pub mod machine;
pub mod message;
pub mod meta;
pub mod note;
pub mod operation;
pub mod plain;
mod record;
pub mod retry;
#[cfg(feature = "schema")]
mod schema;
pub mod signal;
pub mod size;
pub mod state;
pub mod task;
pub mod terms;
pub mod text;
pub mod time;
pub mod trace;
pub mod transition;
pub mod waits;
pub mod wire;

pub use attempt::FailedAttempt;
pub use author::Author;
pub use awaited::AwaitedSignal;
pub use backoff::Backoff;
pub use command::{Command, Outcome, QueuedCommand};
pub use errors::{ErrorEntry, ErrorLog};
pub use fingerprint::fingerprint;
pub use id::{CommandId, CommitId, Fence, Kind, NodeName, TaskId, TransactionId};
pub use invalid::Invalid;
pub use job::{BoxError, Job, TaskData, TaskOutput, TaskType, Untyped};
pub use json::Json;
pub use machine::{Machine, StopReason};
pub use message::{Action, ActionKind, Effects, Message, SubmitTask, Wake};
pub use meta::Meta;
pub use note::Note;
pub use operation::{Delete, Guard, IfExists, Operation, Require, Reschedule, RetryTask, Submit};
pub use retry::{Decision, Failure, Retry, RetryPolicy};
pub use signal::Signal;
pub use state::{Progress, Report, StateKind, TaskState, TaskStatus};
pub use task::{Labels, Task};
pub use terms::{Bound, Limit, Terms, Unique, check_limits};
pub use trace::Trace;
pub use transition::{TransitionError, transition};
pub use waits::{WaitOutcome, Waited, Waits};
