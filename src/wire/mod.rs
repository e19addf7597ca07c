//! The JSON forms of the records that clients read, as the command line prints them. The forms that
//! programs write are in [`windlass_statemachine::wire`].
//!
//! `docs/reference/json.md` lists the fields of all forms. With the feature `schema` each form has a JSON Schema.

mod failures;
mod graph;
mod record;
mod refusal;
mod schedule;
mod stats;
mod why;

pub use failures::{FailedKindForm, FailedNodeForm, FailedVersionForm, FailureForm, FailuresForm};
pub use graph::{EdgeForm, GraphForm, NodeForm};
pub use record::{DeliveryForm, EarlierDataForm, RecordForm};
pub use refusal::{ReasonForm, RefusalForm};
pub use schedule::{ScheduleActionForm, ScheduleForm, TimeForm};
pub use stats::{HeldForm, KindForm, StatsForm};
pub use why::{RefusedRowsForm, TaskWhyForm, WaitingForm, WhyForm};
