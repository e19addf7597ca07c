//! [`Error`]: why a simulation did not reach its goal.

use std::time::Duration;

use windlass_statemachine::{Invalid, Kind, TaskId};

use crate::{handler::MissingState, store};

/// Why a simulation did not reach its goal.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A kind or an id has an invalid name, a kind has two handlers, or there is no handler at all.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// A handler needs a shared value that the simulation does not have: its kind declares it
    /// ([`KindConfig::needs_state`](crate::KindConfig::needs_state)), or a run has ended with the error of
    /// [`TaskContext::state`](crate::TaskContext::state).
    #[error("could not run the handler of '{kind}': {missing}")]
    MissingState {
        /// The kind of the handler.
        kind: Kind,
        /// The type of the value.
        missing: MissingState,
    },
    /// The store refused a call.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The task waits for neither a handler nor a time.
    #[error(
        "could not run task '{task}' to its end: it is {state}, and nothing is due; send it a \
         command, or give its kind a handler"
    )]
    Stuck {
        /// The task.
        task: TaskId,
        /// Its state.
        state: String,
    },
    /// The handler does not return.
    #[error(
        "could not run task '{task}' to its end: its handler has not returned for {patience:?}; send \
         it a command, or raise `patience`"
    )]
    Waiting {
        /// The task.
        task: TaskId,
        /// The patience of the simulation.
        patience: Duration,
    },
    /// The handler runs again and again, changes nothing, and no virtual time passes.
    #[error(
        "could not reach the goal: the handler of task '{task}' ran {runs} times in a row without a change, and no virtual \
         time passed; let it wait for a later time by the clock of the simulation (`TaskContext::now`, or a duration)"
    )]
    Idle {
        /// The task.
        task: TaskId,
        /// The number of the runs.
        runs: u32,
    },
    /// The limit of writes was reached.
    #[error(
        "could not reach the goal within {writes} writes: a handler never waits, or its task never \
         ends; change the handler, or raise `write_limit`"
    )]
    Endless {
        /// The limit.
        writes: u64,
    },
}
