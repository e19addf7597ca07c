//! [`Writer`]: appends the output of one run's command to files, within a limit.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use tracing::warn;

use super::{
    index::Record,
    name::{Bytes, Run, Segment, Stream},
};
use crate::place::{OwnFolder, Place};

/// How many segments a log with a limit has. The oldest is deleted to make room for a new one.
const SEGMENTS: u64 = 8;
/// The size of a segment of a log without a limit.
const SEGMENT: u64 = 8 << 20;

/// The longest line of an index, in bytes.
const LINE: u64 = 64;

/// The logs of a task's earlier runs together take at most this many times the limit of one log.
const EARLIER: u64 = 3;
/// How many earlier runs of a task may have a log.
const MOST_EARLIER: usize = 99;

/// A piece of output that was read from a stream of a command.
#[derive(Debug)]
pub(crate) struct Piece {
    /// The stream.
    pub(crate) stream: Stream,
    /// When, in milliseconds since 1970.
    pub(crate) at: i64,
    /// What was read.
    pub(crate) bytes: Vec<u8>,
}

impl Piece {
    /// Returns a piece that was read just now.
    pub(crate) fn now(stream: Stream, bytes: Vec<u8>) -> Self {
        let at = Timestamp::now().as_millisecond();
        Self { stream, at, bytes }
    }
}

/// Appends to the log of one run. The files are created with the first piece.
#[derive(Debug)]
pub(crate) struct Writer {
    place: Place,
    dir: PathBuf,
    /// The folder `dir`, once it exists.
    folder: Option<OwnFolder>,
    run: Run,
    limit: Option<u64>,
    open: Option<Open>,
    /// The number of the next segment.
    next: u64,
    /// The segments that are kept, without the open one, with their sizes.
    kept: VecDeque<(Segment, u64)>,
    /// How many bytes of each stream were written or lost.
    counts: Bytes,
    /// Bytes that could not be written since the last line of the index, and when the loss began.
    lost: Bytes,
    lost_at: i64,
    warned: bool,
}

/// The segment that is written to.
#[derive(Debug)]
struct Open {
    segment: Segment,
    index: File,
    /// The length of the part of the index that certainly consists of whole lines.
    index_len: u64,
    /// Lines that are not written to the index yet.
    lines: Vec<u8>,
    stdout: Option<File>,
    stderr: Option<File>,
    /// The size of the segment in bytes, with its index.
    bytes: u64,
}

fn append(folder: Option<&OwnFolder>, path: &Path) -> io::Result<File> {
    match (folder, path.file_name()) {
        (Some(folder), Some(name)) => folder.append(name),
        _ => Err(io::Error::other("the folder of the log is not open")),
    }
}

impl Open {
    fn line(&mut self, record: Record) {
        let before = self.lines.len();
        record.write(&mut self.lines);
        self.bytes += (self.lines.len() - before) as u64;
    }

    fn file(&mut self, folder: Option<&OwnFolder>, stream: Stream) -> io::Result<&mut File> {
        let path = self.segment.data(Path::new(""), stream);
        let slot = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        match slot {
            Some(file) => Ok(file),
            None => Ok(slot.insert(append(folder, &path)?)),
        }
    }

    /// Appends the lines to the index: all of them, or none.
    fn flush(&mut self) -> io::Result<()> {
        if self.lines.is_empty() {
            return Ok(());
        }
        if let Err(error) = self.index.write_all(&self.lines) {
            // A reader must not take the beginning of a line for a whole line.
            self.index.set_len(self.index_len)?;
            return Err(error);
        }
        self.index_len += self.lines.len() as u64;
        self.lines.clear();
        Ok(())
    }
}

impl Writer {
    /// Returns the writer of the log of this run, in the task's folder. `None` is no limit.
    pub(super) fn new(place: Place, task_folder: String, run: Run, limit: Option<u64>) -> Self {
        Self {
            dir: place.root.join(task_folder),
            place,
            folder: None,
            run,
            limit,
            open: None,
            next: 0,
            kept: VecDeque::new(),
            counts: Bytes::default(),
            lost: Bytes::default(),
            lost_at: 0,
            warned: false,
        }
    }

    fn segment_size(&self) -> u64 {
        self.limit.map_or(SEGMENT, |limit| limit / SEGMENTS)
    }

    /// Appends the pieces. Bytes that cannot be written are counted, and become a gap. The first
    /// failure is logged as a warning.
    pub(crate) fn write(&mut self, pieces: &[Piece]) {
        let most = usize::try_from(self.segment_size() / 2).unwrap_or(usize::MAX);
        for piece in pieces {
            for bytes in piece.bytes.chunks(most.max(1)) {
                let mut written = 0;
                let tried = self.append(piece.stream, piece.at, bytes, &mut written);
                self.counts
                    .add(&Bytes::of(piece.stream, bytes.len() as u64));
                if let Err(error) = tried {
                    self.lose(piece.stream, piece.at, bytes.len() - written, &error);
                }
            }
        }
        let flushed = self.open.as_mut().map_or(Ok(()), Open::flush);
        if let Err(error) = flushed {
            self.warn(&error);
        }
    }

    fn lose(&mut self, stream: Stream, at: i64, bytes: usize, error: &io::Error) {
        if self.lost == Bytes::default() {
            self.lost_at = at;
        }
        self.lost.add(&Bytes::of(stream, bytes as u64));
        self.warn(error);
    }

    fn warn(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.warned, true) {
            let (folder, run) = (self.dir.display(), self.run);
            warn!(%folder, %run, %error, "could not write the log of a command; the command continues, and its log has a gap");
        }
    }

    /// Appends bytes of a stream; `written` counts those that the file has taken.
    fn append(
        &mut self,
        stream: Stream,
        at: i64,
        bytes: &[u8],
        written: &mut usize,
    ) -> io::Result<()> {
        self.make_room(bytes.len() as u64)?;
        let (lost, lost_at) = (self.lost, self.lost_at);
        let Some(open) = self.open.as_mut() else {
            return Err(io::Error::other("no segment is open"));
        };
        let file = open.file(self.folder.as_ref(), stream)?;
        let mut result = Ok(());
        while *written < bytes.len() {
            match file.write(&bytes[*written..]) {
                Ok(0) => result = Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => *written += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => result = Err(e),
            }
            if result.is_err() {
                break;
            }
        }
        if *written > 0 {
            lines_of_lost(open, lost, lost_at);
            self.lost = Bytes::default();
            let len = *written as u64;
            open.bytes += len;
            open.line(Record::Piece { stream, at, len });
        }
        result
    }

    /// Opens the first segment, or the next one when the open one is full.
    fn make_room(&mut self, bytes: u64) -> io::Result<()> {
        let size = self.segment_size();
        match &mut self.open {
            Some(open) if open.bytes + bytes + LINE <= size => return Ok(()),
            Some(open) => open.flush()?,
            None => {}
        }
        if self.next == 0 && self.open.is_none() {
            self.begin()?;
        }
        let segment = Segment {
            run: self.run,
            number: self.next,
        };
        let mut open = Open {
            index: append(self.folder.as_ref(), &segment.index(Path::new("")))?,
            segment,
            index_len: 0,
            lines: Vec::new(),
            stdout: None,
            stderr: None,
            bytes: 0,
        };
        // The lines about lost bytes follow in this segment.
        open.line(Record::Begin(self.counts.beyond(&self.lost)));
        self.next += 1;
        if let Some(full) = self.open.replace(open) {
            self.kept.push_back((full.segment, full.bytes));
        }
        self.drop_oldest(size);
        Ok(())
    }

    /// Deletes the oldest segments, so that a further segment of this size fits within the limit.
    fn drop_oldest(&mut self, size: u64) {
        let Some(limit) = self.limit else {
            return;
        };
        let mut sum: u64 = self.kept.iter().map(|(_, bytes)| bytes).sum();
        while sum + size > limit
            && let Some((oldest, bytes)) = self.kept.pop_front()
        {
            oldest.remove(&self.dir);
            sum -= bytes;
        }
    }

    /// Creates the folder. Deletes the oldest logs of the task when they take too much space.
    fn begin(&mut self) -> io::Result<()> {
        let name = self.dir.file_name().unwrap_or_default();
        self.folder = Some(self.place.make_in(name)?.0);
        let mut runs: Vec<(Run, u64, Vec<Segment>)> = Vec::new();
        for segment in Segment::list(&self.dir)? {
            let bytes = segment.bytes(&self.dir);
            match runs.last_mut().filter(|(c, ..)| *c == segment.run) {
                Some((_, sum, segments)) => {
                    *sum += bytes;
                    segments.push(segment);
                }
                None => runs.push((segment.run, bytes, vec![segment])),
            }
        }
        let most = self
            .limit
            .map_or(u64::MAX, |limit| limit.saturating_mul(EARLIER));
        let mut sum = 0u64;
        for (at, (_, bytes, segments)) in runs.iter().rev().enumerate() {
            sum = sum.saturating_add(*bytes);
            if sum > most || at >= MOST_EARLIER {
                for segment in segments {
                    segment.remove(&self.dir);
                }
            }
        }
        Ok(())
    }

    /// Returns whether anything was written.
    pub(super) fn has_begun(&self) -> bool {
        self.open.is_some()
    }

    /// Writes to the index that the output has ended.
    pub(crate) fn end(mut self) {
        let lost_at = self.lost_at;
        let lost = self.lost;
        if let Some(open) = &mut self.open {
            lines_of_lost(open, lost, lost_at);
            open.line(Record::End {
                at: Timestamp::now().as_millisecond(),
            });
            if let Err(error) = open.flush() {
                self.warn(&error);
            }
        }
    }
}

fn lines_of_lost(open: &mut Open, lost: Bytes, at: i64) {
    for stream in Stream::ALL {
        let len = lost.get(stream);
        if len > 0 {
            open.line(Record::Lost { stream, at, len });
        }
    }
}
