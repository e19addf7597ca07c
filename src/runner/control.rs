//! [`Control`]: requests of callers to a running node.

use tokio::sync::oneshot;
use windlass_statemachine::{Invalid, Kind, task::Labels};

use super::{kinds::KindEntry, snapshot::Snapshot};

/// A request to the engine.
pub(super) enum Control {
    Shutdown,
    Abort,
    Freeze,
    Unfreeze,
    Drain(oneshot::Sender<()>),
    Change(ChangeRequest),
    Snapshot(oneshot::Sender<Snapshot>),
}

/// A change of a running node.
pub(super) enum Change {
    Slots(u32),
    SlotsOf(Kind, u32),
    Add(Kind, KindEntry),
    Remove(Kind),
    Labels(Labels),
}

/// A change, and its caller.
pub(super) struct ChangeRequest {
    pub(super) change: Change,
    /// Resolved when the change has been made, and the handlers of a removed kind have ended.
    pub(super) done: oneshot::Sender<Result<(), Invalid>>,
}
