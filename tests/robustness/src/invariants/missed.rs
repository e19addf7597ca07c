//! Which tasks have met or missed their deadlines.

use jiff::Timestamp;
use windlass::{ActionKind, StateKind, store::ChangeKind};

use crate::world::{Subject, World};

/// How many tasks met or missed their deadlines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timed {
    /// Failed, because they did not start in time.
    pub starts: usize,
    /// Failed, because they did not end in time.
    pub ends: usize,
    /// Of these, how many were asleep: at a time, waiting for others, or before their start.
    pub asleep: usize,
    /// Completed in time.
    pub met: usize,
}

impl std::fmt::Display for Timed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} starts and {} ends missed ({} asleep), {} met",
            self.starts, self.ends, self.asleep, self.met
        )
    }
}

/// Counts the tasks that met or missed their deadlines.
pub fn timed(world: &World) -> Timed {
    let mut timed = Timed::default();
    for subject in world.subjects.values().filter(|s| has_deadline(s)) {
        match (subject.code(), missed(subject)) {
            (Some(StateKind::Completed), _) => timed.met += 1,
            (_, Some(text)) => {
                timed.starts += usize::from(text.starts_with(START));
                timed.ends += usize::from(text.starts_with(END));
                timed.asleep += usize::from(was_asleep(subject));
            }
            _ => {}
        }
    }
    timed
}

pub(super) const START: &str = "did not start by ";
pub(super) const END: &str = "did not end by ";

pub(super) fn has_deadline(subject: &Subject) -> bool {
    let task = &subject.record.task;
    task.start_by.is_some() || task.end_by.is_some()
}

/// The error of a task that has failed for a deadline.
pub(super) fn missed(subject: &Subject) -> Option<&str> {
    let state = subject.record.state.as_ref().ok()?;
    let state = (state.code() == StateKind::Failed).then_some(state)?;
    // On a split store the next claim records that this one was abandoned, after the state has ended.
    let mut errors = state.errors.entries().iter().rev();
    let error = errors.find(|entry| !entry.is_abandonment())?.error.as_str();
    (error.starts_with(START) || error.starts_with(END)).then_some(error)
}

/// The deadline that the error of a failed task names, if it is one of the task.
pub(super) fn missed_deadline(subject: &Subject) -> Option<Timestamp> {
    let (error, task) = (missed(subject)?, &subject.record.task);
    let names = |(at, what): &(Timestamp, &str)| error == format!("{what}{at}");
    let start = task.start_by.map(|at| (at, START));
    let end = task.end_by.map(|at| (at, END));
    start.into_iter().chain(end).find(names).map(|(at, _)| at)
}

/// Whether a failed task was asleep before its failure.
fn was_asleep(subject: &Subject) -> bool {
    let moves = subject.history.iter().rev().map(|change| &change.what);
    let mut failing = moves.filter(|what| {
        matches!(what, ChangeKind::Moved { message: ActionKind::Error, from, .. } if *from != StateKind::Fault)
    });
    let from = failing.next();
    matches!(from, Some(ChangeKind::Moved { from, .. }) if *from == StateKind::Sleeping)
}
