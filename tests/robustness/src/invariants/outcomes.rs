//! G5: the outcome of a command that was not applied agrees with the history. An overridden command
//! gave way to a step of the handler after it was sent; a rejected one met a state that does not
//! accept it.

use windlass::{
    ActionKind, Outcome, StateKind,
    statemachine::{TransitionError, transition::TABLE},
    store::{Change, ChangeKind, CommandRecord},
};

use super::Found;
use crate::world::{Subject, World};

pub(super) fn check(world: &World) -> Found {
    let mut found = Found::new();
    for (id, subject) in &world.subjects {
        found.extend(of(subject).into_iter().map(|how| (id.clone(), how)));
    }
    found
}

fn of(subject: &Subject) -> Vec<String> {
    let mut found = Vec::new();
    let history = &subject.history;
    // Commands are answered in order, so the steps that answer them are in order too.
    let mut answered = 0;
    for record in &subject.commands {
        let order = record.order;
        let sent = |c: &Change| c.what == ChangeKind::Commanded { command: order };
        let Some(sent) = history.iter().position(sent) else {
            // Reported by the checker of commands.
            continue;
        };
        match &record.outcome {
            Some(Outcome::Applied { .. }) => {
                answered = history
                    .iter()
                    .position(|c| is_step_of(&c.what, order))
                    .map_or(answered, |at| at + 1);
            }
            Some(Outcome::Overridden { by }) => {
                if *by == ActionKind::Release && record.command.aborts() {
                    found.push(format!(
                        "the handler gave way to command {order} by a release, and the command had no effect"
                    ));
                }
                match overriding(history, record, *by, sent.max(answered)) {
                    Some(at) if *by == ActionKind::Complete => answered = at,
                    Some(at) => answered = at + 1,
                    None => found.push(format!(
                        "command {order} says that the handler returned {by}; the history has no such step"
                    )),
                }
            }
            Some(Outcome::Rejected { reason }) => {
                // The step that answered the command before may have led to the state that rejects.
                let later = &history[sent.max(answered.saturating_sub(1))..];
                if !is_rejected(later, record, reason, decided(subject)) {
                    found.push(format!(
                        "command {order} was rejected ({reason}); no state since has done that"
                    ));
                }
            }
            _ => {}
        }
    }
    found
}

fn is_step_of(what: &ChangeKind, order: u64) -> bool {
    matches!(what, ChangeKind::Moved { command: Some(by), .. } if *by == order)
}

/// The step of the handler that a command gave way to, at `from` or later. Such a step is that of no
/// command, and answers one command; only a completion answers all that reached the handler before,
/// and may be the step of the last of them.
fn overriding(
    history: &[Change],
    record: &CommandRecord,
    by: ActionKind,
    from: usize,
) -> Option<usize> {
    if by == record.command.kind() {
        return None;
    }
    let later = history.iter().enumerate().skip(from);
    let mut later = later.take_while(|(_, c)| c.what != ChangeKind::Retried);
    later
        .find(|(_, c)| {
            matches!(
                &c.what,
                ChangeKind::Moved { message, command, from: StateKind::Runnable, .. }
                    if *message == by && (command.is_none() || by == ActionKind::Complete)
            )
        })
        .map(|(at, _)| at)
}

/// When the node decided on the end of the task. The history has the time of its write, which is before it where the
/// clock was set back in between.
fn decided(subject: &Subject) -> Option<jiff::Timestamp> {
    let state = subject.record.state.as_ref().ok()?;
    state.code().is_terminal().then_some(state.since)
}

/// Whether the task came to a state that rejects a command for this reason.
fn is_rejected(
    later: &[Change],
    record: &CommandRecord,
    reason: &str,
    decided: Option<jiff::Timestamp>,
) -> bool {
    let message = record.command.kind();
    // The claim whose handler ended the task may have been lost before that was stored.
    let ending = reason.strip_prefix("the task was about to end: ");
    let mut later = later.iter().take_while(|c| c.what != ChangeKind::Retried);
    later.any(|c| {
        let to = match c.what {
            ChangeKind::Moved { to, .. } => to,
            ChangeKind::Lost { .. }
            | ChangeKind::Claimed {
                abandoned: true, ..
            } => {
                return ending.is_some();
            }
            _ => return false,
        };
        if ending == Some(to.as_str()) {
            return to.is_terminal();
        }
        let at = decided.map_or(c.at, |decided| decided.max(c.at));
        if to == StateKind::Killed && missed(reason).is_some_and(|missed| missed <= at) {
            return true;
        }
        let refusal = TransitionError::NotInTable { from: to, message };
        let column = message as usize;
        let by_table = TABLE[to as usize].get(column).is_some_and(Option::is_none);
        let ended = to.is_terminal() && reason == format!("the task has ended: it is {to}");
        ended || by_table && reason == refusal.to_string()
    })
}

/// The deadline in the reason of a command that waited for a task which had missed it, and which a later
/// command killed. Without a kill the task fails, and its end is the reason.
fn missed(reason: &str) -> Option<jiff::Timestamp> {
    let rest = reason.strip_prefix("the task did not ")?;
    let at = rest
        .strip_prefix("start by ")
        .or(rest.strip_prefix("end by "))?;
    at.parse().ok()
}

#[cfg(test)]
mod tests {
    use windlass::{Command, Signal};

    use super::super::sample::*;
    use super::*;

    fn sleeps() -> ChangeKind {
        moved(
            2,
            ActionKind::Sleep,
            StateKind::Runnable,
            StateKind::Sleeping,
        )
    }

    /// A task with the commands 3, 4, … of these kinds and outcomes.
    fn task(history: Vec<ChangeKind>, commands: Vec<(Command, Outcome)>) -> Found {
        let mut whole = vec![submitted(), claimed("a", 2)];
        whole.extend(history);
        let mut task = subject(whole);
        let records = commands.into_iter().zip(3..);
        task.commands = records
            .map(|((kind, outcome), order)| command(order, kind, Some(outcome)))
            .collect();
        check(&world(task))
    }

    #[test]
    fn a_signal_that_a_handler_with_signals_rejects_is_caught() {
        let reason = "the kind does not accept signals".to_owned();
        let signal = Command::Signal(Signal::new("n"));
        let rejected = vec![(signal, Outcome::Rejected { reason })];
        caught(
            task(vec![sent(3), sleeps()], rejected),
            "no state since has done that",
        );
    }

    fn sent(command: u64) -> ChangeKind {
        ChangeKind::Commanded { command }
    }

    fn overridden(by: ActionKind) -> (Command, Outcome) {
        (Command::Pause, Outcome::Overridden { by })
    }

    fn rejected(reason: &str) -> Vec<(Command, Outcome)> {
        let reason = reason.to_owned();
        vec![(Command::Pause, Outcome::Rejected { reason })]
    }

    /// The reason of a command that was left when its task completed.
    const ENDED: &str = "the task has ended: it is completed";

    #[test]
    fn a_command_that_a_step_of_the_handler_overrode_holds() {
        let overridden = || vec![overridden(ActionKind::Sleep)];
        holds(task(vec![sent(3), sleeps()], overridden()));
        let none = "says that the handler returned sleep";
        caught(task(vec![sent(3)], overridden()), none);
        caught(task(vec![sleeps(), sent(3)], overridden()), none);
        caught(
            task(vec![sent(3), by_command(9, sleeps())], overridden()),
            none,
        );
        caught(task(vec![sent(3), completed(2)], overridden()), none);
    }

    #[test]
    fn one_step_overrides_one_command() {
        let both = || vec![overridden(ActionKind::Sleep), overridden(ActionKind::Sleep)];
        let wakes = moved(2, ActionKind::Run, StateKind::Sleeping, StateKind::Runnable);
        let twice = vec![sent(3), sent(4), sleeps(), wakes, sleeps()];
        holds(task(twice, both()));
        let once = vec![sent(3), sent(4), sleeps()];
        caught(task(once, both()), "command 4 says");
    }

    #[test]
    fn a_completion_overrides_every_command_its_handler_received() {
        let both = || {
            vec![
                overridden(ActionKind::Complete),
                overridden(ActionKind::Complete),
            ]
        };
        let done = by_command(5, completed(2));
        holds(task(vec![sent(3), sent(4), done], both()));
        caught(
            task(vec![sent(3), completed(2), sent(4)], both()),
            "command 4 says",
        );
    }

    #[test]
    fn a_command_that_a_release_overrode_is_caught() {
        let (from, to) = (StateKind::Runnable, StateKind::Runnable);
        let releases = || vec![sent(3), moved(2, ActionKind::Release, from, to)];
        let by = || Outcome::Overridden {
            by: ActionKind::Release,
        };
        let gave_way = "gave way to command 3";
        caught(task(releases(), vec![(Command::Pause, by())]), gave_way);
        holds(task(releases(), vec![(Command::Checkpoint, by())]));
    }

    #[test]
    fn a_command_cannot_be_overridden_by_its_own_kind() {
        let pauses = moved(2, ActionKind::Pause, StateKind::Runnable, StateKind::Paused);
        let found = task(vec![sent(3), pauses], vec![overridden(ActionKind::Pause)]);
        caught(found, "says that the handler returned pause");
    }

    #[test]
    fn a_command_that_the_end_of_its_task_rejected_holds() {
        let (from, message) = (StateKind::Completed, ActionKind::Pause);
        let refusal = TransitionError::NotInTable { from, message };
        for reason in [ENDED, &refusal.to_string()] {
            holds(task(vec![sent(3), completed(2)], rejected(reason)));
        }
        // The step that another command was applied by.
        let applied = Outcome::Applied {
            from: StateKind::Runnable,
            to: StateKind::Completed,
        };
        let mut both = vec![(Command::Complete { result: None }, applied)];
        both.extend(rejected(ENDED));
        let history = vec![sent(3), sent(4), by_command(3, completed(2))];
        holds(task(history, both));
    }

    #[test]
    fn a_command_before_the_kill_of_a_task_that_missed_its_deadline_holds() {
        let (epoch, later) = (jiff::Timestamp::UNIX_EPOCH, jiff::Timestamp::MAX);
        let killed = || {
            by_command(
                4,
                moved(2, ActionKind::Kill, StateKind::Runnable, StateKind::Killed),
            )
        };
        let applied = || Outcome::Applied {
            from: StateKind::Runnable,
            to: StateKind::Killed,
        };
        let both = |reason: String| {
            let mut both = rejected(&reason);
            both.push((Command::Kill, applied()));
            both
        };
        let history = || vec![sent(3), sent(4), killed()];
        for missed in ["did not start by", "did not end by"] {
            holds(task(history(), both(format!("the task {missed} {epoch}"))));
        }
        let no = "no state since has done that";
        let early = format!("the task did not end by {later}");
        caught(task(history(), both(early)), no);
        let reason = format!("the task did not end by {epoch}");
        caught(task(vec![sent(3), sleeps()], rejected(&reason)), no);
        caught(task(vec![sent(3), completed(2)], rejected(&reason)), no);
    }

    /// The time of the write was before the deadline, because the clock was set back after the node had decided.
    #[test]
    fn a_deadline_counts_by_the_clock_at_the_decision() {
        let kill = moved(2, ActionKind::Kill, StateKind::Runnable, StateKind::Killed);
        let mut task = subject(vec![
            submitted(),
            claimed("a", 2),
            sent(3),
            sent(4),
            by_command(4, kill),
        ]);
        let later = jiff::Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_hours(1);
        let applied = Outcome::Applied {
            from: StateKind::Runnable,
            to: StateKind::Killed,
        };
        let reason = format!("the task did not end by {later}");
        let missed = Outcome::Rejected { reason };
        task.commands = vec![
            command(3, Command::Complete { result: None }, Some(missed)),
            command(4, Command::Kill, Some(applied)),
        ];
        let mut state = windlass::statemachine::TaskState::new(later);
        state.status = windlass::statemachine::TaskStatus::Killed;
        task.record.state = Ok(state);
        holds(check(&world(task)));
    }

    #[test]
    fn a_command_that_was_rejected_for_no_reason_is_caught() {
        let no = "no state since has done that";
        caught(task(vec![sent(3), sleeps()], rejected(ENDED)), no);
        caught(task(vec![sent(3), completed(2)], rejected("no")), no);
        let killed = "the task has ended: it is killed";
        caught(task(vec![sent(3), completed(2)], rejected(killed)), no);
        let earlier = vec![completed(2), ChangeKind::Retried, sent(3)];
        caught(task(earlier, rejected(ENDED)), no);
        let next = vec![completed(2), ChangeKind::Retried, sent(3), completed(5)];
        holds(task(next, rejected(ENDED)));
    }
}
