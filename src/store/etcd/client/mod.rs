//! The connection to etcd: options, faults, the limits of the servers, and a time limit on every
//! call. It knows nothing about tasks.

mod admission;
pub(crate) mod connector;
pub(crate) mod diagnose;
pub(crate) mod environment;
pub(crate) mod fault;
pub(crate) mod limits;
pub(crate) mod link;
pub(crate) mod options;
pub(crate) mod pages;
pub(crate) mod past;
mod watched;
mod writes;

pub(crate) use fault::{Fault, Limit};
pub(crate) use limits::Capacity;
pub(crate) use link::{Link, kv, kvs};
pub(crate) use past::Behind;
pub(crate) use watched::{WatchedKey, news};
