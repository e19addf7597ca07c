//! [`Live`]: a task of a run that has not ended.

use windlass::{Kind, StateKind, Task, TaskId};

/// A task that has not ended.
pub(super) struct Live {
    pub(super) state: StateKind,
    /// Whether a node has claimed it.
    pub(super) claimed: bool,
    /// How many lines have this task.
    pub(super) lines: u64,
    /// The number of the first of these lines.
    pub(super) first: u64,
    pub(super) kind: Kind,
    /// Whether it waits for other tasks.
    pub(super) waits: bool,
    /// Whether it waits for a signal.
    pub(super) awaits: bool,
    /// The tasks that must end before it runs, whatever their outcomes are (`after`).
    pub(super) after: Vec<TaskId>,
}

impl Live {
    pub(super) fn new(state: StateKind, claimed: bool, kind: Kind) -> Self {
        Self {
            state,
            claimed,
            lines: 0,
            first: 0,
            kind,
            waits: false,
            awaits: false,
            after: Vec::new(),
        }
    }

    /// Sets whether it waits for other tasks.
    pub(super) fn waiting(mut self, waits: bool) -> Self {
        self.waits = waits;
        self
    }

    /// Sets whether it waits for a signal.
    pub(super) fn awaiting(mut self, awaits: bool) -> Self {
        self.awaits = awaits;
        self
    }

    /// Sets the tasks that `task` names in `after`.
    pub(super) fn behind(mut self, task: &Task) -> Self {
        let waits = task.waits.as_deref().filter(|waits| !waits.ok);
        self.after = waits.map(|waits| waits.tasks.clone()).unwrap_or_default();
        self
    }

    /// Returns whether it has no owner and waits for other tasks.
    pub(super) fn is_blocked(&self) -> bool {
        self.waits && !self.claimed && self.state == StateKind::Sleeping
    }

    /// Returns whether it is paused until an operator resumes it.
    pub(super) fn is_paused(&self) -> bool {
        self.state == StateKind::Paused && !self.awaits
    }

    pub(super) fn runs(&self) -> bool {
        self.claimed && self.state == StateKind::Runnable
    }
}
