//! The requests of a server, as a client makes them: by the routes alone, and by sockets.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod attacks;
mod backups;
mod bounds;
mod bulk;
mod bulk_copies;
mod changes;
mod clocks;
mod commands;
mod connections;
mod free_ids;
mod kit;
mod listening;
mod masks;
mod namespace;
mod pages;
mod patches;
mod proxies;
mod quotas;
mod refused_bodies;
mod schedules;
mod scoped_writes;
mod scopes;
mod sessions;
mod standings;
mod submits;
mod tasks;
mod tls;
mod tokens;
mod traces;
mod transactions;
mod used_ids;
mod workers;
