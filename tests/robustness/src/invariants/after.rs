//! A task that waits for others runs after all of them have ended, and does not wait when they have.

use std::collections::HashSet;

use windlass::{
    ActionKind, Fence, StateKind, TaskId,
    store::{Change, ChangeKind},
};

use super::Found;
use crate::{
    witness::Said,
    world::{Subject, World},
};

/// Checks that the first run of each waiting task was claimed after the ends of those that it waits for.
pub(super) fn check(world: &World) -> Found {
    let mut found = Found::new();
    let mut seen = HashSet::new();
    for line in &world.witness {
        let Said::Start { task, fence, .. } = &line.said else {
            continue;
        };
        if let Some(subject) = world.subjects.get(task)
            && seen.insert(task)
        {
            let early = early(world, subject, *fence).into_iter();
            found.extend(early.map(|how| (task.clone(), how)));
        }
    }
    found
}

/// Checks that no task waits for tasks that have all ended.
pub(super) fn check_none_waits(world: &World) -> Found {
    let mut found = Found::new();
    for (id, subject) in &world.subjects {
        let waits = subject.record.state.as_ref().ok();
        let waits = waits.filter(|state| state.is_waiting());
        let waits = waits.and_then(|state| state.waits.as_deref());
        if let Some(waits) = waits
            && waits.tasks.iter().all(|other| has_ended(world, other))
        {
            let how = "it waits, and each task that it waits for has ended";
            found.push((id.clone(), how.to_owned()));
        }
    }
    found
}

fn has_ended(world: &World, id: &TaskId) -> bool {
    let subject = world.subjects.get(id);
    subject.is_none_or(|subject| subject.code().is_some_and(StateKind::is_terminal))
}

/// The tasks that had not ended when this claim of the task was made.
fn early(world: &World, subject: &Subject, by: Fence) -> Vec<String> {
    let state = subject.record.state.as_ref().ok();
    let Some(waits) = state.and_then(|state| state.waits.as_deref()) else {
        return Vec::new();
    };
    // An operator may let it run before: by a run, a signal, a sleep that ends, or a retry after a kill.
    let overrides = [ActionKind::Run, ActionKind::Signal, ActionKind::Sleep];
    let is_overridden = subject.commands.iter();
    let is_overridden = is_overridden.map(|sent| sent.command.kind());
    let is_retried = |change: &Change| change.what == ChangeKind::Retried;
    if is_overridden
        .into_iter()
        .any(|kind| overrides.contains(&kind))
        || subject.history.iter().any(is_retried)
    {
        return Vec::new();
    }
    let claims =
        |change: &&Change| matches!(change.what, ChangeKind::Claimed { fence, .. } if fence == by);
    let Some(claimed) = subject.history.iter().find(claims) else {
        return Vec::new();
    };
    let before = |change: &&Change| change.seq < claimed.seq;
    let others = waits.tasks.iter().filter_map(|id| world.subjects.get(id));
    let live = others.filter(|other| {
        let mut history = other.history.iter().filter(before).peekable();
        history.peek().is_some() && !history.any(ends)
    });
    live.map(|other| format!("it ran by claim {by}, and {} had not ended", other.id()))
        .collect()
}

fn ends(change: &Change) -> bool {
    matches!(change.what, ChangeKind::Moved { to, .. } if to.is_terminal())
}

#[cfg(test)]
mod tests {
    use windlass::{Command, TaskState, Waits};

    use super::{super::sample::*, *};

    /// A task that waits for `other`, and was claimed and ran at `at` in the common order.
    fn sample(at: u64) -> World {
        let mut waiter = subject(vec![submitted(), claimed("a", 1), completed(1)]);
        let waits = Waits::new("after", ["other"]).unwrap();
        if let Ok(state) = &mut waiter.record.state {
            state.waits = Some(Box::new(waits));
        }
        for (change, seq) in waiter.history.iter_mut().zip([2, at, at + 1]) {
            change.seq = seq;
        }
        let mut world = world(waiter);
        let mut other = subject(vec![submitted(), claimed("a", 2), completed(2)]);
        other.record.task.id = "other".parse().unwrap();
        for (change, seq) in other.history.iter_mut().zip([1, 3, 5]) {
            change.seq = seq;
        }
        world.subjects.insert(other.id().clone(), other);
        world.witness.push(start(1, 1, 1, 0));
        world
    }

    #[test]
    fn a_run_after_the_end_holds() {
        holds(check(&sample(6)));
        holds(check_none_waits(&sample(6)));
    }

    #[test]
    fn a_run_before_the_end_is_caught() {
        caught(check(&sample(4)), "other had not ended");
    }

    #[test]
    fn a_run_that_was_asked_for_and_a_task_that_came_later_hold() {
        let mut world = sample(4);
        let sent = command(9, Command::Run, None);
        world.subjects.get_mut(&id()).unwrap().commands.push(sent);
        holds(check(&world));
        let mut world = sample(4);
        let other = world.subjects.get_mut("other").unwrap();
        other.history.iter_mut().for_each(|change| change.seq += 10);
        holds(check(&world));
    }

    #[test]
    fn a_task_that_waits_for_ended_tasks_is_caught() {
        let mut world = sample(6);
        let waiter = world.subjects.get_mut(&id()).unwrap();
        let mut task = waiter.record.task.clone();
        task.waits = Some(Box::new(Waits::new("after", ["other"]).unwrap()));
        waiter.record.state = Ok(TaskState::first(&task, jiff::Timestamp::UNIX_EPOCH));
        caught(check_none_waits(&world), "has ended");
        let other = world.subjects.get_mut("other").unwrap();
        other.record.state = Ok(TaskState::new(jiff::Timestamp::UNIX_EPOCH));
        holds(check_none_waits(&world));
    }
}
