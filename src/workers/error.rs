//! [`WorkerError`]: why a request of a remote worker was refused.

use windlass_statemachine::{Fence, Invalid, NodeName, TaskId};

use crate::store::Error;

/// Why a request of a remote worker was refused.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// The request is not valid. Names the field.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The secret is not that of the worker.
    #[error("worker '{0}' has another secret; send the secret with which it registered")]
    Secret(NodeName),
    /// A later request of the worker was handled already, or another server speaks for it with a later one. Nothing
    /// was renewed, claimed or applied.
    #[error(
        "request {seq} of worker '{worker}' is not after request {last}, which was handled; send the present state with a \
         greater number"
    )]
    Stale {
        /// The worker.
        worker: NodeName,
        /// The number of this request.
        seq: u64,
        /// The greatest number that was handled.
        last: u64,
    },
    /// The lease of the worker is over, and with it its claims.
    #[error("the lease of worker '{0}' is over; stop every handler, and register again")]
    Over(NodeName),
    /// The run, or its claim, is over.
    #[error(
        "the worker no longer has the claim {fence} of task '{task}', or its run is over; abort the handler"
    )]
    Lost {
        /// The task.
        task: TaskId,
        /// The fence of the claim.
        fence: Fence,
    },
    /// The store has failed.
    #[error(transparent)]
    Store(Error),
}
