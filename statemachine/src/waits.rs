//! [`Waits`]: the tasks that a task waits for, and the outcome of each.

mod circle;

use std::collections::HashSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use self::circle::{circle_text, cycle};
use crate::{Invalid, StateKind, TaskId};

/// How many tasks one task may wait for.
pub const MAX_WAITS: usize = 1000;

/// The wake-up of a waiting task without a deadline: the last instant that there is.
pub const NO_DEADLINE: Timestamp = Timestamp::MAX;

/// Returns the error (field `after_deadline`) of a new task with the end of a wait, and without a wait.
pub fn deadline_without_wait() -> Invalid {
    let reason =
        "is the end of a wait, and the task waits for none; give `after` or `after_ok` too";
    Invalid::new("after_deadline", reason)
}

/// The outcome of a task that another task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum WaitOutcome {
    /// The task is done.
    Completed,
    /// The task failed for good.
    Failed,
    /// A command or the handler ended the task.
    Killed,
    /// The task does not exist: it was never submitted, was deleted, or was pruned.
    Unknown,
    /// The task has not ended: the waiting task continues at its deadline, or by a command.
    Live,
}

impl WaitOutcome {
    /// Returns the outcome of a task in this state; `None` stands for a task that does not exist.
    ///
    /// ```
    /// use windlass_statemachine::{StateKind, waits::WaitOutcome};
    ///
    /// assert_eq!(WaitOutcome::of(Some(StateKind::Paused)), WaitOutcome::Live);
    /// assert_eq!(WaitOutcome::of(None), WaitOutcome::Unknown);
    /// ```
    pub fn of(code: Option<StateKind>) -> Self {
        match code {
            None => Self::Unknown,
            Some(StateKind::Completed) => Self::Completed,
            Some(StateKind::Failed) => Self::Failed,
            Some(StateKind::Killed) => Self::Killed,
            Some(_) => Self::Live,
        }
    }

    /// Returns the lower-case name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Killed => "killed",
            Self::Unknown => "unknown",
            Self::Live => "live",
        }
    }
}

impl std::fmt::Display for WaitOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// A task that another task has waited for, with its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Waited {
    /// The task.
    pub task: TaskId,
    /// The outcome when the waiting task was claimed.
    pub outcome: WaitOutcome,
}

impl Waited {
    /// Returns a task with its outcome.
    pub fn new(task: TaskId, outcome: WaitOutcome) -> Self {
        Self { task, outcome }
    }
}

/// Whether a wait continues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum WaitStage {
    /// The wait continues.
    #[default]
    Waiting,
    /// The wait has ended: none of its tasks was live, or its deadline was due.
    Over,
    /// A command has ended the wait. The outcomes are ignored.
    Overridden,
}

/// What a task waits for, or has waited for.
///
/// # Example
///
/// ```
/// use windlass_statemachine::waits::Waits;
///
/// let waits = Waits::new("after", ["fetch", "parse"])?;
/// assert_eq!(serde_json::to_string(&waits).unwrap(), r#"{"tasks":["fetch","parse"]}"#);
/// let twice = Waits::new("after", ["fetch", "fetch"]).unwrap_err();
/// assert_eq!(twice.to_string(), "after: names task 'fetch' twice; name it once");
/// # Ok::<(), windlass_statemachine::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Waits {
    /// The tasks: 1 to 1,000, each once.
    pub tasks: Vec<TaskId>,
    /// Whether each of the tasks has to complete. If one does not, the waiting task fails.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ok: bool,
    /// When the waiting task continues at the latest; `None` (default) for no such time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// Whether the wait continues.
    #[serde(default, skip_serializing_if = "is_waiting")]
    pub stage: WaitStage,
    /// The outcome of each task at the last claim, in the order of `tasks`. Empty before the first
    /// claim.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outcomes: Vec<WaitOutcome>,
}

fn is_waiting(stage: &WaitStage) -> bool {
    *stage == WaitStage::Waiting
}

impl Waits {
    /// Returns a wait for these tasks, whatever their outcomes are, without a deadline.
    ///
    /// # Errors
    ///
    /// [`Invalid`]: with the field `id` for an invalid id; otherwise with `field` for an empty list, for more than
    /// 1,000 tasks, and for a task that is named twice.
    pub fn new<I>(field: &'static str, tasks: I) -> Result<Self, Invalid>
    where
        I: IntoIterator,
        I::Item: TryInto<TaskId>,
        <I::Item as TryInto<TaskId>>::Error: Into<Invalid>,
    {
        let ids = tasks
            .into_iter()
            .map(|id| id.try_into().map_err(Into::into));
        let waits = Self {
            tasks: ids.collect::<Result<_, Invalid>>()?,
            ok: false,
            deadline: None,
            stage: WaitStage::Waiting,
            outcomes: Vec::new(),
        };
        waits.check(field)?;
        Ok(waits)
    }

    /// Requires each task to complete.
    #[must_use]
    pub fn ok(mut self) -> Self {
        self.ok = true;
        self
    }

    /// Checks the number of the tasks, and that each is named once.
    ///
    /// # Errors
    ///
    /// The errors of [`new`](Self::new), without those of ids.
    pub fn check(&self, field: &'static str) -> Result<(), Invalid> {
        let named = self.tasks.len();
        if named == 0 {
            return Err(Invalid::new(field, "names no task; name at least one"));
        }
        if named > MAX_WAITS {
            let reason = format!(
                "names {named} tasks; at most {MAX_WAITS} are allowed; wait for tasks that wait for the rest"
            );
            return Err(Invalid::new(field, reason));
        }
        let mut seen = HashSet::with_capacity(named);
        match self.tasks.iter().find(|id| !seen.insert(*id)) {
            None => Ok(()),
            Some(id) => {
                let reason = format!("names task '{id}' twice; name it once");
                Err(Invalid::new(field, reason))
            }
        }
    }

    /// Checks that the wait of task `id` does not name the task itself.
    ///
    /// # Errors
    ///
    /// [`Invalid`] with this field.
    pub fn check_other(&self, field: &'static str, id: &TaskId) -> Result<(), Invalid> {
        if self.tasks.contains(id) {
            let reason = format!("names the task '{id}' itself; name other tasks");
            return Err(Invalid::new(field, reason));
        }
        Ok(())
    }

    /// Returns the time at which the waiting task continues at the latest.
    pub fn until(&self) -> Timestamp {
        self.deadline.unwrap_or(NO_DEADLINE)
    }

    /// Returns each task with its outcome at the last claim; empty before the first claim.
    pub fn waited(&self) -> Vec<Waited> {
        let pairs = self.tasks.iter().zip(&self.outcomes);
        pairs
            .map(|(task, outcome)| Waited {
                task: task.clone(),
                outcome: *outcome,
            })
            .collect()
    }

    /// Returns whether the wait was ended by its deadline: it is over, and one of the tasks had not ended.
    ///
    /// ```
    /// use windlass_statemachine::{TaskState, WaitOutcome, waits::Waits};
    ///
    /// let now = jiff::Timestamp::UNIX_EPOCH;
    /// let mut waits = Waits::new("after", ["a"])?;
    /// waits.deadline = Some(now);
    /// let state = TaskState::new(now).waiting(waits);
    /// let late = state.with_outcomes(vec![WaitOutcome::Live], now).claimed(Default::default(), None, now);
    /// assert!(late.waits.unwrap().expired());
    /// # Ok::<(), windlass_statemachine::Invalid>(())
    /// ```
    pub fn expired(&self) -> bool {
        self.stage == WaitStage::Over && self.outcomes.contains(&WaitOutcome::Live)
    }

    /// Returns the first task that had to complete and did not, once the wait is over.
    ///
    /// ```
    /// use windlass_statemachine::{TaskState, WaitOutcome, waits::Waits};
    ///
    /// let now = jiff::Timestamp::UNIX_EPOCH;
    /// let state = TaskState::new(now).waiting(Waits::new("after_ok", ["a"])?.ok());
    /// let ready = state.with_outcomes(vec![WaitOutcome::Killed], now);
    /// assert_eq!(ready.waits.unwrap().unmet().unwrap().task.as_str(), "a");
    /// # Ok::<(), windlass_statemachine::Invalid>(())
    /// ```
    pub fn unmet(&self) -> Option<Waited> {
        self.all_unmet().into_iter().next()
    }

    /// Returns all tasks that had to complete and did not, once the wait is over ([`unmet`](Self::unmet) is the first).
    pub fn all_unmet(&self) -> Vec<Waited> {
        if !self.ok || self.stage != WaitStage::Over {
            return Vec::new();
        }
        let waited = self.waited().into_iter();
        waited
            .filter(|one| one.outcome != WaitOutcome::Completed)
            .collect()
    }

    /// Returns the same wait, from its beginning.
    pub(crate) fn again(mut self) -> Self {
        self.stage = WaitStage::Waiting;
        self.outcomes.clear();
        self
    }
}

/// Returns the error of a task that does not run because of this outcome. The other task may have failed for the
/// same reason, so the advice names the first task of such a chain.
pub(crate) fn not_run(waited: &Waited) -> String {
    let Waited { task, outcome } = waited;
    let (why, advice) = match outcome {
        WaitOutcome::Unknown => (
            "does not exist: it never did, was deleted, or was pruned",
            "submit that task, then retry this one",
        ),
        WaitOutcome::Live => (
            "had not ended at the deadline",
            "retry this task once that one has completed",
        ),
        WaitOutcome::Failed => ("failed", IN_ORDER),
        WaitOutcome::Killed => ("was killed", IN_ORDER),
        WaitOutcome::Completed => ("completed", IN_ORDER),
    };
    format!("could not run: task '{task}' has to complete first (after_ok) and {why}; {advice}")
}

/// The advice for a chain of tasks that were not run.
const IN_ORDER: &str = "retry the task that failed first, then those that wait for it";

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: impl AsRef<str>) -> TaskId {
        TaskId::new(text).unwrap()
    }

    #[test]
    fn a_wait_names_1_to_1000_tasks() {
        let none: [&str; 0] = [];
        let refused = Waits::new("after", none).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "after: names no task; name at least one"
        );
        let many = |n: usize| Waits::new("after_ok", (0..n).map(|n| id(format!("t{n}"))));
        assert!(many(1000).is_ok());
        let refused = many(1001).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "after_ok: names 1001 tasks; at most 1000 are allowed; wait for tasks that wait for the rest"
        );
    }

    #[test]
    fn a_bad_id_is_named() {
        let refused = Waits::new("after", ["a/b"]).unwrap_err();
        assert_eq!(refused.field(), "id");
    }

    #[test]
    fn only_a_wait_that_is_over_has_an_unmet_task() {
        let mut waits = Waits::new("after", ["a", "b"]).unwrap().ok();
        waits.outcomes = vec![WaitOutcome::Completed, WaitOutcome::Killed];
        assert_eq!(waits.unmet(), None);
        waits.stage = WaitStage::Over;
        assert_eq!(waits.unmet().unwrap().task, id("b"));
        waits.stage = WaitStage::Overridden;
        assert_eq!(waits.unmet(), None);
        waits.stage = WaitStage::Over;
        waits.ok = false;
        assert_eq!(waits.unmet(), None);
    }
}
