//! Tasks and commands that come with a sleep or a checkpoint are there if and only if the data of
//! the same write are; those of a write that was refused are not.

use super::Found;
use crate::{
    kinds,
    world::{Subject, World},
};

pub(super) fn check(world: &World) -> Found {
    let mut found = Found::new();
    for subject in world.subjects.values() {
        if subject.record.task.kind.as_str() == "sower" {
            let wrong = of(world, subject).into_iter();
            found.extend(wrong.map(|how| (subject.id().clone(), how)));
        }
    }
    found
}

fn of(world: &World, sower: &Subject) -> Vec<String> {
    let mut wrong = Vec::new();
    let count = sower.count().unwrap_or(0);
    let total = sower.job().map_or(0, |job| job.total);
    for number in 0..total {
        let child = kinds::child(sower.id(), number);
        let child = world.subjects.get(child.as_str());
        let stored = number < count;
        if child.is_some() != stored {
            let there = child.is_some();
            wrong.push(format!(
                "its count is {count}; child {number} is there: {there}"
            ));
        }
        let refused = kinds::never(sower.id(), number);
        if world.subjects.contains_key(refused.as_str()) {
            wrong.push(format!(
                "the effects of step {number} were refused; {refused} is there"
            ));
        }
        if let Some(child) = child {
            let command = kinds::command_to_child(child.id());
            let has = child.commands.iter().filter(|c| c.id.as_str() == command);
            let has = has.count();
            if has != 1 {
                wrong.push(format!("child {number} has its command {has} times"));
            }
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use windlass::{Command, TaskId};

    use super::super::sample::*;
    use super::*;
    use crate::kinds::Job;

    fn named(name: &TaskId, kind: &str) -> Subject {
        let mut task = subject(vec![submitted()]);
        task.record.task.id = name.clone();
        task.record.task.kind = kind.parse().unwrap();
        task
    }

    /// A sower that has made one of two steps.
    fn sample() -> World {
        let mut sower = with_count(named(&id(), "sower"), 1);
        let job = Job {
            total: 2,
            ..Job::default()
        };
        sower.record.task.props = windlass::Json::new("props", &job).unwrap();
        let mut world = world(sower);
        add(&mut world, &kinds::child(&id(), 0));
        world
    }

    fn add(world: &mut World, name: &str) {
        let name: TaskId = name.parse().unwrap();
        let mut child = named(&name, "steps");
        let mut sent = command(2, Command::Checkpoint, None);
        sent.id = kinds::command_to_child(&name).parse().unwrap();
        child.commands.push(sent);
        world.subjects.insert(name, child);
    }

    #[test]
    fn children_that_follow_the_count_hold() {
        holds(check(&sample()));
    }

    #[test]
    fn a_child_without_its_step_and_a_step_without_its_child_are_caught() {
        let mut world = sample();
        add(&mut world, &kinds::child(&id(), 1));
        caught(check(&world), "its count is 1; child 1 is there: true");
        let mut world = sample();
        world.subjects.remove(kinds::child(&id(), 0).as_str());
        caught(check(&world), "child 0 is there: false");
    }

    #[test]
    fn an_effect_of_a_refused_write_is_caught() {
        let mut world = sample();
        add(&mut world, &kinds::never(&id(), 1));
        caught(check(&world), "were refused");
    }

    #[test]
    fn a_command_that_is_missing_is_caught() {
        let mut world = sample();
        let child = world.subjects.get_mut(kinds::child(&id(), 0).as_str());
        child.unwrap().commands.clear();
        caught(check(&world), "has its command 0 times");
    }
}
