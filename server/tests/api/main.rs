//! The requests of a server, as a client makes them: by the routes alone, and by sockets.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod attacks;
mod backups;
mod bulk;
mod bulk_copies;
mod changes;
mod commands;
mod kit;
mod listening;
mod masks;
mod namespace;
mod pages;
mod patches;
mod proxies;
mod quotas;
mod schedules;
mod scoped_writes;
mod scopes;
mod sessions;
mod tasks;
mod tls;
mod tokens;
mod traces;
mod transactions;
mod workers;
