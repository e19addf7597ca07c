//! The lines that a commit adds to the history of its task.

use windlass_statemachine::{Fence, machine::Write};

use crate::store::What;

/// Returns whether a write ends the claim: on request, or with the task.
pub(crate) fn ends_claim(write: &Write) -> bool {
    write.drop_claim || write.state.code().is_terminal()
}

/// Returns the lines of a write, in their order: its transitions, or the checkpoint of a handler that
/// runs on, and the end of a claim whose task lives on.
pub(crate) fn lines(fence: Fence, write: &Write) -> Vec<What> {
    let steps = write.steps.iter().map(|step| What::Moved {
        message: step.message,
        from: step.from,
        to: step.to,
        fence,
        command: step.command,
    });
    let mut lines: Vec<What> = steps.collect();
    if lines.is_empty() && !ends_claim(write) {
        lines.push(What::Checkpointed { fence });
    }
    if write.drop_claim && !write.state.code().is_terminal() {
        lines.push(What::Dropped { fence });
    }
    lines
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use windlass_statemachine::{ActionKind, Code, Effects, State, Status, machine::Step};

    use super::*;

    const FENCE: Fence = Fence(7);

    fn step(to: Code) -> Step {
        Step {
            message: ActionKind::Run,
            from: Code::Runnable,
            to,
            command: Some(3),
        }
    }

    fn write(steps: Vec<Step>, status: Status, drop_claim: bool) -> Write {
        Write {
            state: State {
                status,
                ..State::new(Timestamp::UNIX_EPOCH)
            },
            steps,
            outcomes: Vec::new(),
            drop_claim,
            effects: Effects::default(),
        }
    }

    fn moved(to: Code) -> What {
        What::Moved {
            message: ActionKind::Run,
            from: Code::Runnable,
            to,
            fence: FENCE,
            command: Some(3),
        }
    }

    #[test]
    fn each_write_has_its_lines() {
        let ended = || Status::Completed { result: None };
        let (dropped, checkpointed) = (
            What::Dropped { fence: FENCE },
            What::Checkpointed { fence: FENCE },
        );
        for (write, expected) in [
            (write(vec![], Status::Runnable, false), vec![checkpointed]),
            (write(vec![], Status::Runnable, true), vec![dropped.clone()]),
            (write(vec![], ended(), false), vec![]),
            (
                write(vec![step(Code::Runnable)], Status::Runnable, false),
                vec![moved(Code::Runnable)],
            ),
            (
                write(
                    vec![step(Code::Runnable), step(Code::Paused)],
                    Status::Paused,
                    true,
                ),
                vec![moved(Code::Runnable), moved(Code::Paused), dropped],
            ),
            (
                write(vec![step(Code::Completed)], ended(), true),
                vec![moved(Code::Completed)],
            ),
        ] {
            assert_eq!(lines(FENCE, &write), expected);
        }
    }

    #[test]
    fn the_end_of_the_task_ends_the_claim() {
        assert!(ends_claim(&write(vec![], Status::Killed, false)));
        assert!(ends_claim(&write(vec![], Status::Runnable, true)));
        assert!(!ends_claim(&write(vec![], Status::Runnable, false)));
    }
}
