//! Balancing: releases tasks that run here for other nodes.

use tokio::time::Instant;
use tracing::info;
use windlass_statemachine::machine::{Input, StopReason};

use super::{Engine, deferral::Running};

impl Engine {
    /// Releases the tasks that the balancer chooses, and returns their number.
    pub(super) fn balance(&mut self) -> usize {
        if self.mode.is_emptying() {
            // The node already releases every task.
            return 0;
        }
        let load = self.load(Instant::now());
        let running = self.slots.iter();
        let running = running.filter(|slot| slot.run.is_some() && !slot.machine.is_ending());
        let running = running.map(|slot| Running {
            fence: slot.claim.fence,
            task: &slot.task,
            state: slot.machine.state(),
        });
        let back = self.deferral.released_by_balancer(running, load);
        let mut released = 0;
        for task in back {
            if let Some(slot) = self.slots.of(&task) {
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
