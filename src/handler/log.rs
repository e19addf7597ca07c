//! The lines that a running handler logs.

use std::{
    fmt::Display,
    sync::{MutexGuard, PoisonError},
};

use jiff::Timestamp;
use windlass_statemachine::TaskType;

use super::{
    TaskContext,
    asks::Sent,
    log_buffer::{RunLog, Waiting},
    run_data::RunData,
};
use crate::store::{Logged, rules::log_lines::cut};

impl RunData {
    fn log(&self) -> MutexGuard<'_, RunLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lines that were logged since the last call.
    pub(crate) fn take_log(&self) -> Waiting {
        self.log().take()
    }

    /// Returns whether the waiting lines should be written at once.
    pub(crate) fn log_is_full(&self) -> bool {
        self.log().is_full()
    }

    /// Takes the last lines of a run that has ended, and the number of the last one. Later lines are dropped.
    pub(crate) fn end_log(&self) -> (Waiting, u64) {
        self.log().end()
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
    /// use windlass::{BoxError, Client, Message, NewTask, Runner, TaskContext, store::{LogQuery, Store}};
    ///
    /// async fn resize(task: TaskContext) -> Message {
    ///     for picture in ["a.png", "b.png"] {
    ///         task.log(format_args!("resized {picture}"));
    ///     }
    ///     Message::complete()
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
    /// let store = Store::open("memory:").await?;
    /// let runner = Runner::builder(&store).handler("resize", resize).start().await?;
    /// let client = Client::new(&store);
    /// let id = client.submit(NewTask::new("resize")).await?.into_id();
    /// client.wait(&id).await?;
    /// let page = client.log_lines(&id, &LogQuery::default()).await?;
    /// assert_eq!(page.lines[1].text, "resized b.png");
    /// assert_eq!((page.lines[1].attempt, page.gone), (1, 0));
    /// runner.shutdown().await;
    /// # Ok(()) }
    /// ```
    pub fn log(&self, text: impl Display) {
        let text = text.to_string();
        let at = self.run.clock.now();
        let at = at.round(jiff::Unit::Millisecond).unwrap_or(at);
        let mut log = self.run.log();
        for line in text.lines() {
            log.push(|n| self.logged(n, at, line));
        }
        let notifies = log.notifies();
        drop(log);
        if notifies {
            // A runner that is gone stores nothing.
            let _ = (self.run.asks.0)(Sent::Logged);
        }
    }

    fn logged(&self, n: u64, at: Timestamp, line: &str) -> Logged {
        Logged {
            n,
            incarnation: self.run.incarnation,
            attempt: self.run.attempt,
            at,
            text: cut(line),
        }
    }
}
