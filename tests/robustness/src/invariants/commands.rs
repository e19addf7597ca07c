//! G5: every command takes effect at most once, in the order sent, and has one outcome that tells
//! the truth.

use std::collections::BTreeMap;

use windlass::{Command, Outcome, TaskId, store::ChangeKind};

use super::Found;
use crate::world::{Subject, World, is_answered};

pub(super) fn check(world: &World) -> Found {
    let mut found = Found::new();
    for (id, subject) in &world.subjects {
        found.extend(of(subject).into_iter().map(|how| (id.clone(), how)));
    }
    found.extend(sent_in_order(world));
    found
}

fn of(subject: &Subject) -> Vec<String> {
    let mut found = Vec::new();
    let mut sent = BTreeMap::new();
    let mut applied = BTreeMap::new();
    let mut last = 0;
    for change in &subject.history {
        match &change.what {
            ChangeKind::Commanded { command } => {
                if sent.insert(*command, change.seq).is_some() {
                    found.push(format!("command {command} was sent twice"));
                }
                if subject.command(*command).is_none() {
                    found.push(format!("command {command} was sent and has no record"));
                }
            }
            ChangeKind::Moved {
                message,
                from,
                to,
                command: Some(order),
                ..
            } => {
                if is_signal(subject, *order) {
                    // It wakes the task; its outcome follows.
                    continue;
                }
                if *order <= last {
                    found.push(format!("command {order} was applied after {last}"));
                }
                last = *order;
                if applied.insert(*order, (*message, *from, *to)).is_some() {
                    found.push(format!("command {order} was applied twice"));
                }
                if sent.get(order).is_none_or(|sent| *sent > change.seq) {
                    found.push(format!("command {order} was applied before it was sent"));
                }
            }
            _ => {}
        }
    }
    let mut ids = BTreeMap::new();
    for record in &subject.commands {
        let order = record.order;
        if let Some(other) = ids.insert(&record.id, order) {
            let id = &record.id;
            found.push(format!("commands {other} and {order} have the id {id}"));
        }
        if !sent.contains_key(&order) {
            found.push(format!("command {order} has a record and was never sent"));
        }
        match (&record.outcome, applied.get(&order)) {
            (Some(Outcome::Applied { from, to }), Some((message, f, t))) => {
                if (f, t) != (from, to) || *message != record.command.kind() {
                    found.push(format!(
                        "command {order} says {from} → {to}; the history says {message}: {f} → {t}"
                    ));
                }
            }
            (Some(Outcome::Applied { .. }), None) => {
                found.push(format!(
                    "command {order} counts as applied and moved nothing"
                ));
            }
            (other, Some(_)) => {
                found.push(format!(
                    "command {order} was applied; its outcome is {other:?}"
                ));
            }
            (_, None) => {}
        }
    }
    // Answered in order: none waits, or was passed over until the end, before one that is answered.
    let mut passed = None;
    for record in &subject.commands {
        match &record.outcome {
            // A handler may leave a signal while commands after it have their effect.
            _ if matches!(record.command, Command::Signal(_)) => {}
            Some(outcome) if is_answered(outcome) => {
                if let Some(passed) = passed {
                    let order = record.order;
                    found.push(format!("command {order} was answered before {passed}"));
                }
            }
            // Those that the end of one incarnation has rejected come before the next one's.
            Some(_) => {}
            None => passed = Some(record.order),
        }
    }
    let waiting = subject.commands.iter().filter(|c| c.outcome.is_none());
    let waiting = waiting.count() as u64;
    if waiting != subject.record.commands {
        let stored = subject.record.commands;
        found.push(format!("{waiting} commands wait; its record says {stored}"));
    }
    found
}

/// Whether the command of this order is a signal.
fn is_signal(subject: &Subject, order: u64) -> bool {
    let record = subject.command(order);
    record.is_some_and(|record| matches!(record.command, Command::Signal(_)))
}

/// The orders follow the order in which the test sent them.
fn sent_in_order(world: &World) -> Found {
    let mut found = Found::new();
    let mut last: BTreeMap<&TaskId, u64> = BTreeMap::new();
    for (task, id) in &world.promised.commands {
        let Some(subject) = world.subjects.get(task) else {
            continue;
        };
        let Some(record) = subject.commands.iter().find(|c| c.id == *id) else {
            continue;
        };
        if let Some(before) = last.insert(task, record.order)
            && before >= record.order
        {
            let order = record.order;
            let how = format!("command {id} has order {order}; one sent before it has {before}");
            found.push((task.clone(), how));
        }
    }
    found
}

/// When everything has settled, every command has its outcome.
pub(super) fn check_none_waits(world: &World) -> Found {
    let mut found = Found::new();
    for (id, subject) in &world.subjects {
        for record in subject.commands.iter().filter(|c| c.outcome.is_none()) {
            found.push((id.clone(), format!("command {} waits", record.order)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use windlass::{ActionKind, StateKind};

    use super::super::sample::*;
    use super::*;

    fn commanded(command: u64) -> ChangeKind {
        ChangeKind::Commanded { command }
    }

    fn pause(order: u64) -> ChangeKind {
        let pause = moved(2, ActionKind::Pause, StateKind::Runnable, StateKind::Paused);
        by_command(order, pause)
    }

    fn applied() -> Option<Outcome> {
        Some(Outcome::Applied {
            from: StateKind::Runnable,
            to: StateKind::Paused,
        })
    }

    fn task(history: Vec<ChangeKind>, outcomes: &[Option<Outcome>]) -> World {
        let mut whole = vec![submitted(), claimed("a", 2)];
        whole.extend(history);
        let mut task = subject(whole);
        let records = outcomes.iter().zip(3..);
        task.commands = records
            .map(|(outcome, order)| command(order, Command::Pause, outcome.clone()))
            .collect();
        let waiting = outcomes.iter().filter(|o| o.is_none()).count();
        task.record.commands = waiting as u64;
        world(task)
    }

    #[test]
    fn one_that_was_applied_and_one_that_waits_hold() {
        let history = vec![commanded(3), commanded(4), pause(3)];
        holds(check(&task(history, &[applied(), None])));
    }

    #[test]
    fn an_effect_that_comes_twice_is_caught() {
        let history = vec![commanded(3), pause(3), pause(3)];
        caught(check(&task(history, &[applied()])), "applied twice");
    }

    #[test]
    fn effects_in_the_wrong_order_are_caught() {
        let history = vec![commanded(3), commanded(4), pause(4), pause(3)];
        let found = check(&task(history, &[applied(), applied()]));
        caught(found, "command 3 was applied after 4");
    }

    #[test]
    fn an_effect_before_the_command_is_caught() {
        let history = vec![pause(3), commanded(3)];
        caught(check(&task(history, &[applied()])), "before it was sent");
    }

    #[test]
    fn an_outcome_that_lies_is_caught() {
        let found = check(&task(vec![commanded(3)], &[applied()]));
        caught(found, "counts as applied and moved nothing");
        let rejected = Some(Outcome::Rejected {
            reason: "no".into(),
        });
        let found = check(&task(vec![commanded(3), pause(3)], &[rejected]));
        caught(found, "command 3 was applied; its outcome is");
        let other = Some(Outcome::Applied {
            from: StateKind::Sleeping,
            to: StateKind::Paused,
        });
        let found = check(&task(vec![commanded(3), pause(3)], &[other]));
        caught(found, "the history says");
    }

    #[test]
    fn one_that_is_passed_over_is_caught() {
        let history = vec![commanded(3), commanded(4), pause(4)];
        caught(
            check(&task(history, &[None, applied()])),
            "answered before 3",
        );
    }

    #[test]
    fn a_record_that_is_gone_is_caught() {
        caught(check(&task(vec![commanded(3)], &[])), "has no record");
        caught(check(&task(vec![], &[None])), "was never sent");
    }

    #[test]
    fn a_wrong_number_of_waiting_commands_is_caught() {
        let mut world = task(vec![commanded(3)], &[None]);
        world.subjects.get_mut(&id()).unwrap().record.commands = 0;
        caught(check(&world), "1 commands wait");
    }

    #[test]
    fn two_commands_with_one_id_are_caught() {
        let mut world = task(vec![commanded(3), commanded(4)], &[None, None]);
        holds(check(&world));
        let commands = &mut world.subjects.get_mut(&id()).unwrap().commands;
        commands[1].id = commands[0].id.clone();
        caught(check(&world), "commands 3 and 4 have the id c3");
    }

    #[test]
    fn an_order_that_is_not_that_of_sending_is_caught() {
        let mut world = task(vec![commanded(3), commanded(4)], &[None, None]);
        for id in ["c4", "c3"] {
            let sent = (super::super::sample::id(), id.parse().unwrap());
            world.promised.commands.push(sent);
        }
        caught(check(&world), "one sent before it has 4");
    }

    #[test]
    fn one_that_waits_for_ever_is_caught() {
        let world = task(vec![commanded(3)], &[None]);
        caught(check_none_waits(&world), "command 3 waits");
    }
}
