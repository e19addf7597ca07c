//! The helpers for tests of handlers: single runs, virtual time, crashes.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod approval;
mod calls;
mod crashes;
mod deadlines;
mod errors;
mod same_as_a_node;
mod schedule_changes;
mod schedule_deadlines;
mod schedule_ends;
mod schedule_limits;
mod schedule_updates;
mod schedules;
mod state;
mod time;
mod virtual_time;
mod waited;
mod wrong_payloads;
