//! The helpers for tests of handlers: single runs, virtual time, crashes.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod calls;
mod crashes;
mod same_as_a_node;
mod virtual_time;
