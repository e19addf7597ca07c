//! In the end every task has ended, for a reason that its history shows, or is parked without an
//! owner.

use windlass::{ActionKind, StateKind, store::ChangeKind};

use super::{Found, missed};
use crate::{
    kinds, settle,
    world::{Subject, World},
};

pub(super) fn check(world: &World) -> Found {
    let mut found = Found::new();
    for (id, subject) in &world.subjects {
        if let Some(why) = settle::unsettled(&subject.record) {
            found.push((id.clone(), format!("it {why}")));
        }
        if let Some(node) = &subject.record.node {
            found.push((id.clone(), format!("{node} still holds it")));
        }
        if let Some(how) = ended_wrongly(subject) {
            found.push((id.clone(), how));
        }
    }
    found
}

/// Why an end is not one that this task can have.
fn ended_wrongly(subject: &Subject) -> Option<String> {
    let code = subject.code().filter(|c| c.is_terminal())?;
    let Some(ChangeKind::Moved {
        message,
        to,
        command,
        ..
    }) = subject.last_move()
    else {
        return Some(format!("it is {code} without a transition"));
    };
    if *to != code {
        return Some(format!("it is {code}; its last transition led to {to}"));
    }
    let told = command.and_then(|order| subject.command(order));
    let kind = subject.record.task.kind.as_str();
    match code {
        StateKind::Killed if told.is_none_or(|c| c.command.kind() != ActionKind::Kill) => {
            Some("it is killed without a command".to_owned())
        }
        StateKind::Failed if missed::missed_deadline(subject).is_some() => None,
        StateKind::Failed if !kinds::may_fail(kind) => Some(format!("it failed by {message}")),
        StateKind::Completed if told.is_none() => match (subject.job(), subject.count()) {
            // Signals bring further counts.
            (Some(job), Some(count)) if kind == "asked" && count >= job.total => None,
            (Some(job), count) if count != Some(job.total) => {
                let total = job.total;
                Some(format!("its handler completed it at {count:?} of {total}"))
            }
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use windlass::Command;

    use super::super::sample::*;
    use super::*;

    fn kill() -> ChangeKind {
        moved(2, ActionKind::Kill, StateKind::Runnable, StateKind::Killed)
    }

    #[test]
    fn ends_with_a_reason_hold() {
        let done = subject(vec![submitted(), claimed("a", 2), completed(2)]);
        holds(check(&world(with_count(done, 0))));
        let mut killed = subject(vec![submitted(), claimed("a", 2), by_command(3, kill())]);
        killed.commands.push(command(3, Command::Kill, None));
        holds(check(&world(killed)));
    }

    #[test]
    fn a_task_that_hangs_is_caught() {
        caught(check(&of_history(vec![submitted()])), "it runs");
        let held = of_history(vec![submitted(), claimed("a", 2)]);
        caught(check(&held), "a still holds it");
    }

    #[test]
    fn a_parked_task_must_be_one_that_stays_parked() {
        let history = vec![
            submitted(),
            claimed("a", 2),
            moved(2, ActionKind::Pause, StateKind::Runnable, StateKind::Paused),
            dropped(2),
        ];
        let mut task = subject(history);
        caught(check(&world(task.clone())), "it is paused");
        task.record.task.kind = "far".parse().unwrap();
        holds(check(&world(task.clone())));
        task.record.commands = 1;
        caught(check(&world(task)), "commands that wait");
    }

    #[test]
    fn ends_without_a_reason_are_caught() {
        let killed = of_history(vec![submitted(), claimed("a", 2), kill()]);
        caught(check(&killed), "killed without a command");
        let failed = of_history(vec![
            submitted(),
            claimed("a", 2),
            moved(2, ActionKind::Error, StateKind::Runnable, StateKind::Fault),
            moved(2, ActionKind::Error, StateKind::Fault, StateKind::Failed),
        ]);
        caught(check(&failed), "it failed by error");
        let early = subject(vec![submitted(), claimed("a", 2), completed(2)]);
        caught(check(&world(with_count(early, 3))), "completed it at");
    }
}
