//! Converts the store's answers to writes into inputs of the machines, and retries writes.

use std::time::Duration;

use windlass_statemachine::{
    Backoff, TaskId,
    machine::{Input, StopReason},
};

use super::input::SlotId;
use crate::store::{Commit, Error, Reason};

/// The pause before the first retry of writes, which doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Returns the input of the machine for the store's answer to a write of this task.
pub(crate) fn input_of(task: &TaskId, answer: Result<(), Error>) -> Input {
    match answer {
        Ok(()) => Input::Stored,
        // The machine follows a state that the store no longer has. The node claims the task again.
        Err(Error::Fenced(_) | Error::Superseded { .. }) => Input::Fenced(StopReason::LeaseLost),
        Err(Error::NotFound { what: "task", name }) if task.as_str() == name => {
            Input::Fenced(StopReason::Deleted)
        }
        Err(e) => Input::Refused {
            retryable: !is_too_large(&e),
            reason: e.to_string(),
        },
    }
}

/// Returns whether a write, or one of its effects, is larger than the store allows.
fn is_too_large(error: &Error) -> bool {
    match error {
        Error::TooLarge { .. } => true,
        Error::Refused(refusals) => {
            let mut reasons = refusals.iter().map(|one| &one.reason);
            reasons.any(|reason| matches!(reason, Reason::TooLarge { .. }))
        }
        _ => false,
    }
}

/// The final answers to writes.
pub(super) type Answers = Vec<(SlotId, Result<(), Error>)>;

/// Writes that go to the store in one call. Writes that the store cannot apply now are sent again,
/// which is safe: a store applies a write of the same claim and version only once.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) writes: Vec<(SlotId, Commit)>,
    /// How long the batch waits before it is sent.
    pub(super) pause: Duration,
    /// The pauses before further tries.
    backoff: Backoff,
    reported: bool,
}

/// A write that the store could not apply, for the first time.
#[derive(Debug)]
pub(super) struct Unavailable {
    pub(super) task: TaskId,
    pub(super) error: Error,
}

/// The answers to a batch, sorted.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    pub(super) done: Answers,
    /// The writes that are sent again.
    pub(super) again: Option<Batch>,
    /// What to log, once for each batch.
    pub(super) report: Option<Unavailable>,
}

impl Batch {
    pub(super) fn new(writes: Vec<(SlotId, Commit)>) -> Self {
        Self {
            writes,
            pause: Duration::ZERO,
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
            reported: false,
        }
    }

    /// Sorts the answers. A write that the store could not apply is sent again while its claim is
    /// attached to the node's `lease`; otherwise it is fenced. `jitter` is from 0 to 1.
    pub(super) fn sort(
        mut self,
        answers: Vec<Result<(), Error>>,
        lease: Option<u64>,
        jitter: f64,
    ) -> Sorted {
        let mut sorted = Sorted::default();
        let mut writes = Vec::new();
        for ((slot, commit), answer) in self.writes.into_iter().zip(answers) {
            match answer {
                Err(error) if error.is_retryable() => {
                    let task = &commit.claim.task;
                    if lease != Some(commit.claim.lease) {
                        sorted.done.push((slot, Err(Error::fenced(task))));
                        continue;
                    }
                    if !self.reported && sorted.report.is_none() {
                        let task = task.clone();
                        sorted.report = Some(Unavailable { task, error });
                    }
                    writes.push((slot, commit));
                }
                answer => sorted.done.push((slot, answer)),
            }
        }
        if !writes.is_empty() {
            sorted.again = Some(Self {
                writes,
                pause: self.backoff.jittered(jitter),
                backoff: self.backoff,
                reported: true,
            });
        }
        sorted
    }
}

#[cfg(test)]
mod tests {
    use windlass_statemachine::{Fence, TaskState, machine::Write};

    use super::*;
    use crate::store::Claim;

    fn write(slot: SlotId, lease: u64) -> (SlotId, Commit) {
        let claim = Claim {
            task: format!("t{slot}").parse().unwrap(),
            fence: Fence(1),
            lease,
            token: slot,
        };
        let write = Write::releasing(TaskState::new(jiff::Timestamp::UNIX_EPOCH));
        (slot, Commit::new(claim, write))
    }

    fn down() -> Result<(), Error> {
        Err(Error::unavailable("commit", "the disk is slow"))
    }

    fn slots(sorted: &Sorted) -> Vec<SlotId> {
        sorted.done.iter().map(|(slot, _)| *slot).collect()
    }

    #[test]
    fn a_write_that_the_store_cannot_take_is_sent_again_and_the_others_are_done() {
        let batch = Batch::new(vec![write(1, 7), write(2, 7), write(3, 7)]);
        let sorted = batch.sort(vec![Ok(()), down(), down()], Some(7), 1.0);
        assert_eq!(slots(&sorted), [1]);
        assert_eq!(sorted.report.unwrap().task.as_str(), "t2");
        let again = sorted.again.unwrap();
        assert_eq!(again.pause, FIRST_PAUSE);
        let sorted = again.sort(vec![down(), Ok(())], Some(7), 1.0);
        assert_eq!(slots(&sorted), [3]);
        assert!(sorted.report.is_none(), "a batch is reported once");
        assert_eq!(sorted.again.unwrap().pause, FIRST_PAUSE * 2);
    }

    #[test]
    fn a_write_of_a_lost_lease_is_fenced_instead() {
        for lease in [None, Some(8)] {
            let sorted = Batch::new(vec![write(1, 7)]).sort(vec![down()], lease, 0.5);
            assert!(matches!(sorted.done[0].1, Err(Error::Fenced(_))));
            assert!(sorted.again.is_none() && sorted.report.is_none());
        }
    }

    #[test]
    fn the_pause_grows_up_to_a_bound() {
        let mut batch = Batch::new(vec![write(1, 7)]);
        for _ in 0..20 {
            batch = batch.sort(vec![down()], Some(7), 0.0).again.unwrap();
        }
        assert_eq!(batch.pause, LONGEST_PAUSE / 2, "half of it is jitter");
    }
}
