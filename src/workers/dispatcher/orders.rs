//! The commands of operators to workers that have no answer yet.

use std::sync::Arc;

use super::{Dispatcher, Notice, Worker};
use crate::store::{NodeCommandId, QueuedNodeCommand};

impl Dispatcher {
    /// Applies a command of an operator. Returns its worker.
    pub(in crate::workers) fn order(&mut self, command: QueuedNodeCommand) -> Option<Arc<Worker>> {
        let known = self.orders.entry(command.lease).or_default();
        if known.iter().any(|other| other.id == command.id) {
            return None;
        }
        known.push(command.clone());
        let worker = self.workers.get(&command.lease)?;
        worker.tell(Notice::Node(command));
        Some(worker.clone())
    }

    /// Returns the commands of operators to a worker that have no answer, as far as is known here.
    pub(in crate::workers) fn orders(&self, lease: u64) -> Vec<QueuedNodeCommand> {
        self.orders.get(&lease).cloned().unwrap_or_default()
    }

    /// Returns the leases of workers that are not known here and have commands of operators: another server answers them.
    pub(in crate::workers) fn orders_of_others(&self) -> Vec<u64> {
        let leases = self.orders.keys().copied();
        leases
            .filter(|lease| !self.workers.contains_key(lease))
            .collect()
    }

    pub(in crate::workers) fn answered(&mut self, lease: u64, command: NodeCommandId) {
        if let Some(orders) = self.orders.get_mut(&lease) {
            orders.retain(|order| order.id != command);
            if orders.is_empty() {
                self.orders.remove(&lease);
            }
        }
    }
}
