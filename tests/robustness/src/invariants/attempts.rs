//! The counters of a state agree with its history: claims, incarnations, writes, attempts.

use windlass::{
    ActionKind, StateKind,
    store::{Change, ChangeKind},
};

use super::Found;
use crate::world::{Subject, World};

pub(super) fn check(world: &World) -> Found {
    let mut found = Found::new();
    for (id, history) in world.histories_gone() {
        let wrong = count(history).wrong;
        found.extend(wrong.into_iter().map(|how| (id.clone(), how)));
    }
    for (id, subject) in &world.subjects {
        found.extend(of(subject).into_iter().map(|how| (id.clone(), how)));
    }
    found
}

/// What a history says of the counters.
#[derive(Default)]
struct Counted {
    claims: u64,
    retries: u64,
    /// Changes that a write of a claim makes; one write may make several.
    writes: u64,
    /// Failed or abandoned attempts in a row, at least.
    least: u64,
    /// The same, at most.
    most: u64,
    lost: bool,
    wrong: Vec<String>,
}

impl Counted {
    /// Counts the attempts of a step.
    fn step(&mut self, step: &ChangeKind, next: Option<&ChangeKind>) {
        let ChangeKind::Moved {
            message,
            from,
            command,
            ..
        } = step
        else {
            return;
        };
        let goes_on = matches!(
            message,
            ActionKind::Run | ActionKind::Sleep | ActionKind::Pause | ActionKind::Checkpoint
        );
        match (message, from) {
            (ActionKind::Error, StateKind::Fault) => {}
            (ActionKind::Error, _) => {
                self.most += 1;
                // After an attempt that was abandoned, the policy gives up and counts nothing more.
                let gives_up = matches!(
                    next,
                    Some(ChangeKind::Moved {
                        message: ActionKind::Error,
                        from: StateKind::Fault,
                        ..
                    })
                );
                self.least += u64::from(!gives_up);
            }
            // A handler that returned one of these has not failed. A command that came without a
            // return of the handler changes nothing; which of the two it was, no history says.
            (_, StateKind::Runnable) if goes_on => {
                self.least = 0;
                if command.is_none() {
                    self.most = 0;
                }
            }
            _ => {}
        }
    }
}

fn count(history: &[Change]) -> Counted {
    let mut counted = Counted::default();
    for (at, change) in history.iter().enumerate() {
        counted.step(&change.what, history.get(at + 1).map(|c| &c.what));
        match &change.what {
            ChangeKind::Claimed { abandoned, .. } => {
                counted.claims += 1;
                if *abandoned {
                    counted.least += 1;
                    counted.most += 1;
                }
                if *abandoned && !counted.lost {
                    let seq = change.seq;
                    let how = format!("change {seq} calls the claim before abandoned; it was not");
                    counted.wrong.push(how);
                }
                if !*abandoned && counted.lost {
                    let seq = change.seq;
                    let how = format!("change {seq} does not know that the claim before was lost");
                    counted.wrong.push(how);
                }
                // A claim that its node makes again counts the loss no second time.
                counted.lost = false;
            }
            ChangeKind::Moved { .. } | ChangeKind::Checkpointed { .. } => {
                counted.writes += 1;
                counted.lost = false;
            }
            ChangeKind::Dropped { .. } => {
                counted.writes += 1;
                counted.lost = false;
            }
            ChangeKind::Lost { .. } => counted.lost = true,
            ChangeKind::Retried => {
                counted.retries += 1;
                (counted.least, counted.most) = (0, 0);
                counted.lost = false;
            }
            _ => {}
        }
    }
    counted
}

fn of(subject: &Subject) -> Vec<String> {
    let Ok(state) = &subject.record.state else {
        return Vec::new();
    };
    let counted = count(&subject.history);
    let mut found = counted.wrong;
    if state.claims != counted.claims {
        let (stored, claims) = (state.claims, counted.claims);
        found.push(format!(
            "its state says {stored} claims, its history {claims}"
        ));
    }
    if u64::from(state.incarnation) != counted.retries {
        let (stored, retries) = (state.incarnation, counted.retries);
        found.push(format!(
            "its state says incarnation {stored}, its history {retries}"
        ));
    }
    let without = counted.claims + counted.retries;
    if state.version < without || state.version > without + counted.writes {
        found.push(format!(
            "its state is version {}; its history has {} to {} writes",
            state.version,
            without,
            without + counted.writes
        ));
    }
    let (least, most) = (counted.least, counted.most);
    if !(least..=most).contains(&u64::from(state.attempts)) {
        let stored = state.attempts;
        found.push(format!(
            "its state says {stored} attempts, its history {least} to {most}"
        ));
    }
    if let Some(last) = &state.last_command
        && subject.command(last.order).and_then(|c| c.outcome.as_ref()) != Some(&last.outcome)
    {
        let order = last.order;
        found.push(format!(
            "its last command {order} has another outcome in its record"
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use windlass::{
        Outcome, StateKind, TaskState, statemachine::state::LastCommand, store::ChangeKind,
    };

    use super::super::sample::*;
    use super::*;

    fn abandoned(node: &str, number: u64) -> ChangeKind {
        ChangeKind::Claimed {
            node: node.parse().unwrap(),
            fence: fence(number),
            abandoned: true,
        }
    }

    fn history() -> Vec<ChangeKind> {
        vec![
            submitted(),
            claimed("a", 2),
            checkpointed(2),
            lost(2),
            abandoned("b", 5),
            completed(5),
            ChangeKind::Retried,
        ]
    }

    fn with(change: impl Fn(&mut TaskState)) -> World {
        let mut task = subject(history());
        change(task.record.state.as_mut().unwrap());
        world(task)
    }

    #[test]
    fn counters_that_agree_hold() {
        holds(check(&with(|_| {})));
    }

    #[test]
    fn counters_that_disagree_are_caught() {
        caught(check(&with(|s| s.claims = 1)), "its state says 1 claims");
        caught(check(&with(|s| s.incarnation = 0)), "incarnation 0");
        caught(check(&with(|s| s.version = 2)), "version 2");
        caught(check(&with(|s| s.version = 9)), "version 9");
        caught(check(&with(|s| s.attempts = 2)), "2 attempts");
    }

    #[test]
    fn an_uncounted_loss_is_caught() {
        let history = vec![submitted(), claimed("a", 2), lost(2), claimed("b", 4)];
        caught(check(&of_history(history)), "does not know");
        let history = vec![submitted(), claimed("a", 2), dropped(2), abandoned("b", 4)];
        caught(check(&of_history(history)), "it was not");
        // A claim that only ends has written down the loss before it.
        let mut history = vec![submitted(), claimed("a", 2), lost(2), abandoned("b", 4)];
        history.extend([dropped(4), claimed("c", 6)]);
        holds(check(&of_history(history)));
    }

    #[test]
    fn a_loss_that_is_counted_twice_is_caught() {
        let mut history = vec![submitted(), claimed("a", 2), lost(2), abandoned("b", 4)];
        history.extend([claimed("b", 6), dropped(6)]);
        holds(check(&of_history(history.clone())));
        history[4] = abandoned("b", 6);
        caught(check(&of_history(history)), "it was not");
    }

    #[test]
    fn a_last_command_that_differs_is_caught() {
        let found = check(&with(|state| {
            state.last_command = Some(LastCommand::new(
                3,
                Outcome::Applied {
                    from: StateKind::Runnable,
                    to: StateKind::Runnable,
                },
            ));
        }));
        caught(found, "has another outcome");
    }

    fn attempts(history: Vec<ChangeKind>, attempts: u32) -> Found {
        let mut task = subject(history);
        task.record.state.as_mut().unwrap().attempts = attempts;
        check(&world(task))
    }

    fn fails() -> Vec<ChangeKind> {
        vec![
            moved(2, ActionKind::Error, StateKind::Runnable, StateKind::Fault),
            moved(2, ActionKind::Run, StateKind::Fault, StateKind::Runnable),
        ]
    }

    #[test]
    fn a_failed_attempt_that_is_not_counted_is_caught() {
        let mut history = vec![submitted(), claimed("a", 2)];
        history.extend(fails());
        history.extend(fails());
        holds(attempts(history.clone(), 2));
        caught(
            attempts(history.clone(), 1),
            "1 attempts, its history 2 to 2",
        );
        history.extend([lost(2), abandoned("b", 9)]);
        holds(attempts(history.clone(), 3));
        caught(attempts(history, 2), "2 attempts, its history 3 to 3");
    }

    #[test]
    fn attempts_before_a_return_that_has_not_failed_are_counted_no_more() {
        let sleep = moved(
            2,
            ActionKind::Sleep,
            StateKind::Runnable,
            StateKind::Sleeping,
        );
        let mut history = vec![submitted(), claimed("a", 2)];
        history.extend(fails());
        history.push(sleep.clone());
        holds(attempts(history.clone(), 0));
        caught(
            attempts(history.clone(), 1),
            "1 attempts, its history 0 to 0",
        );
        // Whether the handler returned it or the command did it, the history does not say.
        history[4] = by_command(3, sleep);
        holds(attempts(history.clone(), 0));
        holds(attempts(history, 1));
    }

    #[test]
    fn the_policy_may_give_up_without_a_failure_more() {
        let mut history = vec![submitted(), claimed("a", 2), lost(2), abandoned("b", 5)];
        history.extend([
            moved(5, ActionKind::Error, StateKind::Runnable, StateKind::Fault),
            moved(5, ActionKind::Error, StateKind::Fault, StateKind::Failed),
        ]);
        holds(attempts(history.clone(), 1));
        holds(attempts(history.clone(), 2));
        caught(attempts(history, 0), "0 attempts, its history 1 to 2");
    }
}
