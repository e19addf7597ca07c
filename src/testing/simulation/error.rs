//! [`Error`]: why a simulation did not reach what it was run for.

use std::time::Duration;

use windlass_statemachine::{Invalid, TaskId};

use crate::store;

/// Why a simulation did not reach what it was run for.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A kind or an id has a bad name, a kind has two handlers, or there is no handler at all.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The store refused a call.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// No time that passes brings the task further.
    #[error(
        "task '{task}' does not get further: it is {state}, and nothing is due; send it a command, \
         or give its kind a handler"
    )]
    Stuck {
        /// The task.
        task: TaskId,
        /// Its state.
        state: String,
    },
    /// The handler does not return.
    #[error(
        "the handler of task '{task}' has not returned for {patience:?}; send it a command, or \
         raise `patience` if it waits for longer"
    )]
    Waiting {
        /// The task.
        task: TaskId,
        /// The patience of the simulation.
        patience: Duration,
    },
    /// The limit of writes was reached.
    #[error(
        "the simulation made {writes} writes and did not end; a handler never lets time pass, or \
         its task never ends (`write_limit` raises the limit)"
    )]
    Endless {
        /// The limit.
        writes: u64,
    },
}
