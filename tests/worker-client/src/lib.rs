//! A client of the protocol of remote workers, for tests: it keeps every duty of a worker, except those that a
//! [`Fault`] switches off.
//!
//! | module | what |
//! |---|---|
//! | [`http`] | one request over HTTP/1.1, each on its own connection |
//! | [`fault`] | the faults, a switch for each |
//! | [`handler`] | what a handler is, and what it is given |
//! | [`check`] | the client under test of `windlass worker-check` |
//! | [`worker`] | the worker: registers, exchanges, reports and watches its time |
//! | `state` | what the worker holds: its claims, their reports and their runs |
//! | `claims` | starts, stops and ends runs |
//!
//! Its clock is [`std::time::Instant`], which stands still while a Linux machine is suspended. A client for production
//! measures the TTL by `CLOCK_BOOTTIME`.

pub mod check;
mod claims;
pub mod fault;
pub mod handler;
pub mod http;
mod state;
pub mod worker;

pub use self::{
    fault::{Fault, Faults},
    handler::{Ctl, Handler},
    worker::{Setup, Worker},
};

/// Any error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
