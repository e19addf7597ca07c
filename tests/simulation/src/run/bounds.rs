//! What is certain in virtual time while nothing disturbs a process: it keeps its lease, it notices soon that its lease was taken
//! away, and it does not end by itself.

use std::time::Duration;

use windlass_robustness::witness::Said;

use super::{
    driver::{Driver, Role},
    micros, nodes,
};
use crate::{etcd::LeaseNews, faults::What, locked};

/// Within which time the handlers of a node have ended after its watch has shown that its lease was ended.
const AFTER_REVOKE: Duration = Duration::from_millis(500);
/// The same when its registration was deleted: it looks for that when it watches again.
const AFTER_UNREGISTER: Duration = Duration::from_millis(2_000);
/// For how much longer than a lease a process has to be in a fair state before the end of its lease shows a defect: a renewal may
/// have been under way when the last fault ended.
const UNDER_WAY: Duration = Duration::from_secs(2);

/// What has to happen, and what has not.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    /// The leases that the present process of each node was granted.
    granted: Vec<Vec<i64>>,
    taken: Vec<Taken>,
    /// The nodes that stand still from their next renewal on, and for how long.
    pauses: Vec<(usize, Duration)>,
    /// What is wrong.
    pub(super) wrong: Vec<String>,
}

/// A lease or a registration that an operator has taken away.
#[derive(Debug)]
struct Taken {
    node: usize,
    pid: u32,
    at: Duration,
    within: Duration,
    /// When the watch of the node has shown it.
    noticed: Option<Duration>,
}

impl Bounds {
    /// Forgets the process of a node.
    pub(super) fn ended(&mut self, number: usize) {
        self.taken.retain(|taken| taken.node != number);
        self.pauses.retain(|(node, _)| *node != number);
        if let Some(granted) = self.granted.get_mut(number) {
            granted.clear();
        }
    }
}

impl Driver {
    /// An operator ends the lease of a node, or deletes its registration.
    pub(super) fn take_away(&mut self, what: &What) {
        let (number, is_lease) = match what {
            What::Revoke(number) => (*number, true),
            What::Unregister(number) => (*number, false),
            _ => return,
        };
        let Some(process) = &self.nodes[number - 1].process else {
            return;
        };
        let (pid, key) = (process.pid, nodes::registration(number));
        let (is_done, within) = match is_lease {
            true => (self.servers.revoke_lease_of(&key), AFTER_REVOKE),
            false => (self.servers.delete(&key), AFTER_UNREGISTER),
        };
        if !is_done {
            return;
        }
        if is_lease {
            self.witness(pid, Said::Revoked);
        }
        self.shared.network.look_for(number, &key);
        self.bounds.taken.push(Taken {
            node: number,
            pid,
            at: self.now,
            within,
            noticed: None,
        });
    }

    /// Lets a node stand still from its next renewal on.
    pub(super) fn pause_at_renewal(&mut self, number: usize, lasts: Duration) {
        self.bounds.pauses.push((number, lasts));
    }

    /// Returns the nodes that stand still now, and for how long.
    pub(super) fn renewing(&mut self) -> Vec<(usize, Duration)> {
        let renewing = self.shared.network.take_renewing();
        let (now, later) = std::mem::take(&mut self.bounds.pauses)
            .into_iter()
            .partition(|(node, _)| renewing.contains(node));
        self.bounds.pauses = later;
        now
    }

    pub(super) fn look_at_bounds(&mut self) {
        self.look_at_taken();
        for news in self.servers.take_news() {
            match news {
                LeaseNews::Granted { process, lease } => {
                    let granted = &mut self.bounds.granted;
                    granted.resize_with(granted.len().max(process + 1), Vec::new);
                    granted[process].push(lease);
                }
                LeaseNews::Expired {
                    lease,
                    keys,
                    renewed,
                } => self.expired((lease, renewed), &keys),
            }
        }
    }

    /// A lease has ended because it was not renewed.
    fn expired(&mut self, (lease, renewed): (i64, Duration), keys: &[Vec<u8>]) {
        let is_registered = |number: &usize| {
            let key = nodes::registration(*number);
            keys.iter().any(|of| of == key.as_bytes())
        };
        let numbers = self.nodes.iter().filter(|node| node.role == Role::Node);
        let Some(number) = numbers.map(|node| node.number).find(is_registered) else {
            return;
        };
        // One of an earlier process ends like this.
        let granted = self.bounds.granted.get(number);
        if granted.is_none_or(|granted| !granted.contains(&lease)) {
            return;
        }
        let (now, calm, name) = (self.now, &self.shared.calm, nodes::name(number));
        let (fair, ttl) = (calm.fair_for(number), self.shared.plan.ttl);
        // The node has counted it as lost before, and a new leader has extended it.
        let counts_as_lost = renewed + ttl.mul_f64(0.8) <= now.saturating_sub(fair);
        if fair > ttl + UNDER_WAY && !counts_as_lost {
            let how = format!(
                "the lease {lease} of {name} ended at {now:?}, although it could renew it for {fair:?}"
            );
            self.bounds.wrong.push(how);
        }
    }

    /// Looks whether the handlers of nodes that have lost everything have ended.
    fn look_at_taken(&mut self) {
        let now = self.now;
        for (process, key) in self.shared.network.take_noticed() {
            let is_it = |taken: &&mut Taken| {
                taken.node == process && nodes::registration(taken.node).as_bytes() == key
            };
            if let Some(taken) = self.bounds.taken.iter_mut().find(is_it) {
                taken.noticed.get_or_insert(now);
            }
        }
        let wrong = &mut self.bounds.wrong;
        let mut taken = std::mem::take(&mut self.bounds.taken);
        taken.retain(|taken| {
            let Some(noticed) = taken.noticed else {
                return true;
            };
            let since = now - noticed;
            if self.shared.calm.quiet_for(taken.node) <= since {
                return false;
            }
            if since > taken.within {
                let (name, at) = (nodes::name(taken.node), taken.at);
                let runs = self.shared.runs().into_iter();
                let open = runs
                    .filter(|((pid, ..), began)| *pid == taken.pid && *began <= micros(at))
                    .map(|((_, task, _), _)| task.to_string());
                let open: Vec<String> = open.collect();
                if !open.is_empty() {
                    wrong.push(format!(
                        "an operator took the lease or the registration of {name} away at {at:?}; {since:?} after its watch has \
                         shown that, it runs {}",
                        open.join(", ")
                    ));
                }
                return false;
            }
            true
        });
        self.bounds.taken.extend(taken);
    }

    /// A process has ended that was not asked to.
    pub(super) fn ended_by_itself(&mut self, name: &str, pid: u32) {
        let why = locked(&self.shared.endings).remove(&pid);
        let (at, why) = (self.now, why.unwrap_or_default());
        self.bounds
            .wrong
            .push(format!("{name} has ended by itself at {at:?}: {why}"));
    }
}
