//! Balancing: which of the tasks that run here are released for other nodes.

use std::collections::BTreeMap;

use tracing::info;
use windlass_statemachine::{
    Fence, TaskId,
    machine::{Input, StopReason},
};

use super::{Engine, Mode, slot::Slot};
use crate::balancer::{Cluster, Peer, Requirements};

fn could_take(other: &Peer, slot: &Slot) -> bool {
    let requires = Requirements::new(&slot.task, slot.machine.state());
    other.has_room() && other.fits(requires)
}

impl Engine {
    /// Groups the tasks that run here by the other nodes that could take them, oldest claim first. A
    /// task that no other node could take is in no group. While no other node is known, all tasks are
    /// one group.
    fn groups(&self) -> BTreeMap<Vec<bool>, Vec<(Fence, TaskId)>> {
        let mut groups = BTreeMap::<_, Vec<_>>::new();
        let running = self.slots.values();
        for slot in running.filter(|slot| slot.run.is_some() && !slot.machine.is_ending()) {
            let could = |other: &Peer| could_take(other, slot);
            let able: Vec<bool> = self.others.iter().map(could).collect();
            if able.is_empty() || able.contains(&true) {
                let claim = (slot.claim.fence, slot.task.id.clone());
                groups.entry(able).or_default().push(claim);
            }
        }
        groups.values_mut().for_each(|mine| mine.sort_unstable());
        groups
    }

    /// Returns what the balancer gives back of the first group from which it gives back anything. The
    /// balancer compares this node with nodes that could take the same tasks.
    fn back_from_first_group(&self) -> Vec<TaskId> {
        let mut groups = self.groups();
        if groups.is_empty() {
            groups.insert(vec![true; self.others.len()], Vec::new());
        }
        for (able, mine) in groups {
            let others = self.others.iter().zip(able).filter(|(_, able)| *able);
            let others: Vec<Peer> = others.map(|(other, _)| other.clone()).collect();
            let mine: Vec<_> = mine.into_iter().map(|(_, task)| task).collect();
            let cluster = Cluster {
                me: &self.me,
                others: &others,
            };
            let balancer = &self.parts.balancer;
            let back = balancer.gives_back(&cluster, &mine, fastrand::f64());
            if !back.is_empty() {
                return back;
            }
        }
        Vec::new()
    }

    /// Gives back what the balancer chooses; returns how many tasks.
    pub(super) fn balance(&mut self) -> usize {
        if !matches!(self.mode, Mode::Normal | Mode::Frozen) {
            // Everything is released already.
            return 0;
        }
        self.me.claims = u64::from(self.active);
        let back = self.back_from_first_group();
        let mut given = 0;
        for task in back {
            if let Some(&slot) = self.by_task.get(&task) {
                self.feed(slot, Input::Stop(StopReason::Balance));
                given += 1;
            }
        }
        if given > 0 {
            info!(node = %self.parts.node, tasks = given, "gives tasks back for others");
        }
        given
    }
}
