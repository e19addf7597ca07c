//! Balancing: releases tasks that run here for other nodes.

use tokio::time::Instant;
use tracing::info;
use windlass_statemachine::{
    machine::{Input, StopReason},
    text::counted,
};

use super::{
    Engine,
    deferral::{Leaving, Running},
    mode::Mode,
};
use crate::{
    balancer::Peer,
    store::{NodeCommandId, NodeRecord},
};

impl Engine {
    /// Calls the balancer on behalf of a node command, as soon as the other nodes are read: it would release too many
    /// tasks for nodes whose claims were read earlier.
    pub(super) fn order_balance(&mut self, order: NodeCommandId) {
        if self.balance_orders.contains(&order) {
            return;
        }
        self.balance_orders.push(order);
        self.deps.peers_changed.notify_one();
    }

    /// Updates the other nodes, and calls the balancer if that is due.
    pub(super) fn nodes_were_read(&mut self, nodes: Vec<NodeRecord>) {
        // A remote worker claims nothing itself, and its server waits for nobody.
        let nodes = nodes.into_iter().filter(|node| node.spec.worker.is_none());
        self.deferral.set_nodes(nodes.map(Peer::from));
        let orders = std::mem::take(&mut self.balance_orders);
        let is_due = std::mem::take(&mut self.balances) && self.mode.current() == Mode::Normal;
        // On command a frozen node balances too: it releases tasks, but takes none.
        let released = match is_due || !orders.is_empty() {
            true => self.balance(),
            false => 0,
        };
        for order in orders {
            self.acknowledge(
                order,
                format!("balanced: {} released", counted(released as u64, "task")),
            );
        }
    }

    /// Releases the tasks that the balancer chooses, and returns their number.
    pub(super) fn balance(&mut self) -> usize {
        if self.mode.is_emptying() {
            // The node already releases every task.
            return 0;
        }
        let load = self.load(Instant::now());
        let mut leaving = Leaving::default();
        for slot in self.slots.iter().filter(|slot| slot.is_leaving()) {
            leaving.tasks += 1;
            leaving.active += u32::from(slot.active && !slot.kind.config.is_apart);
        }
        let running = self.slots.iter();
        let running = running.filter(|slot| slot.run.is_some() && !slot.is_leaving());
        let running = running.map(|slot| Running {
            fence: slot.claim.fence,
            task: &slot.task,
            state: slot.machine.state(),
        });
        let back = self.deferral.released_by_balancer(running, leaving, load);
        let mut released = 0;
        for task in back {
            if let Some(slot) = self.slots.of(&task) {
                if let Some(slot) = self.slots.get_mut(slot) {
                    slot.is_balanced = true;
                }
                self.feed(slot, Input::Stop(StopReason::Balance));
                released += 1;
            }
        }
        if released > 0 {
            info!(node = %self.deps.node, tasks = released, "released tasks for other nodes");
        }
        released
    }
}
