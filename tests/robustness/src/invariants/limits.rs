//! Never more tasks of a limit's key are claimed at once than the limit allows, and in the end no limit
//! that has room holds a task back.
//!
//! A claim beyond its limits, which is made for a command, runs no handler, and the history does not
//! show it. So only claims whose handler or command has started count.
//!
//! Each task looks only at the slots below its own number, so for each number `n` at most `n` of the
//! tasks whose number is `n` or less are claimed at once.

use std::collections::{BTreeMap, HashSet};

use windlass::{
    Bound, Fence, TaskId,
    store::{Change, ChangeKind, TaskRecord},
};

use super::Found;
use crate::{exec_lines::ExecSaid, witness::Said, world::World};

/// One claim that ran, by the numbers of changes: it ends in the change `to`.
#[derive(Debug, Clone, Copy)]
struct Claim<'a> {
    record: &'a TaskRecord,
    fence: Fence,
    from: u64,
    to: u64,
}

pub(super) fn check(world: &World) -> Found {
    let mut found = Found::new();
    follow(world, &mut found);
    found
}

/// Counts the claims that took the last slot that a limit of more than one had for them.
pub fn filled(world: &World) -> usize {
    follow(world, &mut Found::new())
}

fn follow(world: &World, found: &mut Found) -> usize {
    let claims = claims(world);
    let begins = claims.iter().map(|claim| (claim.from, true, claim));
    let ends = claims.iter().map(|claim| (claim.to, false, claim));
    let mut events: Vec<_> = begins.chain(ends).collect();
    // What ends in a write has ended for the claims of that write.
    events.sort_by_key(|(seq, begins, _)| (*seq, *begins));
    let mut taken: BTreeMap<&str, BTreeMap<&TaskId, u32>> = BTreeMap::new();
    let mut filled = 0;
    for (_, begins, claim) in events {
        let id = &claim.record.task.id;
        for (key, most) in at_once(claim.record) {
            let of_key = taken.entry(key).or_default();
            if !begins {
                of_key.remove(id);
                continue;
            }
            of_key.insert(id, most);
            let up_to = |n: u32| of_key.values().filter(|most| **most <= n).count();
            let over = of_key
                .values()
                .find(|n| **n >= most && up_to(**n) > **n as usize);
            if let Some(n) = over {
                let (fence, count) = (claim.fence, up_to(*n));
                let how = format!(
                    "claim {fence} makes {count} tasks of '{key}' claimed at once, of which {n} may be: {of_key:?}"
                );
                found.push((id.clone(), how));
            }
            filled += usize::from(most > 1 && up_to(most) == most as usize);
        }
    }
    filled
}

/// The claims of tasks with limits whose handlers or commands have started.
fn claims(world: &World) -> Vec<Claim<'_>> {
    let handlers = world.witness.iter().filter_map(|line| match &line.said {
        Said::Start { task, fence, .. } => Some((task, *fence)),
        _ => None,
    });
    let commands = world.exec.iter();
    let commands = commands.filter(|line| matches!(line.said, ExecSaid::Start(_)));
    let commands = commands.map(|line| (&line.task, line.fence));
    let ran: HashSet<(&TaskId, Fence)> = handlers.chain(commands).collect();
    let mut claims = Vec::new();
    for (id, subject) in &world.subjects {
        if at_once(&subject.record).next().is_none() {
            continue;
        }
        for (at, change) in subject.history.iter().enumerate() {
            let ChangeKind::Claimed { fence, .. } = change.what else {
                continue;
            };
            if ran.contains(&(id, fence)) {
                claims.push(Claim {
                    record: &subject.record,
                    fence,
                    from: change.seq,
                    to: end(world, change.seq, &subject.history[at + 1..]),
                });
            }
        }
    }
    claims.retain(|claim| claim.from < claim.to);
    claims
}

/// The change that ends a claim, from the changes after it.
fn end(world: &World, from: u64, rest: &[Change]) -> u64 {
    let mut last = from;
    for change in rest {
        match &change.what {
            ChangeKind::Lost { .. } if world.lost_later => return last,
            ChangeKind::Claimed { .. }
            | ChangeKind::Dropped { .. }
            | ChangeKind::Lost { .. }
            | ChangeKind::Retried
            | ChangeKind::Quarantined => return change.seq,
            ChangeKind::Moved { to, .. } if to.is_terminal() => return change.seq,
            ChangeKind::Moved { .. } | ChangeKind::Checkpointed { .. } => last = change.seq,
            _ => {}
        }
    }
    u64::MAX
}

/// The limits on tasks at once of a task: keys and numbers.
fn at_once(record: &TaskRecord) -> impl Iterator<Item = (&str, u32)> {
    let limits = record.task.limits.iter();
    limits.filter_map(|limit| match limit.bound() {
        Bound::AtOnce(most) => Some((limit.key(), most)),
        Bound::Starts { .. } => None,
    })
}

/// No limit that has room holds a task back.
pub(super) fn check_none_held(world: &World) -> Found {
    let claimed = || world.subjects.values().filter(|s| s.record.node.is_some());
    let mut found = Found::new();
    for (id, subject) in &world.subjects {
        let Some(by) = &subject.record.limited_by else {
            continue;
        };
        let Bound::AtOnce(most) = by.limit.bound() else {
            continue;
        };
        let key = by.limit.key();
        let takes = |record: &TaskRecord| at_once(record).any(|(other, _)| other == key);
        let taken = claimed().filter(|s| takes(&s.record)).count();
        if taken < most as usize {
            let how = format!("the limit '{key}' of {most} holds it back; {taken} have a claim");
            found.push((id.clone(), how));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use windlass::{ActionKind, Limit, StateKind, store::LimitedBy};

    use super::super::sample::*;
    use super::*;

    /// A task: its name, the number of its limit, and its history with the numbers of the changes.
    type Planted = (&'static str, u32, Vec<(u64, ChangeKind)>);

    fn limited(tasks: Vec<Planted>) -> World {
        let mut world = World::default();
        for (name, most, history) in tasks {
            let (seqs, whats): (Vec<u64>, Vec<ChangeKind>) = history.into_iter().unzip();
            let mut task = subject(whats);
            task.record.task.id = name.parse().unwrap();
            task.record.task.limits = vec![Limit::at_once("k", most).unwrap()];
            for (change, seq) in task.history.iter_mut().zip(seqs) {
                change.seq = seq;
                change.task = name.parse().unwrap();
                if let ChangeKind::Claimed { fence, .. } = change.what {
                    let task = change.task.clone();
                    let said = Said::Start { task, fence, n: 0 };
                    world.witness.push(line(seq, 7, said));
                }
            }
            world.subjects.insert(task.id().clone(), task);
        }
        world
    }

    /// Two tasks of which one may be claimed at once: `one` ends in the change 3, by this.
    fn pair(ends: ChangeKind, again: u64) -> World {
        limited(vec![
            ("one", 1, vec![(1, claimed("a", 2)), (3, ends)]),
            ("two", 1, vec![(again, claimed("b", 5))]),
        ])
    }

    fn slept() -> ChangeKind {
        moved(
            2,
            ActionKind::Sleep,
            StateKind::Runnable,
            StateKind::Sleeping,
        )
    }

    #[test]
    fn one_after_the_other_holds() {
        for ends in [dropped(2), lost(2), completed(2)] {
            holds(check(&pair(ends, 4)));
        }
        holds(check(&pair(dropped(2), 3)));
    }

    #[test]
    fn one_more_than_the_limit_is_caught() {
        for ends in [dropped(2), lost(2), completed(2)] {
            caught(check(&pair(ends, 2)), "2 tasks of 'k' claimed at once");
        }
        caught(check(&pair(slept(), 4)), "claim 5 makes 2 tasks of 'k'");
        caught(check(&pair(checkpointed(2), 4)), "of which 1 may be");
    }

    #[test]
    fn a_claim_that_ran_nothing_does_not_count() {
        let mut world = pair(slept(), 4);
        world.witness.pop();
        holds(check(&world));
    }

    #[test]
    fn commands_of_the_kind_exec_count() {
        let mut world = pair(slept(), 4);
        world.witness.pop();
        world.exec.push(crate::exec_lines::ExecLine {
            at: 4,
            task: "two".parse().unwrap(),
            fence: fence(5),
            said: ExecSaid::Start(0),
        });
        caught(check(&world), "claim 5 makes 2 tasks of 'k'");
    }

    #[test]
    fn each_number_counts_the_tasks_of_this_number_or_less() {
        let of = |numbers: [u32; 3]| {
            let names = ["one", "two", "three"].into_iter().zip(numbers).zip(1..);
            let tasks =
                names.map(|((name, most), seq)| (name, most, vec![(seq, claimed("a", seq))]));
            limited(tasks.collect())
        };
        holds(check(&of([3, 3, 3])));
        holds(check(&of([1, 2, 3])));
        holds(check(&of([3, 3, 1])));
        assert_eq!(filled(&of([3, 3, 3])), 1);
        caught(check(&of([1, 1, 3])), "of which 1 may be");
        caught(
            check(&of([2, 1, 2])),
            "3 tasks of 'k' claimed at once, of which 2 may be",
        );
        caught(check(&of([2, 2, 1])), "of which 2 may be");
    }

    #[test]
    fn a_loss_that_is_recorded_later_ends_the_claim_with_its_last_write() {
        let mut world = limited(vec![
            (
                "one",
                1,
                vec![(1, claimed("a", 2)), (3, slept()), (9, lost(2))],
            ),
            ("two", 1, vec![(4, claimed("b", 5))]),
        ]);
        caught(check(&world), "claim 5 makes 2");
        world.lost_later = true;
        holds(check(&world));
        let mut world = limited(vec![
            (
                "one",
                1,
                vec![(1, claimed("a", 2)), (3, slept()), (9, lost(2))],
            ),
            ("two", 1, vec![(2, claimed("b", 5))]),
        ]);
        world.lost_later = true;
        caught(check(&world), "claim 5 makes 2");
    }

    #[test]
    fn a_task_that_is_held_back_by_a_limit_with_room_is_caught() {
        let mut world = limited(vec![
            ("one", 1, vec![(1, claimed("a", 2))]),
            ("two", 1, vec![(2, submitted())]),
        ]);
        holds(check_none_held(&world));
        let limit = Limit::at_once("k", 1).unwrap();
        let two = world.subjects.get_mut("two").unwrap();
        two.record.limited_by = Some(LimitedBy::new(limit));
        holds(check_none_held(&world));
        world.subjects.get_mut("one").unwrap().record.node = None;
        caught(check_none_held(&world), "holds it back; 0 have a claim");
    }
}
