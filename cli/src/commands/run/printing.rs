//! [`Printing`]: prints the output of commands in a separate thread, so that a slow reader blocks neither the tasks nor a stop.

use std::{
    collections::HashMap,
    io::{IsTerminal, Write as _},
    thread,
    time::Duration,
};

use futures::StreamExt;
use indicatif::ProgressBar;
use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::{
    mpsc::{UnboundedReceiver, UnboundedSender, error::TryRecvError, unbounded_channel},
    oneshot,
};
use windlass::{Json, TaskId};

use crate::{
    exec::Output as Captured,
    exit::Failure,
    logs::{Bytes, Event, LIMIT, Lines, Logs, Reader, Run, Started, Stream},
    output::Output,
};

/// How often the logs of running commands are read.
const TICK: Duration = Duration::from_millis(20);
/// How long a last line on standard error may take.
const LAST_LINE: Duration = Duration::from_millis(200);

/// The reasons to stop: signals.
pub(super) type Stops<'a> = dyn futures::Stream<Item = &'static str> + Unpin + 'a;

/// How to print.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) logs: Logs,
    /// Lines as they come, with the id in front, instead of each task's output when it has ended.
    pub(super) prefix: bool,
    /// Whether logs have no limit until they are printed, and are trimmed then.
    pub(super) trim: bool,
}

/// What to print.
pub(super) enum Job {
    /// The output of a task that has ended.
    Ended(Ended),
    /// A line of text.
    Line(String),
    /// A document on its own line.
    Json(Ran),
    /// A message for standard error.
    Say(Box<dyn FnOnce(&Output) + Send>),
}

/// A task that has completed.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Ran {
    /// The task.
    pub(super) id: TaskId,
    /// Its result: any JSON.
    pub(super) result: Option<Json>,
    /// Whether it completed in an earlier run.
    pub(super) from_earlier_run: bool,
    /// When it ended.
    pub(super) ended: Timestamp,
}

/// A task that has ended.
pub(super) struct Ended {
    pub(super) id: TaskId,
    pub(super) order: u64,
    /// The part of its output that the store keeps.
    pub(super) kept: Captured,
}

impl Ended {
    /// Drops text that is also in a file, because many tasks may wait for a slow reader.
    fn lighten(&mut self, logs: &Logs) {
        let runs = logs.runs(&self.id, self.order).unwrap_or_default();
        if runs.iter().any(|run| Some(*run) == self.kept.run) {
            self.kept.stdout = String::new();
            self.kept.stderr = String::new();
        }
    }
}

/// What was printed.
#[derive(Debug, Default)]
pub(super) struct Printed {
    /// The number of tasks whose output was not printed completely.
    pub(super) incomplete: u64,
    /// Whether the reader has closed the output.
    pub(super) closed: bool,
    /// How often output could not be written.
    pub(super) unwritten: u64,
}

/// Prints in the background.
pub(super) struct Printing {
    logs: Logs,
    jobs: UnboundedSender<Job>,
    done: oneshot::Receiver<Printed>,
}

impl Printing {
    /// Starts the thread. `started` reports the commands that begin.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started.
    pub(super) fn start(
        settings: Settings,
        out: Output,
        bar: Option<ProgressBar>,
        started: UnboundedReceiver<Started>,
    ) -> std::io::Result<Self> {
        let (jobs, queue) = unbounded_channel();
        let (end, done) = oneshot::channel();
        let logs = settings.logs.clone();
        let work = Work {
            // If standard output is not a terminal, the bar is not in its way.
            bar: bar.filter(|_| std::io::stdout().is_terminal()),
            settings,
            out,
            started,
            running: HashMap::new(),
            printed: Printed::default(),
        };
        thread::Builder::new()
            .name("output".into())
            .spawn(move || {
                let _ = end.send(work.work(queue));
            })?;
        Ok(Self { logs, jobs, done })
    }

    /// Prints later.
    pub(super) fn print(&self, mut job: Job) {
        if let Job::Ended(ended) = &mut job {
            ended.lighten(&self.logs);
        }
        // The thread ends after this.
        let _ = self.jobs.send(job);
    }

    /// Waits until everything is printed, or until a reason to stop comes: then returns `None`, and a line names
    /// the command that prints the rest.
    pub(super) async fn finish(self, stops: &mut Stops<'_>, logs: String) -> Option<Printed> {
        drop(self.jobs);
        tokio::select! {
            printed = self.done => Some(printed.unwrap_or_default()),
            Some(_) = stops.next() => {
                // Standard error may have the same reader.
                let (end, ended) = std::sync::mpsc::channel();
                thread::spawn(move || {
                    let _ = writeln!(
                        std::io::stderr(),
                        "error: interrupted while output was printed; `{logs}` prints the missing part"
                    );
                    let _ = end.send(());
                });
                let _ = ended.recv_timeout(LAST_LINE);
                None
            }
        }
    }
}

/// A command that runs.
struct Running {
    id: TaskId,
    run: Run,
    reader: Reader,
    lines: Lines,
}

/// The thread.
struct Work {
    settings: Settings,
    out: Output,
    bar: Option<ProgressBar>,
    started: UnboundedReceiver<Started>,
    /// The commands whose lines are printed as they come, by the order of the task.
    running: HashMap<u64, Running>,
    printed: Printed,
}

impl Work {
    fn work(mut self, mut jobs: UnboundedReceiver<Job>) -> Printed {
        loop {
            let job = match self.settings.prefix {
                true => jobs.try_recv(),
                false => jobs.blocking_recv().ok_or(TryRecvError::Disconnected),
            };
            match job {
                Ok(job) => self.job(job),
                Err(TryRecvError::Empty) => {
                    self.begin();
                    for (order, mut running) in std::mem::take(&mut self.running) {
                        self.print(|work| work.read(&mut running, false));
                        self.running.insert(order, running);
                    }
                    thread::sleep(TICK);
                }
                Err(TryRecvError::Disconnected) => {
                    self.begin();
                    for (_, running) in std::mem::take(&mut self.running) {
                        self.end(running);
                    }
                    return self.printed;
                }
            }
        }
    }

    /// Prints, unless the reader has closed the output; the tasks run in any case. Returns whether it
    /// was printed.
    fn print(&mut self, print: impl FnOnce(&mut Self) -> Result<(), Failure>) -> bool {
        if self.printed.closed {
            return false;
        }
        let printed = match self.bar.clone() {
            Some(bar) => bar.suspend(|| print(self)),
            None => print(self),
        };
        match printed {
            Ok(()) => return true,
            Err(Failure::Pipe) => self.printed.closed = true,
            Err(failure) => {
                self.printed.unwritten += 1;
                // If standard output is on a full disk, one report is enough.
                if self.printed.unwritten == 1 {
                    self.out
                        .complain(format_args!("{failure}; the tasks run on"));
                }
            }
        }
        false
    }

    fn job(&mut self, job: Job) {
        match job {
            Job::Line(text) => {
                self.print(|work| work.out.line(text));
            }
            Job::Json(document) => {
                self.print(|work| work.out.json(&document));
            }
            Job::Say(say) => say(&self.out),
            Job::Ended(ended) => {
                self.begin();
                let printed = match self.running.remove(&ended.order) {
                    Some(running) if Some(running.run) == ended.kept.run => self.end(running),
                    other => {
                        if let Some(running) = other {
                            self.end(running);
                        }
                        self.print(|work| work.whole(&ended))
                    }
                };
                // Output that was not printed exists only in the log.
                if self.settings.trim && printed {
                    self.settings.logs.trim(&ended.id, ended.order, LIMIT);
                }
            }
        }
    }

    /// Begins to read the logs of the commands that have begun.
    fn begin(&mut self) {
        while let Ok(Started { id, order, run }) = self.started.try_recv() {
            if !self.settings.prefix {
                continue;
            }
            let running = Running {
                reader: self.settings.logs.reader(&id, order, run),
                lines: self.lines(&id),
                run,
                id,
            };
            if let Some(earlier) = self.running.insert(order, running) {
                self.end(earlier);
            }
        }
    }

    fn lines(&self, id: &TaskId) -> Lines {
        match self.settings.prefix {
            true => Lines::prefixed(format!("{id}: ")),
            false => Lines::plain(),
        }
    }

    /// Prints the rest of a command that has ended. Returns whether it was printed.
    fn end(&mut self, mut running: Running) -> bool {
        self.print(|work| {
            work.read(&mut running, true)?;
            let out = &work.out;
            running
                .lines
                .finish(&mut |stream, bytes| out.stream(stream, bytes))
        })
    }

    /// Prints the part of a command's log that was not printed yet.
    fn read(&mut self, running: &mut Running, last: bool) -> Result<(), Failure> {
        let Running {
            id, reader, lines, ..
        } = running;
        let mut missing = Bytes::default();
        let out = &self.out;
        let mut print = |event: Event<'_>| match event {
            Event::Piece { stream, at, bytes } => {
                lines.feed(stream, at, bytes, &mut |stream, bytes| {
                    out.stream(stream, bytes)
                })
            }
            Event::Gap(gap) => {
                missing.add(&gap);
                gap_of(id, &gap);
                Ok(())
            }
        };
        let read = match last {
            true => reader.finish(&mut print),
            false => reader.read(&mut print),
        };
        self.printed.incomplete += u64::from(missing.sum() > 0);
        read
    }

    /// Prints the whole output of a task.
    fn whole(&mut self, ended: &Ended) -> Result<(), Failure> {
        let Ended { id, order, kept } = ended;
        let runs = self.settings.logs.runs(id, *order)?;
        let run = runs.iter().find(|run| Some(**run) == kept.run);
        let mut lines = self.lines(id);
        if let Some(run) = run {
            let mut running = Running {
                reader: self.settings.logs.reader(id, *order, *run),
                id: id.clone(),
                run: *run,
                lines,
            };
            self.read(&mut running, true)?;
            lines = running.lines;
        } else {
            // It ran on another machine, or its log is gone.
            if kept.truncated {
                let total = [kept.stdout_bytes, kept.stderr_bytes];
                let missing = match total {
                    [Some(stdout), Some(stderr)] => Bytes {
                        stdout: stdout.saturating_sub(kept.stdout.len() as u64),
                        stderr: stderr.saturating_sub(kept.stderr.len() as u64),
                    },
                    _ => Bytes::default(),
                };
                gap_of(id, &missing);
                self.printed.incomplete += 1;
            }
            let out = &self.out;
            for (stream, text) in [
                (Stream::Stdout, &kept.stdout),
                (Stream::Stderr, &kept.stderr),
            ] {
                lines.feed(stream, 0, text.as_bytes(), &mut |stream, bytes| {
                    out.stream(stream, bytes)
                })?;
            }
        }
        let out = &self.out;
        lines.finish(&mut |stream, bytes| out.stream(stream, bytes))
    }
}

/// Reports that a part of a task's output is missing.
fn gap_of(id: &TaskId, missing: &Bytes) {
    let what = missing.missing_here();
    // Standard error may be closed.
    let _ = writeln!(std::io::stderr(), "{what} (task '{id}')");
}
