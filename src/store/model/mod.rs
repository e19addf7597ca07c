//! The records and requests that stores and their users exchange.

mod change;
mod claim;
pub(crate) mod data_versions;
mod event;
mod filter;
mod limits;
mod node;
mod operation;
mod record;

pub use change::{Change, ChangeKind};
pub use claim::{Claim, Claimed, Commit};
pub use data_versions::DataVersions;
pub use event::{Event, TaskView};
pub use filter::{Filter, Page};
pub use limits::Limits;
pub use node::{
    Lease, NodeCommand, NodeCommandId, NodeFault, NodeRecord, NodeSpec, NodeStatus,
    QueuedNodeCommand,
};
pub use operation::{Applied, IfExists, Operation, Submit, Submitted, Transaction};
pub use record::{CommandRecord, TaskCount, TaskRecord};
