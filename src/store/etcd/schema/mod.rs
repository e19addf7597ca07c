//! The keys of a namespace and their values. Pure.

pub(crate) mod commands;
pub(crate) mod ended;
pub(crate) mod fences;
pub(crate) mod foreign;
pub(crate) mod format;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
pub(crate) mod history;
pub(crate) mod horizon;
pub(crate) mod json;
pub(crate) mod keys;
pub(crate) mod kv;
pub(crate) mod namespace;
pub(crate) mod node_commands;
pub(crate) mod numbers;
mod phrase;
pub(crate) mod ranges;
pub(crate) mod recent;
pub(crate) mod records;
pub(crate) mod registrations;
mod restored;
pub(crate) mod slots;
pub(crate) mod snapshot;
pub(crate) mod transactions;
pub(crate) mod unique;

pub(crate) use commands::{Stored, reported};
pub(crate) use fences::Fences;
pub(crate) use format::{Format, Layout};
pub(crate) use history::Entry;
pub(crate) use horizon::Horizon;
pub(crate) use keys::{Keys, Part, TaskKey};
pub(crate) use kv::{KeyValue, revision};
pub(crate) use namespace::end_of;
pub(crate) use recent::Recent;
pub(crate) use records::{Envelope, Hold, Owner, Parked};
pub(crate) use registrations::{Registration, Reported};
pub(crate) use restored::{RAISE, Restored, restored};
pub(crate) use slots::{Slot, SlotRecord, slots_of};
pub(crate) use snapshot::Snapshot;
pub(crate) use unique::Unique;
