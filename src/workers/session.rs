//! [`Session`]: the claims of one worker, as a process that speaks for it knows them.

use std::collections::{HashMap, HashSet};

use windlass_statemachine::{Fence, Kind, Report, StateKind, TaskId};

use super::task::RemoteTask;
use crate::store::{Claimed, Commit, Lease, NodeCommandId};

/// One claim of the worker.
pub(super) enum Entry {
    /// Read from the store. No machine runs before the worker has said what it does with the claim.
    Unconfirmed(Box<Claimed>),
    Live(Box<RemoteTask>),
}

impl Entry {
    pub(super) fn kind(&self) -> &Kind {
        match self {
            Self::Unconfirmed(claimed) => &claimed.task.kind,
            Self::Live(task) => &task.task.kind,
        }
    }

    pub(super) fn fence(&self) -> Fence {
        match self {
            Self::Unconfirmed(claimed) => claimed.claim.fence,
            Self::Live(task) => task.claim.fence,
        }
    }

    pub(super) fn order(&self) -> u64 {
        match self {
            Self::Unconfirmed(claimed) => claimed.order,
            Self::Live(task) => task.order,
        }
    }
}

/// The claims of a worker, with the numbers of its requests and what the present one changes.
pub(super) struct Session {
    pub(super) lease: Lease,
    /// Whether this process speaks for the worker, as far as it knows.
    pub(super) speaks: bool,
    /// The greatest number of a request that was handled here.
    pub(super) seq: u64,
    /// The number of the last exchange.
    pub(super) exchange: u64,
    pub(super) tasks: HashMap<TaskId, Entry>,
    pub(super) writes: Vec<(TaskId, Commit)>,
    /// What the writes since the begin of the request have stored.
    pub(super) written: HashMap<TaskId, (Option<Box<Report>>, StateKind)>,
    /// The tasks whose handlers have returned something other than an error since the begin of the request.
    pub(super) succeeding: HashSet<TaskId>,
    /// The answers to checkpoints and replies since the begin of the request.
    pub(super) answers: HashMap<TaskId, Result<(), String>>,
    /// Claims of which the store has said that they are over, while the worker may still have them.
    pub(super) fenced: HashSet<(TaskId, Fence)>,
    /// Tasks whose state in the store is newer than that of their machine.
    pub(super) reload: Vec<TaskId>,
    /// The commands of operators that wait for the end of a claim, or of all claims.
    pub(super) stops: HashMap<TaskId, Vec<NodeCommandId>>,
    pub(super) drains: Vec<NodeCommandId>,
}

impl Session {
    pub(super) fn new(lease: Lease) -> Self {
        Self {
            lease,
            speaks: false,
            seq: 0,
            exchange: 0,
            tasks: HashMap::new(),
            writes: Vec::new(),
            written: HashMap::new(),
            succeeding: HashSet::new(),
            answers: HashMap::new(),
            fenced: HashSet::new(),
            reload: Vec::new(),
            stops: HashMap::new(),
            drains: Vec::new(),
        }
    }
}
