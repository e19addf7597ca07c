//! What the engine does when the lease is gained or lost, and when the store is gone.

use std::time::Duration;

use tokio::time::Instant;
use tracing::{error, warn};
use windlass_statemachine::{StopReason, machine::Input};

use super::Engine;
use crate::store::{Error, Lease};

impl Engine {
    pub(super) fn lease_gained(&mut self, lease: Lease) {
        self.lease = Some(lease);
        self.start_watch(Duration::ZERO);
    }

    /// Handles the loss of the lease, and with it of every claim: stops the handlers, and drops all tasks
    /// until the node has a lease and a list again.
    pub(super) fn lease_lost(&mut self) {
        if self.lease.is_none() {
            return;
        }
        if self.slots.len() > 0 {
            error!(node = %self.deps.node, tasks = self.slots.len(),
                "stopped every handler: the lease is lost; a node that has one goes on with the tasks");
        }
        self.forget_lease();
    }

    /// Stops the node, because the store is gone for good or has failed as often as the
    /// configuration allows.
    pub(super) fn store_gone(&mut self, error: Error) {
        let reason = match &error {
            Error::StoreGone { .. } => "the store is gone",
            _ => "the store has failed too often",
        };
        if self.deps.failure.set(error).is_err() {
            return;
        }
        error!(node = %self.deps.node, tasks = self.slots.len(),
            "{reason}: stopped every handler, the node ends");
        self.mode.stop(Instant::now());
        self.claiming.clear();
        self.forget_lease();
    }

    /// Ends a stop that has waited long enough for the store. A task that is not stored by now
    /// keeps its last persisted state, and is free when the lease has ended.
    pub(super) fn go_without_the_store(&mut self) {
        if self.lease.is_some() && !self.is_empty() {
            let reason = self.outbox.failing().map(|failing| failing.reason.as_str());
            warn!(node = %self.deps.node, tasks = self.slots.len() + self.claiming.len(),
                reason = reason.unwrap_or("the store does not answer"),
                "could not release every task; they are free when the lease ends");
        }
        self.claiming.clear();
        self.forget_lease();
    }

    fn forget_lease(&mut self) {
        self.give_up_unstored();
        self.lease = None;
        self.balance_orders.clear();
        self.outbox.forget_failures();
        self.watch.end();
        self.due.clear();
        for slot in self.slots.ids() {
            self.feed(slot, Input::Fenced(StopReason::LeaseLost));
        }
    }
}
