//! The counters of a state agree with its history: claims, incarnations, writes, attempts.

use windlass::{ActionKind, store::What};

use super::Found;
use crate::world::{Subject, World};

pub(super) fn check(world: &World) -> Found {
    let mut found = Found::new();
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
    /// Failed or abandoned attempts since the last retry.
    failed: u64,
    lost: bool,
    wrong: Vec<String>,
}

fn count(subject: &Subject) -> Counted {
    let mut counted = Counted::default();
    for change in &subject.history {
        match &change.what {
            What::Claimed { abandoned, .. } => {
                counted.claims += 1;
                // A claim that is lost before anything is written may have been abandoned twice.
                if *abandoned {
                    counted.failed += 1;
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
            }
            What::Moved { message, .. } => {
                counted.writes += 1;
                counted.failed += u64::from(*message == ActionKind::Error);
                counted.lost = false;
            }
            What::Checkpointed { .. } => {
                counted.writes += 1;
                counted.lost = false;
            }
            What::Dropped { .. } => {
                counted.writes += 1;
            }
            What::Lost { .. } => counted.lost = true,
            What::Retried => {
                counted.retries += 1;
                counted.failed = 0;
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
    let counted = count(subject);
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
    if u64::from(state.attempts) > counted.failed {
        let (stored, failed) = (state.attempts, counted.failed);
        found.push(format!(
            "its state says {stored} attempts, its history {failed}"
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
    use windlass::{Code, Outcome, State, statemachine::state::LastCommand, store::What};

    use super::super::sample::*;
    use super::*;

    fn abandoned(node: &str, number: u64) -> What {
        What::Claimed {
            node: node.parse().unwrap(),
            fence: fence(number),
            abandoned: true,
        }
    }

    fn history() -> Vec<What> {
        vec![
            submitted(),
            claimed("a", 2),
            checkpointed(2),
            lost(2),
            abandoned("b", 5),
            completed(5),
            What::Retried,
        ]
    }

    fn with(change: impl Fn(&mut State)) -> World {
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
    fn a_loss_that_nobody_counts_is_caught() {
        let history = vec![submitted(), claimed("a", 2), lost(2), claimed("b", 4)];
        caught(check(&of_history(history)), "does not know");
        let history = vec![submitted(), claimed("a", 2), dropped(2), abandoned("b", 4)];
        caught(check(&of_history(history)), "it was not");
    }

    #[test]
    fn a_last_command_that_differs_is_caught() {
        let found = check(&with(|state| {
            state.last_command = Some(LastCommand {
                order: 3,
                outcome: Outcome::Applied {
                    from: Code::Runnable,
                    to: Code::Runnable,
                },
            });
        }));
        caught(found, "has another outcome");
    }
}
