//! What nodes do for the servers: retention, compaction, a warning before the quota is full.

mod compaction;
mod members;
mod probe;
mod retention;
mod servers;
mod starts;
mod sweep;
mod unique;

pub(crate) use compaction::Compaction;
#[cfg(test)]
pub(crate) use members::member;
pub(crate) use members::{Member, Members, size};
pub(crate) use retention::Purges;
pub(crate) use servers::Upkeep;
