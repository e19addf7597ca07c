//! The JSON forms of the records that clients read, as the command line prints them. The forms that
//! programs write are in [`windlass_statemachine::wire`].
//!
//! `docs/json.md` lists the fields of all forms. With the feature `schema` each form has a JSON Schema.

mod record;
mod refusal;

pub use record::RecordForm;
pub use refusal::{ReasonForm, RefusalForm};
