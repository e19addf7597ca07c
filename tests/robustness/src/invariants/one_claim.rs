//! G1: a task that has a live claim is not claimed by another node, nor on another lease. The holder
//! itself may claim it again, which is how it resolves a claim of unknown outcome.

use std::collections::{HashMap, HashSet};

use windlass::{
    Fence, NodeName, TaskId,
    store::{Change, ChangeKind},
};

use super::Found;
use crate::{exec_lines::ExecSaid, witness::Said, world::World};

/// What is known of the lease of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lease {
    /// Its number, from a node that reports its claims.
    Number(u64),
    /// The process that started a command on the claim: the next process of a node has another lease.
    Process(u32),
}

/// The leases of claims.
type Leases<'a> = HashMap<(&'a TaskId, Fence), Lease>;

pub(super) fn check(world: &World) -> Found {
    let mut found = Found::new();
    let leases = leases(world);
    let mut wrong = Vec::new();
    for (id, history) in world.histories_gone() {
        follow(id, history, &leases, &mut wrong);
        found.extend(wrong.drain(..).map(|how| (id.clone(), how)));
    }
    for (id, subject) in &world.subjects {
        let holder = follow(id, &subject.history, &leases, &mut wrong);
        if subject.record.node.as_ref() != holder {
            let stored = &subject.record.node;
            wrong.push(format!(
                "its record says {stored:?} has it, its history {holder:?}"
            ));
        }
        found.extend(wrong.drain(..).map(|how| (id.clone(), how)));
    }
    found.extend(unrecorded(world, &leases));
    found
}

fn leases(world: &World) -> Leases<'_> {
    let lines = world.witness.iter();
    let numbers = lines.filter_map(|line| match &line.said {
        Said::Claimed { task, fence, lease } => Some(((task, *fence), Lease::Number(*lease))),
        _ => None,
    });
    let starts = world.exec.iter();
    let starts = starts.filter(|l| matches!(l.said, ExecSaid::Start(_)));
    let processes = starts.filter_map(|line| {
        let node = world.claimant(&line.task, line.fence)?;
        let process = world.process(node, line.at)?;
        Some(((&line.task, line.fence), Lease::Process(process)))
    });
    numbers.chain(processes).collect()
}

/// Returns who has the task in the end.
fn follow<'a>(
    id: &TaskId,
    history: &'a [Change],
    leases: &Leases<'_>,
    wrong: &mut Vec<String>,
) -> Option<&'a NodeName> {
    let mut holder: Option<(&NodeName, Fence)> = None;
    for change in history {
        match &change.what {
            ChangeKind::Claimed { node, fence, .. } => {
                if let Some((has, by)) = holder {
                    let lease = |fence: Fence| leases.get(&(id, fence));
                    if has != node {
                        wrong.push(format!("{node} claimed it ({fence}) while {has} had it"));
                    } else if let (Some(old), Some(new)) = (lease(by), lease(*fence))
                        && old != new
                    {
                        wrong.push(format!(
                            "{node} claimed it ({fence}) on {new:?} while claim {by} was on {old:?}"
                        ));
                    }
                }
                holder = Some((node, *fence));
            }
            ChangeKind::Dropped { .. } | ChangeKind::Lost { .. } => {
                if holder.is_none() {
                    wrong.push(format!("change {} ends a claim; nobody had it", change.seq));
                }
                holder = None;
            }
            ChangeKind::Moved { to, .. } if to.is_terminal() => holder = None,
            _ => {}
        }
    }
    holder.map(|(node, _)| node)
}

/// Claims that were acknowledged to a node and are in no history.
fn unrecorded(world: &World, leases: &Leases<'_>) -> Found {
    if world.feed.is_empty() {
        // The histories of deleted tasks are not known.
        return Found::new();
    }
    let claims: HashSet<(&TaskId, Fence)> = world
        .feed
        .iter()
        .filter_map(|c| match &c.what {
            ChangeKind::Claimed { fence, .. } => Some((&c.task, *fence)),
            _ => None,
        })
        .collect();
    let missing = leases.keys().filter(|claim| !claims.contains(*claim));
    let how = |fence| format!("claim {fence} was acknowledged to a node; its history has none");
    missing
        .map(|(task, fence)| ((*task).clone(), how(fence)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::sample::*;
    use super::*;
    use crate::exec_lines::ExecLine;

    #[test]
    fn one_after_the_other_holds() {
        let history = vec![
            submitted(),
            claimed("a", 2),
            claimed("a", 3),
            dropped(3),
            claimed("b", 5),
        ];
        holds(check(&of_history(history)));
    }

    #[test]
    fn two_at_a_time_are_caught() {
        let history = vec![submitted(), claimed("a", 2), claimed("b", 3)];
        caught(
            check(&of_history(history)),
            "b claimed it (3) while a had it",
        );
    }

    #[test]
    fn two_ends_of_one_claim_are_caught() {
        let history = vec![submitted(), claimed("a", 2), dropped(2), lost(2)];
        caught(check(&of_history(history)), "nobody had it");
    }

    #[test]
    fn a_record_that_disagrees_is_caught() {
        let mut task = subject(vec![submitted(), claimed("a", 2), lost(2)]);
        task.record.node = Some("a".parse().unwrap());
        caught(check(&world(task)), "its record says");
    }

    fn acknowledged(number: u64, lease: u64) -> crate::witness::Line {
        let said = Said::Claimed {
            task: id(),
            fence: fence(number),
            lease,
        };
        line(number, 7, said)
    }

    #[test]
    fn a_claim_on_another_lease_of_the_same_node_is_caught() {
        let history = vec![submitted(), claimed("a", 2), claimed("a", 3)];
        let mut world = of_history(history);
        world.witness = vec![acknowledged(2, 1), acknowledged(3, 1)];
        holds(check(&world));
        world.witness = vec![acknowledged(2, 1), acknowledged(3, 9)];
        caught(check(&world), "on Number(9) while claim 2 was on Number(1)");
    }

    #[test]
    fn a_claim_by_the_next_process_of_the_same_node_is_caught() {
        let mut world = of_history(vec![submitted(), claimed("a", 2), claimed("a", 3)]);
        let node = || "a".parse().unwrap();
        world.exec = [(10, 2), (30, 3)]
            .map(|(at, number)| ExecLine {
                at,
                task: id(),
                fence: fence(number),
                said: ExecSaid::Start(0),
            })
            .to_vec();
        world.witness = vec![line(0, 7, Said::Launched { node: node() })];
        holds(check(&world));
        world
            .witness
            .push(line(20, 8, Said::Launched { node: node() }));
        caught(
            check(&world),
            "on Process(8) while claim 2 was on Process(7)",
        );
    }

    #[test]
    fn a_claim_of_a_task_that_was_deleted_later_is_checked() {
        let mut world = of_gone(vec![submitted(), claimed("a", 2)]);
        holds(check(&world));
        world.gone = gone(vec![submitted(), claimed("a", 2), claimed("b", 3)]);
        caught(check(&world), "b claimed it (3) while a had it");
    }

    #[test]
    fn a_claim_that_is_in_no_history_is_caught() {
        let mut world = of_history(vec![submitted(), claimed("a", 2)]);
        world.feed = world.subjects[&id()].history.clone();
        world.witness = vec![acknowledged(2, 1)];
        holds(check(&world));
        world.witness.push(acknowledged(3, 1));
        caught(check(&world), "claim 3 was acknowledged to a node");
    }
}
