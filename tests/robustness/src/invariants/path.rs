//! G6: every history is a path in the table, from the submit on.

use windlass::{
    StateKind,
    statemachine::transition::TABLE,
    store::{Change, ChangeKind},
};

use super::Found;
use crate::world::{Subject, World};

pub(super) fn check(world: &World) -> Found {
    let mut found = Found::new();
    for (id, history) in world.histories_gone() {
        let wrong = follow(history).wrong;
        found.extend(wrong.into_iter().map(|how| (id.clone(), how)));
    }
    for (id, subject) in &world.subjects {
        found.extend(of(subject).into_iter().map(|how| (id.clone(), how)));
    }
    found
}

/// Where a history leads to.
struct Followed {
    at: Option<StateKind>,
    /// A sleeper that is due wakes with its claim.
    may_have_woken: bool,
    /// A retried task that was submitted to wait for others waits again.
    may_wait_again: bool,
    wrong: Vec<String>,
}

fn follow(history: &[Change]) -> Followed {
    let mut found = Vec::new();
    let mut at: Option<StateKind> = None;
    let (mut may_have_woken, mut may_wait_again) = (false, false);
    let mut submitted = None;
    for change in history {
        match &change.what {
            ChangeKind::Submitted { state } => {
                if at.is_some() {
                    found.push(format!("change {}: submitted again", change.seq));
                }
                (at, submitted) = (Some(*state), Some(*state));
            }
            ChangeKind::Claimed { .. } => may_have_woken = at == Some(StateKind::Sleeping),
            ChangeKind::Retried => {
                at = Some(StateKind::Runnable);
                may_wait_again = submitted == Some(StateKind::Sleeping);
            }
            ChangeKind::Moved {
                message, from, to, ..
            } => {
                let woken = may_have_woken && *from == StateKind::Runnable;
                let waits_again = may_wait_again && *from == StateKind::Sleeping;
                if at != Some(*from) && !woken && !waits_again {
                    found.push(format!("change {}: from {from}; it was {at:?}", change.seq));
                }
                if TABLE[*from as usize][*message as usize] != Some(*to) {
                    found.push(format!(
                        "change {}: {from} does not become {to} by {message}",
                        change.seq
                    ));
                }
                (may_have_woken, may_wait_again) = (false, false);
                at = Some(*to);
            }
            ChangeKind::Rescheduled { from, to, .. } => {
                let woken = may_have_woken && *from == StateKind::Runnable;
                let waits_again = may_wait_again && *from == StateKind::Sleeping;
                if at != Some(*from) && !woken && !waits_again {
                    found.push(format!("change {}: from {from}; it was {at:?}", change.seq));
                }
                let waits = |code| matches!(code, StateKind::Runnable | StateKind::Sleeping);
                if from != to && !(waits(*from) && waits(*to)) {
                    found.push(format!(
                        "change {}: {from} does not become {to} by a reschedule",
                        change.seq
                    ));
                }
                (may_have_woken, may_wait_again) = (false, false);
                at = Some(*to);
            }
            _ => {}
        }
    }
    Followed {
        at,
        may_have_woken,
        may_wait_again,
        wrong: found,
    }
}

fn of(subject: &Subject) -> Vec<String> {
    let Followed {
        at,
        may_have_woken,
        may_wait_again,
        wrong: mut found,
    } = follow(&subject.history);
    let code = subject.code();
    let woken = may_have_woken && code == Some(StateKind::Runnable);
    let waits_again = may_wait_again && code == Some(StateKind::Sleeping);
    if code.is_some() && code != at && !woken && !waits_again {
        found.push(format!("its history ends in {at:?}; its state is {code:?}"));
    }
    // Fault is left in the step that enters it.
    if code == Some(StateKind::Fault) {
        found.push("it stays in fault".to_owned());
    }
    found
}

#[cfg(test)]
mod tests {
    use windlass::ActionKind;

    use super::super::sample::*;
    use super::*;

    fn sleeps(number: u64) -> ChangeKind {
        moved(
            number,
            ActionKind::Sleep,
            StateKind::Runnable,
            StateKind::Sleeping,
        )
    }

    #[test]
    fn a_path_holds() {
        let history = vec![
            submitted(),
            claimed("a", 2),
            sleeps(2),
            dropped(2),
            claimed("b", 5),
            moved(5, ActionKind::Error, StateKind::Runnable, StateKind::Fault),
            moved(5, ActionKind::Sleep, StateKind::Fault, StateKind::Sleeping),
            moved(5, ActionKind::Run, StateKind::Sleeping, StateKind::Runnable),
            completed(5),
            ChangeKind::Retried,
        ];
        holds(check(&of_history(history)));
    }

    #[test]
    fn a_retried_task_that_was_submitted_to_wait_waits_again() {
        let (sleeping, killed) = (StateKind::Sleeping, StateKind::Killed);
        let life = |submitted| {
            vec![
                submitted,
                claimed("a", 2),
                moved(2, ActionKind::Kill, sleeping, killed),
                ChangeKind::Retried,
                claimed("a", 5),
                moved(5, ActionKind::Run, sleeping, StateKind::Runnable),
                completed(5),
            ]
        };
        holds(check(&of_history(life(ChangeKind::Submitted {
            state: sleeping,
        }))));
        caught(
            check(&of_history(life(submitted()))),
            "from sleeping; it was",
        );
    }

    #[test]
    fn a_reschedule_is_a_step_between_waiting_states() {
        let rescheduled = |from, to| {
            let kind = None;
            ChangeKind::Rescheduled { from, to, kind }
        };
        let (runnable, sleeping) = (StateKind::Runnable, StateKind::Sleeping);
        let history = vec![submitted(), rescheduled(runnable, sleeping)];
        caught(check(&of_history(history)), "its history ends in");
        let history = vec![
            submitted(),
            rescheduled(runnable, sleeping),
            rescheduled(sleeping, runnable),
            claimed("a", 2),
            completed(2),
        ];
        holds(check(&of_history(history)));
        let history = vec![submitted(), rescheduled(runnable, StateKind::Paused)];
        caught(
            check(&of_history(history)),
            "does not become paused by a reschedule",
        );
        let history = vec![submitted(), rescheduled(sleeping, runnable)];
        caught(check(&of_history(history)), "from sleeping");
    }

    #[test]
    fn a_jump_is_caught() {
        let history = vec![
            submitted(),
            claimed("a", 2),
            moved(2, ActionKind::Run, StateKind::Paused, StateKind::Runnable),
        ];
        caught(
            check(&of_history(history)),
            "from paused; it was Some(Runnable)",
        );
        let history = vec![submitted(), claimed("a", 2), sleeps(2), completed(2)];
        caught(check(&of_history(history)), "from runnable");
    }

    #[test]
    fn a_step_that_is_not_in_the_table_is_caught() {
        let step = moved(
            2,
            ActionKind::Checkpoint,
            StateKind::Runnable,
            StateKind::Paused,
        );
        let history = vec![submitted(), claimed("a", 2), step];
        caught(
            check(&of_history(history)),
            "does not become paused by checkpoint",
        );
    }

    #[test]
    fn a_state_beside_its_history_is_caught() {
        let mut task = subject(vec![submitted(), claimed("a", 2)]);
        if let Ok(state) = &mut task.record.state {
            state.status = windlass::TaskStatus::Paused;
        }
        caught(check(&world(task)), "its history ends in");
    }

    #[test]
    fn a_fault_that_stays_is_caught() {
        let fault = moved(2, ActionKind::Error, StateKind::Runnable, StateKind::Fault);
        let history = vec![submitted(), claimed("a", 2), fault];
        caught(check(&of_history(history)), "stays in fault");
    }

    #[test]
    fn a_jump_of_a_task_that_was_deleted_later_is_caught() {
        let history = vec![submitted(), claimed("a", 2), sleeps(2), completed(2)];
        caught(check(&of_gone(history)), "from runnable");
    }
}
