//! The examination of a namespace, and of the cluster that it is on.

mod cluster;
mod examine;
mod keys;
mod repair;

pub(crate) use examine::Doctor;
