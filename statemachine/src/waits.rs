//! [`Waits`]: the tasks that a task waits for, and the outcome of each.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Invalid, StateKind, TaskId};

/// How many tasks one task may wait for.
pub const MAX_WAITS: usize = 1000;

/// The wake-up of a waiting task without a deadline: the last instant that there is.
pub const NO_DEADLINE: Timestamp = Timestamp::MAX;

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
        if !self.ok || self.stage != WaitStage::Over {
            return None;
        }
        let mut waited = self.waited().into_iter();
        waited.find(|one| one.outcome != WaitOutcome::Completed)
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

/// Returns tasks that wait for each other in a circle, if there are any: each for the next one, and the last
/// for the first. `edges` holds each task with the tasks that it waits for.
///
/// # Example
///
/// ```
/// use windlass_statemachine::{TaskId, waits::cycle};
///
/// let id = |text: &str| TaskId::new(text).unwrap();
/// let (a, b, c) = (id("a"), id("b"), id("c"));
/// let (of_a, of_b) = ([b.clone(), c.clone()], [a.clone()]);
/// let found = cycle([(&a, &of_a[..]), (&b, &of_b[..])]).unwrap();
/// assert_eq!(found.len(), 2, "c waits for none");
/// assert!(cycle([(&b, &of_b[..])]).is_none());
/// ```
pub fn cycle<'a>(
    edges: impl IntoIterator<Item = (&'a TaskId, &'a [TaskId])>,
) -> Option<Vec<&'a TaskId>> {
    let edges: HashMap<&TaskId, &[TaskId]> = edges.into_iter().collect();
    let mut done: HashSet<&TaskId> = HashSet::new();
    for start in edges.keys() {
        // The path from the start, with each task's position in the list. A loop, because the depth has
        // no limit.
        let mut path: Vec<(&TaskId, usize)> = vec![(start, 0)];
        let mut on_path: HashSet<&TaskId> = HashSet::from([*start]);
        while let Some((task, next)) = path.last_mut() {
            let waits_for = edges.get(task).and_then(|of| of.get(*next));
            *next += 1;
            let Some(other) = waits_for.filter(|_| !done.contains(task)) else {
                done.insert(task);
                on_path.remove(task);
                path.pop();
                continue;
            };
            if on_path.contains(other) {
                let circle = path.iter().map(|(task, _)| *task);
                return Some(circle.skip_while(|task| *task != other).collect());
            }
            if edges.contains_key(other) && !done.contains(other) {
                on_path.insert(other);
                path.push((other, 0));
            }
        }
    }
    None
}

/// Returns the text of a circle, as errors show it: `a → b → a`. For a long circle it names the first
/// tasks.
pub fn circle_text(circle: &[&TaskId]) -> String {
    const SHOWN: usize = 20;
    let mut text: Vec<&str> = circle.iter().take(SHOWN).map(|id| id.as_str()).collect();
    if circle.len() > SHOWN {
        text.push("…");
    }
    text.extend(circle.first().map(|id| id.as_str()));
    text.join(" → ")
}

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

    #[test]
    fn a_long_circle_is_found_and_a_diamond_is_none() {
        let ids: Vec<TaskId> = (0..50_000).map(|n| id(format!("t{n}"))).collect();
        let next = |n: usize| std::slice::from_ref(&ids[(n + 1) % ids.len()]);
        let circle = cycle(ids.iter().enumerate().map(|(n, id)| (id, next(n)))).unwrap();
        assert_eq!(circle.len(), ids.len());
        let open = ids.iter().enumerate().skip(1);
        assert!(cycle(open.map(|(n, id)| (id, next(n)))).is_none());

        let (a, b, c, d) = (id("a"), id("b"), id("c"), id("d"));
        let (of_a, of_b) = ([b.clone(), c.clone()], [d]);
        let diamond = [(&a, &of_a[..]), (&b, &of_b[..]), (&c, &of_b[..])];
        assert_eq!(cycle(diamond), None);
        let own = [a.clone()];
        assert_eq!(circle_text(&cycle([(&a, &own[..])]).unwrap()), "a → a");
    }
}
