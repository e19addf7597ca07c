//! [`Printer`]: prints the output of a task.

use std::io::Write as _;

use serde_json::{Value, json};
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
    /// For one JSON document of all.
    whole: Option<Whole>,
}

/// Where to print, and whose output.
struct Target {
    out: Output,
    id: TaskId,
    /// The run of the command, if that is known.
    run: Option<Run>,
}

/// What a JSON document of the whole output holds.
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

    /// The next output is of this run.
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
            let missing = missing_json(missing);
            return self
                .to
                .out
                .json(&self.to.document(json!({ "missing_bytes": missing })));
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
        let mut document = self.to.document(json!({
            "state": state,
            "stdout": text(&whole.stdout),
            "stderr": text(&whole.stderr),
        }));
        if whole.missing.sum() > 0 {
            document["missing_bytes"] = missing_json(whole.missing);
        }
        self.to.out.json(&document)
    }
}

fn missing_json(missing: Bytes) -> Value {
    json!({ "stdout": missing.stdout, "stderr": missing.stderr })
}

impl Target {
    fn document(&self, mut document: Value) -> Value {
        document["id"] = json!(self.id);
        document["incarnation"] = json!(self.run.map(|run| run.incarnation));
        document["attempt"] = json!(self.run.map(|run| run.attempt));
        document
    }

    fn print(&self, stream: Stream, at: Option<i64>, bytes: &[u8]) -> Result<(), Failure> {
        if !self.out.is_json() {
            return self.out.stream(stream, bytes);
        }
        self.out.json(&self.document(json!({
            "time": at.map(time),
            "stream": stream.name(),
            "text": String::from_utf8_lossy(bytes),
        })))
    }
}
