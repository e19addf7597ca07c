//! A limit on starts counts every attempt: each has a claim of its own, so no claim of such a task starts its handler twice.

use std::collections::BTreeSet;

use windlass::Bound;

use super::Found;
use crate::{
    witness::Said,
    world::{Subject, World},
};

pub(super) fn check(world: &World) -> Found {
    let mut found = Found::new();
    let mut started = BTreeSet::new();
    for line in &world.witness {
        let Said::Start { task, fence, .. } = &line.said else {
            continue;
        };
        let is_limited = world.subjects.get(task).is_some_and(limits_starts);
        if is_limited && !started.insert((task, *fence)) {
            let how = format!("claim {fence} starts it again, which its limit does not count");
            found.push((task.clone(), how));
        }
    }
    found
}

fn limits_starts(subject: &Subject) -> bool {
    let mut limits = subject.record.task.limits.iter();
    limits.any(|limit| matches!(limit.bound(), Bound::Starts { .. }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use windlass::Limit;

    use super::super::sample::*;
    use super::*;

    fn starts(limit: Limit, fences: [u64; 2]) -> Found {
        let mut task = subject(vec![submitted(), claimed("a", 2)]);
        task.record.task.limits = vec![limit];
        let mut world = world(task);
        let [first, next] = fences;
        world.witness = vec![start(1, 7, first, 0), start(2, 7, next, 0)];
        check(&world)
    }

    #[test]
    fn a_second_start_of_one_claim_is_caught() {
        let limit = || Limit::starts("k", 3, Duration::from_secs(1)).unwrap();
        caught(starts(limit(), [2, 2]), "claim 2 starts it again");
        holds(starts(limit(), [2, 3]));
        holds(starts(Limit::at_once("k", 3).unwrap(), [2, 2]));
    }
}
