//! [`Changed`]: lines that were changed after their task had ended in an earlier run.

use windlass::{StateKind, TaskId};

/// The first such lines, whose errors say what to do. The errors of the others refer to them.
#[derive(Debug, Default)]
pub(super) struct Changed {
    /// The first line whose task did not complete.
    failed: Option<u64>,
    /// The first line whose task completed.
    completed: Option<u64>,
}

impl Changed {
    /// Returns why a line is refused; `None` is the state of a task that cannot be read.
    pub(super) fn reason(&mut self, line: u64, id: &TaskId, code: Option<StateKind>) -> String {
        let is_completed = code == Some(StateKind::Completed);
        let (first, advice) = match is_completed {
            true => (
                &mut self.completed,
                format!(
                    "`windlass delete {id}`, then the same run again, runs this line alone; --again runs all lines \
                     again"
                ),
            ),
            false => (
                &mut self.failed,
                format!(
                    "--retry-failed runs the lines that failed, as they are now; `windlass delete {id}`, then the \
                     same run again, runs this line alone"
                ),
            ),
        };
        let ended = match code {
            Some(StateKind::Completed) => "completed",
            Some(StateKind::Killed) => "was killed",
            Some(_) => "failed",
            None => "ended",
        };
        let other = "with another kind or other props than the line";
        let about = format!("task '{id}' {ended} in an earlier run, {other}");
        match *first.get_or_insert(line) {
            first if first == line => format!("{advice}: {about}; another id makes another task"),
            first => format!("{about}; see line {first}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_kind_says_what_to_do() {
        let mut changed = Changed::default();
        let mut reason = |line, code| changed.reason(line, &"t".parse().unwrap(), code);
        let failed = reason(2, Some(StateKind::Failed));
        assert!(
            failed.starts_with("--retry-failed runs the lines that failed"),
            "{failed}"
        );
        let completed = reason(3, Some(StateKind::Completed));
        assert!(completed.starts_with("`windlass delete t`"), "{completed}");
        assert!(!completed.contains("--retry-failed"), "{completed}");
        let other = "with another kind or other props than the line";
        assert_eq!(
            reason(4, Some(StateKind::Killed)),
            format!("task 't' was killed in an earlier run, {other}; see line 2")
        );
        assert_eq!(
            reason(5, Some(StateKind::Completed)),
            format!("task 't' completed in an earlier run, {other}; see line 3")
        );
    }
}
