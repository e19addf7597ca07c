//! G4 and G8: what was acknowledged to a client is there, and can be read; what was deleted is not.

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
    for id in &world.promised.deleted {
        if world.subjects.contains_key(id) {
            found.push((id.clone(), "it was deleted; it is there again".into()));
        }
    }
    for (id, subject) in &world.subjects {
        if let Err(why) = &subject.record.state {
            found.push((id.clone(), format!("it was set aside: {why}")));
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
    fn a_deleted_task_that_comes_back_is_caught() {
        let mut world = of_history(vec![submitted()]);
        world.promised.deleted.push(id());
        caught(check(&world), "it is there again");
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
