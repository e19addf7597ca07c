//! A delete that was acknowledged ends the task: its history ends, its handlers stop, and no handler of
//! it starts any more. A task that is submitted under the id later is another one.

use windlass::{Fence, StateKind, TaskId, store::ChangeKind};

use super::{
    Found,
    one_run::{self, Run},
};
use crate::{feed::Life, world::World};

pub(super) fn check(world: &World) -> Found {
    let mut found = Found::new();
    for (id, _) in &world.promised.deleted {
        let lives = ended(world, id).count();
        let there = world.subjects.get(id);
        if world.feed.is_empty() {
            if there.is_some() {
                found.push((id.clone(), "it was deleted; it is there".to_owned()));
            }
            continue;
        }
        if lives == 0 {
            found.push((id.clone(), "its delete is in no history".to_owned()));
        }
        if there.is_some_and(|s| s.history.is_empty()) {
            found.push((
                id.clone(),
                "it was deleted; it is there and was not submitted again".to_owned(),
            ));
        }
    }
    found
}

/// Tasks that were deleted without force although a claim had not been released: what its node was running may still run.
pub(super) fn check_unforced(world: &World) -> Found {
    let mut found = Found::new();
    for id in &world.promised.unforced {
        let Some(life) = ended(world, id).last() else {
            continue;
        };
        let mut claims = None;
        for change in &life.history {
            match &change.what {
                ChangeKind::Claimed { fence, .. } => claims = Some(*fence),
                ChangeKind::Dropped { .. } => claims = None,
                ChangeKind::Moved { to, .. } if *to != StateKind::Runnable => claims = None,
                _ => {}
            }
        }
        let how =
            |fence| format!("claim {fence} was not released, and it was deleted without force");
        found.extend(claims.map(|fence| (id.clone(), how(fence))));
    }
    found
}

/// Handlers that outlive the delete of their task. A node that is cut off does not know of the delete
/// until its lease is over, or until it has found out that its watch is silent.
pub(super) fn check_handlers(world: &World) -> Found {
    let mut found = Found::new();
    let latest = world.ttl + world.margin() + world.silence();
    let runs = one_run::runs(world, &mut Found::new());
    for (at, (id, acknowledged)) in world.promised.deleted.iter().enumerate() {
        let before = world.promised.deleted[..at].iter();
        let life = before.filter(|(other, _)| other == id).count();
        let Some(fences) = fences(world, id, life) else {
            continue;
        };
        let of_life = runs.iter().filter(|((task, _), _)| *task == id);
        let mut runs = of_life.flat_map(|(_, runs)| runs);
        let outlives = |run: &&Run| {
            let pauses = world.pauses(run.pid);
            let after = one_run::time_of_its_own(*acknowledged, run.to, &pauses);
            fences.contains(&run.fence) && run.to > *acknowledged && after > latest
        };
        if let Some(run) = runs.find(outlives) {
            let Run {
                fence,
                pid,
                from,
                to,
            } = run;
            let how = format!(
                "its delete was acknowledged at {acknowledged}; claim {fence} ran in process {pid} from {from} to {to}"
            );
            found.push((id.clone(), how));
        }
    }
    found
}

/// The lives of an id that a delete has ended.
fn ended<'a>(world: &'a World, id: &TaskId) -> impl Iterator<Item = &'a Life> {
    let lives = world.gone.get(id).into_iter().flatten();
    lives.filter(|life| life.deleted.is_some())
}

/// The claims of a life that a delete has ended.
fn fences(world: &World, id: &TaskId, life: usize) -> Option<Vec<Fence>> {
    let history = &ended(world, id).nth(life)?.history;
    let fences = history.iter().filter_map(|c| match &c.what {
        ChangeKind::Claimed { fence, .. } => Some(*fence),
        _ => None,
    });
    Some(fences.collect())
}

#[cfg(test)]
mod tests {
    use super::super::sample::*;
    use super::*;
    use crate::{witness::Said, world::SILENCE};

    /// How long leases last in these worlds; the margin is a fifth of it.
    const TTL: u64 = 500;

    fn deleted() -> World {
        let gone = gone(vec![submitted(), claimed("a", 2)]);
        let feed = gone[&id()][0].history.clone();
        let mut world = World {
            gone,
            feed,
            ttl: TTL,
            ..World::default()
        };
        world.promised.deleted.push((id(), 1000));
        world
    }

    #[test]
    fn a_deleted_task_that_is_gone_holds_and_so_does_a_new_one_of_its_id() {
        holds(check(&deleted()));
        let mut again = deleted();
        again.subjects = of_history(vec![submitted()]).subjects;
        holds(check(&again));
    }

    #[test]
    fn a_deleted_task_that_comes_back_is_caught() {
        let mut world = deleted();
        world.subjects = of_history(vec![submitted()]).subjects;
        world.subjects.get_mut(&id()).unwrap().history.clear();
        caught(check(&world), "was not submitted again");
        world.feed.clear();
        caught(check(&world), "it is there");
    }

    #[test]
    fn a_delete_that_is_in_no_history_is_caught() {
        let mut world = deleted();
        world.gone.clear();
        caught(check(&world), "its delete is in no history");
        // A task that was replaced was not deleted.
        let mut world = deleted();
        world.gone.get_mut(&id()).unwrap()[0].deleted = None;
        caught(check(&world), "its delete is in no history");
    }

    #[test]
    fn a_task_that_was_deleted_without_force_while_it_may_run_is_caught() {
        let deleted = |history| {
            let mut world = of_gone(history);
            world.promised.unforced.push(id());
            check_unforced(&world)
        };
        holds(deleted(vec![submitted()]));
        holds(deleted(vec![submitted(), claimed("a", 2), dropped(2)]));
        holds(deleted(vec![submitted(), claimed("a", 2), completed(2)]));
        let not = "claim 2 was not released";
        caught(deleted(vec![submitted(), claimed("a", 2)]), not);
        caught(deleted(vec![submitted(), claimed("a", 2), lost(2)]), not);
    }

    #[test]
    fn a_handler_that_outlives_the_delete_is_caught() {
        let ran = |fence, from, to| {
            let mut world = deleted();
            world.witness = vec![start(from, 7, fence, 0), end(to, 7, fence)];
            check_handlers(&world)
        };
        let last = 1000 + TTL + TTL / 5;
        holds(ran(2, 1, last));
        caught(ran(2, 1, last + 1), "claim 2 ran in process 7 from 1 to");
        caught(ran(2, last + 1, last + 2), "claim 2 ran in process 7");
        // Regression: a member of etcd stood still, and with it the watch; renewals reached another member.
        let shaken = |to| {
            let mut world = deleted();
            let how = "Stop m2".to_owned();
            world.witness = vec![start(1, 7, 2, 0), end(to, 7, 2)];
            let mut stop = world.witness[0].clone();
            stop.said = Said::Shaken { how };
            world.witness.insert(0, stop);
            check_handlers(&world)
        };
        holds(shaken(last + SILENCE));
        caught(shaken(last + SILENCE + 1), "claim 2 ran in process 7");
        // Of the task that was submitted later.
        holds(ran(5, last + 1, last + 2));
    }

    #[test]
    fn a_process_that_is_stopped_meanwhile_learns_of_the_delete_later() {
        use crate::witness::Said;
        let mut world = deleted();
        world.witness = vec![
            start(1, 7, 2, 0),
            line(900, 7, Said::Stopped),
            line(3000, 7, Said::Continued),
            end(3000 + TTL, 7, 2),
        ];
        holds(check_handlers(&world));
        world.witness[3].at += TTL;
        caught(check_handlers(&world), "claim 2 ran in process 7");
    }
}
