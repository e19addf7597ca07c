//! The faults of a run: how each begins and ends.

use std::{sync::atomic::Ordering, time::Duration};

use windlass_robustness::witness::Said;

use super::{
    CALM, MEMBERS, TURN,
    driver::{Driver, Node, Role},
};
use crate::{
    faults::{Fault, What},
    network::Condition,
    process::START,
};

impl Driver {
    fn kill(&mut self, at: usize, restart: Duration) {
        let node = &mut self.nodes[at];
        if let Some(process) = node.process.take() {
            let pid = process.pid;
            node.journal.close();
            process.kill();
            node.is_paused = false;
            match node.role {
                Role::Node => {}
                Role::Server => self.shared.worker_servers.close(node.number),
                Role::Worker => self.shared.ledger.killed(pid),
            }
            self.trace.say(|| format!("process {pid} is killed"));
            self.witness(pid, Said::Killed);
        }
        self.nodes[at].starts_at = Some(self.now + restart);
    }

    fn lines_of(&self, process: Option<usize>, to: Option<usize>, condition: Condition) {
        let processes = match process {
            Some(process) => process..=process,
            None => 0..=self.nodes.len(),
        };
        for process in processes {
            for member in (0..MEMBERS).filter(|at| to.is_none_or(|to| to == *at)) {
                self.shared.network.set(process, member, condition);
            }
        }
    }

    pub(super) fn begin(&mut self, fault: Fault) {
        let Fault { lasts, what, .. } = fault;
        self.trace.say(|| format!("fault: {what:?} for {lasts:?}"));
        if let Some(memory) = &self.shared.memory {
            memory.disturb(&mut self.rng, &what);
        }
        match &what {
            What::Kill(node) => self.kill(*node - 1, lasts),
            What::KillAll => (0..self.nodes.len()).for_each(|at| self.kill(at, lasts)),
            What::Pause(node) => {
                let node = &mut self.nodes[*node - 1];
                // A worker that stands still beyond its lease may overlap with the next one for a moment.
                if let Some(process) = &node.process
                    && !node.is_paused
                    && node.role != Role::Worker
                {
                    node.is_paused = true;
                    let pid = process.pid;
                    self.witness(pid, Said::Stopped);
                }
            }
            What::Stop(node) => {
                let node = &mut self.nodes[*node - 1];
                node.is_asked = true;
                node.stop.notify_one();
                node.starts_at = Some(self.now + lasts);
            }
            What::Lines(process, to, condition) => {
                // Renewals reach another member, and the watch stands still.
                if to.is_some() && (condition.cut_up || condition.cut_down) {
                    self.shaken("a line to one member is silent");
                }
                self.lines_of(*process, *to, *condition);
            }
            What::Break(process) => {
                self.shared.calm.disturb(*process);
                self.shared.network.break_all(*process);
            }
            What::Down(member) => {
                self.shaken("a member is down");
                self.shared.network.set_down(*member, true);
            }
            What::NoLeader => {
                self.shaken("there is no leader");
                self.servers.set_leader(false);
            }
            What::Full => self.servers.set_full(true),
            // The feed of the clients has to see every change: it is never compacted away under it.
            What::Compact(_) if self.now < self.disturbed_until => {}
            What::Compact(kept) => {
                self.servers.compact_before(self.servers.revision() - kept);
            }
            What::Clock(node, ahead) => self.set_clock(*node - 1, *ahead),
            What::Unregister(_) | What::Revoke(_) => self.take_away(&what),
            What::PauseAtRenewal(node) => self.pause_at_renewal(*node, lasts),
            What::LateWatches(process) => {
                self.shaken("watches are late");
                self.servers.set_late(*process, true);
            }
            What::Restored(member) => {
                self.shaken("a member is restored");
                self.servers.set_behind(*member);
            }
        }
        if what.is_of_clients() {
            self.disturbed_until = self.disturbed_until.max(self.now + lasts + CALM);
        }
        self.ends.push((self.now + lasts, what));
    }

    fn set_clock(&mut self, at: usize, ahead: i64) {
        let node = &self.nodes[at];
        if node.ahead.swap(ahead, Ordering::Relaxed) != ahead {
            self.says_clock(node);
        }
    }

    /// Writes down what the clock of a process says.
    pub(super) fn says_clock(&self, node: &Node) {
        let ahead = node.ahead.load(Ordering::Relaxed);
        let wall = START.as_microsecond() + i64::try_from(self.now.as_micros()).unwrap_or(0);
        if let Some(process) = &node.process {
            let wall = wall + ahead * 1_000;
            self.witness(process.pid, Said::Clock { wall });
        }
    }

    fn shaken(&self, how: &str) {
        let how = how.to_owned();
        self.witness(1, Said::Shaken { how });
    }

    pub(super) fn end_what_is_over(&mut self) {
        let now = self.now;
        let over: Vec<_> = self.ends.extract_if(.., |(at, _)| *at <= now).collect();
        for (_, what) in over {
            match what {
                What::Pause(node) => self.wake(node - 1),
                What::Lines(process, to, _) => {
                    self.lines_of(process, to, Condition::default());
                    if let Some(memory) = &self.shared.memory {
                        memory.heal(process);
                    }
                }
                What::Down(member) => self.shared.network.set_down(member, false),
                What::NoLeader => self.servers.set_leader(true),
                What::Full => self.servers.set_full(false),
                What::Clock(node, _) => self.set_clock(node - 1, 0),
                What::LateWatches(process) => {
                    self.shared.network.break_all(Some(process));
                    self.servers.set_late(process, false);
                }
                What::Restored(member) => self.servers.restore_member(member),
                What::Kill(_) | What::KillAll | What::Stop(_) => {}
                What::Break(_) | What::Compact(_) => {}
                What::Unregister(_) | What::Revoke(_) | What::PauseAtRenewal(_) => {}
            }
        }
    }

    fn wake(&mut self, at: usize) {
        let now = self.now;
        let node = &mut self.nodes[at];
        if let Some(process) = &mut node.process
            && node.is_paused
        {
            node.is_paused = false;
            let pid = process.pid;
            process.wake(now - TURN);
            self.witness(pid, Said::Continued);
        }
    }

    /// Ends every fault.
    pub(super) fn heal(&mut self) {
        self.trace.say(|| "all faults end".to_owned());
        self.ends.clear();
        self.shared.network.heal();
        if let Some(memory) = &self.shared.memory {
            memory.heal(None);
        }
        self.servers.set_leader(true);
        self.servers.set_full(false);
        self.servers.heal_watches();
        for at in 0..self.nodes.len() {
            self.wake(at);
            self.set_clock(at, 0);
            let node = &mut self.nodes[at];
            if node.process.is_none() || node.is_asked {
                node.starts_at = Some(self.now);
            }
        }
    }
}
