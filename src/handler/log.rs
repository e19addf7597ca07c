//! The lines that a running handler logs.

use std::{
    collections::VecDeque,
    fmt::Display,
    mem,
    sync::{MutexGuard, PoisonError},
};

use jiff::Timestamp;
use windlass_statemachine::TaskType;

use super::{TaskContext, asks::Sent, run_data::RunData};
use crate::store::Logged;

/// The most bytes of one line. The rest of a longer line is replaced by `…`.
const LINE_BYTES: usize = 4096;
/// The most bytes and lines that wait for the store.
const WAITING_BYTES: usize = 256 * 1024;
const WAITING_LINES: usize = 4096;
/// The number of waiting bytes from which they are written at once.
pub(crate) const FULL: usize = 64 * 1024;

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

    fn push(&mut self, line: Logged) {
        self.last = line.n;
        self.waiting.push(line);
    }

    /// Returns whether the runner has to be notified.
    fn notifies(&mut self) -> bool {
        let now = (true, self.is_full());
        now != mem::replace(&mut self.notified, now)
    }

    /// Returns whether the waiting lines should be written at once.
    fn is_full(&self) -> bool {
        self.waiting.bytes >= FULL
    }
}

impl RunData {
    fn log(&self) -> MutexGuard<'_, RunLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lines that were logged since the last call.
    pub(crate) fn take_log(&self) -> Waiting {
        let mut log = self.log();
        log.notified = (false, false);
        mem::take(&mut log.waiting)
    }

    /// Returns whether the waiting lines should be written at once.
    pub(crate) fn log_is_full(&self) -> bool {
        self.log().is_full()
    }

    /// Takes the last lines of a run that has ended, and the number of the last one. Later lines are dropped.
    pub(crate) fn end_log(&self) -> (Waiting, u64) {
        let mut log = self.log();
        log.is_over = true;
        (mem::take(&mut log.waiting), log.last)
    }
}

impl<J: TaskType> TaskContext<J> {
    /// Logs a line, which is kept with the attempt: `windlass logs` and
    /// [`Client::log_lines`](crate::Client::log_lines) show it, while the handler runs and later. Each line of a text
    /// with line breaks is a line of its own.
    ///
    /// # Flow
    ///
    /// The call only puts the line into memory. The line is written with the next write of the task, or at most one
    /// second later. Lines of many tasks are written together.
    ///
    /// # Guarantees
    ///
    /// The lines of a message are written in the step that stores the message. A worker that is killed loses at most
    /// the lines of its last second. A handler that no longer has its claim adds no lines.
    ///
    /// # Caveats
    ///
    /// A log is bounded, and its oldest lines are deleted first. Each attempt has at most 32 parts, and each task at
    /// most 128 parts, of 256 lines and 8 KiB of text: 8,192 lines and 256 KiB of an attempt, 32,768 lines and 1 MiB
    /// of a task. A line has at most 4 KiB. At most 4,096 lines and 256 KiB wait for the store: a handler that logs
    /// faster loses the oldest of them. Readers get the number of lines that are gone.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Message, TaskContext, store::LogQuery, testing::Simulation};
    ///
    /// async fn resize(task: TaskContext) -> Message {
    ///     for picture in ["a.png", "b.png"] {
    ///         task.log(format_args!("resized {picture}"));
    ///     }
    ///     Message::complete()
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut simulation = Simulation::builder().handler("resize", resize).build().await?;
    /// let client = simulation.client();
    /// client.submit(windlass::task("resize").id("r1")).await?;
    /// simulation.run_until_idle().await?;
    /// let page = client.log_lines("r1", &LogQuery::default()).await?;
    /// assert_eq!(page.lines[1].text, "resized b.png");
    /// assert_eq!((page.lines[1].attempt, page.gone), (1, 0));
    /// # Ok(()) }
    /// ```
    pub fn log(&self, text: impl Display) {
        let text = text.to_string();
        let at = self.run.clock.now();
        let at = at.round(jiff::Unit::Millisecond).unwrap_or(at);
        let mut log = self.run.log();
        if log.is_over {
            return;
        }
        for line in text.lines() {
            let n = log.last + 1;
            log.push(self.logged(n, at, line));
        }
        let notifies = !text.is_empty() && log.notifies();
        drop(log);
        if notifies {
            // A runner that is gone stores nothing.
            let _ = (self.run.asks.0)(Sent::Logged);
        }
    }

    fn logged(&self, n: u64, at: Timestamp, line: &str) -> Logged {
        let text = match line.len() > LINE_BYTES {
            true => {
                let end = line.floor_char_boundary(LINE_BYTES - '…'.len_utf8());
                format!("{}…", &line[..end]).into()
            }
            false => line.into(),
        };
        Logged {
            n,
            incarnation: self.run.incarnation,
            attempt: self.run.attempt,
            at,
            text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            log.push(line(n, LINE_BYTES));
            notified.extend(log.notifies().then_some(n));
        }
        assert_eq!(notified, [8, 23]);
    }
}
