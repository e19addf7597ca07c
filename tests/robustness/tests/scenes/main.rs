//! One kind of event each, with real processes, on SQLite and on etcd.
//!
//! `WINDLASS_SEED=N` repeats the choices of a scene (not its timing).

#![allow(clippy::print_stderr, reason = "a test that tells its seed")]

mod copied;
mod damaged;
mod deleted;
mod pipeline;
mod placed;
mod priorities;
mod programs;
mod purged;
mod reborn;
mod retained;
mod schedules;
mod support;
mod takeover;
