//! The JSON forms in which people and programs write what they send to windlass.
//!
//! Only this module reads these forms, so that each field has one name and each error one text.

mod fields;
mod message;
mod moment;
mod operation;
mod policy;
mod spoken;
mod task;

#[cfg(feature = "schema")]
pub(crate) use message::MessageForm;
pub use message::read_message;
pub use moment::{read_duration, read_moment, read_wake};
#[cfg(feature = "schema")]
pub(crate) use operation::LineForm;
pub use operation::{Line, TIMES};
pub use policy::read_retry;
pub use spoken::{read_past, read_since, read_time};
pub use task::TaskForm;
