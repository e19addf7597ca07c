//! The forms of a worker that reads the results of the tasks that a run has waited for.

use serde::{Deserialize, Serialize};
use windlass_statemachine::{
    Fence, Json, Kind, StateKind, TaskId, TaskStatus,
    waits::{WaitOutcome, Waited},
};

use super::or_default;
use crate::store::TaskRecord;

/// A worker reads results of the tasks that a run has waited for. The request has no `seq`: it changes nothing.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ReadWaited {
    /// The secret of the worker.
    pub secret: String,
    /// The task that has waited.
    pub id: TaskId,
    /// The fence of the claim.
    pub fence: Fence,
    /// The run, as its start had it.
    pub run: u64,
    /// The place of the first task to read among those that the run has waited for, from 0; 0 by default.
    #[serde(default, deserialize_with = "or_default")]
    pub from: u64,
    /// The most tasks to read; 100 by default.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 100)))]
    #[serde(default)]
    pub limit: Option<u32>,
}

/// The answer to [`ReadWaited`].
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct WaitedResults {
    /// The tasks from the place that was asked for, in the order of the wait, without a gap.
    pub tasks: Vec<WaitedResult>,
    /// The place of the next task; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

impl WaitedResults {
    /// Returns the answer with these tasks.
    pub fn new(tasks: Vec<WaitedResult>, next: Option<u64>) -> Self {
        Self { tasks, next }
    }
}

/// A task that a run has waited for, with its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct WaitedResult {
    /// The task.
    pub task: TaskId,
    /// The outcome when the waiting task was claimed.
    pub outcome: WaitOutcome,
    /// The kind of the task; absent for a task that does not exist, or is outside of the scope of the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// The state of the task now; absent for a task that does not exist, is outside of the scope of the token, or cannot be
    /// read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StateKind>,
    /// Why the record of the task cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantined: Option<String>,
    /// The result of a task that is `completed`: any JSON; absent for one that completed without a result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Json>,
    /// The last error of a task that is `failed` or `killed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether a mask hides a part of `result`, `error` or `quarantined`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub masked: bool,
}

impl WaitedResult {
    /// Returns a task with its result; without a record for one that does not exist, or that the worker may not see.
    pub fn new(waited: Waited, record: Option<TaskRecord>) -> Self {
        let mut form = Self {
            task: waited.task,
            outcome: waited.outcome,
            kind: None,
            state: None,
            quarantined: None,
            result: None,
            error: None,
            masked: false,
        };
        let Some(record) = record else {
            return form;
        };
        form.kind = Some(record.task.kind);
        match record.state {
            Err(error) => form.quarantined = Some(error.to_string()),
            Ok(state) => {
                form.state = Some(state.code());
                let last = state.errors.last().map(|last| last.error.clone());
                match state.status {
                    TaskStatus::Completed { result } => form.result = result,
                    TaskStatus::Failed | TaskStatus::Killed => form.error = last,
                    _ => {}
                }
            }
        }
        form
    }
}
