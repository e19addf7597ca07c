//! Remote workers: the protocol with servers in this process.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod races;
mod requests;
mod runs;
mod servers;
mod speakers;
mod stops;
mod support;
mod waited;
mod waits;
