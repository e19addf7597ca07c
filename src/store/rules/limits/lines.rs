//! The lines of tasks that wait for a slot, and the decision which of them nodes may claim.
//!
//! A task whose claim finds no slot is held back: it joins the line of the first limit that is full, and nodes
//! do not see it as claimable. When a slot is free, the first task of the line is reported: one task for each
//! free slot. The first task in the line of a limit on starts is reported in advance, as asleep until a slot
//! is free.
//!
//! [`refill`](refill::refill) decides which tasks are reported, again each time that it examines a line: a report
//! is not a promise. A report contains a time of the wall clock, and [`Fresh`] judges that time by the present
//! clock.

use std::cmp::Reverse;

use jiff::{SignedDuration, Timestamp};
use windlass_statemachine::Limit;

use super::numbers;
use crate::store::TaskView;

mod refill;

pub(crate) use refill::{Advance, Line, Waiting, When, refill};

/// How long a reported task that no node claims holds back the next task of its line. After that, probably no
/// node can claim it.
pub(crate) const PATIENCE: SignedDuration = SignedDuration::from_secs(5);

/// The position of a task in its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    priority: Reverse<i32>,
    due: Option<Timestamp>,
    /// The submit order of the task, which identifies it.
    pub(crate) order: u64,
}

impl Place {
    pub(crate) fn new(priority: i32, due: Option<Timestamp>, order: u64) -> Self {
        let priority = Reverse(priority);
        Self {
            priority,
            due,
            order,
        }
    }

    pub(crate) fn priority(&self) -> i32 {
        self.priority.0
    }

    #[cfg(feature = "sqlite-system")]
    pub(crate) fn due(&self) -> Option<Timestamp> {
        self.due
    }
}

/// How nodes see a task in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Report {
    /// Asleep without a wake-up.
    Silent,
    /// As it would be without limits.
    Now,
    /// Asleep until this time.
    At(Timestamp),
}

impl Report {
    /// Changes the view of a task that is held back into the one that nodes see. `has_order` returns whether a
    /// command that needs no handler is queued: such a task is claimed without a slot.
    pub(crate) fn apply(self, view: &mut TaskView, has_order: impl FnOnce() -> bool) {
        view.due = match self {
            Self::Now => return,
            Self::At(until) => Some(until),
            Self::Silent => None,
        };
        view.sleeping = true;
        view.commanded = view.commanded && has_order();
    }
}

/// How a task in a line is reported.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reported {
    pub(crate) report: Report,
    /// The time from which nodes can claim it. [`Timestamp::MIN`] for a silent one.
    pub(crate) from: Timestamp,
}

impl Reported {
    pub(crate) const SILENT: Self = Self {
        report: Report::Silent,
        from: Timestamp::MIN,
    };

    fn now(now: Timestamp) -> Self {
        let (report, from) = (Report::Now, now);
        Self { report, from }
    }

    fn at(until: Timestamp) -> Self {
        let (report, from) = (Report::At(until), until);
        Self { report, from }
    }

    /// Returns whether the task is reported in advance: no node claims it before a future time.
    pub(super) fn is_advance(&self, now: Timestamp) -> bool {
        matches!(self.report, Report::At(_)) && self.from > now
    }
}

/// Decides which reports hold back others of their line, by the present clock.
///
/// Reports come from earlier readings of the clock, which may have been ahead. Every bound has two sides, so that
/// no report counts for longer than it would with a correct clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fresh {
    pub(crate) now: Timestamp,
    /// [`PATIENCE`] before now: nodes have had the time to claim tasks that were reported by then.
    pub(crate) after: Timestamp,
    /// [`PATIENCE`] after now: a report with a later time comes from a clock that was ahead.
    pub(crate) ahead: Timestamp,
}

impl Fresh {
    pub(crate) fn at(now: Timestamp) -> Self {
        Self {
            now,
            after: now.saturating_sub(PATIENCE).unwrap_or(Timestamp::MIN),
            ahead: now.saturating_add(PATIENCE).unwrap_or(Timestamp::MAX),
        }
    }

    /// Returns whether a node may be about to claim a task.
    pub(super) fn includes(&self, reported: &Reported) -> bool {
        match reported.report {
            Report::Silent => false,
            Report::Now => self.after < reported.from && reported.from <= self.ahead,
            Report::At(_) => self.after < reported.from && reported.from <= self.now,
        }
    }

    /// Returns whether a node claims a reported task soon, or at a time that is plausible.
    pub(super) fn stands(&self, limit: &Limit, reported: &Reported) -> bool {
        self.includes(reported) || self.expects(limit, reported)
    }

    /// Returns whether a task is reported in advance, for a time at which a slot of its limit may be free. A start
    /// counts if it is at most one period ahead, and for one period.
    pub(super) fn expects(&self, limit: &Limit, reported: &Reported) -> bool {
        let within = numbers(limit).1.unwrap_or(SignedDuration::ZERO);
        let last = self.now.saturating_add(within);
        let last = last.and_then(|last| last.saturating_add(within));
        reported.is_advance(self.now) && last.is_ok_and(|last| reported.from <= last)
    }
}

#[cfg(test)]
mod tests;
