//! The last run of a schedule, and the times that submitted no run.

use jiff::Timestamp;
use windlass::{
    Client, FailedAttempt, StateKind, Task, TaskId, TaskState,
    schedule::{LeftOut, ScheduleRecord, ScheduledFor, Why},
    store::{Error, TaskRecord},
};

use crate::{exit::Failure, remedy::last_error, view::color};

/// Returns the times of an entry and why they submitted no run, in one line.
pub(super) fn left_out_text(entry: &LeftOut) -> String {
    let LeftOut {
        first, last, times, ..
    } = entry;
    let times = match times {
        1 => first.to_string(),
        2 => format!("{first}, {last}"),
        _ => format!("{first} to {last}, {times} times"),
    };
    let why = match entry.why {
        Why::Missed => "missed: no worker decided it in time",
        Why::Skipped => "skipped, or the schedule was paused",
        Why::Overlapped => "overlapped: an earlier run was live, or a later time replaced it",
        Why::Refused => "refused: another task has its id",
        _ => "for a reason that this version does not know; update windlass to read it",
    };
    format!("{times}: {why}")
}

/// The outcome of the last run of a schedule.
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct LastRun {
    /// Its task.
    id: TaskId,
    /// Its nominal time.
    pub(super) nominal: Timestamp,
    /// Since when it is in its state; `None` when its record cannot be read.
    #[serde(skip)]
    pub(super) since: Option<Timestamp>,
    /// Its state; `null` when its record cannot be read.
    state: Option<StateKind>,
    /// The last error if it has failed, the failed attempt if it is retried, or why its record cannot be read.
    error: Option<String>,
}

impl LastRun {
    /// Returns the name of its state, and the color of that state.
    pub(super) fn code(&self) -> (&'static str, comfy_table::Color) {
        match self.state {
            Some(code) => (code.as_str(), color(code)),
            None => ("quarantined", comfy_table::Color::Red),
        }
    }

    pub(super) fn text(&self) -> String {
        let (state, _) = self.code();
        let error = self.error.as_ref().map(|error| format!(": {error}"));
        format!("{} {state}{}", self.id, error.unwrap_or_default())
    }
}

/// Returns the last run of a schedule; `None` before the first run, and when its task was deleted.
pub(super) async fn last_run(
    client: &Client,
    record: &ScheduleRecord,
) -> Result<Option<LastRun>, Failure> {
    let (Some(id), Some(nominal)) = (record.last_run_id(), record.last_run) else {
        return Ok(None);
    };
    let unread = |error: String| (None, Some(error));
    let mut since = None;
    let (state, error) = match client.get(&id).await {
        Ok(task) if !is_run(&task.task, &record.id) => return Ok(None),
        Ok(TaskRecord {
            state: Ok(state), ..
        }) => {
            since = Some(state.since);
            (Some(state.code()), error_of(&state))
        }
        Ok(TaskRecord {
            state: Err(error), ..
        }) => unread(error.to_string()),
        // One damaged run must not hide the schedules.
        Err(error @ Error::Corrupt { .. }) => unread(error.to_string()),
        Err(Error::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok(Some(LastRun {
        id,
        nominal,
        since,
        state,
        error,
    }))
}

fn error_of(state: &TaskState) -> Option<String> {
    match state.code() {
        StateKind::Failed => last_error(state),
        StateKind::Completed | StateKind::Killed => None,
        _ => Some(FailedAttempt::last_of(state)?.to_string()),
    }
}

fn is_run(task: &Task, schedule: &TaskId) -> bool {
    ScheduledFor::of(task).is_some_and(|run| run.schedule == *schedule)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a run between two attempts looked healthy, because it was asleep.
    #[test]
    fn a_run_that_is_retried_shows_its_failed_attempt() {
        let mut state = TaskState::new(Timestamp::UNIX_EPOCH);
        assert_eq!(error_of(&state), None);
        state.errors.push(Timestamp::UNIX_EPOCH, "exit code 9", 8);
        state.attempts = 5;
        let error = error_of(&state).unwrap();
        assert!(
            error.starts_with("attempt 5 failed: exit code 9"),
            "{error}"
        );
    }
}
