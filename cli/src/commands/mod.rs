//! A file per command.

pub(crate) mod apply;
pub(crate) mod candidates;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod copy;
pub(crate) mod delete;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod get;
pub(crate) mod graph;
pub(crate) mod import;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod node;
pub(crate) mod nodes;
pub(crate) mod purge;
pub(crate) mod reference;
pub(crate) mod retry;
pub(crate) mod run;
pub(crate) mod schedule;
pub(crate) mod signal;
pub(crate) mod stats;
pub(crate) mod steer;
pub(crate) mod submit;
pub(crate) mod watch;
pub(crate) mod worker;
