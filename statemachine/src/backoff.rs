//! [`Backoff`]: the pauses between the tries of a call.

use std::time::Duration;

/// The pauses between the tries of a call: each is twice as long as the one before, up to the longest.
///
/// Use it for calls that are repeated while the program runs. The attempts of a task follow a
/// [`RetryPolicy`](crate::RetryPolicy) instead, which keeps no state.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use windlass_statemachine::Backoff;
///
/// let ms = Duration::from_millis;
/// let mut backoff = Backoff::new(ms(20), ms(50));
/// assert_eq!([backoff.pause(), backoff.pause(), backoff.pause()], [ms(20), ms(40), ms(50)]);
/// backoff.restart();
/// assert_eq!(backoff.pause(), ms(20));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    next: Duration,
    longest: Duration,
}

impl Backoff {
    /// Starts with the pause `first`. No pause is longer than `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            next: first,
            longest,
        }
    }

    /// Returns the next pause.
    pub fn pause(&mut self) -> Duration {
        let pause = self.next.min(self.longest);
        self.next = pause.saturating_mul(2);
        pause
    }

    /// Returns the next pause, shortened at random to between half of it and all of it. `jitter` is a random
    /// number from 0 to 1.
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass_statemachine::Backoff;
    ///
    /// let ms = Duration::from_millis;
    /// let mut backoff = Backoff::new(ms(20), ms(50));
    /// assert_eq!([backoff.jittered(0.0), backoff.jittered(1.0)], [ms(10), ms(40)]);
    /// ```
    pub fn jittered(&mut self, jitter: f64) -> Duration {
        self.pause().mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0)
    }

    /// Returns whether no pause was taken since the start or the last [`restart`](Self::restart).
    pub fn is_new(&self) -> bool {
        self.next == self.first
    }

    /// Starts again with the first pause.
    pub fn restart(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_pause_is_longer_than_the_longest() {
        let second = Duration::from_secs(1);
        let mut backoff = Backoff::new(second * 3, second);
        assert!(backoff.is_new());
        assert_eq!([backoff.pause(), backoff.pause()], [second, second]);
        let mut backoff = Backoff::new(second, Duration::MAX);
        let last = (0..100).map(|_| backoff.pause()).last();
        assert_eq!(last, Some(Duration::MAX));
        assert!(!backoff.is_new());
    }
}
