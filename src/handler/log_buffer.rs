//! [`RunLog`]: the lines that a handler has logged, until the runner takes them.

use std::{collections::VecDeque, mem};

use crate::store::Logged;

/// The most bytes and lines that wait for the store.
const WAITING_BYTES: usize = 256 * 1024;
const WAITING_LINES: usize = 4096;
/// The number of waiting bytes from which they are written at once.
const FULL: usize = 64 * 1024;

/// Lines that wait for the store. Drops the oldest ones beyond its bounds.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    lines: VecDeque<Logged>,
    bytes: usize,
}

impl Waiting {
    pub(crate) fn push(&mut self, line: Logged) {
        self.bytes += line.text.len();
        self.lines.push_back(line);
        while self.bytes > WAITING_BYTES || self.lines.len() > WAITING_LINES {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if let Some(first) = self.lines.pop_front() {
            self.bytes -= first.text.len();
        }
    }

    /// Drops the lines up to this number.
    pub(crate) fn drop_until(&mut self, n: u64) {
        while self.lines.front().is_some_and(|line| line.n <= n) {
            self.drop_first();
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Logged> {
        self.lines.iter()
    }
}

impl IntoIterator for Waiting {
    type Item = Logged;
    type IntoIter = std::collections::vec_deque::IntoIter<Logged>;

    fn into_iter(self) -> Self::IntoIter {
        self.lines.into_iter()
    }
}

/// The lines of one run that the runner has not taken.
#[derive(Debug, Default)]
pub(crate) struct RunLog {
    waiting: Waiting,
    /// The number of the last line among those of the claim.
    last: u64,
    /// Whether the runner knows of waiting lines, and whether it knows that they are many.
    notified: (bool, bool),
    /// Whether the run has ended: later lines are dropped.
    is_over: bool,
}

impl RunLog {
    /// Returns the log of a run whose claim has logged this many lines before.
    pub(crate) fn after(last: u64) -> Self {
        Self {
            last,
            ..Self::default()
        }
    }

    /// Adds a line with the next number, unless the run has ended.
    pub(super) fn push(&mut self, line: impl FnOnce(u64) -> Logged) {
        if !self.is_over {
            self.last += 1;
            self.waiting.push(line(self.last));
        }
    }

    /// Takes the lines that were logged since the last call.
    pub(super) fn take(&mut self) -> Waiting {
        self.notified = (false, false);
        mem::take(&mut self.waiting)
    }

    /// Ends the log. Returns the last lines, and the number of the last one.
    pub(super) fn end(&mut self) -> (Waiting, u64) {
        self.is_over = true;
        (mem::take(&mut self.waiting), self.last)
    }

    /// Returns whether the runner has to be notified.
    pub(super) fn notifies(&mut self) -> bool {
        if self.waiting.lines.is_empty() {
            return false;
        }
        let now = (true, self.is_full());
        now != mem::replace(&mut self.notified, now)
    }

    /// Returns whether the waiting lines should be written at once.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.bytes >= FULL
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::store::rules::log_lines::LINE_BYTES;

    fn line(n: u64, bytes: usize) -> Logged {
        Logged::new(n, Timestamp::UNIX_EPOCH, "x".repeat(bytes))
    }

    fn numbers(waiting: &Waiting) -> (Option<u64>, usize) {
        (
            waiting.iter().next().map(|line| line.n),
            waiting.lines.len(),
        )
    }

    #[test]
    fn lines_that_wait_are_bounded_and_the_oldest_are_dropped() {
        let mut waiting = Waiting::default();
        (1..=5000).for_each(|n| waiting.push(line(n, 1)));
        assert_eq!(numbers(&waiting), (Some(905), WAITING_LINES));
        (5001..=5100).for_each(|n| waiting.push(line(n, LINE_BYTES)));
        assert_eq!(numbers(&waiting), (Some(5037), 64));
        waiting.drop_until(5098);
        assert_eq!(numbers(&waiting), (Some(5099), 2));
        assert_eq!(waiting.bytes, 2 * LINE_BYTES);
    }

    #[test]
    fn the_runner_is_notified_of_the_first_line_and_of_many() {
        let mut log = RunLog::after(7);
        let mut notified = Vec::new();
        for n in 8..40 {
            log.push(|n| line(n, LINE_BYTES));
            notified.extend(log.notifies().then_some(n));
        }
        assert_eq!(notified, [8, 23]);
    }
}
