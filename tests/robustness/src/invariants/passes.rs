//! A transaction is applied as a whole or not at all, and at most once.

use std::collections::{BTreeMap, BTreeSet};

use windlass::{TaskId, store::ChangeKind};

use super::Found;
use crate::{
    passes::{self, Answer, Pass},
    world::World,
};

pub(super) fn check(world: &World) -> Found {
    let mut found = Found::new();
    let mut applied: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for pass in &world.promised.passes {
        let rivals = applied.entry(pass.from).or_default();
        if pass.answer != Answer::Refused {
            rivals.push(pass.number);
        }
        found.extend(of(world, pass));
    }
    let mut batons = BTreeSet::new();
    for (from, numbers) in applied {
        if let [number] = numbers[..] {
            batons.remove(&from);
            batons.insert(number);
        } else {
            let how = format!("{} transactions took it: {numbers:?}", numbers.len());
            found.extend(baton(from).map(|id| (id, how)));
        }
    }
    let there = world.subjects.values();
    let there = there.filter(|s| s.record.task.kind.as_str() == passes::KIND);
    if !world.promised.passes.is_empty() && there.count() != 1 {
        let how = format!("there is not one baton; the last is {batons:?}");
        found.extend(baton(0).map(|id| (id, how)));
    }
    found
}

fn baton(number: u64) -> Option<TaskId> {
    passes::baton(number).parse().ok()
}

/// What is there of one transaction.
fn of(world: &World, pass: &Pass) -> Found {
    let mut found = Found::new();
    if let Answer::Differs(how) = &pass.answer {
        let how = format!(
            "the repetition of transaction {} differs: {how}",
            pass.number
        );
        found.extend(baton(pass.number).map(|id| (id, how)));
    }
    let is_applied = pass.answer != Answer::Refused;
    for id in pass.followers().unwrap_or_default() {
        let is_there = world.subjects.contains_key(&id);
        let how = match (is_applied, is_there) {
            (true, false) => "its transaction was applied; it is missing",
            (false, true) => "its transaction was refused; it is there",
            _ if submits(world, &id) > usize::from(is_applied) => {
                "its transaction submitted it more often"
            }
            _ => continue,
        };
        found.push((id, how.to_owned()));
    }
    let own = baton(pass.number).filter(|id| submits(world, id) != usize::from(is_applied));
    found.extend(own.map(|id| {
        let how = format!(
            "transaction {} submitted it another number of times",
            pass.number
        );
        (id, how)
    }));
    let old = baton(pass.from).filter(|id| is_applied && world.subjects.contains_key(id));
    found.extend(old.map(|id| {
        (
            id,
            format!("transaction {} deleted it; it is there", pass.number),
        )
    }));
    found
}

/// How often a task was submitted, by the histories of all its lives.
fn submits(world: &World, id: &TaskId) -> usize {
    let gone = world.gone.get(id).into_iter().flatten();
    let gone = gone.flat_map(|life| &life.history);
    let there = world.subjects.get(id).into_iter().flat_map(|s| &s.history);
    gone.chain(there)
        .filter(|change| matches!(change.what, ChangeKind::Submitted { .. }))
        .count()
}

#[cfg(test)]
mod tests {
    use super::super::sample::*;
    use super::*;
    use crate::world::Subject;

    fn pass(number: u64, answer: Answer) -> Pass {
        Pass {
            number,
            from: 0,
            answer,
        }
    }

    fn task(id: &str, kind: &str) -> (TaskId, Subject) {
        let mut task = subject(vec![submitted()]);
        task.record.task.id = id.parse().unwrap();
        task.record.task.kind = kind.parse().unwrap();
        (task.record.task.id.clone(), task)
    }

    /// Transaction 1 was applied, transaction 2 refused.
    fn passed() -> World {
        let mut world = World::default();
        world.subjects.extend([task("baton-1", passes::KIND)]);
        let ids = ["pass-1-0", "pass-1-1", "pass-1-2"];
        world.subjects.extend(ids.map(|id| task(id, "reuse-a")));
        let passes = [pass(1, Answer::Applied), pass(2, Answer::Refused)];
        world.promised.passes.extend(passes);
        world
    }

    #[test]
    fn one_whole_transaction_holds() {
        holds(check(&passed()));
        holds(check(&World::default()));
    }

    #[test]
    fn a_part_of_a_transaction_is_caught() {
        let mut world = passed();
        let lost: TaskId = "pass-1-1".parse().unwrap();
        world.subjects.remove(&lost);
        caught(check(&world), "it is missing");
        let mut world = passed();
        world.subjects.extend([task("pass-2-0", "reuse-a")]);
        caught(check(&world), "was refused; it is there");
        let mut world = passed();
        world.subjects.extend([task("baton-0", passes::KIND)]);
        caught(check(&world), "deleted it; it is there");
        caught(check(&world), "there is not one baton");
        let mut world = passed();
        world.subjects.extend([task("baton-2", passes::KIND)]);
        caught(check(&world), "another number of times");
    }

    #[test]
    fn a_transaction_that_is_applied_twice_is_caught() {
        let mut world = passed();
        let (id, twice) = task("pass-1-0", "reuse-a");
        let life = gone(vec![submitted()]).remove(&super::super::sample::id());
        world.gone.insert(id.clone(), life.unwrap());
        world.subjects.insert(id, twice);
        caught(check(&world), "more often");
        let mut world = passed();
        world.promised.passes[0].answer = Answer::Differs("…".to_owned());
        caught(check(&world), "the repetition of transaction 1 differs");
    }

    #[test]
    fn two_winners_and_none_are_caught() {
        for answer in [Answer::Applied, Answer::Refused] {
            let mut world = passed();
            for pass in &mut world.promised.passes {
                pass.answer = answer.clone();
            }
            caught(check(&world), "transactions took it");
        }
    }
}
