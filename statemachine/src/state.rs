//! [`TaskState`]: where a task is.

mod deadlines;
mod waits;

pub use self::deadlines::Deadlines;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    CommitId, ErrorEntry, ErrorLog, Fence, Invalid, Json, Outcome,
    errors::MAX_KEPT,
    waits::{WaitStage, Waits},
};

/// The seven states, without their data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum StateKind {
    /// The handler runs, or will as soon as a node has room.
    Runnable,
    /// It waits for a time.
    Sleeping,
    /// It waits for a command.
    Paused,
    /// An attempt failed and the retry policy has not answered yet.
    Fault,
    /// It is done. Final.
    Completed,
    /// It failed for good. Final, until an explicit retry.
    Failed,
    /// It was ended by a command or its handler. Final.
    Killed,
}

impl StateKind {
    /// Every state, in the order of the transition table.
    pub const ALL: [Self; 7] = [
        Self::Runnable,
        Self::Sleeping,
        Self::Paused,
        Self::Fault,
        Self::Completed,
        Self::Failed,
        Self::Killed,
    ];

    /// Returns whether the state is final.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Killed)
    }

    /// The lower-case name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Runnable => "runnable",
            Self::Sleeping => "sleeping",
            Self::Paused => "paused",
            Self::Fault => "fault",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Killed => "killed",
        }
    }
}

impl std::fmt::Display for StateKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl std::str::FromStr for StateKind {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        Self::ALL
            .into_iter()
            .find(|c| c.as_str() == text)
            .ok_or_else(|| {
                let names: Vec<_> = Self::ALL.iter().map(|c| c.as_str()).collect();
                Invalid::new("state", format!("'{text}' is none of {}", names.join(", ")))
            })
    }
}

/// A state with its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskStatus {
    /// The handler runs, or will as soon as a node has room.
    Runnable,
    /// It waits for a time.
    Sleeping {
        /// When it wakes.
        until: Timestamp,
    },
    /// It waits for a command.
    Paused,
    /// An attempt failed and the retry policy has not answered yet.
    Fault,
    /// It is done.
    Completed {
        /// The result.
        result: Option<Json>,
    },
    /// It failed for good; the error log says why.
    Failed,
    /// It was ended by a command or its handler.
    Killed,
}

impl TaskStatus {
    /// Returns the state without its data.
    pub fn code(&self) -> StateKind {
        match self {
            Self::Runnable => StateKind::Runnable,
            Self::Sleeping { .. } => StateKind::Sleeping,
            Self::Paused => StateKind::Paused,
            Self::Fault => StateKind::Fault,
            Self::Completed { .. } => StateKind::Completed,
            Self::Failed => StateKind::Failed,
            Self::Killed => StateKind::Killed,
        }
    }
}

/// How far a running task is: a fraction and a text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Progress {
    /// From 0 to 1, if it is known.
    #[serde(default, skip_serializing_if = "is_unknown")]
    pub fraction: Option<f64>,
    /// What is being done.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

impl Progress {
    /// Returns progress of a fraction from 0 to 1, if it is known, and a text.
    pub fn new(fraction: Option<f64>, text: impl Into<String>) -> Self {
        Self {
            fraction,
            text: text.into(),
        }
    }
}

/// Leaves out a fraction that is not a number: JSON has no form for it.
fn is_unknown(fraction: &Option<f64>) -> bool {
    !fraction.is_some_and(f64::is_finite)
}

/// The last command that was applied to a task, signals apart. By it a state store alone shows whether a command has
/// had its effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct LastCommand {
    /// Its place in the queue.
    pub order: u64,
    /// Its outcome.
    #[serde(flatten)]
    pub outcome: Outcome,
}

impl LastCommand {
    /// Returns a command by its place in the queue, with its outcome.
    pub fn new(order: u64, outcome: Outcome) -> Self {
        Self { order, outcome }
    }
}

/// A signal that got its outcome in the same write as the state, where the state is stored apart from
/// the queue: by it the queue gets the outcome after a crash between the two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SettledSignal {
    /// Its place in the queue.
    pub order: u64,
    /// Its outcome.
    pub outcome: Outcome,
}

/// The data version of a kind that declares none.
pub const FIRST_DATA_VERSION: u32 = 1;

/// Where a task is: its status, its data, and its counters.
///
/// Stores keep its JSON form (`docs/storage.md`). Reading other bytes returns a typed error.
///
/// # Example
///
/// ```
/// use windlass_statemachine::TaskState;
/// use jiff::Timestamp;
///
/// let state = TaskState::new(Timestamp::UNIX_EPOCH);
/// let text = serde_json::to_string(&state)?;
/// assert_eq!(text, r#"{"state":"runnable","since":"1970-01-01T00:00:00Z"}"#);
/// assert_eq!(serde_json::from_str::<TaskState>(&text)?, state);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct TaskState {
    /// The state with its data.
    pub status: TaskStatus,
    /// Since when the task has been in this state.
    pub since: Timestamp,
    /// What the handler keeps from one run to the next.
    pub data: Option<Json>,
    /// The version of the data, as the kind that wrote it counts: 1 for a kind that declares none, and
    /// for a task without data. It changes only with the data.
    pub data_version: u32,
    /// The last errors.
    pub errors: ErrorLog,
    /// How many attempts in a row have failed or been abandoned; 0 for the first attempt.
    pub attempts: u32,
    /// How many more attempts the retry policy allowed after the last failure; `None` when it has no such
    /// number. For people and clients only: the policy decides again after each failure.
    pub attempts_left: Option<u32>,
    /// How often the task has been claimed.
    pub claims: u64,
    /// How often a retry has started the task again. After a retry of a state that cannot be read it is the
    /// number of the version, which is greater than every earlier incarnation.
    pub incarnation: u32,
    /// How often a client has rescheduled the task.
    pub reschedules: u64,
    /// The number of writes so far, which distinguishes one write from the next: claims, transitions, checkpoints,
    /// retries and reschedules count. A guard may require it.
    pub version: u64,
    /// The claim that wrote it.
    pub fence: Fence,
    /// The id of the write; `None` for a state that a submit, a claim or a retry has written.
    pub commit: Option<CommitId>,
    /// The last command that had an effect on it.
    pub last_command: Option<LastCommand>,
    /// The progress at the last write.
    pub progress: Option<Progress>,
    /// The other tasks that it waits for, or has waited for before its run. A run of the handler that ends
    /// without an error and without the task's end clears them.
    pub waits: Option<Box<Waits>>,
    /// The deadlines that still matter.
    pub deadlines: Option<Box<Deadlines>>,
    /// The order of the last signal that a handler has kept in the queue; 0 for none. A kept signal does
    /// not wake the task.
    pub kept_signals: u64,
    /// The signals that got their outcome in this write. Only a state store beside a coordinator has them.
    pub settled_signals: Vec<SettledSignal>,
}

impl TaskState {
    /// The state of a task that was just submitted and can run.
    pub fn new(now: Timestamp) -> Self {
        Self {
            status: TaskStatus::Runnable,
            since: now,
            data: None,
            data_version: FIRST_DATA_VERSION,
            errors: ErrorLog::default(),
            attempts: 0,
            attempts_left: None,
            claims: 0,
            incarnation: 0,
            reschedules: 0,
            version: 0,
            fence: Fence::default(),
            commit: None,
            last_command: None,
            progress: None,
            waits: None,
            deadlines: None,
            kept_signals: 0,
            settled_signals: Vec::new(),
        }
    }

    /// The state of a task that was just submitted: runnable, or asleep until its `start_at`.
    pub fn submitted(start_at: Option<Timestamp>, now: Timestamp) -> Self {
        let mut state = Self::new(now);
        if let Some(until) = start_at.filter(|at| *at > now) {
            state.status = TaskStatus::Sleeping { until };
        }
        state
    }

    /// Returns the state without its data.
    pub fn code(&self) -> StateKind {
        self.status.code()
    }

    /// Returns the place of the task among the claimable ones: the wake-up of a sleeping task, and
    /// for a runnable one or one in `fault` the time since which it has had its state. `None` for a
    /// paused or finished task. Only the wake-up is a time to wait for; [`is_due`](Self::is_due)
    /// decides.
    pub fn due(&self) -> Option<Timestamp> {
        match self.status {
            TaskStatus::Runnable | TaskStatus::Fault => Some(self.since),
            TaskStatus::Sleeping { until } => Some(until),
            _ => None,
        }
    }

    /// Returns whether the task can be claimed at `now` without a command. A runnable task and one in
    /// `fault` always can: the clock that wrote their timestamps may have been ahead of this one.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_statemachine::{TaskState, TaskStatus};
    /// use jiff::{SignedDuration, Timestamp};
    ///
    /// let (now, hour) = (Timestamp::UNIX_EPOCH, SignedDuration::from_hours(1));
    /// let mut state = TaskState::new(now + hour);
    /// assert!(state.is_due(now), "a runnable task waits for nothing");
    /// state.status = TaskStatus::Sleeping { until: now + hour };
    /// assert!(!state.is_due(now) && state.is_due(now + hour));
    /// ```
    pub fn is_due(&self, now: Timestamp) -> bool {
        match self.status {
            TaskStatus::Runnable | TaskStatus::Fault => true,
            TaskStatus::Sleeping { until } => until <= now,
            _ => false,
        }
    }

    /// Applies a claim to the state, in the same write: counts the claim, counts an abandoned earlier
    /// claim as an attempt and records it in the error log, and wakes a sleeper that is due.
    #[must_use]
    pub fn claimed(mut self, fence: Fence, abandoned: Option<&str>, now: Timestamp) -> Self {
        self.claims = self.claims.saturating_add(1);
        self.fence = fence;
        self.commit = None;
        self.version = self.version.saturating_add(1);
        if let Some(node) = abandoned {
            self.attempts = self.attempts.saturating_add(1);
            self.attempts_left = self.attempts_left.map(|left| left.saturating_sub(1));
            self.errors
                .push_entry(ErrorEntry::abandoned(now, node), MAX_KEPT);
            self.has_started();
        }
        if let TaskStatus::Sleeping { until } = self.status
            && until <= now
        {
            self.end_wait(WaitStage::Over);
            self.set(TaskStatus::Runnable, now);
        }
        self
    }

    /// The state of a new incarnation, for an explicit retry of a finished task: runnable, attempts
    /// from 0; data, errors and the other counters stay. A task that ended with its wait waits again.
    #[must_use]
    pub fn retried(mut self, now: Timestamp) -> Self {
        self.status = TaskStatus::Runnable;
        self.since = now;
        self.attempts = 0;
        self.attempts_left = None;
        self.incarnation = self.incarnation.saturating_add(1);
        self.version = self.version.saturating_add(1);
        self.commit = None;
        self.progress = None;
        self.kept_signals = 0;
        self.restarts(now);
        match self.waits.take() {
            Some(waits) => self.waiting(*waits),
            None => self,
        }
    }

    /// Returns the state of an unclaimed task after a reschedule, with the next version. With a due time the task is
    /// asleep until then, or runnable when that time is not after `now`; of a task that waits for others the deadline
    /// changes. Returns `None` for a due time of a task that waits for no time: it is paused, in `fault` or has ended.
    ///
    /// [`reschedules`](Self::reschedules) counts such writes: a state store beside the coordinator does not get them,
    /// and by the number of the other writes the two find out which of them is ahead.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_statemachine::{StateKind, TaskState};
    /// use jiff::{SignedDuration, Timestamp};
    ///
    /// let now = Timestamp::UNIX_EPOCH;
    /// let later = now + SignedDuration::from_hours(1);
    /// let asleep = TaskState::new(now).rescheduled(Some(later), now).unwrap();
    /// assert_eq!((asleep.due(), asleep.version), (Some(later), 1));
    /// let awake = asleep.rescheduled(Some(now), now).unwrap();
    /// assert_eq!(awake.code(), StateKind::Runnable);
    /// ```
    #[must_use]
    pub fn rescheduled(mut self, due: Option<Timestamp>, now: Timestamp) -> Option<Self> {
        self.version = self.version.saturating_add(1);
        self.reschedules = self.reschedules.saturating_add(1);
        let Some(due) = due else {
            return Some(self);
        };
        if self.is_waiting()
            && let Some(waits) = &mut self.waits
        {
            // A claim records the outcomes: it ends the wait, also when the deadline is past.
            waits.deadline = Some(due);
            self.status = TaskStatus::Sleeping { until: due };
            return Some(self);
        }
        let status = match self.status {
            TaskStatus::Runnable | TaskStatus::Sleeping { .. } if due > now => {
                TaskStatus::Sleeping { until: due }
            }
            TaskStatus::Runnable | TaskStatus::Sleeping { .. } => TaskStatus::Runnable,
            _ => return None,
        };
        self.set(status, now);
        Some(self)
    }

    /// Replaces the data by data of this version.
    pub(crate) fn set_data(&mut self, data: Json, version: u32) {
        self.data = Some(data);
        self.data_version = version;
    }

    pub(crate) fn set(&mut self, status: TaskStatus, now: Timestamp) {
        if status.code() != self.code() {
            self.since = now;
        }
        self.status = status;
    }
}

#[cfg(test)]
mod tests;
