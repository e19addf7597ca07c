//! [`LastRun`]: the outcome of the last run of a schedule; [`Held`]: why a schedule submits no runs.

use jiff::Timestamp;
use serde::Serialize;
use windlass_statemachine::{FailedAttempt, StateKind, Task, TaskId, TaskState, WaitOutcome};

use super::{KIND, ScheduledFor, Schedules, record::ScheduleRecord};
use crate::store::{Error, Shown};

/// The outcome of the last run of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct LastRun {
    /// Its task.
    pub id: TaskId,
    /// Its nominal time.
    pub nominal: Timestamp,
    /// Since when it is in its state; `None` when its record cannot be read.
    #[serde(skip)]
    pub since: Option<Timestamp>,
    /// Its state; `null` when its record cannot be read.
    pub state: Option<StateKind>,
    /// Its state as lists show it: `running` or `queued` for a runnable task, `quarantined` when its record cannot be read.
    pub shown: &'static str,
    /// The last error if it has failed, the failed attempt if it is retried, or why its record cannot be read.
    pub error: Option<String>,
    /// Whether it has failed because a task that it waited for has failed or was killed.
    #[serde(skip)]
    pub in_chain: bool,
}

/// Why a schedule submits no run at present.
#[derive(Debug)]
#[non_exhaustive]
pub enum Held {
    /// No live node runs schedules.
    NoNode,
    /// No node may run schedules on this store, for this reason.
    NoNodeMay(Error),
    /// A clock that was ahead has decided the times up to this one.
    Ahead(Timestamp),
    /// So many commands wait for a node, and may change what the schedule does next.
    Commands(u64),
}

impl Schedules {
    /// Returns the last run of a schedule; `None` before the first run, and when its task was deleted.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Client, NewTask, schedule::Schedule, store::Store};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// let report = Schedule::new(NewTask::new("report")).cron("0 6 * * MON");
    /// client.schedules().create("weekly", report).await?;
    /// let run = client.schedules().trigger("weekly").await?;
    /// let record = client.schedules().get("weekly").await?;
    /// let last = client.schedules().last_run(&record).await?;
    /// assert_eq!(last.map(|last| last.id), Some(run));
    /// # Ok(()) }
    /// ```
    pub async fn last_run(&self, record: &ScheduleRecord) -> Result<Option<LastRun>, Error> {
        let (Some(id), Some(nominal)) = (record.last_run_id(), record.last_run) else {
            return Ok(None);
        };
        let mut run = LastRun {
            id,
            nominal,
            since: None,
            state: None,
            shown: Shown::Quarantined.as_str(),
            error: None,
            in_chain: false,
        };
        match self.client.get(&run.id).await {
            Ok(task) if !is_run(&task.task, &record.id) => return Ok(None),
            Ok(task) => {
                run.shown = Shown::of(&task).as_str();
                match &task.state {
                    Ok(state) => {
                        run.since = Some(state.since);
                        run.state = Some(state.code());
                        run.error = error_of(state);
                        run.in_chain = is_in_chain(state);
                    }
                    Err(error) => run.error = Some(error.to_string()),
                }
            }
            // One damaged run must not hide the schedules.
            Err(error @ Error::Corrupt { .. }) => run.error = Some(error.to_string()),
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error),
        }
        Ok(Some(run))
    }

    /// Returns why a schedule submits no run at present. Empty for a schedule that has ended or is paused, which has none
    /// to submit.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    pub async fn held(&self, record: &ScheduleRecord) -> Result<Vec<Held>, Error> {
        let mut held = Vec::new();
        let has_next = record.state.is_some_and(|code| match code {
            StateKind::Paused => record.commands > 0,
            code => !code.is_terminal(),
        });
        if has_next {
            let registry = self.client.store().registry();
            if let Some(why) = registry.no_node_may_join().await? {
                held.push(Held::NoNodeMay(why));
            } else if !self.client.is_handled(KIND).await? {
                held.push(Held::NoNode);
            }
        }
        held.extend(record.ahead.map(Held::Ahead));
        held.extend((record.commands > 0).then_some(Held::Commands(record.commands)));
        Ok(held)
    }
}

/// Returns whether a run has failed because another task of its chain has.
fn is_in_chain(state: &TaskState) -> bool {
    let unmet = state.waits.as_ref().and_then(|waits| waits.unmet());
    let ended = |outcome| matches!(outcome, WaitOutcome::Failed | WaitOutcome::Killed);
    state.code() == StateKind::Failed && unmet.is_some_and(|one| ended(one.outcome))
}

fn error_of(state: &TaskState) -> Option<String> {
    match state.code() {
        StateKind::Failed => Some(state.errors.last()?.error.clone()),
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
