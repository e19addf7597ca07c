//! What a state does while its task waits for other tasks.

use jiff::Timestamp;

use super::{Deadlines, TaskState, TaskStatus};
use crate::{
    AwaitedSignal, Task,
    waits::{WaitOutcome, WaitStage, Waits},
};

impl TaskState {
    /// Returns the state of a task that was just submitted: runnable, paused, asleep until its `start_at`, or
    /// waiting for other tasks.
    ///
    /// ```
    /// use windlass_statemachine::{Task, TaskState, waits::Waits};
    ///
    /// let mut task = Task::new("report".parse()?, "sum".parse()?);
    /// task.waits = Some(Box::new(Waits::new("after", ["fetch"])?));
    /// assert!(TaskState::first(&task, jiff::Timestamp::UNIX_EPOCH).is_waiting());
    /// # Ok::<(), windlass_statemachine::Invalid>(())
    /// ```
    pub fn first(task: &Task, now: Timestamp) -> Self {
        let mut state = Self::submitted(task.start_at, now);
        state.deadlines = Deadlines::of(task);
        if task.paused {
            state.status = TaskStatus::Paused;
            return state;
        }
        match &task.waits {
            Some(waits) => state.waiting(Waits::clone(waits)),
            None => state,
        }
    }

    /// Returns the same state, asleep until the wait ends.
    #[must_use]
    pub fn waiting(mut self, waits: Waits) -> Self {
        let until = waits.until();
        self.status = TaskStatus::Sleeping { until };
        self.waits = Some(Box::new(waits.again()));
        self
    }

    /// Returns whether it waits for other tasks.
    pub fn is_waiting(&self) -> bool {
        let waits = |waits: &Waits| waits.stage == WaitStage::Waiting;
        matches!(self.status, TaskStatus::Sleeping { .. })
            && self.waits.as_deref().is_some_and(waits)
    }

    /// Records the outcomes of the tasks that a waiting task waits for, in their order. The task is runnable
    /// when none of them is live. Other states stay as they are. A store calls it before
    /// [`claimed`](Self::claimed).
    ///
    /// ```
    /// use windlass_statemachine::{TaskState, WaitOutcome, waits::Waits};
    ///
    /// let now = jiff::Timestamp::UNIX_EPOCH;
    /// let state = TaskState::new(now).waiting(Waits::new("after", ["a", "b"])?);
    /// let blocked = state.clone().with_outcomes(vec![WaitOutcome::Failed, WaitOutcome::Live], now);
    /// assert!(blocked.is_waiting() && !blocked.is_due(now));
    /// let ready = state.with_outcomes(vec![WaitOutcome::Failed, WaitOutcome::Unknown], now);
    /// assert!(!ready.is_waiting() && ready.is_due(now));
    /// # Ok::<(), windlass_statemachine::Invalid>(())
    /// ```
    #[must_use]
    pub fn with_outcomes(mut self, outcomes: Vec<WaitOutcome>, now: Timestamp) -> Self {
        if !self.is_waiting() {
            return self;
        }
        let is_blocked = outcomes.contains(&WaitOutcome::Live);
        if let Some(waits) = &mut self.waits {
            waits.outcomes = outcomes;
        }
        if !is_blocked {
            self.end_wait(WaitStage::Over);
            self.set(TaskStatus::Runnable, now);
        }
        self
    }

    /// Ends the wait of a waiting task.
    pub(crate) fn end_wait(&mut self, stage: WaitStage) {
        if self.is_waiting()
            && let Some(waits) = &mut self.waits
        {
            waits.stage = stage;
        }
    }

    /// Returns whether the wait before the run, for other tasks or for a signal, was ended by its deadline. The value is the
    /// same in every attempt of the run.
    pub fn wait_expired(&self) -> bool {
        let signal = self.awaited_signal.as_deref();
        let waits = self.waits.as_deref();
        signal.is_some_and(AwaitedSignal::expired) || waits.is_some_and(Waits::expired)
    }

    /// Returns the signal that the task waits for, if its handler has declared one: the task is paused or sleeps, and
    /// has not run since.
    pub fn awaits_signal(&self) -> Option<&AwaitedSignal> {
        let is_parked = matches!(
            self.status,
            TaskStatus::Paused | TaskStatus::Sleeping { .. }
        );
        let signal = self.awaited_signal.as_deref().filter(|_| is_parked);
        signal.filter(|signal| !signal.is_over())
    }
}
