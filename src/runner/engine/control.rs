//! Requests to the node: from its own process, and operators' node commands.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::{debug, info};
use windlass_statemachine::{StopReason, TaskId, machine::Input};

use super::{ABORT_WITHIN, Control, Engine, Mode, RunningTask, SlotId, Snapshot, slot::Slot};
use crate::store::{NodeCommand, NodeCommandId, QueuedNodeCommand};

impl Engine {
    pub(super) fn control(&mut self, control: Control) {
        match control {
            Control::Shutdown => {
                info!(node = %self.parts.node, tasks = self.slots.len(), "shutting down");
                self.mode = Mode::Stopping;
                self.stop_all(StopReason::Shutdown, false);
            }
            Control::Abort => {
                self.mode = Mode::Stopping;
                self.abort_by.get_or_insert(Instant::now() + ABORT_WITHIN);
                self.stop_all(StopReason::Shutdown, true);
            }
            Control::Freeze => self.freeze(),
            Control::Unfreeze => self.unfreeze(),
            Control::Drain(done) => {
                self.drain();
                self.waiting_for_idle.push_back(done);
            }
            Control::Snapshot(answer) => {
                let _ = answer.send(self.snapshot());
            }
        }
    }

    fn freeze(&mut self) {
        if self.mode == Mode::Normal {
            self.mode = Mode::Frozen;
            info!(node = %self.parts.node, "frozen: it claims nothing until it is unfrozen");
        }
    }

    fn unfreeze(&mut self) {
        if matches!(self.mode, Mode::Frozen | Mode::Draining) {
            self.mode = Mode::Normal;
            info!(node = %self.parts.node, "unfrozen");
            // It works again, and may never be empty.
            let outcome = if self.is_empty() {
                "drained"
            } else {
                "unfrozen before it was empty"
            };
            self.answer_drains(outcome);
        }
    }

    fn drain(&mut self) {
        if self.mode != Mode::Stopping {
            self.mode = Mode::Draining;
            info!(node = %self.parts.node, tasks = self.slots.len(), "draining");
            self.stop_all(StopReason::Drain, false);
        }
    }

    fn stop_all(&mut self, reason: StopReason, at_once: bool) {
        let slots: Vec<SlotId> = self.slots.keys().copied().collect();
        for slot in slots {
            let input = if at_once {
                Input::StopNow(reason)
            } else {
                Input::Stop(reason)
            };
            self.feed(slot, input);
        }
    }

    fn snapshot(&self) -> Snapshot {
        let mut slots: Vec<&Slot> = self.slots.values().collect();
        slots.sort_by(|a, b| {
            let began = a.began().cmp(&b.began());
            began.then_with(|| a.task.id.cmp(&b.task.id))
        });
        let tasks: Vec<RunningTask> = slots.into_iter().map(Slot::describe).collect();
        Snapshot {
            node: self.parts.node.clone(),
            lease: self.lease.as_ref().map(|l| l.id),
            frozen: self.mode == Mode::Frozen,
            draining: matches!(self.mode, Mode::Draining | Mode::Stopping),
            listed: self.listed,
            parked: self.due.len(),
            ready: self.due.ready_len(),
            tasks,
        }
    }

    pub(super) fn node_command(&mut self, queued: QueuedNodeCommand) {
        let QueuedNodeCommand { id: order, command } = queued;
        debug!(node = %self.parts.node, ?command, "a node command");
        match command {
            NodeCommand::Freeze => {
                self.freeze();
                self.acknowledge(order, "frozen");
            }
            NodeCommand::Unfreeze => {
                self.unfreeze();
                self.acknowledge(order, "unfrozen");
            }
            NodeCommand::Drain => {
                if self.mode != Mode::Stopping && !self.drains.contains(&order) {
                    self.drain();
                    self.drains.push(order);
                }
            }
            NodeCommand::Balance => {
                // Also while it is frozen: it then gives back, and takes nothing.
                let given = self.balance();
                self.acknowledge(order, format!("balanced: {given} tasks given back"));
            }
            NodeCommand::StopTask { task } => self.stop_task(&task, order),
        }
    }

    fn stop_task(&mut self, task: &TaskId, order: NodeCommandId) {
        if let Some(pending) = self.pending.get_mut(task) {
            if !pending.stop_orders.contains(&order) {
                pending.stop_orders.push(order);
            }
            return;
        }
        let Some(id) = self.by_task.get(task).copied() else {
            return self.not_here(vec![order]);
        };
        if let Some(slot) = self.slots.get_mut(&id)
            && !slot.stop_orders.contains(&order)
        {
            slot.stop_orders.push(order);
        }
        self.feed(id, Input::Stop(StopReason::StopTask));
    }

    /// Tells whoever waits for this node to be empty that it has not to wait any more.
    pub(super) fn answer_drains(&mut self, outcome: &str) {
        for idle in self.waiting_for_idle.drain(..) {
            let _ = idle.send(());
        }
        for order in std::mem::take(&mut self.drains) {
            self.acknowledge(order, outcome);
        }
    }

    /// Answers commands to stop a task that this node does not have.
    pub(super) fn not_here(&self, stop_orders: Vec<NodeCommandId>) {
        for order in stop_orders {
            self.acknowledge(order, "the task is not on this node");
        }
    }

    pub(super) fn acknowledge(&self, order: NodeCommandId, outcome: impl Into<String>) {
        let Some(lease) = self.lease.clone() else {
            return;
        };
        let outcome = outcome.into();
        let coordinator = self.parts.coordinator.clone();
        tokio::spawn(async move {
            let mut wait = Duration::from_millis(20);
            while let Err(e) = coordinator.acknowledge(&lease, order, &outcome).await {
                if !e.is_retryable() || wait > Duration::from_secs(10) {
                    debug!(%order, error = %e, "a node command could not be answered");
                    return;
                }
                sleep(wait).await;
                wait *= 2;
            }
        });
    }
}
