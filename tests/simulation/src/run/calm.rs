//! [`Calm`]: since when nothing disturbs a process. Bounds in virtual time hold only then.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use super::driver::{Driver, Node};
use crate::{faults::What, locked};

/// Since when nothing disturbs each process, by their numbers. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Calm(Arc<Mutex<Since>>);

#[derive(Debug, Default)]
struct Since {
    now: Duration,
    /// Since when nothing at all.
    quiet: Vec<Duration>,
    /// Since when nothing but a full disk, late watches, and one member.
    fair: Vec<Duration>,
    /// The member that was in trouble last.
    member: Option<usize>,
}

impl Since {
    fn disturb(of: &mut [Duration], process: Option<usize>, now: Duration) {
        match process {
            Some(process) => of.iter_mut().skip(process).take(1).for_each(|at| *at = now),
            None => of.fill(now),
        }
    }
}

impl Calm {
    fn lock(&self) -> MutexGuard<'_, Since> {
        locked(&self.0)
    }

    /// For how long nothing at all has disturbed a process.
    pub(super) fn quiet_for(&self, process: usize) -> Duration {
        let since = self.lock();
        let quiet = since.quiet.get(process).copied();
        quiet.map_or(Duration::ZERO, |at| since.now.saturating_sub(at))
    }

    /// For how long a process has reached most members, although a disk may be full.
    pub(super) fn fair_for(&self, process: usize) -> Duration {
        let since = self.lock();
        let fair = since.fair.get(process).copied();
        fair.map_or(Duration::ZERO, |at| since.now.saturating_sub(at))
    }

    /// Notes that something disturbs a process now, or all.
    pub(super) fn disturb(&self, process: Option<usize>) {
        let mut since = self.lock();
        let now = since.now;
        Since::disturb(&mut since.quiet, process, now);
        Since::disturb(&mut since.fair, process, now);
    }

    /// Notes what disturbs processes now.
    fn look<'d>(&self, now: Duration, nodes: &[Node], faults: impl Iterator<Item = &'d What>) {
        let Since {
            now: at,
            quiet,
            fair,
            member,
        } = &mut *self.lock();
        *at = now;
        quiet.resize(nodes.len() + 1, now);
        fair.resize(nodes.len() + 1, now);
        let mut members = BTreeSet::new();
        for what in faults {
            match what {
                What::Down(member) => {
                    members.insert(*member);
                    quiet.fill(now);
                }
                What::Lines(process, Some(member), _) => {
                    members.insert(*member);
                    Since::disturb(quiet, *process, now);
                }
                What::Lines(process, None, _) => {
                    Since::disturb(quiet, *process, now);
                    Since::disturb(fair, *process, now);
                }
                What::NoLeader => {
                    quiet.fill(now);
                    fair.fill(now);
                }
                What::Full | What::Restored(_) => quiet.fill(now),
                What::LateWatches(process) => Since::disturb(quiet, Some(*process), now),
                _ => {}
            }
        }
        let is_another = members
            .first()
            .is_some_and(|first| member.is_some_and(|of| of != *first));
        if members.len() > 1 || is_another {
            fair.fill(now);
        }
        *member = members.pop_last().or(*member);
        for node in nodes {
            if node.process.is_none() || node.is_paused || node.is_asked {
                Since::disturb(quiet, Some(node.number), now);
                Since::disturb(fair, Some(node.number), now);
            }
        }
    }
}

impl Driver {
    pub(super) fn look_at_calm(&self) {
        let faults = self.ends.iter().map(|(_, what)| what);
        self.shared.calm.look(self.now, &self.nodes, faults);
    }
}
