//! The lines that a commit adds to the history of its task.

use windlass_statemachine::{Fence, machine::Write};

use crate::store::ChangeKind;

/// Returns whether a write ends the claim: on request, or because the task ends.
pub(crate) fn ends_claim(write: &Write) -> bool {
    write.drop_claim || write.state.code().is_terminal()
}

/// Returns the lines of a write, in order: its transitions, or the checkpoint of a handler that
/// continues; and the end of a claim whose task is still live.
pub(crate) fn lines(fence: Fence, write: &Write) -> Vec<ChangeKind> {
    let steps = write.steps.iter().map(|step| ChangeKind::Moved {
        message: step.message,
        from: step.from,
        to: step.to,
        fence,
        command: step.command,
    });
    let mut lines: Vec<ChangeKind> = steps.collect();
    if lines.is_empty() && !ends_claim(write) {
        lines.push(ChangeKind::Checkpointed { fence });
    }
    if write.drop_claim && !write.state.code().is_terminal() {
        lines.push(ChangeKind::Dropped { fence });
    }
    lines
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use windlass_statemachine::{
        ActionKind, Effects, StateKind, TaskState, TaskStatus, machine::Step,
    };

    use super::*;

    const FENCE: Fence = Fence(7);

    fn step(to: StateKind) -> Step {
        Step {
            message: ActionKind::Run,
            from: StateKind::Runnable,
            to,
            command: Some(3),
        }
    }

    fn write(steps: Vec<Step>, status: TaskStatus, drop_claim: bool) -> Write {
        Write {
            follows: 0,
            state: TaskState {
                status,
                ..TaskState::new(Timestamp::UNIX_EPOCH)
            },
            steps,
            outcomes: Vec::new(),
            drop_claim,
            effects: Effects::default(),
        }
    }

    fn moved(to: StateKind) -> ChangeKind {
        ChangeKind::Moved {
            message: ActionKind::Run,
            from: StateKind::Runnable,
            to,
            fence: FENCE,
            command: Some(3),
        }
    }

    #[test]
    fn each_write_has_its_lines() {
        let ended = || TaskStatus::Completed { result: None };
        let (dropped, checkpointed) = (
            ChangeKind::Dropped { fence: FENCE },
            ChangeKind::Checkpointed { fence: FENCE },
        );
        for (write, expected) in [
            (
                write(vec![], TaskStatus::Runnable, false),
                vec![checkpointed],
            ),
            (
                write(vec![], TaskStatus::Runnable, true),
                vec![dropped.clone()],
            ),
            (write(vec![], ended(), false), vec![]),
            (
                write(vec![step(StateKind::Runnable)], TaskStatus::Runnable, false),
                vec![moved(StateKind::Runnable)],
            ),
            (
                write(
                    vec![step(StateKind::Runnable), step(StateKind::Paused)],
                    TaskStatus::Paused,
                    true,
                ),
                vec![
                    moved(StateKind::Runnable),
                    moved(StateKind::Paused),
                    dropped,
                ],
            ),
            (
                write(vec![step(StateKind::Completed)], ended(), true),
                vec![moved(StateKind::Completed)],
            ),
        ] {
            assert_eq!(lines(FENCE, &write), expected);
        }
    }

    #[test]
    fn the_end_of_the_task_ends_the_claim() {
        assert!(ends_claim(&write(vec![], TaskStatus::Killed, false)));
        assert!(ends_claim(&write(vec![], TaskStatus::Runnable, true)));
        assert!(!ends_claim(&write(vec![], TaskStatus::Runnable, false)));
    }
}
