//! Tests windlass's guarantees while its processes are killed and stopped.
//!
//! | module | what |
//! |---|---|
//! | [`plan`] | the tasks of a run, drawn from a seed |
//! | [`kinds`], [`reuse`] | the handlers that the workers run |
//! | [`late`] | delays writes, so that stopped processes have pending ones |
//! | [`witness`] | the records of handlers outside of the store: when they ran, what was acknowledged to them |
//! | [`zombie`] | a worker that stands still in the middle of a write |
//! | [`time`] | the clocks, which a simulation replaces |
//! | [`workers`], [`site`], [`terms`] | the processes: started on their terms, killed, stopped, continued |
//! | [`ground`] | the names of the stores that they work on |
//! | [`traffic`] | what is sent in the meantime: submits, commands, retries |
//! | [`reuse`], [`race`], [`node_commands`] | ids that are used again, submits at once, commands to nodes |
//! | [`passes`] | transactions that compete for one task |
//! | [`edges`] | commands at the moment of a deadline or of a return |
//! | [`crowds`] | tasks with more commands than one write settles |
//! | [`polite`] | deletions without force, and of tasks whose handlers are silent |
//! | [`starts`] | tasks that are retried at once, that run once, or whose starts are limited |
//! | [`readers`] | readers of the feed that begin in the past, and waits |
//! | [`scene`] | a folder, a store and workers, for one run |
//! | [`chaos`] | one run of everything at once, until everything has settled |
//! | [`damage`] | records that cannot be read |
//! | [`cluster`] | the etcd of the workers, whose members are killed, stopped and cut off |
//! | [`feed`] | the changes as they are reported |
//! | [`world`] | what is stored and recorded at the end |
//! | [`http`] | clients that speak HTTP over a line that cuts, delays and repeats |
//! | [`invariants`] | the checkers, a file each |
//!
//! `tests/crash.rs` puts it together on one file, `tests/cluster.rs` on three members of etcd, and
//! `tests/scenes/` plays one kind of event each, on both.

pub mod chaos;
pub mod cluster;
pub mod crowds;
pub mod damage;
pub mod disturb;
pub mod edges;
pub mod exec_lines;
pub mod feed;
pub mod ground;
pub mod http;
pub mod invariants;
pub mod kinds;
pub mod late;
pub mod node_commands;
pub mod passes;
pub mod plan;
pub mod polite;
mod processes;
pub mod race;
pub mod readers;
pub mod remote;
pub mod reuse;
pub mod scene;
pub mod settle;
pub mod site;
pub mod starts;
pub mod terms;
pub mod time;
pub mod traffic;
pub mod witness;
pub mod workers;
pub mod world;
pub mod zombie;

/// Any error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
