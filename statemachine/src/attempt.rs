//! [`FailedAttempt`]: the last failed attempt of a task, as logs and clients show it.

use std::{fmt, time::Duration};

use jiff::Timestamp;

use crate::{TaskState, TaskStatus};

/// The last failed attempt of a task and what follows it. Its text is one line:
/// `attempt 1 failed: exit code 1; next in 0.4 s (7 left)`.
///
/// # Example
///
/// ```
/// use jiff::{SignedDuration, Timestamp};
/// use windlass_statemachine::{FailedAttempt, TaskState, TaskStatus};
///
/// let now = Timestamp::UNIX_EPOCH;
/// let mut state = TaskState::new(now);
/// assert!(FailedAttempt::last_of(&state).is_none());
///
/// state.errors.push(now, "exit code 1", 8);
/// (state.attempts, state.attempts_left) = (1, Some(7));
/// state.status = TaskStatus::Sleeping { until: now + SignedDuration::from_millis(400) };
/// let failed = FailedAttempt::last_of(&state).unwrap();
/// assert_eq!(failed.to_string(), "attempt 1 failed: exit code 1; next in 0.4 s (7 left)");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedAttempt {
    /// The number of the attempt: 1 for the first since the task last made progress, 0 when the task
    /// has made progress since the failure.
    pub number: u32,
    /// The error text of the attempt.
    pub error: String,
    /// When it failed.
    pub at: Timestamp,
    /// The state of the task after the attempt; `None` when a later error has followed.
    pub status: Option<TaskStatus>,
    /// How many more attempts the retry policy allows; `None` when the policy does not count
    /// attempts.
    pub left: Option<u32>,
}

impl FailedAttempt {
    /// Returns the last failed attempt; `None` when no attempt has failed since the task last made
    /// progress.
    pub fn last_of(state: &TaskState) -> Option<Self> {
        let last = state.errors.last().filter(|_| state.attempts > 0)?;
        Some(Self {
            number: state.attempts,
            error: last.error.clone(),
            at: last.timestamp,
            status: Some(state.status.clone()),
            left: state.attempts_left,
        })
    }

    /// Returns the failed attempts after the first `seen` errors of the task, oldest first. Leaves out
    /// errors that the task no longer keeps.
    pub fn since(state: &TaskState, seen: u64) -> Vec<Self> {
        let entries = state.errors.entries();
        let new = state.errors.total().saturating_sub(seen);
        let new = usize::try_from(new).map_or(entries.len(), |new| new.min(entries.len()));
        let back = (0..new).rev();
        let newest = Self::last_of(state);
        entries[entries.len() - new..]
            .iter()
            .zip(back)
            .map(|(entry, back)| match &newest {
                Some(newest) if back == 0 => newest.clone(),
                // The task failed without an attempt: it missed a deadline, or a task that it
                // waited for did not complete.
                None if back == 0 && state.status == TaskStatus::Failed => Self {
                    number: 0,
                    error: entry.error.clone(),
                    at: entry.timestamp,
                    status: Some(TaskStatus::Failed),
                    left: None,
                },
                _ => Self {
                    number: (u32::try_from(back).ok())
                        .map_or(0, |back| state.attempts.saturating_sub(back)),
                    error: entry.error.clone(),
                    at: entry.timestamp,
                    status: None,
                    left: None,
                },
            })
            .collect()
    }

    /// Returns whether the task failed with this attempt.
    pub fn is_last(&self) -> bool {
        self.status == Some(TaskStatus::Failed)
    }

    /// Returns what follows the attempt, such as `next in 0.4 s (7 left)`. `None` when another error
    /// has followed.
    pub fn next(&self) -> Option<String> {
        let left = self.left.map_or(String::new(), |n| format!(" ({n} left)"));
        Some(match self.status.as_ref()? {
            TaskStatus::Sleeping { until } => {
                let wait = Duration::try_from(until.duration_since(self.at)).unwrap_or_default();
                format!("next in {}{left}", rounded(wait))
            }
            TaskStatus::Runnable | TaskStatus::Fault => format!("next at once{left}"),
            TaskStatus::Failed => "not retried, the task has failed".to_owned(),
            status => format!("the task is {}", status.code()),
        })
    }
}

impl fmt::Display for FailedAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = self.error.trim_end().replace(['\r', '\n'], " ");
        match (self.number, self.is_last()) {
            (0, true) => return write!(f, "failed without an attempt: {error}"),
            (0, false) => write!(f, "an attempt failed: {error}")?,
            (number, _) => write!(f, "attempt {number} failed: {error}")?,
        }
        self.next().map_or(Ok(()), |next| write!(f, "; {next}"))
    }
}

/// Formats a length of time with about two digits.
fn rounded(wait: Duration) -> String {
    let seconds = wait.as_secs_f64();
    match seconds {
        s if s < 9.95 => format!("{} s", (s * 10.0).round() / 10.0),
        s if s < 119.5 => format!("{s:.0} s"),
        s if s < 7199.5 => format!("{:.0} min", s / 60.0),
        s => format!("{:.0} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn a_task_that_failed_without_an_attempt_says_so() {
        let now = Timestamp::UNIX_EPOCH;
        let mut state = TaskState::new(now);
        state
            .errors
            .push(now, "did not start by 1970-01-01T00:00:00Z", 8);
        state.status = TaskStatus::Failed;
        let failed = FailedAttempt::since(&state, 0);
        let text = "failed without an attempt: did not start by 1970-01-01T00:00:00Z";
        assert_eq!(failed[0].to_string(), text);
    }

    #[test]
    fn every_status_says_what_follows() {
        let now = Timestamp::UNIX_EPOCH;
        let mut state = TaskState::new(now);
        state.errors.push(now, "no", 8);
        (state.attempts, state.attempts_left) = (3, None);
        let until = |ms| TaskStatus::Sleeping {
            until: now + SignedDuration::from_millis(ms),
        };
        for (status, says) in [
            (until(0), "next in 0 s"),
            (until(1_000), "next in 1 s"),
            (until(1_449), "next in 1.4 s"),
            (until(9_960), "next in 10 s"),
            (until(119_000), "next in 119 s"),
            (until(119_500), "next in 2 min"),
            (until(7_199_000), "next in 120 min"),
            (until(7_199_500), "next in 2 h"),
            (until(600_000), "next in 10 min"),
            (until(604_800_000), "next in 168 h"),
            (until(-5), "next in 0 s"),
            (TaskStatus::Runnable, "next at once"),
            (TaskStatus::Failed, "not retried, the task has failed"),
            (TaskStatus::Killed, "the task is killed"),
            (
                TaskStatus::Completed { result: None },
                "the task is completed",
            ),
        ] {
            state.status = status;
            let failed = FailedAttempt::last_of(&state).unwrap();
            assert_eq!(failed.to_string(), format!("attempt 3 failed: no; {says}"));
            assert_eq!(
                failed.is_last(),
                state.status == TaskStatus::Failed,
                "{says}"
            );
        }
    }

    #[test]
    fn attempts_that_were_not_seen_are_numbered_back_from_the_last() {
        let mut state = TaskState::new(Timestamp::UNIX_EPOCH);
        for n in 1..=5 {
            state
                .errors
                .push(Timestamp::UNIX_EPOCH, format!("e{n}\n"), 3);
        }
        (state.attempts, state.attempts_left) = (2, Some(1));
        let texts = |state: &TaskState, seen| -> Vec<String> {
            let failed = FailedAttempt::since(state, seen);
            failed.iter().map(ToString::to_string).collect()
        };
        assert_eq!(
            texts(&state, 0),
            [
                "an attempt failed: e3",
                "attempt 1 failed: e4",
                "attempt 2 failed: e5; next at once (1 left)"
            ]
        );
        assert_eq!(texts(&state, 4).len(), 1);
        assert_eq!(texts(&state, 5).len(), 0);
        assert_eq!(texts(&state, 6).len(), 0);
        state.attempts = 0;
        assert_eq!(texts(&state, 4), ["an attempt failed: e5"]);
    }

    #[test]
    fn errors_from_before_the_last_progress_are_no_failed_attempt() {
        let mut state = TaskState::new(Timestamp::UNIX_EPOCH);
        state.errors.push(Timestamp::UNIX_EPOCH, "old", 8);
        assert_eq!(FailedAttempt::last_of(&state), None);
    }
}
