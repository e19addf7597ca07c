//! The JSON forms in which people and programs write what they send to windlass.
//!
//! Each form is read here and nowhere else, so that a field is named once and has one text for each error.

mod operation;
mod policy;
mod task;

#[cfg(feature = "schema")]
pub(crate) use operation::LineForm;
pub use operation::{Line, TIMES};
pub use policy::read_retry;
pub use task::TaskForm;
