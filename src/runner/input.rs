//! [`EngineInput`]: the inputs of the engine, sent by its helpers.

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::{control::Control, spawn::Ended};
use crate::{
    handler::{Ask, Stored},
    store::{Claimed, Error, Event, Lease, NodeRecord, TaskView},
};

/// The number of a claimed task of this node. Never reused.
pub(super) type SlotId = u64;

/// An input of the engine.
pub(super) enum EngineInput {
    Lease(LeaseEvent),
    Events(Events),
    WatchEnded(WatchEnded),
    Claimed(ClaimAnswers),
    Ended(RunEnded),
    Ask(SlotId, Ask),
    /// The handler has reported progress.
    Progress(SlotId),
    /// The handler has logged lines.
    Logged(SlotId),
    /// The store has written log lines, or refused them.
    LogWritten(Vec<(SlotId, Result<(), Error>)>),
    /// A caller waits until the message of the handler is stored.
    Returns(SlotId, Stored),
    Control(Control),
    Nodes(Vec<NodeRecord>),
}

/// A batch of events of the watch with this number.
pub(super) struct Events {
    pub(super) epoch: u64,
    pub(super) events: Vec<Event>,
    /// A permit that is held until the engine has taken the batch.
    pub(super) _room: OwnedSemaphorePermit,
}

/// The watch with this number has ended: by an error, or because its stream has ended.
pub(super) struct WatchEnded {
    pub(super) epoch: u64,
    pub(super) why: Option<Error>,
}

/// The answers to one claim call.
pub(super) struct ClaimAnswers {
    pub(super) lease: u64,
    pub(super) call: u64,
    pub(super) answers: Vec<(TaskView, Result<Option<Claimed>, Error>)>,
}

/// A handler has ended.
pub(super) struct RunEnded {
    pub(super) slot: SlotId,
    /// The number of the run.
    pub(super) run: u64,
    pub(super) ended: Ended,
}

/// A report of the lease to the engine.
#[derive(Debug)]
pub(super) enum LeaseEvent {
    Gained(Lease),
    /// The lease is lost. The engine notifies the sender when every handler has ended.
    Lost(oneshot::Sender<()>),
    /// The store is gone for good, or has failed too often in a row.
    StoreGone(Error),
}
