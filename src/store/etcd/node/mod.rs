//! The nodes of this process: leases, claims, commits, releases, node commands, repairs.

mod claim;
mod claims;
mod command;
mod commit;
mod dependencies;
mod effects;
mod granted;
mod lease;
mod leave;
mod live_nodes;
mod log_lines;
mod new_tasks;
mod node_lease;
mod peers;
mod repair;
mod restored;
mod slots;
mod worker;
mod worker_claims;

pub(crate) use claim::Claimer;
pub(crate) use claims::Claims;
pub(crate) use command::NodeCommands;
pub(crate) use commit::Committer;
pub(crate) use effects::Effects;
pub(crate) use lease::{Leases, number};
pub(crate) use log_lines::LogWriter;
pub(crate) use new_tasks::NewTasks;
pub(crate) use peers::Peers;
pub(crate) use repair::Repairs;
#[cfg(test)]
pub(crate) use slots::Full;
pub(crate) use slots::{Refused, SlotTable};
