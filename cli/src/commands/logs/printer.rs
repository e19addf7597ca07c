//! [`Printer`]: prints the output of a task.

use std::io::Write as _;

use serde::Serialize;
use windlass::{StateKind, TaskId};

use crate::{
    exit::Failure,
    logs::{Bytes, Event, Lines, Run, Stream, time},
    output::Output,
};

/// How to print.
pub(super) struct Options {
    pub(super) only: Option<Stream>,
    pub(super) timestamps: bool,
    pub(super) follow: bool,
}

/// Prints the output of a task.
pub(super) struct Printer {
    to: Target,
    only: Option<Stream>,
    lines: Lines,
    /// The document, if the whole output becomes one JSON document.
    whole: Option<Whole>,
}

/// Where to print, and whose output.
struct Target {
    out: Output,
    id: TaskId,
    /// The run of the command, if that is known.
    run: Option<Run>,
}

/// The content of a JSON document with the whole output.
#[derive(Default)]
struct Whole {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    missing: Bytes,
    printed: bool,
}

impl Printer {
    pub(super) fn new(out: Output, id: TaskId, options: &Options) -> Self {
        let json = out.is_json();
        Self {
            only: options.only,
            lines: match (json, options.timestamps) {
                (true, _) => Lines::whole(),
                (false, true) => Lines::timed(),
                (false, false) => Lines::plain(),
            },
            whole: (json && !options.follow).then(Whole::default),
            to: Target { out, id, run: None },
        }
    }

    /// Notes that the next output belongs to this run.
    pub(super) fn begin(&mut self, run: Option<Run>) -> Result<(), Failure> {
        self.end_lines()?;
        self.to.run = run;
        Ok(())
    }

    /// Prints a part of a log.
    pub(super) fn event(&mut self, event: Event<'_>) -> Result<(), Failure> {
        match event {
            Event::Piece { stream, at, bytes } => self.piece(stream, at, bytes),
            Event::Gap(missing) => self.gap(missing),
        }
    }

    /// Prints bytes of a stream.
    pub(super) fn piece(&mut self, stream: Stream, at: i64, bytes: &[u8]) -> Result<(), Failure> {
        if self.only.is_some_and(|only| only != stream) || bytes.is_empty() {
            return Ok(());
        }
        if let Some(whole) = &mut self.whole {
            whole.printed = true;
            match stream {
                Stream::Stdout => whole.stdout.extend_from_slice(bytes),
                Stream::Stderr => whole.stderr.extend_from_slice(bytes),
            }
            return Ok(());
        }
        let Self { lines, to, .. } = self;
        lines.feed(stream, at, bytes, &mut |stream, bytes| {
            to.print(stream, Some(at), bytes)
        })
    }

    /// Prints a note that bytes are missing here.
    pub(super) fn gap(&mut self, missing: Bytes) -> Result<(), Failure> {
        let missing = match self.only {
            Some(only) => Bytes::of(only, missing.get(only)),
            None => missing,
        };
        if missing.sum() == 0 {
            return Ok(());
        }
        if let Some(whole) = &mut self.whole {
            whole.missing.add(&missing);
            return Ok(());
        }
        self.end_lines()?;
        if self.to.out.is_json() {
            let missing_bytes = missing.into();
            return self.to.print_part(&Part::Missing { missing_bytes });
        }
        // Standard error may be closed.
        let _ = writeln!(std::io::stderr(), "{}", missing.missing_here());
        Ok(())
    }

    /// Prints lines without a line break at their end.
    pub(super) fn end_lines(&mut self) -> Result<(), Failure> {
        let Self { lines, to, .. } = self;
        lines.finish(&mut |stream, bytes| to.print(stream, None, bytes))
    }

    /// Prints the rest. `state` is the state of the task.
    pub(super) fn finish(mut self, state: Option<StateKind>) -> Result<(), Failure> {
        self.end_lines()?;
        let Some(whole) = self.whole.take() else {
            return Ok(());
        };
        let text = |bytes: &[u8]| {
            whole
                .printed
                .then(|| String::from_utf8_lossy(bytes).into_owned())
        };
        self.to.print_part(&Part::Whole {
            state,
            stdout: text(&whole.stdout),
            stderr: text(&whole.stderr),
            missing_bytes: (whole.missing.sum() > 0).then(|| whole.missing.into()),
        })
    }
}

/// Output of a task.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Document<'a> {
    /// The task.
    id: &'a TaskId,
    /// The incarnation of the run; `null` when the run is not known.
    incarnation: Option<u32>,
    /// The attempt of the run in its incarnation, from 1.
    attempt: Option<u32>,
    #[serde(flatten)]
    part: &'a Part,
}

/// One piece of printed JSON.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum Part {
    /// The whole output of the last run.
    Whole {
        /// The state of the task; `null` when it was deleted.
        state: Option<StateKind>,
        /// What the command wrote to standard output; `null` when nothing is known of its output.
        stdout: Option<String>,
        /// What the command wrote to standard error.
        stderr: Option<String>,
        /// How much of the output is missing.
        #[serde(skip_serializing_if = "Option::is_none")]
        missing_bytes: Option<Missing>,
    },
    /// A line, with `--follow`.
    Line {
        /// When the command wrote it.
        time: Option<String>,
        /// `stdout` or `stderr`.
        stream: &'static str,
        /// The line.
        text: String,
    },
    /// A gap, with `--follow`.
    Missing {
        /// How much of the output is missing here.
        missing_bytes: Missing,
    },
}

/// A number of bytes of each stream.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Missing {
    /// Of standard output.
    stdout: u64,
    /// Of standard error.
    stderr: u64,
}

impl From<Bytes> for Missing {
    fn from(bytes: Bytes) -> Self {
        let Bytes { stdout, stderr } = bytes;
        Self { stdout, stderr }
    }
}

impl Target {
    fn print_part(&self, part: &Part) -> Result<(), Failure> {
        self.out.json(&Document {
            id: &self.id,
            incarnation: self.run.map(|run| run.incarnation),
            attempt: self.run.map(|run| run.attempt),
            part,
        })
    }

    fn print(&self, stream: Stream, at: Option<i64>, bytes: &[u8]) -> Result<(), Failure> {
        if !self.out.is_json() {
            return self.out.stream(stream, bytes);
        }
        self.print_part(&Part::Line {
            time: at.map(time),
            stream: stream.name(),
            text: String::from_utf8_lossy(bytes).into_owned(),
        })
    }
}
