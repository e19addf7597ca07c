//! [`Runner`]: a node. It claims tasks of the kinds for which it has handlers, and runs them.

mod batched;
mod builder;
mod change;
mod claimer;
pub(crate) mod config;
mod control;
pub(crate) mod due;
mod engine;
mod gauges;
mod input;
mod kinds;
mod lease;
mod maintain;
mod node;
mod node_faults;
mod os_signals;
mod reports;
mod snapshot;
pub(crate) mod spawn;
mod start;
pub(crate) mod store_answers;
mod store_errors;

pub use self::{
    builder::Builder,
    change::ChangeError,
    claimer::{ClaimError, ClaimedTask, Claimer, FinishError},
    config::KindConfig,
    gauges::namespace_gauges,
    lease::lease_margin,
    node::Runner,
    os_signals::StopSignals,
    reports::REPORTS,
    snapshot::{RunningTask, Snapshot, Unstored},
    start::StartError,
};
pub(crate) use self::{
    config::{IDLE_RUNS, has_limit_on_starts},
    store_answers::input_of,
};
