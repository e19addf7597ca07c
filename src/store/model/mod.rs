//! The records and requests that stores and their users exchange.

mod applied;
mod audit;
mod change;
mod claim;
mod copied;
mod cursor;
pub(crate) mod data_versions;
mod event;
mod failures;
mod filter;
mod fingerprint;
mod inbox;
mod limits;
mod line;
mod log_lines;
mod node;
mod operation;
mod order;
mod query;
mod record;
mod refusal;
mod refusals;
mod remote;
mod selecting;
mod standing;
mod state_word;
mod stats;
mod transaction;
mod value;
mod wait_kind;
mod worker;

pub use applied::Applied;
pub use audit::{AUDIT_RETENTION, AuditAction, AuditEntry, Purge};
pub use change::{Change, ChangeKind};
pub use claim::{Claim, Claimed, Commit, LogWrite};
pub use copied::Copied;
pub use cursor::{Cursor, Place};
pub use data_versions::DataVersions;
pub use event::{Event, TaskView};
pub use failures::{FailedGroup, FailedTasks};
pub use filter::{Filter, Page, TimeRange};
pub use inbox::RefusedRows;
pub use limits::Limits;
pub use line::{read_line, read_line_at};
pub use log_lines::{
    DamagedPart, LogCursor, LogLine, LogPage, LogPart, LogQuery, Logged, PartLine, StoredLog,
};
pub use node::{
    Lease, NodeCommand, NodeCommandId, NodeFault, NodeRecord, NodeSpec, NodeStatus,
    QueuedNodeCommand,
};
pub use operation::{Done, Submitted};
pub use order::Order;
pub use query::{Query, Span, TaskPage};
pub use record::{CommandRecord, LimitForm, LimitUse, LimitedBy, TaskCount, TaskRecord};
pub(super) use refusal::ending;
pub use refusal::{Part, Reason, Refusal};
pub use refusals::Refusals;
pub use remote::{RemoteHandler, RemoteWorker, Speaker};
pub use standing::{Shown, Standing};
pub use state_word::StateWord;
pub use stats::{Availability, HeldGroup, TaskGroup, TaskStats};
pub use transaction::Transaction;
pub use value::{Expected, NamedValue, SetValue};
pub use wait_kind::WaitKind;
pub use worker::{NewWorker, WorkerRecord};
