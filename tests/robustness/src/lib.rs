//! What holds windlass to its guarantees while its processes are killed and stopped.
//!
//! | module | what |
//! |---|---|
//! | [`plan`] | the tasks of a run, drawn from a seed |
//! | [`kinds`] | the handlers that the workers run |
//! | [`late`] | writes that are under way for a while, so that stopped processes have some |
//! | [`witness`] | what handlers write down outside of the store: when they ran, what was acknowledged to them |
//! | [`zombie`] | a worker that stands still in the middle of a write |
//! | [`workers`] | the processes: started, killed, stopped, continued |
//! | [`traffic`] | what is sent meanwhile: submits, commands, retries, commands to nodes |
//! | [`chaos`] | one run: all of it at once, until everything has settled |
//! | [`cluster`] | etcd under them, whose members are killed, stopped and cut off |
//! | [`feed`] | the changes as they are told |
//! | [`world`] | what is stored and witnessed in the end |
//! | [`invariants`] | the checkers, a file each |
//!
//! `tests/crash.rs` puts it together on one file, `tests/cluster.rs` on three members of etcd.

pub mod chaos;
pub mod cluster;
pub mod feed;
pub mod invariants;
pub mod kinds;
pub mod late;
pub mod plan;
pub mod traffic;
pub mod witness;
pub mod workers;
pub mod world;
pub mod zombie;

/// Any error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
