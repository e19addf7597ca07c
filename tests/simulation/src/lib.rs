//! The whole of windlass in one process, one thread and virtual time: nodes, clients and etcd, with faults that a seed repeats.
//!
//! | module | what |
//! |---|---|
//! | [`etcd`] | a model of an etcd cluster: revisions, transactions, leases, watches and compaction |
//! | [`network`] | the lines between processes and members: delays, losses, cuts and breaks |
//! | [`pipes`] | the members behind HTTP/2, for a test of its own |
//! | [`process`] | a process: a runtime with paused time, that is killed, stands still and has a clock of its own |
//! | [`faults`] | what happens, and when |
//! | [`run`] | one run: traffic and faults, then everything settles and is checked |
//! | [`isolated`] | a run in a process of its own, which repeats its seed |
//! | [`shrink`] | leaves out of a plan that fails what it fails without |
//! | [`trace`] | what has happened, in order |
#![cfg(feature = "etcd")]

pub mod etcd;
pub mod faults;
pub mod isolated;
mod log;
pub mod network;
pub mod pipes;
pub mod process;
pub mod run;
pub mod shrink;
pub mod trace;
mod wire;

/// Locks what the processes of a run share. A panic in one of them ends the run.
fn locked<T>(of: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn micros(of: std::time::Duration) -> u64 {
    u64::try_from(of.as_micros()).unwrap_or(u64::MAX)
}
