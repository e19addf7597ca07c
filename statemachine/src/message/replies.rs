//! Replies to signals in a message, and what follows for signals without one.

use serde::Serialize;

use super::{Action, Message};
use crate::{Json, Signal};

impl<J> Message<J> {
    /// Adds the reply to a signal, in the same write as the transition. A value without a JSON form
    /// makes the message a [`fail`](Self::fail) that says so, without effects.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_statemachine::{Message, Signal};
    ///
    /// let signal = Signal::new("approve");
    /// let message: Message = Message::complete().answer(&signal, &"thanks");
    /// assert_eq!(message.answers().count(), 1);
    /// ```
    #[must_use]
    pub fn answer<T: Serialize + ?Sized>(mut self, signal: &Signal, reply: &T) -> Self {
        match Json::new("reply", reply) {
            Ok(_) if self.body.refused => self,
            Ok(reply) => {
                self.body.answers.push((signal.order(), reply));
                self
            }
            Err(error) => Self::refused(error),
        }
    }

    /// Keeps signals without a reply in the queue for the next run, instead of settling them as unanswered.
    /// They do not wake the task again. A release and an [`error`](Self::error) always keep them. A message
    /// that waits for other tasks never does: a kept signal holds the claim, and a waiting task has no
    /// claim.
    #[must_use]
    pub fn keep_signals(mut self) -> Self {
        self.body.keeps_signals = true;
        self
    }

    /// Returns the replies to signals, each with the [order](Signal::order) of its signal.
    pub fn answers(&self) -> impl Iterator<Item = (u64, &Json)> {
        self.body
            .answers
            .iter()
            .map(|(order, reply)| (*order, reply))
    }

    /// Returns whether signals without a reply stay in the queue when the handler returns this message.
    pub fn keeps_signals(&self) -> bool {
        let keeps = match &self.body.action {
            Action::Release => true,
            Action::Error { retryable, .. } => *retryable,
            _ => false,
        };
        let may_keep = self.body.waits.is_none();
        self.body.keeps_signals && may_keep || keeps
    }
}
