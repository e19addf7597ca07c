//! [`Tasks`]: what is known of the tasks that have changed, in bounded memory.

use std::{collections::VecDeque, time::Duration};

use jiff::Timestamp;
use windlass_statemachine::{Fence, Kind, TaskId};

use crate::hash::HashMap;

/// How many tasks are remembered. With more, all are forgotten, and learned again.
const REMEMBERED: usize = 20_000;
/// How many tasks may wait to be read. Those beyond are not read.
const WANTED: usize = 1_000;
/// How many outcomes of one task wait for its kind. Those beyond have none.
const OUTCOMES: usize = 16;

/// When a task can be claimed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Due {
    /// Not known.
    #[default]
    Unknown,
    /// Since this time.
    Since(Timestamp),
    /// From this time on.
    From(Timestamp),
    /// The task sleeps until a time that has to be read: changes do not have it.
    Asleep,
    /// Only for a command.
    Never,
}

/// What a kind is counted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Started,
    Completed,
    FailedAttempt,
    Failed,
    Lost,
}

/// A claim of a task.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claim {
    pub(super) fence: Fence,
    /// The time of the claim.
    pub(super) claimed: Timestamp,
    /// When it was reported.
    pub(super) at: Duration,
}

/// What is known of a task.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) kind: Option<Kind>,
    pub(super) due: Due,
    /// The claim whose due time is not known yet.
    pub(super) claim: Option<Claim>,
    /// Whether a node has the task, as far as is known.
    pub(super) is_owned: bool,
    /// Whether a command was sent while no node had the task: the next claim may only carry it out.
    pub(super) is_commanded: bool,
    /// The claim that may only carry out a command, with the due time of the task.
    pub(super) unsure: Option<(Claim, Due)>,
    /// What the kind is counted for once it is known, with the time of each.
    pub(super) outcomes: Vec<(Duration, Outcome)>,
    /// Whether the task is in a queue to be read.
    is_wanted: bool,
    /// Whether the task has ended: it is remembered only until its kind is known.
    pub(super) has_ended: bool,
}

impl Known {
    /// Keeps an outcome until the kind is known.
    pub(super) fn keep(&mut self, at: Duration, outcome: Outcome) {
        if self.outcomes.len() < OUTCOMES {
            self.outcomes.push((at, outcome));
        }
    }
}

/// The tasks that have changed.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    known: HashMap<TaskId, Known>,
    /// The tasks to be read, those that failed first.
    urgent: VecDeque<TaskId>,
    wanted: VecDeque<TaskId>,
}

impl Tasks {
    /// Returns what is known of a task.
    pub(super) fn entry(&mut self, id: &TaskId) -> &mut Known {
        if self.known.len() >= REMEMBERED && !self.known.contains_key(id) {
            *self = Self::default();
        }
        self.known.entry(id.clone()).or_default()
    }

    pub(super) fn get_mut(&mut self, id: &TaskId) -> Option<&mut Known> {
        self.known.get_mut(id)
    }

    pub(super) fn forget(&mut self, id: &TaskId) {
        self.known.remove(id);
    }

    /// Puts a task into the queue of those to be read, if there is room.
    pub(super) fn want(&mut self, id: &TaskId, is_urgent: bool) {
        let queue = match is_urgent {
            true => &mut self.urgent,
            false => &mut self.wanted,
        };
        if let Some(known) = self.known.get_mut(id)
            && !known.is_wanted
            && queue.len() < WANTED
        {
            known.is_wanted = true;
            queue.push_back(id.clone());
        }
    }

    /// Returns whether a task is to be read.
    pub(super) fn wants(&self) -> bool {
        !self.urgent.is_empty() || !self.wanted.is_empty()
    }

    /// Takes at most this many tasks from the queues, each once.
    pub(super) fn take_wanted(&mut self, most: usize) -> Vec<TaskId> {
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some(id) = self.urgent.pop_front().or_else(|| self.wanted.pop_front())
        {
            // A task that was forgotten need not be read.
            if let Some(known) = self.known.get_mut(&id)
                && std::mem::take(&mut known.is_wanted)
            {
                taken.push(id);
            }
        }
        taken
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> (usize, usize) {
        (self.known.len(), self.urgent.len() + self.wanted.len())
    }
}
