//! G1 and G7 for commands of the kind `exec`: those of one task never run at the same time. They look
//! for each other themselves, and a step of an old claim after the start of a new one shows the same.
//!
//! A supervisor ends the commands of a worker that stands still. So only a stop of both processes that
//! held the older claim, at the time of the overlap, excuses one.

use std::collections::BTreeMap;

use windlass::{Fence, TaskId};

use super::Found;
use crate::world::{ExecLine, ExecSaid, World};

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
        if old != new && excused(world, task, old, (began, *at)) {
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

#[cfg(test)]
mod tests {
    use super::super::sample::*;
    use super::*;
    use crate::witness::Said;

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
        let mut worker = met(1500);
        worker.witness.push(line(1000, 7, Said::WorkerStopped));
        worker.witness.push(line(2000, 7, Said::Continued));
        caught(check(&worker), how);
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
