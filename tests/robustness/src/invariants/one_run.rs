//! G1 and G7: the handlers of one task never run at the same time, except for one whose process was
//! stopped while it had the task: it cannot know yet that it has lost it. What such a one writes is
//! what [`super::fences`] looks at.

use std::collections::BTreeMap;

use windlass::{Fence, NodeName, TaskId, store::What};

use super::Found;
use crate::{
    witness::Said,
    world::{ExecSaid, Subject, World},
};

/// A process that goes on learns at its next step that its time is over, and its handlers end at
/// theirs: in microseconds, on a busy machine.
const TO_LEARN: u64 = 1_500_000;

/// One run of a handler.
#[derive(Debug, Clone, Copy)]
struct Run {
    pid: u32,
    fence: Fence,
    from: u64,
    to: u64,
}

pub(super) fn check(world: &World) -> Found {
    let mut found = Found::new();
    for (task, mut runs) in runs(world, &mut found) {
        runs.sort_by_key(|r| r.from);
        for (at, later) in runs.iter().enumerate() {
            for earlier in &runs[..at] {
                if earlier.to > later.from && !excused(world, earlier, later) {
                    let how = format!(
                        "claim {} ran in process {} from {} to {}, claim {} in {} from {}",
                        earlier.fence,
                        earlier.pid,
                        earlier.from,
                        earlier.to,
                        later.fence,
                        later.pid,
                        later.from
                    );
                    found.push((task.clone(), how));
                }
            }
        }
    }
    found.extend(commands(world));
    found
}

fn runs<'a>(world: &'a World, found: &mut Found) -> BTreeMap<&'a TaskId, Vec<Run>> {
    let mut runs: BTreeMap<&TaskId, Vec<Run>> = BTreeMap::new();
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
                runs.entry(task).or_default().push(Run {
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
            runs.entry(task).or_default().push(Run {
                pid,
                fence,
                from,
                to,
            });
        }
    }
    runs
}

/// Whether one of two runs at the same time is that of a process that was stopped, and has not had
/// the time to learn what happened meanwhile.
fn excused(world: &World, one: &Run, other: &Run) -> bool {
    let (old, new) = if one.fence < other.fence {
        (one, other)
    } else {
        (other, one)
    };
    let pauses = world.pauses(old.pid);
    old.fence != new.fence
        && pauses.iter().any(|(from, to)| {
            // It was paused while it had the task, and the other began only then.
            old.to >= *from
                && new.from >= *from
                && time_of_its_own(*to, old.to, &pauses) <= TO_LEARN
        })
}

/// How long a process ran from one moment to another: it may be stopped again before it has learnt
/// anything.
fn time_of_its_own(from: u64, to: u64, pauses: &[(u64, u64)]) -> u64 {
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

/// Commands of the kind `exec` look for themselves whether another one of their task lives.
fn commands(world: &World) -> Found {
    let mut found = Found::new();
    for line in &world.exec {
        let ExecSaid::Overlap(other) = line.said else {
            continue;
        };
        let stopped = world
            .subjects
            .get(&line.task)
            .and_then(|s| holder(s, other.min(line.fence)))
            .is_some_and(|node| {
                world
                    .processes(node)
                    .any(|pid| !world.pauses(pid).is_empty())
            });
        if !stopped || other == line.fence {
            let how = format!(
                "the command of claim {} met that of claim {other}",
                line.fence
            );
            found.push((line.task.clone(), how));
        }
    }
    found
}

fn holder(subject: &Subject, by: Fence) -> Option<&NodeName> {
    subject.history.iter().find_map(|c| match &c.what {
        What::Claimed { node, fence, .. } if *fence == by => Some(node),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::sample::*;
    use super::*;
    use crate::{witness::Line, world::ExecLine};

    fn witnessed(mut lines: Vec<Line>) -> World {
        lines.sort_by_key(|l| l.at);
        World {
            witness: lines,
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

    fn zombie(ends: u64) -> World {
        witnessed(vec![
            start(1, 7, 2, 0),
            line(10, 7, Said::Stopped),
            start(20, 8, 5, 0),
            end(30, 8, 5),
            line(40, 7, Said::Continued),
            end(ends, 7, 2),
        ])
    }

    #[test]
    fn a_zombie_is_excused_for_a_moment() {
        holds(check(&zombie(50)));
        caught(check(&zombie(50 + TO_LEARN)), "claim 2 ran in process 7");
    }

    #[test]
    fn a_zombie_that_is_stopped_again_before_it_learns_is_excused() {
        let again = |ends| {
            let mut world = zombie(ends);
            world.witness.push(line(50, 7, Said::Stopped));
            world.witness.push(line(60, 7, Said::Continued));
            world.witness.sort_by_key(|l| l.at);
            world
        };
        // From 40 to 50 it ran, and from 60 on.
        holds(check(&again(50 + TO_LEARN)));
        caught(check(&again(51 + TO_LEARN)), "claim 2 ran in process 7");
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
    fn one_that_was_not_stopped_yet_is_not_excused() {
        let lines = vec![
            start(1, 7, 2, 0),
            start(5, 8, 5, 0),
            line(10, 7, Said::Stopped),
            end(30, 8, 5),
            line(40, 7, Said::Continued),
            end(50, 7, 2),
        ];
        caught(check(&witnessed(lines)), "claim 2 ran in process 7");
    }

    #[test]
    fn a_run_that_never_ends_is_caught() {
        caught(check(&witnessed(vec![start(1, 7, 2, 0)])), "never ended");
        caught(check(&witnessed(vec![end(1, 7, 2)])), "never started");
    }

    #[test]
    fn commands_that_meet_are_caught() {
        let launched = Said::Launched {
            node: "a".parse().unwrap(),
        };
        let mut world = witnessed(vec![line(0, 7, launched)]);
        world.exec.push(ExecLine {
            task: id(),
            fence: fence(5),
            said: ExecSaid::Overlap(fence(2)),
        });
        caught(check(&world), "the command of claim 5 met that of claim 2");
        world.witness.push(line(1, 7, Said::Stopped));
        world.witness.push(line(9, 7, Said::Continued));
        holds(check(&world));
    }
}
