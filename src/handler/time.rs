//! A running handler's view of time.

use jiff::Timestamp;
use windlass_statemachine::TaskType;

use super::TaskContext;

impl<J: TaskType> TaskContext<J> {
    /// Returns the time by the clock of the node, without a request to the store. Wake-ups and deadlines are judged by the
    /// same clock, so use it instead of the clock of the operating system: in a [`Simulation`](crate::testing::Simulation)
    /// it is the virtual time, and in a [`Call`](crate::testing::Call) the time of the call.
    ///
    /// By default it is the clock of the machine, which can be set forward and back.
    /// [`Store::open_with_clock`](crate::store::Store::open_with_clock) takes another one.
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use windlass::{BoxError, Message, TaskContext, jiff::Timestamp};
    ///
    /// /// Polls every minute until the time in the props.
    /// async fn poll(task: TaskContext) -> Result<Message, BoxError> {
    ///     let until: Timestamp = task.props()?;
    ///     if task.now() >= until {
    ///         return Ok(Message::complete());
    ///     }
    ///     Ok(Message::sleep_for(Duration::from_secs(60)))
    /// }
    /// # fn is_handler(_: impl windlass::StatefulHandler) {}
    /// # is_handler(poll);
    /// ```
    pub fn now(&self) -> Timestamp {
        self.run.clock.now()
    }

    /// Returns whether the deadline of the wait before this run has ended that wait: a
    /// [`wait_for`](windlass_statemachine::Message::wait_for) during which one of the tasks did not end, or a
    /// [`wait_for_signal`](windlass_statemachine::Message::wait_for_signal). False for a wait that a command or a signal
    /// has ended before its deadline, and for a run that has waited for neither. The value is stored when the wait ends,
    /// so every attempt of the run gets the same.
    ///
    /// A signal that arrives at the last moment can be in the queue of a run whose wait has expired. Take the signals first.
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use windlass::{BoxError, Command, Message, TaskContext};
    ///
    /// async fn deploy(task: TaskContext) -> Result<Message, BoxError> {
    ///     while let Some(command) = task.commands().try_next() {
    ///         let Command::Signal(signal) = command else { continue };
    ///         return Ok(Message::complete_with("deployed").answer(&signal, &"thanks"));
    ///     }
    ///     if task.wait_expired() {
    ///         return Ok(Message::fail("nobody has approved within a day"));
    ///     }
    ///     // The first run; or another signal or a command has ended the wait.
    ///     Ok(Message::wait_for_signal("approve").within(Duration::from_secs(24 * 3600)))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
    /// # #[cfg(feature = "testing")] {
    /// use windlass::testing::Call;
    ///
    /// let expired = Call::new().awaited_signal("approve").wait_expired();
    /// assert!(expired.run(deploy).await?.error().is_some());
    /// # }
    /// # Ok(()) }
    /// ```
    pub fn wait_expired(&self) -> bool {
        self.run.wait_expired
    }
}
