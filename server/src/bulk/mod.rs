//! Bulk operations: one action on every task that a filter selects, as a task of its own.
//!
//! A bulk operation begins with a [dry run](dry_run), which counts the tasks. [`start`] then submits a task of the kind
//! [`KIND`] that names the count: the operation touches no more tasks than that, and none that was submitted later. Its
//! progress, its outcome and each refusal can be read while it runs, it can be paused, and a crash loses nothing: each task
//! is changed once. The kind has a [handler](Handler), which `windlass worker` and `windlass serve` have.

mod act;
mod dry_run;
mod filter;
mod handler;
mod place;
mod spec;

pub use dry_run::{Count, dry_run, start};
pub use filter::BulkFilter;
pub use handler::{Handler, Progress, Refusal};
pub use spec::{BulkAction, Newest, OfToken, Spec};

/// The kind of bulk operations.
pub const KIND: &str = windlass::Kind::BULK;
