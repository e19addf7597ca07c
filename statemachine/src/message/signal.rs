//! How a message asks to wait for a signal.

use super::{Action, Message, Wake};
use crate::AwaitedSignal;

impl<J> Message<J> {
    /// Waits for a signal, and declares which: clients then list the task among those that wait for people, and show a form
    /// for the signal. The task is paused; [`within`](Self::within) a duration, or until a [`deadline`](Self::deadline), it
    /// sleeps. Any signal, a command to run and the deadline run the handler again. That run gets the signals as every run
    /// does, what it has waited for from `TaskContext::awaited_signal`, and whether the wait had its whole time from
    /// `TaskContext::wait_expired`.
    ///
    /// Invalid values make the message a [`fail`](Self::fail) that names the field ([`AwaitedSignal`]).
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass_statemachine::{ActionKind, AwaitedSignal, Message};
    ///
    /// let message: Message = Message::wait_for_signal("approve");
    /// assert_eq!(message.kind(), ActionKind::Pause);
    ///
    /// let asked = AwaitedSignal::new("approve").with_text("Deploy version 1.4?");
    /// let three_days = Duration::from_secs(3 * 24 * 3600);
    /// let message: Message = Message::wait_for_signal(asked).within(three_days);
    /// assert_eq!(message.kind(), ActionKind::Sleep);
    /// ```
    pub fn wait_for_signal(signal: impl Into<AwaitedSignal>) -> Self {
        Self::awaiting(Action::Pause, signal.into())
    }

    /// Adds a signal to wait for to a pause or a sleep.
    pub(crate) fn awaiting(action: Action, signal: AwaitedSignal) -> Self {
        if let Err(error) = signal.check() {
            return Self::refused(error);
        }
        let mut message = Self::from(action);
        message.body.awaited_signal = Some(Box::new(signal));
        message
    }

    /// Returns the signal that the message waits for.
    pub fn awaited_signal(&self) -> Option<&AwaitedSignal> {
        self.body.awaited_signal.as_deref()
    }

    /// Sets when a wait for a signal ends.
    pub(super) fn signal_until(&mut self, until: Wake) {
        if self.body.awaited_signal.is_some() {
            self.body.action = Action::Sleep { until };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ActionKind;

    #[test]
    fn a_signal_that_is_not_valid_fails_the_message() {
        for (signal, field) in [
            (AwaitedSignal::new(""), "name: "),
            (
                AwaitedSignal::new("a").with_text("x".repeat(1001)),
                "text: ",
            ),
            (AwaitedSignal::new("a").with_text("a\u{202e}b"), "text: "),
        ] {
            let message: Message = Message::wait_for_signal(signal);
            let Action::Error { error, retryable } = message.action() else {
                panic!("{message:?}");
            };
            assert!(error.starts_with(field) && !retryable, "{error}");
        }
    }

    #[test]
    fn a_wait_takes_a_deadline_and_keeps_its_signal() {
        let at = jiff::Timestamp::UNIX_EPOCH;
        let message: Message = Message::wait_for_signal("a").deadline(at);
        assert_eq!(message.kind(), ActionKind::Sleep);
        assert_eq!(message.awaited_signal().unwrap().name(), "a");
    }
}
