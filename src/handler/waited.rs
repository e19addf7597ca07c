//! A running handler's view of the tasks that it has waited for.

use windlass_statemachine::{Invalid, Message, TaskType, Waited};

use super::TaskContext;

impl<J: TaskType> TaskContext<J> {
    /// Returns the tasks that this run has waited for, in the order in which they were named, each
    /// with its outcome. Empty for a run that has waited for none. Every attempt of the run gets
    /// the same list.
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
    pub fn waited(&self) -> &[Waited] {
        &self.run.waited
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
