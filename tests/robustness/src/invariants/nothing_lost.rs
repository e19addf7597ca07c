//! G4 and G8: what was acknowledged to a client is there, and can be read. What was deleted is checked
//! by [`super::deleted`].

use std::collections::BTreeMap;

use windlass::{
    TaskId,
    store::{Change, ChangeKind},
};

use super::Found;
use crate::world::World;

pub(super) fn check(world: &World) -> Found {
    let mut found = Found::new();
    for id in &world.promised.tasks {
        match world.subjects.get(id) {
            None => found.push((id.clone(), "its submit was acknowledged; it is gone".into())),
            Some(subject) if subject.history.is_empty() => {
                found.push((id.clone(), "it has no history".into()));
            }
            Some(_) => {}
        }
    }
    for (task, command) in &world.promised.commands {
        let there = world
            .subjects
            .get(task)
            .is_some_and(|s| s.commands.iter().any(|c| c.id == *command));
        if !there {
            let how = format!("its command {command} was acknowledged; it is gone");
            found.push((task.clone(), how));
        }
    }
    found.extend(retries(world));
    for (id, subject) in &world.subjects {
        if let Err(why) = &subject.record.state {
            found.push((id.clone(), format!("it is quarantined: {why}")));
        }
    }
    found
}

/// Retries that were acknowledged and have started no incarnation. Each acknowledgement is one of its
/// own, and starts the incarnation after the one that was seen at least.
fn retries(world: &World) -> Found {
    let mut found = Found::new();
    let mut acknowledged: BTreeMap<&TaskId, u64> = BTreeMap::new();
    for (task, incarnation) in &world.promised.retries {
        let least = acknowledged.entry(task).or_default();
        *least = (*least + 1).max(u64::from(*incarnation));
    }
    for (task, least) in acknowledged {
        let subject = world.subjects.get(task);
        // The test deletes none of these, but they may have ended again and been pruned.
        let pruned = world.gone.get(task).and_then(|lives| lives.last());
        let history = match (subject, pruned) {
            (Some(subject), _) => &subject.history,
            (None, Some(life)) => &life.history,
            (None, None) => continue,
        };
        let retried = |c: &&Change| c.what == ChangeKind::Retried;
        let retried = history.iter().filter(retried).count() as u64;
        if retried < least {
            let how = format!("{least} retries were acknowledged; its history has {retried}");
            found.push((task.clone(), how));
        }
        if let Some(Ok(state)) = subject.map(|subject| &subject.record.state)
            && u64::from(state.incarnation) < least
        {
            let stored = state.incarnation;
            let how = format!("{least} retries were acknowledged; it is incarnation {stored}");
            found.push((task.clone(), how));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use windlass::{Command, store::Error};

    use super::super::sample::*;
    use super::*;

    #[test]
    fn what_is_there_is_not_lost() {
        let mut task = subject(vec![submitted()]);
        task.commands.push(command(2, Command::Run, None));
        let mut world = world(task);
        world.promised.tasks.push(id());
        world.promised.commands.push((id(), "c2".parse().unwrap()));
        holds(check(&world));
    }

    #[test]
    fn a_lost_task_is_caught() {
        let mut world = World::default();
        world.promised.tasks.push(id());
        caught(check(&world), "it is gone");
    }

    #[test]
    fn a_lost_command_is_caught() {
        let mut world = of_history(vec![submitted()]);
        world.promised.commands.push((id(), "c2".parse().unwrap()));
        caught(check(&world), "its command c2 was acknowledged");
    }

    #[test]
    fn a_lost_retry_is_caught() {
        let life = vec![submitted(), claimed("a", 2), completed(2)];
        let retried = |acknowledged: &[u32]| {
            let mut history = life.clone();
            history.push(ChangeKind::Retried);
            let mut world = of_history(history);
            let retries = acknowledged.iter().map(|incarnation| (id(), *incarnation));
            world.promised.retries = retries.collect();
            world
        };
        holds(check(&retried(&[1])));
        let two = "2 retries were acknowledged; its history has 1";
        caught(check(&retried(&[2])), two);
        caught(check(&retried(&[1, 1])), two);
        let mut world = retried(&[1]);
        let subject = world.subjects.get_mut(&id()).unwrap();
        subject.record.state.as_mut().unwrap().incarnation = 0;
        caught(check(&world), "it is incarnation 0");
    }

    #[test]
    fn a_retry_of_a_task_that_was_pruned_without_it_is_caught() {
        let ended = vec![submitted(), claimed("a", 2), completed(2)];
        let mut again = ended.clone();
        again.extend([ChangeKind::Retried, claimed("a", 5), completed(5)]);
        let pruned = |history| {
            let mut world = of_gone(history);
            world.promised.retries.push((id(), 1));
            world
        };
        holds(check(&pruned(again)));
        let lost = "1 retries were acknowledged; its history has 0";
        caught(check(&pruned(ended)), lost);
    }

    #[test]
    fn a_task_that_cannot_be_read_is_caught() {
        let mut task = subject(vec![submitted()]);
        task.record.state = Err(Error::Corrupt {
            what: "t".into(),
            reason: "moths".into(),
        });
        caught(check(&world(task)), "moths");
    }
}
