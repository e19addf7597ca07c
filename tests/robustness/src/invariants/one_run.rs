//! G1 and G7: the handlers of one task never run at the same time, with one exception: a process that
//! was stopped, or not run, while it had the task. Such a process cannot know yet that it has lost the
//! task. What it writes is checked by [`super::fences`].
//!
//! An overlap is excused only if a pause of the old claim's process explains it:
//!
//! - The pause lasted at least the margin between the node's deadline and the end of its lease. A
//!   shorter one uses up the margin and nothing more.
//! - It began while the old handler ran, and at least half a margin before the new handler started. A
//!   healthy process trusts its lease, which then lasts for at least a margin.
//! - The old handler ended within a margin of running time after the pause.
//!
//! A node that is cut off from the store is not paused, so none of its overlaps is excused. An operator who ends the lease of a node
//! frees its tasks before the node can know: its handlers end with the deadline of that lease at the latest.

use std::collections::BTreeMap;

use windlass::{Fence, TaskId};

use super::{Found, exec_overlaps};
use crate::{witness::Said, world::World};

/// At most one of 20 runs of handlers may have its overlap excused. A crash test has thousands of runs
/// and at most 10 stops, each of which excuses the few handlers that ran in the process at that moment:
/// measured tests excused 15 to 80 of 5,000 to 6,000 runs, and none without a stop. A greater share
/// means that the machine was too busy for the margins of the leases, and that the test shows nothing.
const ONE_OF: usize = 20;

/// What one stop may excuse in any case: a worker has 48 slots.
const FEW: usize = 48;

/// One run of a handler.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) pid: u32,
    pub(super) fence: Fence,
    pub(super) from: u64,
    pub(super) to: u64,
}

/// The runs of each life of each task.
pub(super) type Runs<'a> = BTreeMap<(&'a TaskId, usize), Vec<Run>>;

/// How many handlers ran, and how many of them overlapped with a later claim's for a pause's sake.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Overlaps {
    /// All runs of handlers.
    pub runs: usize,
    /// Those whose overlap is excused.
    pub excused: usize,
    /// Overlaps of commands of the kind `exec` that are excused.
    pub commands: usize,
}

pub(super) fn check(world: &World) -> Found {
    let mut found = Found::new();
    let (overlaps, of) = look(world, &mut found);
    let Overlaps { runs, excused, .. } = overlaps;
    if excused > FEW && excused > runs / ONE_OF {
        let how = format!("{excused} of {runs} runs overlapped, each excused by a pause");
        found.extend(of.map(|task| (task.clone(), how)));
    }
    found
}

/// Counts the overlaps that are excused.
pub fn overlaps(world: &World) -> Overlaps {
    Overlaps {
        commands: exec_overlaps::excused_overlaps(world),
        ..look(world, &mut Found::new()).0
    }
}

/// Finds the overlaps, and counts those that are excused. Returns the task of one of these, too.
fn look<'a>(world: &'a World, found: &mut Found) -> (Overlaps, Option<&'a TaskId>) {
    let mut overlaps = Overlaps::default();
    let mut of = None;
    for ((task, _), mut runs) in runs(world, found) {
        runs.sort_by_key(|r| (r.fence, r.from));
        overlaps.runs += runs.len();
        for (at, old) in runs.iter().enumerate() {
            let mut any = false;
            for new in &runs[at + 1..] {
                if old.to <= new.from || new.to <= old.from {
                    continue;
                }
                if excused(world, old, new) {
                    any = true;
                    continue;
                }
                let how = format!(
                    "claim {} ran in process {} from {} to {}, claim {} in {} from {}",
                    old.fence, old.pid, old.from, old.to, new.fence, new.pid, new.from
                );
                found.push((task.clone(), how));
            }
            if any {
                overlaps.excused += 1;
                of = Some(task);
            }
        }
    }
    (overlaps, of)
}

/// The runs of every task, by their starts and ends.
pub(super) fn runs<'a>(world: &'a World, found: &mut Found) -> Runs<'a> {
    let mut runs: Runs<'a> = BTreeMap::new();
    let mut open: BTreeMap<(u32, &TaskId, Fence), Vec<u64>> = BTreeMap::new();
    for line in &world.witness {
        let pid = line.pid;
        match &line.said {
            Said::Start { task, fence, .. } => {
                open.entry((pid, task, *fence)).or_default().push(line.at);
            }
            Said::End { task, fence } => {
                let from = open.get_mut(&(pid, task, *fence)).and_then(Vec::pop);
                let Some(from) = from else {
                    found.push((
                        task.clone(),
                        format!("claim {fence} ended and never started"),
                    ));
                    continue;
                };
                let life = (task, world.life(task, *fence));
                runs.entry(life).or_default().push(Run {
                    pid,
                    fence: *fence,
                    from,
                    to: line.at,
                });
            }
            _ => {}
        }
    }
    for ((pid, task, fence), starts) in open {
        for from in starts {
            // It ended with its process.
            let to = world.died(pid).unwrap_or_else(|| {
                let how = format!("claim {fence} never ended, nor did its process {pid} die");
                found.push((task.clone(), how));
                u64::MAX
            });
            let life = (task, world.life(task, fence));
            runs.entry(life).or_default().push(Run {
                pid,
                fence,
                from,
                to,
            });
        }
    }
    runs
}

/// Whether a pause of the process of an old claim explains that its handler ran beside that of a new
/// claim.
fn excused(world: &World, old: &Run, new: &Run) -> bool {
    let pauses = world.pauses(old.pid);
    let margin = world.margin();
    let was_revoked = |at: u64| at <= new.from && time_of_its_own(at, old.to, &pauses) <= world.ttl;
    if old.fence != new.fence && world.revoked(old.pid).any(was_revoked) {
        return true;
    }
    old.fence != new.fence
        && pauses.iter().any(|(from, to)| {
            let began = (old.from..=old.to).contains(from) && from + margin / 2 <= new.from;
            let explains = to.saturating_sub(*from) >= margin;
            began && explains && time_of_its_own(*to, old.to, &pauses) <= margin
        })
}

/// How long a process ran from one moment to another: it may be stopped again before it has learnt
/// anything.
pub(super) fn time_of_its_own(from: u64, to: u64, pauses: &[(u64, u64)]) -> u64 {
    let mut pauses = pauses.to_vec();
    pauses.sort_unstable();
    let mut at = from;
    let mut ran = 0;
    for (begin, end) in pauses {
        ran += begin.min(to).saturating_sub(at);
        at = at.max(end);
    }
    ran + to.saturating_sub(at)
}

#[cfg(test)]
mod tests;
