//! The JSON forms in which people and programs write what they send to windlass.
//!
//! Each form is read here and nowhere else, so that a field is named once and has one text for each error.

mod fields;
mod message;
mod moment;
mod operation;
mod policy;
mod task;

#[cfg(feature = "schema")]
pub(crate) use message::MessageForm;
pub use message::read_message;
pub use moment::read_moment;
#[cfg(feature = "schema")]
pub(crate) use operation::LineForm;
pub use operation::{Line, TIMES};
pub use policy::read_retry;
pub use task::TaskForm;
