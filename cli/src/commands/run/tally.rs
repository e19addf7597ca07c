//! Counts of the outcomes of lines, and the tasks that did not complete.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use windlass::{StateKind, TaskId, TaskState, Waits, store::Error};

use crate::{exec::Output as Captured, remedy::last_error, view::age};

/// Times that differ by less than this are shown as one.
const NEAR: SignedDuration = SignedDuration::from_mins(1);

/// A task that did not complete.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Failed {
    /// The task.
    pub(super) id: TaskId,
    /// `failed`, `killed`, `deleted` or `quarantined`.
    pub(super) state: String,
    /// The exit code of its command.
    pub(super) exit_code: Option<i32>,
    /// The signal that ended its command.
    pub(super) signal: Option<i32>,
    /// Its last error.
    pub(super) error: Option<String>,
    /// How many attempts in a row have failed.
    pub(super) attempts: u32,
    /// Whether its command did not run, because a task that had to complete before it did not.
    pub(super) not_run: bool,
    /// The task because of which its command did not run.
    #[serde(skip)]
    pub(super) unmet: Option<TaskId>,
    /// Whether it ended before this run began.
    pub(super) before: bool,
}

impl Failed {
    /// Makes it from the state in which the task ended.
    pub(super) fn of(id: &TaskId, state: &TaskState) -> Self {
        let captured: Option<Captured> = state.data.as_ref().and_then(|d| d.get("data").ok());
        let captured = captured.filter(|_| state.code() == StateKind::Failed);
        let unmet = unmet(state);
        Self {
            id: id.clone(),
            state: state.code().to_string(),
            exit_code: captured.as_ref().and_then(|c| c.exit_code),
            signal: captured.as_ref().and_then(|c| c.signal),
            error: last_error(state),
            attempts: state.attempts,
            not_run: unmet.is_some(),
            unmet,
            before: false,
        }
    }

    /// Returns the outcome as a predicate.
    pub(super) fn outcome(&self) -> &'static str {
        match self.state.as_str() {
            "killed" => "was killed",
            "deleted" => "was deleted",
            "quarantined" => "is quarantined",
            _ => "failed",
        }
    }

    /// Makes it from the store's error.
    pub(super) fn quarantined(id: &TaskId, error: &Error) -> Self {
        let state = match error {
            Error::NotFound { .. } => "deleted",
            _ => "quarantined",
        };
        Self {
            id: id.clone(),
            state: state.to_owned(),
            exit_code: None,
            signal: None,
            error: Some(error.to_string()),
            attempts: 0,
            not_run: false,
            unmet: None,
            before: false,
        }
    }
}

/// Returns the task that did not complete, if a task failed because it waits for that one.
fn unmet(state: &TaskState) -> Option<TaskId> {
    let unmet = state.waits.as_deref().and_then(Waits::unmet);
    let unmet = unmet.filter(|_| state.code() == StateKind::Failed);
    unmet.map(|waited| waited.task)
}

/// Counts of the outcomes of lines.
#[derive(Debug, Default, Clone)]
pub(super) struct Counts {
    pub(super) completed: u64,
    /// Lines completed in an earlier run.
    pub(super) earlier: u64,
    /// Lines completed for an earlier, equal line.
    pub(super) repeated: u64,
    pub(super) failed: u64,
    /// Lines that failed without a run, because a task that had to complete before did not.
    pub(super) not_run: u64,
    /// Invalid lines.
    pub(super) wrong: u64,
}

impl Counts {
    pub(super) fn settled(&self) -> u64 {
        self.completed + self.failed + self.wrong
    }

    /// Returns the tasks that this run did not execute.
    pub(super) fn before(&self) -> u64 {
        self.earlier + self.repeated
    }
}

/// When the tasks that completed in an earlier run ended.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Span {
    /// The first end.
    first: Option<Timestamp>,
    /// The last end.
    last: Option<Timestamp>,
}

impl Span {
    pub(super) fn add(&mut self, at: Timestamp) {
        self.first = Some(self.first.map_or(at, |first| first.min(at)));
        self.last = Some(self.last.map_or(at, |last| last.max(at)));
    }

    /// Returns the span as text: one time, or both if they are more than a minute apart.
    pub(super) fn text(self, now: Timestamp) -> String {
        let (Some(first), Some(last)) = (self.first, self.last) else {
            return String::new();
        };
        let age = age(last, now);
        if last.duration_since(first) < NEAR {
            format!("{last:.0}, {age} ago")
        } else {
            format!("{first:.0} to {last:.0}, {age} ago")
        }
    }
}

/// The unfinished tasks of a run.
#[derive(Debug, Default)]
pub(super) struct Unfinished {
    /// Lines whose tasks have not ended.
    pub(super) lines: u64,
    /// How many of them wait, by reason.
    pub(super) waiting: HashMap<String, u64>,
    /// Live tasks of the batch that no line of this input names.
    pub(super) left_out: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_shown_with_its_age() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut span = Span::default();
        assert_eq!(span.text(at(0)), "");
        span.add(at(30));
        span.add(at(10));
        assert_eq!(span.text(at(90)), "1970-01-01T00:00:30Z, 1m ago");
        span.add(at(90));
        assert_eq!(
            span.text(at(91)),
            "1970-01-01T00:00:10Z to 1970-01-01T00:01:30Z, 1s ago"
        );
    }
}
