//! What the nodes of this process do: leases, claims, commits, releases, node commands, repairs.

mod adopt;
mod claim;
mod claims;
mod command;
mod commit;
mod effects;
mod lease;
mod leave;
mod peers;
mod room;

pub(crate) use adopt::Adoption;
pub(crate) use claim::Claimer;
pub(crate) use claims::Claims;
pub(crate) use command::NodeCommands;
pub(crate) use commit::Committer;
pub(crate) use lease::{Leases, number};
pub(crate) use peers::Peers;
