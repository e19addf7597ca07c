//! The store on etcd, on servers that the tests start on their own.
//!
//! They need the program `etcd` (in the PATH, or named by `ETCD_BIN`) and fail without it.
#![cfg(feature = "etcd")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod auth;
mod bad_input;
mod breaking;
mod combining;
mod compaction;
#[cfg(feature = "conformance")]
mod conformance;
mod ended;
mod examine;
mod export;
#[path = "../exported/mod.rs"]
mod exported;
mod failover;
mod failures;
mod history;
mod idle;
mod index;
mod leftovers;
mod limits;
#[path = "../logged/mod.rs"]
mod logged;
mod lost_answers;
mod metafora;
mod namespaces;
mod new_tasks;
mod outages;
mod props;
mod quarantine;
mod quota;
mod reschedules;
mod restored;
mod retention;
mod rolling;
mod runner;
mod schedules;
mod security;
mod server;
mod servers;
mod silence;
mod slots;
mod support;
mod transaction_limits;
mod transactions;
mod watches;
mod workers;
