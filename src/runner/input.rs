//! What the engine awaits: the one enum that its helpers send.

use tokio::sync::OwnedSemaphorePermit;

use super::{handle::Control, spawn::Ended};
use crate::{
    handler::Ask,
    store::{Claimed, Error, Event, Lease, NodeRecord, TaskView},
};

/// One claimed task of this node; never used twice.
pub(super) type SlotId = u64;

/// What the engine awaits.
pub(super) enum In {
    Lease(LeaseEvent),
    Events(u64, Vec<Event>, OwnedSemaphorePermit),
    WatchEnded(u64, Option<Error>),
    /// For which lease, which of the claims, and what became of each task.
    Claimed(u64, u64, Vec<(TaskView, Result<Option<Claimed>, Error>)>),
    Committed(Vec<(SlotId, Result<(), Error>)>),
    Ended(SlotId, u64, Ended),
    Ask(SlotId, Ask),
    Control(Control),
    Nodes(Vec<NodeRecord>),
}

/// What the lease reports to the engine.
#[derive(Debug)]
pub(super) enum LeaseEvent {
    Gained(Lease),
    Lost,
    /// The store is gone for good.
    StoreGone(Error),
}
