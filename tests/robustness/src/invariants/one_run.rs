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
//! A node that is cut off from the store is not paused, so none of its overlaps is excused.

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
mod tests {
    use super::super::sample::*;
    use super::*;
    use crate::witness::Line;

    /// The margin of the lease in these worlds.
    const MARGIN: u64 = 100;

    fn witnessed(mut lines: Vec<Line>) -> World {
        lines.sort_by_key(|l| l.at);
        World {
            witness: lines,
            ttl: MARGIN * 5,
            ..of_history(vec![submitted(), claimed("a", 2)])
        }
    }

    #[test]
    fn one_after_the_other_holds() {
        let lines = vec![
            start(1, 7, 2, 0),
            end(2, 7, 2),
            start(3, 7, 2, 0),
            line(5, 7, Said::Killed),
            start(6, 8, 5, 0),
            end(9, 8, 5),
        ];
        holds(check(&witnessed(lines)));
    }

    #[test]
    fn two_at_a_time_are_caught() {
        let lines = vec![
            start(1, 7, 2, 0),
            start(3, 8, 5, 0),
            end(4, 7, 2),
            end(5, 8, 5),
        ];
        caught(
            check(&witnessed(lines)),
            "claim 2 ran in process 7 from 1 to 4",
        );
    }

    #[test]
    fn a_start_before_the_death_of_the_other_is_caught() {
        let lines = vec![
            start(1, 7, 2, 0),
            start(3, 8, 5, 0),
            line(4, 7, Said::Killed),
            end(5, 8, 5),
        ];
        caught(check(&witnessed(lines)), "claim 2 ran in process 7");
    }

    #[test]
    fn two_runs_of_one_claim_are_caught_even_when_the_process_was_stopped() {
        let lines = vec![
            start(1, 7, 2, 0),
            line(2, 7, Said::Stopped),
            line(3, 7, Said::Continued),
            start(4, 7, 2, 0),
            end(5, 7, 2),
            end(6, 7, 2),
        ];
        caught(check(&witnessed(lines)), "claim 2 ran in process 7");
    }

    /// Claim 2 runs in process 7 from 1 to `ends`, and claim 5 in process 8 from `taken` to 3000.
    fn overlap(pause: (u64, u64), taken: u64, ends: u64) -> World {
        witnessed(vec![
            start(1, 7, 2, 0),
            line(pause.0, 7, Said::Stopped),
            start(taken, 8, 5, 0),
            end(3000, 8, 5),
            line(pause.1, 7, Said::Continued),
            end(ends, 7, 2),
        ])
    }

    #[test]
    fn a_process_that_was_stopped_has_a_margin_to_learn_of_it() {
        let world = overlap((1000, 2000), 1500, 2000 + MARGIN);
        holds(check(&world));
        let (runs, excused, commands) = (2, 1, 0);
        let counted = Overlaps {
            runs,
            excused,
            commands,
        };
        assert_eq!(overlaps(&world), counted);
        let late = overlap((1000, 2000), 1500, 2001 + MARGIN);
        caught(check(&late), "claim 2 ran in process 7");
    }

    #[test]
    fn a_pause_that_is_shorter_than_the_margin_excuses_nothing() {
        let stalled = |since| {
            let mut world = overlap((0, 0), 1500, 1550);
            let said = Said::Stalled { since };
            world.witness.push(line(1520, 7, said));
            check(&world)
        };
        holds(stalled(1520 - MARGIN));
        caught(stalled(1521 - MARGIN), "claim 2 ran in process 7");
    }

    #[test]
    fn a_pause_before_the_old_handler_ran_or_after_the_new_one_started_excuses_nothing() {
        let mut before = overlap((1000, 2000), 2010, 2050);
        before.witness[0].at = 1001;
        before.witness.sort_by_key(|l| l.at);
        caught(check(&before), "claim 2 ran in process 7 from 1001");
        let after = overlap((1500, 2000), 1501, 2050);
        caught(check(&after), "claim 2 ran in process 7");
        // The lease of a process that was well lasted for a margin at least.
        let soon = overlap((1500, 2000), 1499 + MARGIN / 2, 2050);
        caught(check(&soon), "claim 2 ran in process 7");
    }

    #[test]
    fn a_pause_of_the_new_claim_excuses_nothing() {
        let mut world = overlap((1000, 2000), 1500, 2050);
        for line in &mut world.witness {
            if matches!(line.said, Said::Stopped | Said::Continued) {
                line.pid = 8;
            }
        }
        caught(check(&world), "claim 2 ran in process 7");
    }

    #[test]
    fn a_node_that_is_cut_off_is_not_excused() {
        let mut world = overlap((1000, 2000), 1500, 2050);
        let how = "way 0 is silent".to_owned();
        world.witness[1].said = Said::Shaken { how };
        caught(check(&world), "claim 2 ran in process 7");
    }

    #[test]
    fn a_zombie_that_is_stopped_again_before_it_learns_is_excused() {
        let again = |ends| {
            let mut world = overlap((1000, 2000), 1500, ends);
            world.witness.push(line(2010, 7, Said::Stopped));
            world.witness.push(line(2500, 7, Said::Continued));
            world.witness.sort_by_key(|l| l.at);
            check(&world)
        };
        // From 2000 to 2010 it ran, and from 2500 on.
        holds(again(2490 + MARGIN));
        // The second pause began when the new handler ran, so the first has to explain it all.
        caught(again(2491 + MARGIN), "claim 2 ran in process 7");
    }

    #[test]
    fn one_that_never_wakes_has_ended_when_it_was_stopped() {
        let lines = |stopped| {
            witnessed(vec![
                start(1, 7, 2, 0),
                line(stopped, 7, Said::Stopped),
                start(20, 8, 5, 0),
                end(30, 8, 5),
                line(40, 7, Said::Killed),
            ])
        };
        holds(check(&lines(10)));
        caught(check(&lines(25)), "claim 2 ran in process 7");
    }

    #[test]
    fn a_new_task_of_the_id_is_another_task() {
        let lines = vec![
            start(1, 7, 2, 0),
            start(3, 8, 5, 0),
            end(4, 7, 2),
            end(5, 8, 5),
        ];
        let mut world = witnessed(lines);
        caught(check(&world), "claim 2 ran in process 7");
        world.gone = gone(vec![submitted(), claimed("a", 2)]);
        holds(check(&world));
    }

    #[test]
    fn excused_overlaps_that_are_the_rule_are_caught() {
        let many = |others: u64| {
            let mut lines = vec![line(1000, 7, Said::Stopped), line(2000, 7, Said::Continued)];
            for fence in 0..=FEW as u64 {
                let task: TaskId = format!("t{fence}").parse().unwrap();
                for mut line in [
                    start(1, 7, 2, 0),
                    start(1500, 8, 5, 0),
                    end(1600, 8, 5),
                    end(2050, 7, 2),
                ] {
                    if let Said::Start { task: of, .. } | Said::End { task: of, .. } =
                        &mut line.said
                    {
                        *of = task.clone();
                    }
                    lines.push(line);
                }
            }
            for at in 0..others {
                lines.extend([start(3000 + at, 9, 9, 0), end(3000 + at, 9, 9)]);
            }
            check(&witnessed(lines))
        };
        caught(many(0), "49 of 98 runs overlapped");
        holds(many(1000));
    }

    #[test]
    fn a_run_that_never_ends_is_caught() {
        caught(check(&witnessed(vec![start(1, 7, 2, 0)])), "never ended");
        caught(check(&witnessed(vec![end(1, 7, 2)])), "never started");
    }
}
