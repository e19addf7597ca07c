//! Tasks and commands that a transition brings are there if and only if the transition is, and once:
//! the ids of some are drawn in every attempt, so that a second execution shows.

use windlass::{ActionKind, TaskId, TaskStatus, store::ChangeKind};

use super::Found;
use crate::{
    kinds::{self, STRAY},
    world::{Subject, World},
};

pub(super) fn check(world: &World) -> Found {
    let mut found = Found::new();
    for (id, subject) in &world.subjects {
        let kind = subject.record.task.kind.as_str();
        let Some(job) = subject.job().filter(|_| kind == "parent") else {
            continue;
        };
        let completed = completed_by_itself(subject);
        for number in 0..job.children {
            let child = kinds::child(id, number);
            let there = world.subjects.contains_key(child.as_str());
            if there != completed {
                let how =
                    format!("it completed: {completed}; its child {number} is there: {there}");
                found.push((id.clone(), how));
            }
        }
        if completed && !has_command(world, id) {
            let how = "it completed; its child has no command of it".to_owned();
            found.push((id.clone(), how));
        }
        for (what, there) in [
            ("children", stray_children(world, id)),
            ("commands", stray_commands(world, id)),
        ] {
            if there != usize::from(completed) {
                let how = format!(
                    "it completed: {completed}; {there} {what} with an id of one attempt are there"
                );
                found.push((id.clone(), how));
            }
        }
    }
    found
}

/// Whether its handler completed it. An operator's `complete` brings no effects and, here, no result;
/// it gets the credit also when the handler completes before it has heard of it.
fn completed_by_itself(subject: &Subject) -> bool {
    let Some(ChangeKind::Moved {
        message: ActionKind::Complete,
        command,
        ..
    }) = subject.last_move()
    else {
        return false;
    };
    let status = subject.record.state.as_ref().map(|s| &s.status);
    command.is_none() || matches!(status, Ok(TaskStatus::Completed { result: Some(_) }))
}

fn has_command(world: &World, parent: &TaskId) -> bool {
    let child = world.subjects.get(kinds::child(parent, 0).as_str());
    let id = kinds::command_to_child(parent);
    child.is_some_and(|c| c.commands.iter().any(|c| c.id.as_str() == id))
}

/// How many children of a parent have an id that an attempt drew. Nothing deletes these.
fn stray_children(world: &World, parent: &TaskId) -> usize {
    let prefix = format!("{parent}{STRAY}");
    let ids = world.subjects.keys();
    ids.filter(|id| id.as_str().starts_with(&prefix)).count()
}

fn stray_commands(world: &World, parent: &TaskId) -> usize {
    let prefix = format!("{}{STRAY}", kinds::command_to_child(parent));
    let child = world.subjects.get(kinds::child(parent, 0).as_str());
    let commands = child.map_or(&[][..], |child| &child.commands);
    let ids = commands.iter().map(|c| c.id.as_str());
    ids.filter(|id| id.starts_with(&prefix)).count()
}

#[cfg(test)]
mod tests {
    use windlass::Command;

    use super::super::sample::*;
    use super::*;
    use crate::kinds::Job;

    fn parent(history: Vec<ChangeKind>) -> Subject {
        let mut parent = subject(history);
        parent.record.task.kind = "parent".parse().unwrap();
        let job = Job {
            children: 1,
            ..Job::default()
        };
        parent.record.task.props = windlass::Json::new("props", &job).unwrap();
        parent
    }

    fn child(commands: bool) -> Subject {
        let mut child = subject(vec![submitted()]);
        child.record.task.id = "t.0".parse().unwrap();
        if commands {
            for id in ["t.command", "t.command~1"] {
                child.commands.push(sent(id));
            }
        }
        child
    }

    fn sent(id: &str) -> windlass::store::CommandRecord {
        let mut sent = command(9, Command::Checkpoint, None);
        sent.id = id.parse().unwrap();
        sent
    }

    fn add_stray(world: &mut World, id: &str) {
        let mut child = subject(vec![submitted()]);
        child.record.task.id = id.parse().unwrap();
        world.subjects.insert(child.id().clone(), child);
    }

    fn family(done: bool, child: Option<Subject>) -> World {
        let mut history = vec![submitted(), claimed("a", 2)];
        if done {
            history.push(completed(2));
        }
        let mut world = world(parent(history));
        if let Some(child) = child {
            world.subjects.insert(child.id().clone(), child);
            add_stray(&mut world, "t~1");
        }
        world
    }

    #[test]
    fn both_or_neither_hold() {
        holds(check(&family(true, Some(child(true)))));
        holds(check(&family(false, None)));
    }

    #[test]
    fn a_handler_that_completes_as_a_command_to_complete_comes_has_its_effects() {
        let completes = |result: Option<i32>, child| {
            let history = vec![submitted(), claimed("a", 2), by_command(1, completed(2))];
            let mut parent = parent(history);
            let result = result.map(|r| windlass::Json::new("result", &r).unwrap());
            parent.record.state.as_mut().unwrap().status = TaskStatus::Completed { result };
            let mut world = world(parent);
            if let Some(child) = child {
                let child: Subject = child;
                world.subjects.insert(child.id().clone(), child);
                add_stray(&mut world, "t~1");
            }
            check(&world)
        };
        holds(completes(Some(5), Some(child(true))));
        holds(completes(None, None));
        caught(completes(Some(5), None), "is there: false");
        caught(completes(None, Some(child(true))), "is there: true");
    }

    #[test]
    fn one_without_the_other_is_caught() {
        caught(check(&family(true, None)), "is there: false");
        caught(check(&family(false, Some(child(true)))), "is there: true");
        caught(check(&family(true, Some(child(false)))), "no command of it");
    }

    #[test]
    fn effects_that_are_executed_twice_are_caught() {
        let mut world = family(true, Some(child(true)));
        add_stray(&mut world, "t~2");
        caught(check(&world), "2 children with an id of one attempt");
        let mut twice = child(true);
        twice.commands.push(sent("t.command~2"));
        let world = family(true, Some(twice));
        caught(check(&world), "2 commands with an id of one attempt");
        caught(
            check(&family(true, None)),
            "0 children with an id of one attempt",
        );
    }
}
