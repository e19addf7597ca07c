//! [`TaskState`]: the state of a task.

mod commands;
mod deadlines;
mod earlier;
mod kind;
mod pause;
mod ready;
mod recent;
mod report;
mod skipped;
mod waits;

#[cfg(feature = "schema")]
pub(crate) use self::earlier::Stored as StoredEarlierData;
pub use self::{
    commands::{Delivery, KEPT_DELIVERIES, LastCommand, SettledSignal},
    deadlines::Deadlines,
    earlier::{EarlierData, KEPT, KEPT_BYTES},
    kind::StateKind,
    pause::Pause,
    recent::Recent,
    report::Report,
    skipped::Skipped,
};
pub use crate::job::FIRST_DATA_VERSION;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    AwaitedSignal, CommitId, ErrorEntry, ErrorLog, Fence, Json,
    errors::MAX_KEPT,
    waits::{WaitStage, Waits},
};

/// A state with its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskStatus {
    /// The handler runs, or will run as soon as a node has room.
    Runnable,
    /// The task waits for a time, or for other tasks.
    Sleeping {
        /// When the task wakes.
        until: Timestamp,
    },
    /// The task waits for a command.
    Paused,
    /// An attempt failed, and the retry policy has not decided yet.
    Fault,
    /// The task is done.
    Completed {
        /// The result.
        result: Option<Json>,
    },
    /// The task failed for good; the error log has the reason.
    Failed,
    /// A command or the handler ended the task.
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

/// How far a running task has got: a fraction and a text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Progress {
    /// A number from 0 to 1; `None` when it is not known.
    #[serde(default, skip_serializing_if = "is_unknown")]
    pub fraction: Option<f64>,
    /// What the handler is doing.
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

/// Returns whether the fraction is left out: JSON has no form for a fraction that is not a number.
fn is_unknown(fraction: &Option<f64>) -> bool {
    !fraction.is_some_and(f64::is_finite)
}

/// The state of a task: its status, its data, and its counters.
///
/// Stores keep the JSON form of the state (`docs/reference/storage.md`). Reading other bytes returns a typed
/// error.
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
    /// The status, with its data.
    pub status: TaskStatus,
    /// Since when the task has been in this state.
    pub since: Timestamp,
    /// Since when a claimed runnable task runs: its claim, or the message after which the handler ran again under the
    /// same claim. Of an unclaimed one, when its last run began or was released. `None` when that is
    /// [`since`](Self::since), and in other states.
    pub run_since: Option<Timestamp>,
    /// Who paused the task, and what the pause interrupted; `None` when it is not paused.
    pub paused: Option<Box<Pause>>,
    /// What the handler keeps from one run to the next.
    pub data: Option<Json>,
    /// The version of the data, as counted by the kind that wrote it: 1 for a kind that declares none,
    /// and for a task without data. It changes only with the data.
    pub data_version: u32,
    /// What the data was before its last replacements, oldest first.
    pub earlier_data: Recent<EarlierData, KEPT>,
    /// The last errors.
    pub errors: ErrorLog,
    /// How many attempts in a row have failed or been abandoned; 0 for the first attempt.
    pub attempts: u32,
    /// How many more attempts the retry policy allowed after the last failure; `None` when it does not
    /// count attempts. For people and clients only: the policy decides again after each failure.
    pub attempts_left: Option<u32>,
    /// How often the task has been claimed.
    pub claims: u64,
    /// How often a retry has started the task again. A retry of a state that cannot be read sets it to the
    /// version, which is greater than every earlier incarnation.
    pub incarnation: u32,
    /// How often a client has rescheduled the task.
    pub reschedules: u64,
    /// The number of writes so far, which distinguishes one write from the next: claims, transitions, checkpoints,
    /// retries and reschedules count. A guard may require it.
    pub version: u64,
    /// The fence of the claim that wrote the state.
    pub fence: Fence,
    /// The id of the write; `None` for a state that a submit, a claim or a retry has written.
    pub commit: Option<CommitId>,
    /// The last command that changed the state.
    pub last_command: Option<LastCommand>,
    /// When the last commands that have their outcome reached the owner of the task, oldest first.
    pub deliveries: Recent<Delivery, KEPT_DELIVERIES>,
    /// The progress at the last write.
    pub progress: Option<Progress>,
    /// The other tasks that the task waits for, or has waited for before this run. A run that ends without
    /// an error, and without ending the task, clears them.
    pub waits: Option<Box<Waits>>,
    /// The signal that the task waits for, or has waited for before this run, as its handler has declared it. It is cleared
    /// like [`waits`](Self::waits).
    pub awaited_signal: Option<Box<AwaitedSignal>>,
    /// The deadlines that are not met yet.
    pub deadlines: Option<Box<Deadlines>>,
    /// The order of the last signal that a handler has kept in the queue; 0 for none. A kept signal does
    /// not wake the task.
    pub kept_signals: u64,
    /// The signals that got their outcome in this write. Set only in a state store that is separate from
    /// its coordinator.
    pub settled_signals: Vec<SettledSignal>,
    /// The version at which the run began during which this state was written. `None` when no handler was running, and
    /// for handlers in the process of their node: only the runs of remote workers are named
    /// ([`Config::named_runs`](crate::machine::Config::named_runs)).
    pub run: Option<u64>,
    /// The last numbered report of a remote worker that was applied since the last claim.
    pub report: Option<Box<Report>>,
}

impl TaskState {
    /// Returns the state of a task that was just submitted and can run.
    pub fn new(now: Timestamp) -> Self {
        Self {
            status: TaskStatus::Runnable,
            since: now,
            run_since: None,
            paused: None,
            data: None,
            data_version: FIRST_DATA_VERSION,
            earlier_data: Recent::default(),
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
            deliveries: Recent::default(),
            progress: None,
            waits: None,
            awaited_signal: None,
            deadlines: None,
            kept_signals: 0,
            settled_signals: Vec::new(),
            run: None,
            report: None,
        }
    }

    /// Returns the name of the run that goes on if a handler is running: the version at which it began.
    pub fn current_run(&self) -> u64 {
        self.run.unwrap_or(self.version)
    }

    /// Returns the number of the last applied report of a remote worker since the last claim; 0 for none.
    pub fn reported(&self) -> u64 {
        self.report.as_ref().map_or(0, |report| report.n)
    }

    /// Returns the state of a task that was just submitted: runnable, or asleep until its
    /// `start_at`.
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

    /// Returns the place of the task among the claimable ones: the wake-up of a sleeping task; for
    /// a runnable task or one in `fault`, the time since which it has been in that state. `None`
    /// for a paused or finished task. Only the wake-up is a time to wait for;
    /// [`is_due`](Self::is_due) decides.
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
    /// claim as an attempt and records it in the error log, and wakes a sleeping task that is due.
    #[must_use]
    pub fn claimed(mut self, fence: Fence, abandoned: Option<&str>, now: Timestamp) -> Self {
        self.claims = self.claims.saturating_add(1);
        self.fence = fence;
        self.commit = None;
        (self.run, self.report) = (None, None);
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
        self.runs_from(now);
        self
    }

    /// Returns the state of a new incarnation, for an explicit retry of a finished task: runnable,
    /// attempts from 0. Data, errors and the other counters stay. A task that failed while it
    /// waited for other tasks waits again.
    #[must_use]
    pub fn retried(mut self, now: Timestamp) -> Self {
        self.status = TaskStatus::Runnable;
        self.since = now;
        (self.run_since, self.paused) = (None, None);
        self.attempts = 0;
        self.attempts_left = None;
        self.incarnation = self.incarnation.saturating_add(1);
        self.version = self.version.saturating_add(1);
        self.commit = None;
        self.progress = None;
        self.kept_signals = 0;
        self.awaited_signal = None;
        self.restarts(now);
        match self.waits.take() {
            Some(waits) => self.waiting(*waits),
            None => self,
        }
    }

    /// Returns the state of an unclaimed task after a reschedule, with the next version. With a due time the task is
    /// asleep until then, or runnable when that time is not after `now`; of a task that waits for others the deadline
    /// changes. A later time also extends the deadline of a wait for a signal. An earlier time cuts such a wait short: it
    /// has not expired ([`wait_expired`](Self::wait_expired)). Returns `None` for a due time of a task that waits for no time: it is paused, in `fault` or has ended.
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
            // The claim records the outcomes: it ends the wait, also after the deadline.
            waits.deadline = Some(due);
            self.status = TaskStatus::Sleeping { until: due };
            return Some(self);
        }
        if let Some(signal) = &mut self.awaited_signal {
            signal.extend(due);
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

    pub(crate) fn set(&mut self, status: TaskStatus, now: Timestamp) {
        if !matches!(status, TaskStatus::Paused | TaskStatus::Sleeping { .. })
            && let Some(signal) = &mut self.awaited_signal
        {
            signal.end(now);
        }
        if status.code() != self.code() {
            self.since = now;
            (self.run_since, self.paused) = (None, None);
        }
        self.status = status;
    }
}

#[cfg(test)]
mod tests;
