//! A running handler's view of the tasks that it has waited for.

use windlass_statemachine::{AwaitedSignal, Invalid, Message, TaskType};

use super::{TaskContext, outputs::WaitedTasks};

impl<J: TaskType> TaskContext<J> {
    /// Returns the tasks that this run has waited for, in the order in which they were named, each
    /// with its outcome. Empty for a run that has waited for none. Every attempt of the run gets
    /// the same list. [`outputs`](WaitedTasks::outputs) reads the results of the tasks, a few at a time.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Message, TaskContext, WaitOutcome};
    ///
    /// async fn report(task: TaskContext) -> Message {
    ///     let waited = task.waited().iter();
    ///     let missing = waited.filter(|one| one.outcome != WaitOutcome::Completed).count();
    ///     Message::complete_with(missing)
    /// }
    /// # fn is_handler(_: impl windlass::StatefulHandler) {}
    /// # is_handler(report);
    /// ```
    pub fn waited(&self) -> &WaitedTasks {
        &self.run.waited
    }

    /// Returns the signal that the task has waited for before this run ([`Message::wait_for_signal`]). Every attempt of
    /// the run gets the same. Without the signal among the [commands](Self::commands), the wait has ended at its deadline
    /// ([`AwaitedSignal::expired`], [`wait_expired`](Self::wait_expired)), or a command or another signal has ended it.
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
    ///     match task.awaited_signal() {
    ///         Some(signal) if signal.expired() => Ok(Message::fail("nobody has approved")),
    ///         // Another signal or a command has ended the wait, or this is the first run.
    ///         _ => Ok(Message::wait_for_signal("approve").within(Duration::from_secs(3600))),
    ///     }
    /// }
    /// # fn is_handler(_: impl windlass::StatefulHandler) {}
    /// # is_handler(deploy);
    /// ```
    pub fn awaited_signal(&self) -> Option<&AwaitedSignal> {
        self.run.awaited_signal.as_deref()
    }
}

impl TaskContext {
    /// Returns an error if the message waits for the task that returned it, which cannot end in the
    /// meantime.
    pub(super) fn waits_for_itself(&self, message: &Message) -> Option<Invalid> {
        let waits = message.waits()?;
        waits.check_other("wait_for", self.id()).err()
    }
}
