//! The runner on the memory store, with tokio's paused time: what takes minutes passes at once, and
//! nothing depends on how busy the machine is.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod abandoned;
mod balancing;
mod changes;
mod claimer;
mod claims;
mod clock;
mod commands;
mod data_versions;
mod deadlines;
mod effects;
mod failures;
mod faults;
mod feed;
mod gone;
mod handlers;
mod ignoring;
mod jobs;
mod joins;
mod leases;
mod limits;
mod logged;
mod logs;
mod node_faults;
mod nodes;
mod progress;
mod replaced;
mod rescheduled;
mod schedules;
mod signals;
mod state;
mod superseded;
mod support;
mod validation;
mod waited;
mod waiting;
mod waits;
