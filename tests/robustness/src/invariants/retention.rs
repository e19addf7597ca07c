//! The retention of nodes prunes tasks that ended at least the retention ago, and nothing else. A retry
//! that was acknowledged keeps its task.

use std::time::Duration;

use windlass::store::ChangeKind;

use super::Found;
use crate::{feed::Life, world::World};

/// How long a busy machine may take to write an end. Retention counts from the moment at which the node
/// decided it, and the history has the moment at which the store wrote it.
const TO_WRITE: Duration = Duration::from_secs(1);

/// Returns the tasks that were pruned while they lived, or too early by the clock of the store. Only
/// where nodes alone delete tasks.
pub fn check(world: &World, retention: Duration) -> Found {
    let mut found = Found::new();
    for (id, lives) in &world.gone {
        let wrong = lives.iter().filter_map(|life| of(life, retention));
        found.extend(wrong.map(|how| (id.clone(), how)));
    }
    found
}

/// How many tasks were pruned.
pub fn count(world: &World) -> usize {
    let lives = world.gone.values().flatten();
    lives.filter(|life| life.deleted.is_some()).count()
}

fn of(life: &Life, retention: Duration) -> Option<String> {
    let pruned = life.deleted.as_ref()?;
    let last = life.history.last()?;
    match &last.what {
        ChangeKind::Moved { to, .. } if to.is_terminal() => {
            let after = pruned.at.duration_since(last.at);
            let kept = Duration::try_from(after).is_ok_and(|after| after + TO_WRITE >= retention);
            (!kept).then(|| format!("it was pruned {after:#} after its end, not {retention:?}"))
        }
        what => Some(format!("it was pruned while it lived, after {what:?}")),
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::super::sample::*;
    use super::*;

    const RETENTION: Duration = Duration::from_secs(3);

    /// A task with this history that was pruned so long after its last change.
    fn pruned(history: Vec<ChangeKind>, after: i64) -> World {
        let mut world = World {
            gone: gone(history),
            ..World::default()
        };
        let life = &mut world.gone.get_mut(&id()).unwrap()[0];
        let last = life.history.last().unwrap().at;
        let pruned = life.deleted.as_mut().unwrap();
        pruned.at = last + SignedDuration::from_millis(after);
        world
    }

    fn ended() -> Vec<ChangeKind> {
        vec![submitted(), claimed("a", 2), completed(2)]
    }

    #[test]
    fn what_ended_the_retention_ago_may_go() {
        let world = pruned(ended(), 3000);
        holds(check(&world, RETENTION));
        assert_eq!(count(&world), 1);
    }

    #[test]
    fn what_is_pruned_early_is_caught() {
        holds(check(&pruned(ended(), 2000), RETENTION));
        let early = "it was pruned 1s 999ms after its end, not 3s";
        caught(check(&pruned(ended(), 1999), RETENTION), early);
        let before = pruned(ended(), -1);
        caught(check(&before, RETENTION), "after its end");
    }

    #[test]
    fn what_is_pruned_while_it_lives_is_caught() {
        let lived = "it was pruned while it lived";
        let retried = [ended(), vec![ChangeKind::Retried]].concat();
        caught(check(&pruned(retried, 9000), RETENTION), lived);
        let runs = vec![submitted(), claimed("a", 2)];
        caught(check(&pruned(runs, 9000), RETENTION), lived);
    }
}
