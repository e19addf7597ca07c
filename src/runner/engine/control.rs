//! Requests to the node: from its own process, and node commands of operators.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::{debug, info};
use windlass_statemachine::{Backoff, StopReason, TaskId, machine::Input};

use super::{Engine, slot::Slot};
use crate::{
    runner::{
        control::Control,
        snapshot::{RunningTask, Snapshot},
    },
    store::{NodeCommand, NodeCommandId, QueuedNodeCommand},
};

impl Engine {
    pub(super) fn control(&mut self, control: Control) {
        match control {
            Control::Shutdown => {
                info!(node = %self.deps.node, tasks = self.slots.len(), "shutting down");
                self.mode.stop(Instant::now());
                self.stop_all(StopReason::Shutdown, false);
            }
            Control::Abort => {
                self.mode.abort(Instant::now());
                self.stop_all(StopReason::Shutdown, true);
            }
            Control::Freeze => self.freeze(),
            Control::Unfreeze => self.unfreeze(),
            Control::Drain(done) => {
                self.drain();
                self.mode.await_empty(done);
            }
            Control::Change(request) => self.change(request),
            Control::Snapshot(answer) => {
                let _ = answer.send(self.snapshot());
            }
        }
    }

    fn freeze(&mut self) {
        if self.mode.freeze() {
            info!(node = %self.deps.node, "frozen: it claims nothing until it is unfrozen");
        }
    }

    fn unfreeze(&mut self) {
        if self.mode.unfreeze() {
            info!(node = %self.deps.node, "unfrozen");
            // The node works again, and may never be empty.
            let outcome = if self.is_drained() {
                "drained"
            } else {
                "unfrozen before it was empty"
            };
            self.answer_drains(outcome);
        }
    }

    fn drain(&mut self) {
        if self.mode.drain() {
            info!(node = %self.deps.node, tasks = self.slots.len(), "draining");
            self.stop_all(StopReason::Drain, false);
        }
    }

    fn stop_all(&mut self, reason: StopReason, at_once: bool) {
        for slot in self.slots.ids() {
            let input = if at_once {
                Input::StopNow(reason)
            } else {
                Input::Stop(reason)
            };
            self.feed(slot, input);
        }
    }

    fn snapshot(&self) -> Snapshot {
        let mut slots: Vec<&Slot> = self.slots.iter().collect();
        slots.sort_by(|a, b| {
            let began = a.began().cmp(&b.began());
            began.then_with(|| a.task.id.cmp(&b.task.id))
        });
        let tasks: Vec<RunningTask> = slots.into_iter().map(Slot::describe).collect();
        Snapshot {
            node: self.deps.node.clone(),
            lease: self.lease.as_ref().map(|l| l.id),
            frozen: self.mode.is_frozen(),
            draining: self.mode.is_emptying(),
            listed: self.watch.is_listed(),
            parked: self.due.len(),
            ready: self.due.ready_len(),
            tasks,
        }
    }

    pub(super) fn node_command(&mut self, queued: QueuedNodeCommand) {
        let QueuedNodeCommand {
            id: order,
            command,
            lease,
        } = queued;
        if self.lease.as_ref().is_none_or(|own| own.id != lease) {
            return;
        }
        debug!(node = %self.deps.node, ?command, "a node command");
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
                if self.mode.await_drain(order) {
                    self.drain();
                }
            }
            NodeCommand::Balance => self.order_balance(order),
            NodeCommand::StopTask { task } => self.stop_task(&task, order),
        }
    }

    fn stop_task(&mut self, task: &TaskId, order: NodeCommandId) {
        if let Some(pending) = self.claiming.get_mut(task) {
            if !pending.stop_orders.contains(&order) {
                pending.stop_orders.push(order);
            }
            return;
        }
        let Some(id) = self.slots.of(task) else {
            return self.not_here(vec![order]);
        };
        if let Some(slot) = self.slots.get_mut(id)
            && !slot.stop_orders.contains(&order)
        {
            slot.stop_orders.push(order);
        }
        self.feed(id, Input::Stop(StopReason::StopTask));
    }

    /// Notifies the callers and answers the drain commands that wait until this node is empty.
    pub(super) fn answer_drains(&mut self, outcome: &str) {
        for order in self.mode.take_drains() {
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
        let coordinator = self.deps.coordinator.clone();
        tokio::spawn(async move {
            let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(5));
            let give_up = Instant::now() + Duration::from_secs(10);
            while let Err(e) = coordinator.acknowledge(&lease, order, &outcome).await {
                if !e.is_retryable() || Instant::now() > give_up {
                    debug!(%order, error = %e, "could not acknowledge a node command");
                    return;
                }
                sleep(backoff.pause()).await;
            }
        });
    }
}
