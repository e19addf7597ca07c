//! What a node does for the servers beside its tasks: retention, compaction, a look at the members.

mod compaction;
mod members;
mod probe;
mod retention;
mod servers;

pub(crate) use compaction::Compaction;
#[cfg(test)]
pub(crate) use members::member;
pub(crate) use members::{Member, Members, size};
pub(crate) use retention::Purges;
pub(crate) use servers::Upkeep;
