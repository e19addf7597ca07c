//! What a simulation puts in the place of the world.
//!
//! | module | |
//! |---|---|
#![cfg_attr(
    feature = "etcd",
    doc = "| [`etcd`] | a model of an etcd server: revisions, transactions, leases, watches and compaction, without time, disk or network |"
)]

#[cfg(feature = "etcd")]
pub mod etcd;
