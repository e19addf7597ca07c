//! A coordinator with the states in another store: the effects of two writes without a common
//! transaction. Everything else is in the conformance suite.
#![cfg(feature = "testing")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod abandoned;
mod claims_lost;
mod crashes;
mod leftovers;
mod refused;
mod support;
mod unavailable;
