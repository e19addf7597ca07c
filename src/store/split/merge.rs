//! Merges the two states of a claimed task: the coordinator's and the state store's.
//!
//! A write goes to the state store first. Both states count writes in the same way (the version grows
//! with each claim, each new incarnation, each reschedule and each write), so the state with more writes is the newer.

use std::collections::VecDeque;

use windlass_statemachine::{
    ActionKind, Command, Outcome, QueuedCommand, StateKind, TaskState, TransitionError,
    errors::{ErrorEntry, MAX_KEPT},
    machine::{Step, Write},
    state::LastCommand,
    transition::TABLE,
};

use super::add_content;
use crate::store::Claimed;

/// Returns the number of claims in a row that were lost since the last write of the state store.
///
/// Before a claim is handed out, the state store has it, with the error of each abandoned claim before
/// it. So abandonments at the end of the log that only the coordinator has come from claims that were
/// lost or released before they were handed out.
fn unreported(inner: &TaskState, stored: Option<&TaskState>) -> usize {
    let known =
        |entry: &ErrorEntry| stored.is_some_and(|stored| stored.errors.entries().contains(entry));
    let newest_first = inner.errors.entries().iter().rev();
    newest_first
        .take_while(|entry| entry.is_abandonment() && !known(entry))
        .count()
}

/// Returns the number of writes of a state, without claims, new incarnations and reschedules.
fn writes(state: &TaskState) -> u64 {
    let others = state.claims.saturating_add(u64::from(state.incarnation));
    let others = others.saturating_add(state.reschedules);
    state.version.saturating_sub(others)
}

/// Returns whether the coordinator has no write of this state. A stored state of the task is then left
/// over from an earlier task: the first claim of a task is handed out only after its own write.
pub(super) fn is_fresh(state: &TaskState) -> bool {
    state.incarnation == 0 && writes(state) == 0
}

/// The result of a merge.
pub(super) struct Merged {
    /// The claim to hand out, with the whole state and without the commands that were applied.
    pub(super) claimed: Claimed,
    /// The write that the coordinator has to get first.
    pub(super) recovery: Option<Write>,
}

/// Merges a claim with the stored state of its task.
pub(super) fn merge(mut claimed: Claimed, stored: Option<TaskState>) -> Merged {
    let inner = &claimed.state;
    let follows = inner.version;
    let stored = stored.filter(|_| !is_fresh(inner));
    let unreported = unreported(inner, stored.as_ref());
    claimed.abandoned |= unreported > 0;
    let Some(stored) = stored else {
        let first = is_fresh(inner);
        if first {
            claimed.state.version = claimed.state.version.saturating_add(1);
        }
        let recovery = first.then(|| recovery(follows, claimed.state.clone()));
        return Merged { claimed, recovery };
    };
    let ahead = stored.incarnation == inner.incarnation && writes(&stored) > writes(inner);
    let from = inner.code();
    let state = if ahead {
        catch_up(inner, stored, unreported)
    } else {
        let mut state = inner.clone();
        add_content(&mut state, &stored);
        state
    };
    let mut state = state;
    let signals = std::mem::take(&mut state.settled_signals);
    let is_settled = |command: &QueuedCommand, done: u64| match command.command {
        Command::Signal(_) => signals.iter().any(|s| s.order == command.order),
        _ => command.order <= done,
    };
    let last = state.last_command.clone();
    let done = last.as_ref().map_or(0, |last| last.order);
    let commands = std::mem::take(&mut claimed.commands);
    let (settled, waiting): (Vec<_>, Vec<_>) = commands
        .into_iter()
        .partition(|command| is_settled(command, done));
    let (signalled, settled): (Vec<_>, Vec<_>) = settled
        .into_iter()
        .partition(|command| matches!(command.command, Command::Signal(_)));
    claimed.commands = waiting;
    claimed.state = state;
    if !ahead && settled.is_empty() && signalled.is_empty() {
        let recovery = None;
        return Merged { claimed, recovery };
    }
    if !ahead {
        claimed.state.version = claimed.state.version.saturating_add(1);
    }
    let state = claimed.state.clone();
    let (steps, mut outcomes) = match last {
        Some(last) => replay(from, state.code(), &settled, &last),
        None => (path(from, state.code()), Vec::new()),
    };
    let known = |order| signals.iter().find(|s| s.order == order);
    let signals = signalled.iter().filter_map(|c| known(c.order));
    outcomes.extend(signals.map(|s| (s.order, s.outcome.clone())));
    let recovery = Some(Write {
        steps,
        outcomes,
        ..recovery(follows, state)
    });
    Merged { claimed, recovery }
}

/// Returns the stored state, which the coordinator does not have, under the new claim.
fn catch_up(inner: &TaskState, stored: TaskState, unreported: usize) -> TaskState {
    let missed = writes(&stored) - writes(inner);
    let mut state = stored;
    state.fence = inner.fence;
    state.claims = inner.claims;
    state.reschedules = inner.reschedules;
    state.version = inner.version.saturating_add(missed);
    // Only the coordinator has the abandonments that later claims have recorded.
    let entries = inner.errors.entries();
    for lost in entries.iter().skip(entries.len() - unreported) {
        state.attempts = state.attempts.saturating_add(1);
        state.errors.push_entry(lost.clone(), MAX_KEPT);
    }
    state
}

/// Returns a write that brings the coordinator to this state.
fn recovery(follows: u64, state: TaskState) -> Write {
    Write {
        follows,
        state,
        steps: Vec::new(),
        outcomes: Vec::new(),
        drop_claim: false,
        effects: Default::default(),
    }
}

/// Returns the steps and outcomes of a write that only the state store has: a path of the table from one
/// state to the other, through the applied commands. The state has the outcome of the last one. If a
/// return of the handler overrode that one, the return is its own step. Earlier commands were applied in
/// their order, if the table has a path from them to the last one.
fn replay(
    from: StateKind,
    to: StateKind,
    settled: &[QueuedCommand],
    last: &LastCommand,
) -> (Vec<Step>, Vec<(u64, Outcome)>) {
    let known = settled.iter().any(|c| c.order == last.order);
    let returned = returned(last, to).filter(|_| known);
    let (before, after) = match (&last.outcome, returned) {
        (Outcome::Applied { from, to }, _) if known => (*from, *to),
        (_, Some((_, after))) => (StateKind::Runnable, after),
        (Outcome::Rejected { .. }, _) if known => return rejected(from, to, settled, last),
        (outcome, _) => {
            let outcomes = settled.iter().map(|c| (c.order, outcome.clone()));
            return (path(from, to), outcomes.collect());
        }
    };
    let (mut at, mut steps, mut outcomes) = (from, Vec::new(), Vec::new());
    for command in settled {
        let (message, order) = (command.command.kind(), command.order);
        if order == last.order {
            steps.extend(path(at, before));
            steps.push(Step {
                message: returned.map_or(message, |(by, _)| by),
                from: before,
                to: after,
                command: returned.is_none().then_some(order),
            });
            outcomes.push((order, last.outcome.clone()));
            at = after;
            continue;
        }
        let next = TABLE[at as usize][message as usize].filter(|next| leads(*next, before));
        let Some(next) = next else {
            let reason = format!("the task was {at}, and a later command was applied");
            outcomes.push((order, Outcome::Rejected { reason }));
            continue;
        };
        steps.push(Step {
            message,
            from: at,
            to: next,
            command: Some(order),
        });
        let (from, to) = (at, next);
        outcomes.push((order, Outcome::Applied { from, to }));
        at = next;
    }
    steps.extend(path(at, to));
    (steps, outcomes)
}

/// Returns what the handler returned instead of the last command, and the state that this led to, if that
/// is one return for one command: a completion overrides all commands before it.
fn returned(last: &LastCommand, to: StateKind) -> Option<(ActionKind, StateKind)> {
    let Outcome::Overridden { by } = last.outcome else {
        return None;
    };
    let next = TABLE[StateKind::Runnable as usize][by as usize]?;
    (by != ActionKind::Complete && leads(next, to)).then_some((by, next))
}

/// Like [`replay`], when the last command was rejected. If the commands before it lead to the state,
/// they made the steps. Otherwise the return of the handler made them, and the commands were applied to
/// its state.
fn rejected(
    from: StateKind,
    to: StateKind,
    settled: &[QueuedCommand],
    last: &LastCommand,
) -> (Vec<Step>, Vec<(u64, Outcome)>) {
    let before = || settled.iter().filter(|c| c.order != last.order);
    let kinds = || before().map(|c| c.command.kind());
    let next = |at: StateKind, message: ActionKind| TABLE[at as usize][message as usize];
    let by_commands = kinds().fold(from, |at, message| next(at, message).unwrap_or(at)) == to;
    let (mut at, mut steps) = match by_commands {
        true => (from, Vec::new()),
        false => (to, path(from, to)),
    };
    let mut outcomes = Vec::new();
    for command in before() {
        let (message, order) = (command.command.kind(), command.order);
        let outcome = match next(at, message).filter(|_| by_commands) {
            Some(next) => {
                let step = Step {
                    message,
                    from: at,
                    to: next,
                    command: Some(order),
                };
                steps.push(step);
                let from = std::mem::replace(&mut at, next);
                Outcome::Applied { from, to: next }
            }
            None => {
                let reason = match next(at, message) {
                    None => TransitionError::NotInTable { from: at, message }.to_string(),
                    Some(_) => format!("the task was {at}, and a later command was rejected"),
                };
                Outcome::Rejected { reason }
            }
        };
        outcomes.push((order, outcome));
    }
    outcomes.push((last.order, last.outcome.clone()));
    (steps, outcomes)
}

/// Returns whether the table has a path from one state to the other.
fn leads(from: StateKind, to: StateKind) -> bool {
    from == to || !path(from, to).is_empty()
}

/// Returns the shortest path of the table from one state to the other; empty when there is none.
pub(super) fn path(from: StateKind, to: StateKind) -> Vec<Step> {
    let mut queue = VecDeque::from([(from, Vec::new())]);
    let mut seen = vec![from];
    while let Some((at, steps)) = queue.pop_front() {
        if at == to {
            return steps;
        }
        for (message, next) in ActionKind::ALL.into_iter().zip(TABLE[at as usize]) {
            let Some(next) = next.filter(|next| !seen.contains(next)) else {
                continue;
            };
            seen.push(next);
            let mut steps = steps.clone();
            steps.push(Step {
                message,
                from: at,
                to: next,
                command: None,
            });
            queue.push_back((next, steps));
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_is_one_of_the_table() {
        for from in StateKind::ALL {
            for to in StateKind::ALL {
                let steps = path(from, to);
                if from == to || from.is_terminal() {
                    assert!(steps.is_empty(), "{from} to {to}: {steps:?}");
                    continue;
                }
                let mut at = from;
                for step in &steps {
                    assert_eq!(step.from, at);
                    at = step.to;
                    let next = TABLE[step.from as usize][step.message as usize];
                    assert_eq!(next, Some(at), "{step:?}");
                }
                assert_eq!(at, to, "{from} to {to}: {steps:?}");
            }
        }
    }
}
