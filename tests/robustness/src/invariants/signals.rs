//! A signal has exactly one answer, and it is the one that its handler stored: the reply is the count that
//! the same write stored, so no two signals have the same one, none is beyond the count of the task, and the
//! count is not beyond the replies and the steps that bring one.

use std::collections::BTreeMap;

use windlass::{
    ActionKind, Command, CommandId, Outcome, StateKind, TaskStatus,
    store::{Change, ChangeKind},
};

use super::Found;
use crate::{
    kinds::CROWD,
    world::{Subject, World},
};

pub(super) fn check(world: &World) -> Found {
    let mut found = Found::new();
    let read: BTreeMap<&CommandId, &Outcome> = world
        .promised
        .outcomes
        .iter()
        .map(|(id, o)| (id, o))
        .collect();
    for (task, subject) in &world.subjects {
        for record in &subject.commands {
            let is_signal = matches!(record.command, Command::Signal(_));
            let of_signal = matches!(
                record.outcome,
                Some(Outcome::Answered { .. } | Outcome::Unanswered)
            );
            let order = record.order;
            if is_signal != of_signal
                && !matches!(record.outcome, None | Some(Outcome::Rejected { .. }))
            {
                let outcome = &record.outcome;
                let how = format!("command {order} cannot have the outcome {outcome:?}");
                found.push((task.clone(), how));
            }
            if let Some(read) = read.get(&record.id)
                && record.outcome.as_ref() != Some(*read)
            {
                let how = format!(
                    "the outcome of {order} was {read}, and is {:?}",
                    record.outcome
                );
                found.push((task.clone(), how));
            }
        }
        found.extend(forgotten(subject).map(|how| (task.clone(), how)));
        if subject.record.task.kind.as_str() == "asked" {
            found.extend(of(subject).into_iter().map(|how| (task.clone(), how)));
        }
    }
    found
}

fn of(subject: &Subject) -> Vec<String> {
    let mut found = Vec::new();
    let count = subject.count().unwrap_or(0);
    let mut replies = BTreeMap::new();
    for record in &subject.commands {
        let Some(Outcome::Answered { reply }) = &record.outcome else {
            continue;
        };
        let order = record.order;
        match reply.get::<u64>("reply") {
            Ok(n) if n > count => found.push(format!(
                "signal {order} has the reply {n}; the count that is stored is {count}"
            )),
            Ok(n) => {
                if let Some(other) = replies.insert(n, order) {
                    found.push(format!("signals {other} and {order} have the reply {n}"));
                }
            }
            Err(e) => found.push(format!("signal {order}: {e}")),
        }
    }
    let ends_by = subject.record.task.end_by.is_some();
    let steps = subject.history.iter();
    let steps = steps.filter(|c| is_own_step(c, ends_by)).count();
    let most = replies.len() as u64 + steps as u64;
    if count > most {
        found.push(format!(
            "its count is {count}; {} replies and {steps} steps may have brought one",
            replies.len()
        ));
    }
    found
}

/// Replies of a handler that completed its task with their number: none of them is forgotten, however many other signals there are.
fn forgotten(subject: &Subject) -> Option<String> {
    let is_crowd = subject.record.task.kind.as_str() == CROWD;
    let state = subject.record.state.as_ref().ok().filter(|_| is_crowd)?;
    let TaskStatus::Completed { result } = &state.status else {
        return None;
    };
    let replies: u64 = result.as_ref()?.get("result").ok()?;
    let answered = subject.commands.iter();
    let answered = answered.filter(|c| matches!(c.outcome, Some(Outcome::Answered { .. })));
    let answered = answered.count() as u64;
    (answered < replies).then(|| format!("{replies} replies were returned; {answered} are stored"))
}

/// Whether the handler may have returned a count with this step: a pause, or an end that came too late, which keeps
/// the data.
fn is_own_step(change: &Change, ends_by: bool) -> bool {
    let ChangeKind::Moved {
        message,
        from: StateKind::Runnable,
        ..
    } = &change.what
    else {
        return false;
    };
    match message {
        ActionKind::Pause => true,
        ActionKind::Error => ends_by,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use windlass::{Json, Signal};

    use super::super::sample::*;
    use super::*;
    use crate::kinds::Kept;

    #[test]
    fn a_reply_that_is_forgotten_is_caught() {
        let replies = |stored: usize| {
            let mut task = subject(vec![submitted(), claimed("a", 2), completed(2)]);
            task.record.task.kind = CROWD.parse().unwrap();
            let result = Some(Json::new("result", &2_u64).unwrap());
            let state = task.record.state.as_mut().unwrap();
            state.status = TaskStatus::Completed { result };
            let reply = || Outcome::Answered {
                reply: Json::new("reply", &2_u64).unwrap(),
            };
            let signal = |order| command(order, Command::Signal(Signal::new("n")), Some(reply()));
            task.commands = (3..).take(stored).map(signal).collect();
            check(&world(task))
        };
        holds(replies(2));
        caught(replies(1), "2 replies were returned; 1 are stored");
    }

    /// A task with signals 3, 4, … of these outcomes, and this count.
    fn task(outcomes: &[Outcome], n: u64) -> World {
        let sent = (3..).take(outcomes.len());
        let sent = sent.map(|command| ChangeKind::Commanded { command });
        let mut history = vec![submitted(), claimed("a", 2)];
        history.extend(sent);
        history.push(checkpointed(2));
        let mut task = subject(history);
        task.record.task.kind = "asked".parse().unwrap();
        let data = Json::new("data", &Kept { n }).unwrap();
        task.record.state.as_mut().unwrap().data = Some(data);
        let signal = || Command::Signal(Signal::new("count"));
        let records = outcomes.iter().zip(3..);
        task.commands = records
            .map(|(outcome, order)| command(order, signal(), Some(outcome.clone())))
            .collect();
        world(task)
    }

    fn answered(n: u64) -> Outcome {
        let reply = Json::new("reply", &n).unwrap();
        Outcome::Answered { reply }
    }

    #[test]
    fn one_reply_for_each_count_holds() {
        holds(check(&task(
            &[answered(1), Outcome::Unanswered, answered(2)],
            2,
        )));
    }

    #[test]
    fn one_reply_for_two_signals_is_caught() {
        caught(
            check(&task(&[answered(1), answered(1)], 2)),
            "3 and 4 have the reply 1",
        );
    }

    #[test]
    fn a_reply_without_its_data_is_caught() {
        let found = check(&task(&[answered(1), answered(2)], 1));
        caught(
            found,
            "signal 4 has the reply 2; the count that is stored is 1",
        );
    }

    #[test]
    fn data_without_the_reply_are_caught() {
        caught(
            check(&task(&[answered(1)], 2)),
            "its count is 2; 1 replies and 0 steps",
        );
    }

    #[test]
    fn data_that_came_after_the_end_by_are_no_reply() {
        let mut world = task(&[answered(1)], 2);
        let task = world.subjects.get_mut("t").unwrap();
        let late = moved(2, ActionKind::Error, StateKind::Runnable, StateKind::Fault);
        let mut change = task.history[0].clone();
        change.what = late;
        task.history.push(change);
        caught(check(&world), "its count is 2; 1 replies and 0 steps");
        let task = world.subjects.get_mut("t").unwrap();
        task.record.task.end_by = Some(jiff::Timestamp::UNIX_EPOCH);
        holds(check(&world));
    }

    #[test]
    fn an_outcome_that_changes_is_caught() {
        let mut world = task(&[answered(1)], 1);
        let before = ("c3".parse().unwrap(), Outcome::Unanswered);
        world.promised.outcomes.push(before);
        caught(check(&world), "the outcome of 3 was unanswered");
    }

    #[test]
    fn the_outcome_of_another_command_is_caught() {
        let from = StateKind::Runnable;
        let applied = Outcome::Applied { from, to: from };
        caught(check(&task(&[applied], 0)), "cannot have the outcome");
    }
}
