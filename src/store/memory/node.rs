//! Live nodes, and the commands to them.

use jiff::Timestamp;
use windlass_statemachine::NodeName;

use super::{
    row::{NodeCommandRow, Watcher},
    world::World,
};
use crate::store::{Error, Lease, NodeCommand, NodeCommandId, NodeRecord, copy::Copied};

/// How many answered node commands are kept for their senders.
const OUTCOMES_KEPT: usize = 1000;

impl World {
    /// Returns the lease of the live node with this name.
    pub(super) fn node(&self, name: &NodeName) -> Option<u64> {
        let found = self.leases.iter().find(|(_, l)| l.spec.name == *name);
        found.map(|(id, _)| *id)
    }

    pub(super) fn nodes(&self, now: Timestamp) -> Vec<NodeRecord> {
        let nodes = self.leases.iter().map(|(id, row)| NodeRecord {
            spec: row.spec.clone(),
            status: row.status.clone(),
            lease: *id,
            joined_at: row.joined_at,
            lease_left_ms: row
                .ends_at
                .duration_since(now)
                .as_millis()
                .try_into()
                .unwrap_or(0),
            claims: row.claims.len() as u64,
        });
        nodes.collect()
    }

    pub(super) fn send_node(
        &mut self,
        node: &NodeName,
        command: NodeCommand,
    ) -> Result<NodeCommandId, Error> {
        Copied::check_node(self.copied.as_ref(), &command)?;
        let lease = self.node(node).ok_or_else(|| Error::no_node(node))?;
        let id = NodeCommandId(self.number());
        let row = NodeCommandRow {
            lease,
            command,
            outcome: None,
        };
        self.node_commands.insert(id, row);
        let is_worker = self.is_worker(lease);
        let notified = |watcher: &&Watcher| is_worker || watcher.lease == lease;
        for watcher in self.watchers.values().filter(notified) {
            watcher.notify.notify_one();
        }
        Ok(id)
    }

    pub(super) fn node_outcome(&self, id: NodeCommandId) -> Result<Option<String>, Error> {
        let row = self.node_commands.get(&id);
        let row = row.ok_or_else(|| Error::no_node_command(id))?;
        Ok(row.outcome.clone())
    }

    pub(super) fn acknowledge(
        &mut self,
        lease: &Lease,
        id: NodeCommandId,
        outcome: &str,
    ) -> Result<(), Error> {
        self.check_lease(lease)?;
        let row = self.node_commands.get_mut(&id);
        let Some(row) = row.filter(|row| row.lease == lease.id) else {
            return Err(Error::no_node_command(id));
        };
        // The first answer stays: its sender may have read it.
        row.outcome.get_or_insert_with(|| outcome.to_owned());
        let answered = self
            .node_commands
            .iter()
            .filter(|(_, c)| c.outcome.is_some());
        let answered: Vec<NodeCommandId> = answered.map(|(id, _)| *id).collect();
        for id in answered.iter().rev().skip(OUTCOMES_KEPT) {
            self.node_commands.remove(id);
        }
        Ok(())
    }
}
