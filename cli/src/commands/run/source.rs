//! [`Source`]: reads lines one after the other, never all at once.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, IsTerminal, Seek, Write as _},
    path::Path,
};

use tokio::sync::mpsc;
use windlass::{
    Task, TaskId,
    store::{Error, Limits},
};

use super::entry::{Entry, Maker};
use crate::{exit::Failure, input, order::Order, output::Output};

/// How many lines are submitted at a time.
const CHUNK: usize = 256;
/// How many invalid lines are reported; then nothing is run.
pub(super) const REPORTED_LINES: u64 = 20;

/// The most bytes of a stream that are copied, so that an endless stream does not fill the disk.
const MOST_KEPT: u64 = 1 << 30;

/// A line, with its number.
pub(super) struct Numbered {
    pub(super) line: u64,
    pub(super) entry: Result<Entry, String>,
}

/// Lines in chunks.
pub(super) type Lines = mpsc::Receiver<io::Result<Vec<Numbered>>>;

/// The result of a first reading.
#[derive(Debug, Default)]
pub(super) struct Checked {
    /// How many tasks there are.
    pub(super) lines: Option<u64>,
    /// The ids that lines wait for although no line has them, each with the number and the task of the
    /// first such line.
    pub(super) unknown: Vec<(TaskId, u64, TaskId)>,
}

/// An input.
pub(super) struct Source {
    name: String,
    /// The file, when it can be read again from the beginning; otherwise a stream.
    file: Option<File>,
    stream: Option<Box<dyn io::Read + Send>>,
    end: u8,
}

impl Source {
    /// Opens a file, or standard input for `-`.
    pub(super) fn open(path: &Path, end: u8) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let failed = |e: io::Error| Failure::file(&name, &e);
        let (file, stream): (_, Option<Box<dyn io::Read + Send>>) = if name == "-" {
            if io::stdin().is_terminal() {
                let text = "FILE: is missing, and standard input is a terminal; see --help";
                return Err(Failure::Usage(text.into()));
            }
            (None, Some(Box::new(io::stdin())))
        } else {
            let file = File::open(path).map_err(failed)?;
            let kind = file.metadata().map_err(failed)?.file_type();
            if kind.is_dir() {
                return Err(Failure::Usage(format!(
                    "{name}: is a folder, not a file of lines"
                )));
            }
            if kind.is_file() {
                (Some(file), None)
            } else {
                (None, Some(Box::new(file)))
            }
        };
        Ok(Self {
            name: if name == "-" {
                "standard input".into()
            } else {
                name
            },
            file,
            stream,
            end,
        })
    }

    /// Its name for messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Makes the source readable twice: a stream is copied to an unnamed file.
    ///
    /// # Errors
    ///
    /// The errors of the stream and of the folder for temporary files; and an error for a stream of more than
    /// [`MOST_KEPT`] bytes or with a line of more than [`input::MAX_LINE`], such as an endless one.
    pub(super) fn keep(&mut self) -> Result<(), Failure> {
        if let Some(stream) = self.stream.take() {
            self.file = Some(self.copied(stream, MOST_KEPT)?);
        }
        Ok(())
    }

    /// Copies a stream of at most `most` bytes.
    fn copied(&self, stream: impl io::Read, most: u64) -> Result<File, Failure> {
        let name = &self.name;
        let folder = std::env::temp_dir();
        let no_copy = |e: io::Error| {
            Failure::Store(format!(
                "{name}: could not copy the lines to a temporary file in {}: {e}; set TMPDIR to a folder with more \
                 space, give the lines as a file, or run each line as it is read: --keep-going",
                folder.display()
            ))
        };
        let too_much = |what: String| {
            Failure::Usage(format!(
                "{name}: {what}, and nothing was run: all lines are read before one runs; give them as a file, or run \
                 each line as it is read: --keep-going"
            ))
        };
        let mut file = tempfile::tempfile_in(&folder).map_err(no_copy)?;
        let mut from = BufReader::with_capacity(64 * 1024, stream);
        let (mut bytes, mut in_line) = (0, 0);
        loop {
            let part = from.fill_buf().map_err(|e| Failure::file(name, &e))?;
            let length = part.len();
            if length == 0 {
                return Ok(file);
            }
            bytes += length as u64;
            in_line = match part.iter().rev().position(|byte| *byte == self.end) {
                Some(after) => after as u64,
                None => in_line + length as u64,
            };
            if bytes > most {
                return Err(too_much(format!("has more than {most} bytes")));
            }
            if in_line > input::MAX_LINE {
                let most = input::MAX_LINE;
                return Err(too_much(format!("a line of it has more than {most} bytes")));
            }
            file.write_all(part).map_err(no_copy)?;
            from.consume(length);
        }
    }

    fn reader(&mut self) -> io::Result<Box<dyn io::Read + Send>> {
        let reader: Box<dyn io::Read + Send> = match (&mut self.file, self.stream.take()) {
            (Some(file), _) => {
                file.rewind()?;
                Box::new(file.try_clone()?)
            }
            (None, Some(stream)) => stream,
            (None, None) => return Err(io::Error::other("it was read before")),
        };
        Ok(match self.end {
            b'\n' => Box::new(input::SkipMark::new(reader)),
            // A file name may begin with these bytes.
            _ => reader,
        })
    }

    /// Reads and checks every line without keeping it.
    ///
    /// # Errors
    ///
    /// The invalid lines, by number.
    pub(super) fn check(&mut self, maker: &Maker, out: &Output) -> Result<Checked, Failure> {
        let name = self.name.clone();
        let failed = |e: io::Error| Failure::file(&name, &e);
        let end = self.end;
        let mut reader = BufReader::new(self.reader().map_err(failed)?);
        let (mut lines, mut wrong, mut number) = (0, 0, 0);
        let (mut without_input, mut first) = (0, None);
        let mut order = Order::default();
        while let Some(next) = next(&mut reader, end, &mut number, maker).map_err(failed)? {
            match in_order(next.entry, next.line, &mut order) {
                Ok(entry) => {
                    lines += 1;
                    if let Some(reason) = entry.input_not_there() {
                        without_input += 1;
                        first.get_or_insert((next.line, reason));
                    }
                }
                Err(reason) => {
                    wrong += 1;
                    if wrong <= REPORTED_LINES {
                        out.complain(format_args!("{name}: line {}: {reason}", next.line));
                    }
                }
            }
        }
        if let Some((line, reason)) = first {
            out.note(format_args!(
                "note: --inputs: {name}: line {line}: {reason}; the tasks of {without_input} of {lines} lines \
                 do not run again when such a file changes"
            ));
        }
        match wrong {
            0 => Ok(Checked {
                lines: Some(lines),
                unknown: order.unknown(),
            }),
            wrong => Err(nothing_run(&name, wrong, lines + wrong)),
        }
    }

    /// Reads the lines in a separate thread, a bounded number ahead.
    pub(super) fn stream(mut self, maker: Maker) -> Result<Lines, Failure> {
        let failed = |e: io::Error| Failure::Store(format!("the input cannot be read: {e}"));
        let reader = self.reader().map_err(failed)?;
        let (tx, rx) = mpsc::channel(2);
        let read = move || {
            let mut reader = BufReader::with_capacity(64 * 1024, reader);
            let mut number = 0;
            let mut chunk = Vec::new();
            loop {
                let last = match next(&mut reader, self.end, &mut number, &maker) {
                    Ok(Some(mut numbered)) => {
                        if let Ok(entry) = &mut numbered.entry {
                            entry.look_at_inputs();
                        }
                        chunk.push(numbered);
                        // Lines that were read do not wait for the following ones.
                        if chunk.len() < CHUNK && !reader.buffer().is_empty() {
                            continue;
                        }
                        false
                    }
                    Ok(None) => true,
                    Err(e) => {
                        let _ = tx.blocking_send(Err(e));
                        true
                    }
                };
                let full = std::mem::take(&mut chunk);
                if tx.blocking_send(Ok(full)).is_err() || last {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("input".into());
        thread.spawn(read).map_err(failed)?;
        Ok(rx)
    }
}

/// Returns the failure of a run whose input has this many wrong lines.
pub(super) fn nothing_run(name: &str, wrong: u64, lines: u64) -> Failure {
    Failure::Usage(format!(
        "{name}: {wrong} of {lines} lines {} wrong and nothing was run; --keep-going skips invalid lines",
        if wrong == 1 { "is" } else { "are" },
    ))
}

/// Returns the task of a line, if it fits into a store and comes after the lines that it waits for.
pub(super) fn in_order(
    entry: Result<Entry, String>,
    line: u64,
    order: &mut Order,
) -> Result<Entry, String> {
    let entry = entry?;
    let task = &entry.submit.task;
    check_size(task).map_err(|e| e.to_string())?;
    let checked = order.check_work(task);
    let checked = checked.and_then(|()| order.check(line, task, !entry.derived));
    checked.map(|()| entry).map_err(|e| e.to_string())
}

/// Checks the size of the props before the store is open. Every store has the same limit; one with a
/// smaller limit would refuse the task at its submit.
fn check_size(task: &Task) -> Result<(), Error> {
    let (bytes, limit) = (task.props.len(), Limits::default().max_bytes);
    match bytes > limit {
        true => Err(Error::too_large("props", bytes, limit)),
        false => Ok(()),
    }
}

/// Returns the next line that is not empty.
fn next(
    from: &mut dyn BufRead,
    end: u8,
    number: &mut u64,
    maker: &Maker,
) -> io::Result<Option<Numbered>> {
    loop {
        let Some(line) = input::next_bytes(from, end)? else {
            return Ok(None);
        };
        *number += 1;
        // A line that ends with NUL is a file name: it may consist of blanks, and need not be
        // UTF-8.
        let line = line.and_then(|line| match end {
            b'\n' => input::text(line).map(String::into_bytes),
            _ => Ok(line),
        });
        let entry = match line {
            Ok(line) if line.is_empty() || end == b'\n' && is_blank(&line) => continue,
            Ok(line) => maker.make(&line),
            Err(e) => Err(format!("{e}{}", maker.hint_of_null(end))),
        };
        return Ok(Some(Numbered {
            line: *number,
            entry,
        }));
    }
}

fn is_blank(line: &[u8]) -> bool {
    std::str::from_utf8(line).is_ok_and(|line| line.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: such streams were copied until the disk was full.
    #[test]
    fn a_stream_without_an_end_is_copied_up_to_a_bound() {
        let source = Source {
            name: "standard input".into(),
            file: None,
            stream: None,
            end: b'\n',
        };
        let said = |stream: &mut dyn io::Read, most| match source.copied(stream, most) {
            Err(Failure::Usage(text)) => text,
            other => panic!("{:?}", other.map(drop)),
        };
        let text = said(&mut io::repeat(b'\n'), 1 << 20);
        assert!(
            text.contains("has more than 1048576 bytes, and nothing was run"),
            "{text}"
        );
        let text = said(&mut io::repeat(b'x'), u64::MAX);
        assert!(text.contains("a line of it has more than "), "{text}");
        let mut copy = source.copied(&b"a\nb"[..], 3).unwrap();
        copy.rewind().unwrap();
        assert_eq!(io::read_to_string(copy).unwrap(), "a\nb");
    }
}
