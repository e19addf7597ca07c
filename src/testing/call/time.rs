//! The time of a [`Call`], and the wait before it.

use std::sync::Arc;

use jiff::Timestamp;
use windlass_statemachine::{
    AwaitedSignal, Fence, Invalid, Message, StateKind, TaskState, TransitionError, Waited, Waits,
    transition,
};

use super::Call;
use crate::{
    clock::Clock,
    testing::{ManualClock, START},
};

/// The time of a call, and the wait before it.
#[derive(Debug, Clone)]
pub(super) struct Time {
    now: Timestamp,
    awaited: Option<AwaitedSignal>,
    expired: bool,
}

impl Default for Time {
    fn default() -> Self {
        Self {
            now: START,
            awaited: None,
            expired: false,
        }
    }
}

impl Time {
    /// Returns the clock of the call, which stands still.
    pub(super) fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(ManualClock::new(self.now))
    }

    /// Returns the state from which the handler starts, after its wait for these tasks.
    ///
    /// # Errors
    ///
    /// [`Invalid`]: field `waited` for tasks that no wait can name, `name`, `text` or `schema` of the signal, `wait_expired`
    /// when no wait has expired.
    pub(super) fn state(&self, waited: &[Waited]) -> Result<TaskState, Invalid> {
        let mut state = TaskState::new(self.now);
        if let Some(signal) = &self.awaited {
            signal.check()?;
            let asks = Message::wait_for_signal(signal.clone());
            let asks = match self.expired {
                true => asks.deadline(self.now),
                false => asks,
            };
            state = self.woken(transition(&state, &asks, self.now).map_err(invalid)?)?;
        }
        if !waited.is_empty() {
            let mut waits = Waits::new("waited", waited.iter().map(|one| one.task.clone()))?;
            waits.deadline = self.expired.then_some(self.now);
            let outcomes = waited.iter().map(|one| one.outcome).collect();
            state = self.woken(state.waiting(waits).with_outcomes(outcomes, self.now))?;
        }
        if self.expired && !state.wait_expired() {
            let reason = "needs a wait that its deadline has ended; add `awaited_signal`, or `waited` with the outcome Live";
            return Err(Invalid::new("wait_expired", reason));
        }
        Ok(state)
    }

    /// Returns the state after the deadline of the wait, or after a command that has ended the wait.
    fn woken(&self, waiting: TaskState) -> Result<TaskState, Invalid> {
        let claimed = waiting.claimed(Fence::default(), None, self.now);
        match claimed.code() {
            StateKind::Runnable => Ok(claimed),
            _ => transition(&claimed, &Message::run(), self.now).map_err(invalid),
        }
    }
}

fn invalid(wrong: TransitionError) -> Invalid {
    match wrong {
        TransitionError::Invalid(invalid) => invalid,
        other => Invalid::new("wait", other.to_string()),
    }
}

impl Call {
    /// Sets the time that [`TaskContext::now`](crate::TaskContext::now) returns: 2030-01-01T00:00:00Z by default. It stands
    /// still while the handler runs.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{BoxError, Message, TaskContext, testing::Call};
    ///
    /// async fn hour(task: TaskContext) -> Message {
    ///     Message::complete_with(task.now().strftime("%H").to_string())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
    /// let ran = Call::new().now("2030-05-01T17:30:00Z".parse()?).run(hour).await?;
    /// assert_eq!(ran.result::<String>()?.as_deref(), Some("17"));
    /// # Ok(()) }
    /// ```
    pub fn now(mut self, at: Timestamp) -> Self {
        self.time.now = at;
        self
    }

    /// Sets the signal that the task has waited for before the run. The signal itself is a [`command`](Call::command).
    /// Without it, and without [`wait_expired`](Call::wait_expired), a command to run has ended the wait.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{BoxError, Command, Message, TaskContext, testing::Call};
    ///
    /// async fn ask(task: TaskContext) -> Message {
    ///     let asked = task.awaited_signal().is_some();
    ///     match task.commands().try_next() {
    ///         Some(Command::Signal(signal)) if asked => Message::complete().answer(&signal, &"thanks"),
    ///         _ => Message::wait_for_signal("approve"),
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
    /// let call = Call::new().awaited_signal("approve").command(Command::signal("approve", &())?);
    /// assert_eq!(call.run(ask).await?.replies::<String>()?, ["thanks"]);
    /// # Ok(()) }
    /// ```
    pub fn awaited_signal(mut self, signal: impl Into<AwaitedSignal>) -> Self {
        self.time.awaited = Some(signal.into());
        self
    }

    /// Ends the wait before the run by its deadline: that of [`awaited_signal`](Call::awaited_signal), or that of
    /// [`waited`](Call::waited) with a task whose outcome is [`Live`](windlass_statemachine::WaitOutcome::Live). Otherwise a
    /// command has ended a wait for a task that is live. [`run`](Call::run) refuses a call without such a wait (field
    /// `wait_expired`).
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{BoxError, Message, TaskContext, WaitOutcome, testing::Call};
    ///
    /// async fn join(task: TaskContext) -> Message {
    ///     match task.wait_expired() {
    ///         true => Message::fail("a part is late"),
    ///         false => Message::complete(),
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
    /// let late = Call::new().waited("a".parse()?, WaitOutcome::Live);
    /// assert_eq!(late.clone().run(join).await?.error(), None);
    /// assert_eq!(late.wait_expired().run(join).await?.error(), Some("a part is late"));
    /// # Ok(()) }
    /// ```
    pub fn wait_expired(mut self) -> Self {
        self.time.expired = true;
        self
    }
}
