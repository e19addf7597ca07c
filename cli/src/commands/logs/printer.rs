//! [`Printer`]: prints the output of a task.

use std::io::Write as _;

use serde::Serialize;
use windlass::{
    Fence, StateKind, TaskId,
    store::{DamagedPart, LogPage},
};

use crate::{
    exit::Failure,
    logs::{Bytes, Event, Lines, Run, Stream, time},
    output::Output,
    text::lines_of_text,
};

/// How to print.
pub(super) struct Options {
    pub(super) only: Option<Only>,
    pub(super) timestamps: bool,
    pub(super) follow: bool,
}

/// The part of the output that is printed alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Only {
    /// A stream of the command.
    Stream(Stream),
    /// The lines that the handler has logged.
    Lines,
}

/// Prints the output of a task.
pub(super) struct Printer {
    to: Target,
    only: Option<Only>,
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
    lines: Vec<Logged>,
    missing_lines: u64,
    damaged_parts: Vec<Damaged>,
}

/// The stream of lines that handlers log.
const LOG: &str = "log";

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
        if self.only.is_some_and(|only| only != Only::Stream(stream)) || bytes.is_empty() {
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
            Some(Only::Stream(only)) => Bytes::of(only, missing.get(only)),
            Some(Only::Lines) => return Ok(()),
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

    /// Prints lines that the handler has logged. Returns whether there are any.
    pub(super) fn logged(&mut self, page: &LogPage) -> Result<bool, Failure> {
        if matches!(self.only, Some(Only::Stream(_))) {
            return Ok(false);
        }
        if page.gone > 0 {
            self.lines_gone(page.gone)?;
        }
        for part in &page.damaged {
            self.damaged(part)?;
        }
        for line in &page.lines {
            let run = (line.incarnation, line.attempt);
            if self.to.run.map(|run| (run.incarnation, run.attempt)) != Some(run) {
                self.begin(Some(Run {
                    incarnation: line.incarnation,
                    attempt: line.attempt,
                    fence: Fence(0),
                    nth: 0,
                }))?;
            }
            let at = line.at.as_millisecond();
            if let Some(whole) = &mut self.whole {
                whole.lines.push(Logged {
                    number: line.number,
                    time: time(at),
                    text: line.text.clone(),
                });
            } else if self.to.out.is_json() {
                self.to.print_part(&Part::Line {
                    time: Some(time(at)),
                    stream: LOG,
                    text: line.text.clone(),
                })?;
            } else {
                let Self { lines, to, .. } = self;
                let text = format!("{}\n", lines_of_text(&line.text));
                lines.feed(Stream::Stdout, at, text.as_bytes(), &mut |stream, bytes| {
                    to.print(stream, Some(at), bytes)
                })?;
            }
        }
        Ok(!page.lines.is_empty() || !page.damaged.is_empty())
    }

    /// Notes that a part of the lines of the handler cannot be read.
    fn damaged(&mut self, part: &DamagedPart) -> Result<(), Failure> {
        let damaged_part = Damaged {
            part: part.part,
            incarnation: part.incarnation,
            attempt: part.attempt,
            reason: part.reason.clone(),
        };
        if let Some(whole) = &mut self.whole {
            whole.damaged_parts.push(damaged_part);
            return Ok(());
        }
        if self.to.out.is_json() {
            return self.to.print_part(&Part::Damaged { damaged_part });
        }
        self.to.out.note(format_args!(
            "note: part {} of the log, with lines of attempt {}, cannot be read: {}; `windlass doctor --repair` deletes \
             the damaged parts and keeps the others",
            part.part, part.attempt, part.reason
        ));
        Ok(())
    }

    /// Notes that lines of the handler are gone.
    fn lines_gone(&mut self, gone: u64) -> Result<(), Failure> {
        if let Some(whole) = &mut self.whole {
            whole.missing_lines += gone;
            return Ok(());
        }
        if self.to.out.is_json() {
            let missing_lines = gone;
            return self.to.print_part(&Part::MissingLines { missing_lines });
        }
        self.to.out.note(format_args!(
            "note: {gone} earlier lines are gone: the log of a task is bounded, and a handler may log faster than the \
             store writes"
        ));
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
            lines: whole.lines,
            missing_lines: (whole.missing_lines > 0).then_some(whole.missing_lines),
            damaged_parts: whole.damaged_parts,
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
        /// The lines that the handler has logged.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        lines: Vec<Logged>,
        /// How many lines of the handler are gone.
        #[serde(skip_serializing_if = "Option::is_none")]
        missing_lines: Option<u64>,
        /// The parts of the handler's lines that cannot be read.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        damaged_parts: Vec<Damaged>,
    },
    /// A line, with `--follow`.
    Line {
        /// When the command or the handler wrote it.
        time: Option<String>,
        /// `stdout`, `stderr`, or `log` for a line of the handler.
        stream: &'static str,
        /// The line.
        text: String,
    },
    /// A gap, with `--follow`.
    Missing {
        /// How much of the output is missing here.
        missing_bytes: Missing,
    },
    /// Lines of the handler that are gone, with `--follow`.
    MissingLines {
        /// How many lines are gone here.
        missing_lines: u64,
    },
    /// A part of the handler's lines that cannot be read, with `--follow`.
    Damaged {
        /// The part.
        damaged_part: Damaged,
    },
}

/// A part of the handler's lines that cannot be read.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Damaged {
    /// The number of the part among all parts of the task, from 0.
    part: u64,
    /// The incarnation in which the handler ran.
    incarnation: u32,
    /// The attempt in which the handler ran, from 1.
    attempt: u32,
    /// Why the part cannot be read.
    reason: String,
}

/// A line that the handler has logged.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Logged {
    /// The number of the line among all lines of the task.
    number: u64,
    /// When the handler logged the line.
    time: String,
    /// The line.
    text: String,
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
