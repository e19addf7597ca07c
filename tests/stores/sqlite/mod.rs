//! What is particular to the SQLite store: files, processes, full disks. What every store does is
//! in `tests/stores/conformance.rs`.
#![cfg(feature = "sqlite-system")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that fails says where"
)]

mod backups;
mod claims;
mod clocks;
mod examine;
mod export;
#[path = "../../exported/mod.rs"]
mod exported;
mod faults;
mod files;
mod foreign_bytes;
mod gone;
mod inbox;
mod inbox_bytes;
mod inbox_python;
mod inbox_refused;
mod integrity;
mod leases;
mod long_waits;
mod opening;
mod processes;
mod pruning;
mod quarantine;
mod read_only;
mod states;
mod support;
mod transactions;
mod versions;
mod wal;
mod watching;
mod workers;
mod write_back;
