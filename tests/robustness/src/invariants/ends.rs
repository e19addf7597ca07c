//! A node that knows of a kill lets the task end in `killed`, and one whose clock has passed `end_by` lets it complete no more.
//! Both are decisions of one node by its own clock and queue, so no delay explains another end.

use windlass::{
    ActionKind, Command, Outcome, StateKind, statemachine::TransitionError, store::ChangeKind,
};

use super::Found;
use crate::world::{Subject, World};

pub(super) fn check(world: &World) -> Found {
    let mut found = Found::new();
    for (id, subject) in &world.subjects {
        let wrong = failed_before_its_kill(subject);
        let wrong = wrong.into_iter().chain(completed_late(subject));
        found.extend(wrong.map(|how| (id.clone(), how)));
    }
    found
}

/// A kill that the node itself has rejected, because the task had failed in the same write. A kill that comes later is rejected
/// by the store, with another reason.
fn failed_before_its_kill(subject: &Subject) -> Vec<String> {
    let refusal = TransitionError::NotInTable {
        from: StateKind::Failed,
        message: ActionKind::Kill,
    };
    let refusal = refusal.to_string();
    let kills = subject.commands.iter();
    let kills = kills.filter(|record| record.command == Command::Kill);
    let is_late = |outcome: &Option<Outcome>| matches!(outcome, Some(Outcome::Rejected { reason }) if *reason == refusal);
    let late = kills.filter(|record| is_late(&record.outcome));
    late.map(|record| format!("the kill {} waited, and it failed", record.order))
        .collect()
}

/// A task that completed after its `end_by`, by the time at which its node decided that. A retry drops what has passed.
fn completed_late(subject: &Subject) -> Option<String> {
    let end_by = subject.record.task.end_by?;
    let state = subject.record.state.as_ref().ok()?;
    let retried = subject.history.iter();
    let mut retried = retried.filter(|change| change.what == ChangeKind::Retried);
    let (code, since) = (state.code(), state.since);
    (code == StateKind::Completed && since >= end_by && retried.next().is_none())
        .then(|| format!("its node decided at {since} that it completed; its end_by is {end_by}"))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::super::sample::*;
    use super::*;

    fn killed(reason: &str) -> Found {
        let mut task = subject(vec![submitted(), claimed("a", 2)]);
        let reason = reason.to_owned();
        let outcome = Some(Outcome::Rejected { reason });
        task.commands = vec![command(3, Command::Kill, outcome)];
        check(&world(task))
    }

    #[test]
    fn a_kill_that_waited_behind_a_failure_is_caught() {
        let refusal = |from| {
            let message = ActionKind::Kill;
            TransitionError::NotInTable { from, message }.to_string()
        };
        caught(killed(&refusal(StateKind::Failed)), "the kill 3 waited");
        holds(killed(&refusal(StateKind::Killed)));
        holds(killed("the task has ended: it is failed"));
    }

    #[test]
    fn a_completion_at_its_deadline_is_caught() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let ends = |second, more: Option<ChangeKind>| {
            let history = vec![submitted(), claimed("a", 2), completed(2)];
            let mut task = subject(history.into_iter().chain(more).collect());
            task.record.task.end_by = Some(at(100));
            let state = task.record.state.as_mut().unwrap();
            state.status = windlass::TaskStatus::Completed { result: None };
            state.since = at(second);
            check(&world(task))
        };
        holds(ends(99, None));
        caught(ends(100, None), "decided at 1970-01-01T00:01:40Z");
        holds(ends(200, Some(ChangeKind::Retried)));
    }
}
