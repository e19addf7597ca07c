//! The store on etcd: rates compared with the same etcd without windlass, what parked tasks cost,
//! and how long it takes until others run what a node ran.
//!
//! The servers are started here (`ETCD_BIN`, or `etcd` of the PATH), on the disk of the other files.

mod attempts;
mod failover;
mod quiet;
mod rates;
mod server;
mod submits;
mod watch;
mod worker;

pub(crate) use attempts::attempts;
pub(crate) use failover::{due, failover, shutdown};
pub(crate) use quiet::{idle, memory};
pub(crate) use rates::{few, rates};
pub(crate) use server::Cluster;
pub(crate) use submits::submits;
pub(crate) use watch::watch;
pub(crate) use worker::works;
