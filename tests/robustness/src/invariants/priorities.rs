//! Of the tasks that wait for a node with one slot the one of the highest priority is claimed first,
//! and of equal ones the one that was submitted first.

use windlass::store::ChangeKind;

use super::Found;
use crate::world::{Subject, World};

/// Tasks with this label waited together, before there was a slot.
pub const QUEUED: &str = "queued";

/// Returns the tasks that were claimed too early.
pub fn check(world: &World) -> Found {
    let mut queued: Vec<(u64, &Subject)> = Vec::new();
    let mut found = Found::new();
    for (id, subject) in &world.subjects {
        if !subject.record.task.labels.contains_key(QUEUED) {
            continue;
        }
        let mut history = subject.history.iter();
        match history.find(|c| matches!(c.what, ChangeKind::Claimed { .. })) {
            Some(claimed) => queued.push((claimed.seq, subject)),
            None => found.push((id.clone(), "it was never claimed".to_owned())),
        }
    }
    queued.sort_by_key(|(claimed, _)| *claimed);
    for pair in queued.windows(2) {
        let [(_, first), (_, second)] = pair else {
            continue;
        };
        let (one, two) = (&first.record, &second.record);
        let rank = |r: &windlass::store::TaskRecord| (-i64::from(r.task.priority), r.order);
        if rank(one) > rank(two) {
            let how = format!(
                "it was claimed (priority {}, submit {}) before {} (priority {}, submit {})",
                one.task.priority, one.order, two.task.id, two.task.priority, two.order
            );
            found.push((one.task.id.clone(), how));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::sample::*;
    use super::*;

    fn queue(tasks: &[(&str, i32, u64, u64)]) -> World {
        let mut world = World::default();
        for (name, priority, order, claimed_at) in tasks {
            let mut task = subject(vec![submitted(), claimed("a", 2)]);
            task.record.task.id = name.parse().unwrap();
            task.record.task.priority = *priority;
            task.record.order = *order;
            task.record.task.labels.insert(QUEUED.into(), "yes".into());
            task.history[1].seq = *claimed_at;
            world.subjects.insert(task.id().clone(), task);
        }
        world
    }

    #[test]
    fn the_highest_first_holds() {
        let tasks = [("a", 0, 1, 12), ("b", 9, 2, 10), ("c", 9, 3, 11)];
        holds(check(&queue(&tasks)));
    }

    #[test]
    fn a_lower_one_before_a_higher_one_is_caught() {
        let tasks = [("a", 0, 1, 10), ("b", 9, 2, 11)];
        caught(check(&queue(&tasks)), "before b (priority 9, submit 2)");
        let tasks = [("a", 9, 1, 11), ("b", 9, 2, 10)];
        caught(check(&queue(&tasks)), "before a (priority 9, submit 1)");
    }

    #[test]
    fn one_that_is_never_claimed_is_caught() {
        let mut world = queue(&[("a", 0, 1, 10)]);
        world
            .subjects
            .values_mut()
            .for_each(|s| s.history.truncate(1));
        caught(check(&world), "never claimed");
    }
}
