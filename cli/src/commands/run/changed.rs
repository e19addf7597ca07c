//! [`Changed`]: lines that were changed after their task had ended.

use windlass::{StateKind, TaskId, store::TaskRecord};

use super::{entry::BATCH, settings::Settings};
use crate::hint::Hint;

/// The first of these lines, whose errors say what to do. The errors of the others refer to them.
#[derive(Debug)]
pub(super) struct Changed {
    hint: Hint,
    settings: Settings,
    /// The first line whose task failed, or was killed, and runs again with `--retry-failed`.
    failed: Option<u64>,
    /// The first line whose task completed and runs again with `--again`.
    completed: Option<u64>,
    /// The first line whose task cannot be replaced by an option.
    others: Option<u64>,
}

/// A task that has ended, with other work than its line.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) id: TaskId,
    /// The state; `None` when it cannot be read.
    code: Option<StateKind>,
    origin: Origin,
}

/// The origin of a task.
#[derive(Debug)]
enum Origin {
    /// An earlier run of this batch.
    Batch,
    /// A run of another batch.
    OtherBatch(String),
    /// Not `run`.
    Elsewhere,
    /// The record cannot be read.
    Unknown,
}

impl Ended {
    /// Reads the record of a task, in a run of this batch.
    pub(super) fn of(record: &TaskRecord, batch: &str) -> Self {
        let origin = match record.task.labels.get(BATCH) {
            Some(name) if name == batch => Origin::Batch,
            Some(name) => Origin::OtherBatch(name.clone()),
            None => Origin::Elsewhere,
        };
        Self {
            id: record.task.id.clone(),
            code: record.state.as_ref().ok().map(windlass::TaskState::code),
            origin,
        }
    }

    /// Returns the value for a task whose record cannot be read.
    pub(super) fn unreadable(id: TaskId) -> Self {
        Self {
            id,
            code: None,
            origin: Origin::Unknown,
        }
    }

    /// Describes how the task ended, and that the line differs from it.
    fn about(&self) -> String {
        let (id, other) = (&self.id, "another kind or other props than the line");
        let ended = match self.code {
            Some(StateKind::Completed) => "completed",
            Some(StateKind::Killed) => "was killed",
            Some(_) => "failed",
            None => "ended",
        };
        match &self.origin {
            Origin::Batch | Origin::Unknown => {
                format!("task '{id}' {ended} in an earlier run, with {other}")
            }
            Origin::OtherBatch(name) => {
                format!("task '{id}' {ended}, is of the batch '{name}', and has {other}")
            }
            Origin::Elsewhere => {
                format!("task '{id}' {ended}, was not submitted by run, and has {other}")
            }
        }
    }
}

impl Changed {
    pub(super) fn new(hint: Hint, settings: Settings) -> Self {
        Self {
            hint,
            settings,
            failed: None,
            completed: None,
            others: None,
        }
    }

    /// Returns why a line is refused. The advice names an option only if the option would replace this
    /// task.
    pub(super) fn reason(&mut self, line: u64, ended: &Ended) -> String {
        let delete = format!(
            "`{}`, then the same run again, runs this line and the lines that wait for it",
            self.hint.on_task("delete", &ended.id)
        );
        let in_batch = matches!(ended.origin, Origin::Batch);
        let (first, advice) = match ended.code.filter(|_| in_batch) {
            Some(StateKind::Completed) if !self.settings.again => (
                &mut self.completed,
                format!("{delete}; --again runs all lines again"),
            ),
            Some(StateKind::Failed | StateKind::Killed) if !self.settings.retry_failed => (
                &mut self.failed,
                format!("--retry-failed runs the lines that failed, as they are now; {delete}"),
            ),
            _ => (&mut self.others, delete),
        };
        let about = ended.about();
        match *first.get_or_insert(line) {
            first if first == line => format!("{advice}: {about}; another id makes another task"),
            first => format!("{about}; see line {first}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(code: StateKind, origin: Origin) -> Ended {
        Ended {
            id: "t".parse().unwrap(),
            code: Some(code),
            origin,
        }
    }

    #[test]
    fn the_first_line_of_a_kind_says_what_to_do() {
        let mut changed = Changed::new(Hint::default(), Settings::default());
        let mut reason = |line, code| changed.reason(line, &ended(code, Origin::Batch));
        let failed = reason(2, StateKind::Failed);
        assert!(
            failed.starts_with("--retry-failed runs the lines that failed"),
            "{failed}"
        );
        let completed = reason(3, StateKind::Completed);
        assert!(completed.starts_with("`windlass delete t`"), "{completed}");
        assert!(!completed.contains("--retry-failed"), "{completed}");
        let other = "with another kind or other props than the line";
        assert_eq!(
            reason(4, StateKind::Killed),
            format!("task 't' was killed in an earlier run, {other}; see line 2")
        );
        assert_eq!(
            reason(5, StateKind::Completed),
            format!("task 't' completed in an earlier run, {other}; see line 3")
        );
    }

    /// Regression: such options were named, and the run with them was refused.
    #[test]
    fn an_option_that_does_not_replace_the_task_is_not_named() {
        let given = Settings {
            again: true,
            retry_failed: true,
            ..Settings::default()
        };
        let other = || Origin::OtherBatch("b".to_owned());
        for (settings, code, origin) in [
            (Settings::default(), StateKind::Completed, Origin::Elsewhere),
            (Settings::default(), StateKind::Killed, Origin::Elsewhere),
            (Settings::default(), StateKind::Failed, other()),
            (Settings::default(), StateKind::Failed, Origin::Unknown),
            (given, StateKind::Killed, Origin::Batch),
            (given, StateKind::Completed, Origin::Batch),
        ] {
            let mut changed = Changed::new(Hint::default(), settings);
            let reason = changed.reason(1, &ended(code, origin));
            assert!(reason.starts_with("`windlass delete t`"), "{reason}");
            assert!(!reason.contains("--"), "{reason}");
        }
    }
}
