//! The JSON forms in which people and programs write what they send to windlass.
//!
//! Only this module reads these forms, so that each field has one name and each error one text.

mod operation;
mod policy;
mod task;

#[cfg(feature = "schema")]
pub(crate) use operation::LineForm;
pub use operation::{Line, TIMES};
pub use policy::read_retry;
pub use task::TaskForm;
