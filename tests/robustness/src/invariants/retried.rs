//! A retry that was asked for once starts one incarnation, whatever became of its answer.

use windlass::{TaskId, store::ChangeKind};

use super::Found;
use crate::world::World;

pub(super) fn check(world: &World) -> Found {
    let asked = world.promised.asked_retries.iter();
    let too_many = asked.filter_map(|(id, asked)| {
        let retried = retried(world, id);
        let how = format!("{asked} retries were asked for; its history has {retried}");
        (retried > *asked).then(|| (id.clone(), how))
    });
    too_many.collect()
}

fn retried(world: &World, task: &TaskId) -> u64 {
    let changes = world.histories().filter(|(id, _)| *id == task);
    let changes = changes.flat_map(|(_, history)| history);
    changes
        .filter(|change| change.what == ChangeKind::Retried)
        .count() as u64
}

#[cfg(test)]
mod tests {
    use super::super::sample::*;
    use super::*;

    #[test]
    fn a_retry_more_than_was_asked_for_is_caught() {
        let mut world = of_history(vec![
            submitted(),
            completed(2),
            ChangeKind::Retried,
            completed(2),
            ChangeKind::Retried,
        ]);
        holds(check(&world));
        world.promised.asked_retries.insert(id(), 2);
        holds(check(&world));
        world.promised.asked_retries.insert(id(), 1);
        caught(check(&world), "1 retries were asked for");
    }
}
