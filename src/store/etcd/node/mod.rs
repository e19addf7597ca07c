//! The nodes of this process: leases, claims, commits, releases, node commands, repairs.

mod adopt;
mod claim;
mod claims;
mod command;
mod commit;
mod copies;
mod effects;
mod lease;
mod leave;
mod new_tasks;
mod peers;
mod restored;
mod room;
mod slots;
mod waits;

pub(crate) use adopt::Adoption;
pub(crate) use claim::Claimer;
pub(crate) use claims::Claims;
pub(crate) use command::NodeCommands;
pub(crate) use commit::Committer;
pub(crate) use effects::Effects;
pub(crate) use lease::{Leases, number};
pub(crate) use new_tasks::NewTasks;
pub(crate) use peers::Peers;
#[cfg(test)]
pub(crate) use slots::Full;
pub(crate) use slots::{Refused, SlotTable};
