//! G1 and G7 for commands of the kind `exec`: those of one task never run at the same time. They look
//! for each other themselves, and a step of an old claim after the start of a new one shows the same.
//!
//! A supervisor ends the commands of a worker that stands still. So only a stop of both processes that
//! held the older claim, at the time of the overlap, excuses one. A worker that is stopped alone between its look at the lease and
//! the start of a command has no command that the supervisor could end: it starts the command when it goes on, and ends it within a
//! margin.

use std::collections::BTreeMap;

use windlass::{Fence, TaskId};

use super::Found;
use crate::{
    exec_lines::{ExecLine, ExecSaid},
    witness::Said,
    world::World,
};

pub(super) fn check(world: &World) -> Found {
    look(world).0
}

/// How many overlaps of commands are excused.
pub(super) fn excused_overlaps(world: &World) -> usize {
    look(world).1
}

fn look(world: &World) -> (Found, usize) {
    let mut found = Found::new();
    let mut counted = 0;
    let mut started: BTreeMap<&TaskId, BTreeMap<Fence, u64>> = BTreeMap::new();
    for line in &world.exec {
        let ExecLine {
            at,
            task,
            fence,
            said,
        } = line;
        let starts = started.entry(task).or_default();
        let met = match said {
            ExecSaid::Overlap(other) => Some((*other.min(fence), *other.max(fence))),
            _ => starts
                .range(*fence..)
                .next_back()
                .map(|(last, _)| (*fence, *last)),
        };
        if matches!(said, ExecSaid::Start(_)) {
            starts.entry(*fence).or_insert(*at);
        }
        let Some((old, new)) = met.filter(|(old, new)| old != new || is_overlap(said)) else {
            continue;
        };
        let began = starts.get(&old).copied().unwrap_or(*at);
        let when = (began, *at);
        if old != new && (excused(world, task, old, when) || starts_late(world, task, old, when)) {
            counted += 1;
            continue;
        }
        let how = format!("a command of claim {old} ran beside one of claim {new} at {at}");
        found.push((task.clone(), how));
    }
    (found, counted)
}

fn is_overlap(said: &ExecSaid) -> bool {
    matches!(said, ExecSaid::Overlap(_))
}

/// Whether the processes that held a claim were stopped between the start of its command and a moment
/// `met`, for a margin at least, and have not run for more than a margin since.
fn excused(world: &World, task: &TaskId, old: Fence, (began, met): (u64, u64)) -> bool {
    let margin = world.margin();
    let process = world
        .claimant(task, old)
        .and_then(|node| world.process(node, began));
    let pauses = process.map_or_else(Vec::new, |pid| world.pauses(pid));
    pauses.iter().any(|(from, to)| {
        *from >= began
            && from + margin <= met
            && to.saturating_sub(*from) >= margin
            && met <= to + margin
    })
}

/// Whether the worker of a claim was stopped alone, has just gone on, and ran no command of the claim meanwhile.
fn starts_late(world: &World, task: &TaskId, old: Fence, (began, met): (u64, u64)) -> bool {
    let margin = world.margin();
    let process = world
        .claimant(task, old)
        .and_then(|node| world.process(node, began));
    let mut since = None;
    for line in world.witness.iter().filter(|l| Some(l.pid) == process) {
        match line.said {
            Said::WorkerStopped => since = Some(line.at),
            Said::Continued => {
                let Some(from) = since.take() else { continue };
                let said = |l: &ExecLine| l.task == *task && l.fence == old;
                let mut meanwhile = world.exec.iter().filter(|l| from < l.at && l.at < met);
                let goes_on = (line.at..=line.at + margin).contains(&met);
                if line.at >= from + margin && goes_on && !meanwhile.any(said) {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::sample::*;
    use super::*;

    /// The margin of the lease in these worlds.
    const MARGIN: u64 = 100;

    fn says(at: u64, number: u64, said: ExecSaid) -> ExecLine {
        ExecLine {
            at,
            task: id(),
            fence: fence(number),
            said,
        }
    }

    /// Process 7 is node `a` and has claim 2. Its command starts at 10 and is met at `met`.
    fn met(met: u64) -> World {
        let mut world = of_history(vec![submitted(), claimed("a", 2)]);
        world.ttl = MARGIN * 5;
        let node = "a".parse().unwrap();
        world.witness.push(line(0, 7, Said::Launched { node }));
        world.exec = vec![
            says(10, 2, ExecSaid::Start(0)),
            says(met, 5, ExecSaid::Overlap(fence(2))),
        ];
        world
    }

    fn stopped(mut world: World, pid: u32, from: u64, to: u64) -> Found {
        world.witness.push(line(from, pid, Said::Stopped));
        world.witness.push(line(to, pid, Said::Continued));
        check(&world)
    }

    #[test]
    fn commands_that_meet_are_caught() {
        let how = "a command of claim 2 ran beside one of claim 5";
        caught(check(&met(1500)), how);
        holds(stopped(met(1500), 7, 1000, 2000));
        caught(stopped(met(1500), 8, 1000, 2000), how);
        // Not at that time, or not for long enough.
        caught(stopped(met(1500), 7, 1600, 2000), how);
        caught(stopped(met(1500), 7, 1000, 1399), how);
        caught(stopped(met(1500), 7, 1400, 1450), how);
        caught(stopped(met(1500), 7, 5, 2000), how);
        caught(check(&worker_stopped(met(1500))), how);
    }

    /// The worker, and not its supervisor, stands still from 1000 to 2000.
    fn worker_stopped(mut world: World) -> World {
        world.witness.push(line(1000, 7, Said::WorkerStopped));
        world.witness.push(line(2000, 7, Said::Continued));
        world
    }

    /// Regression: the worker was stopped between its look at the lease and the start of the command.
    #[test]
    fn a_command_that_a_stopped_worker_was_about_to_start_is_excused_for_a_margin() {
        let how = "a command of claim 2 ran beside one of claim 5";
        holds(check(&worker_stopped(met(2000 + MARGIN))));
        caught(check(&worker_stopped(met(2000 + MARGIN + 1))), how);
        let mut ran = worker_stopped(met(2050));
        ran.exec.insert(1, says(1500, 2, ExecSaid::Step(1)));
        caught(check(&ran), how);
    }

    #[test]
    fn a_pause_of_the_next_process_of_the_node_excuses_nothing() {
        let mut world = met(1500);
        let node = "a".parse().unwrap();
        world.witness.push(line(900, 8, Said::Launched { node }));
        caught(stopped(world, 8, 1000, 2000), "a command of claim 2");
    }

    #[test]
    fn a_step_after_the_start_of_a_later_claim_is_caught() {
        let mut world = met(1500);
        world.exec.pop();
        world.exec.push(says(20, 2, ExecSaid::Step(1)));
        world.exec.push(says(30, 5, ExecSaid::Start(1)));
        world.exec.push(says(31, 5, ExecSaid::Step(2)));
        holds(check(&world));
        world.exec.push(says(32, 2, ExecSaid::Step(2)));
        caught(
            check(&world),
            "a command of claim 2 ran beside one of claim 5 at 32",
        );
    }

    #[test]
    fn two_commands_of_one_claim_are_caught() {
        let mut world = met(1500);
        world.exec[1] = says(1500, 2, ExecSaid::Overlap(fence(2)));
        caught(
            stopped(world, 7, 1000, 2000),
            "claim 2 ran beside one of claim 2",
        );
    }
}
