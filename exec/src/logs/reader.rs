//! [`Reader`]: reads the log of one run, also while it is written.

use std::{
    fs::File,
    io::{self, Read as _},
    os::unix::fs::FileExt,
    path::PathBuf,
};

use super::{
    index::Record,
    name::{Bytes, Run, Segment, Stream},
};

/// The largest number of bytes in one event.
const MOST: usize = 256 * 1024;

/// What a log contains, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// Bytes of a stream, and when they were read from the command, in milliseconds since 1970.
    Piece {
        /// The stream.
        stream: Stream,
        /// When it was read, in milliseconds since 1970.
        at: i64,
        /// What was read.
        bytes: &'a [u8],
    },
    /// These bytes are missing here.
    Gap(Bytes),
}

/// A position in the log of a run. Reading continues from there when more is written.
#[derive(Debug)]
pub struct Reader {
    dir: PathBuf,
    run: Run,
    open: Option<Open>,
    /// The number of the segment after the open one.
    next: u64,
    /// How many bytes were passed on, or were a gap.
    counts: Bytes,
    /// Missing bytes that were not reported yet.
    gap: Bytes,
    ended: bool,
    buffer: Vec<u8>,
}

/// The segment that is being read.
#[derive(Debug)]
struct Open {
    segment: Segment,
    index: File,
    /// The beginning of a line whose end is not written yet.
    line: Vec<u8>,
    stdout: Data,
    stderr: Data,
    /// When the last bytes were read.
    at: i64,
}

/// The file of one stream.
#[derive(Debug, Default)]
struct Data {
    file: Option<File>,
    /// How many bytes of it were passed on.
    position: u64,
}

impl Open {
    fn data(&mut self, stream: Stream) -> &mut Data {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }

    /// Opens the file of a stream if it is not open. Returns `false` if there is none.
    fn open(&mut self, dir: &std::path::Path, stream: Stream) -> io::Result<bool> {
        let path = self.segment.data(dir, stream);
        let data = self.data(stream);
        if data.file.is_none() {
            match File::open(path) {
                Ok(file) => data.file = Some(file),
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }
}

impl Reader {
    /// Starts at the oldest byte that is kept.
    pub(super) fn new(dir: PathBuf, run: Run) -> Self {
        Self {
            dir,
            run,
            open: None,
            next: 0,
            counts: Bytes::default(),
            gap: Bytes::default(),
            ended: false,
            buffer: Vec::new(),
        }
    }

    /// Passes on what was written since the last call.
    ///
    /// # Errors
    ///
    /// The errors of the files and of the receiver.
    pub fn read<E: From<io::Error>>(
        &mut self,
        to: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while !self.ended && self.find_segment()? {
            self.segment(to)?;
            if !self.is_last_segment()? {
                // More lines may have been written to the previous segment since.
                self.segment(to)?;
                self.leave(to)?;
            } else {
                break;
            }
        }
        Ok(())
    }

    /// Passes on what was written since the last call, including output that a killed writer had
    /// not entered into the index.
    ///
    /// # Errors
    ///
    /// The errors of [`read`](Self::read).
    pub fn finish<E: From<io::Error>>(
        &mut self,
        to: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.read(to)?;
        if !self.ended {
            self.leave(to)?;
        }
        self.report_gap(to)
    }

    /// Opens the oldest segment that follows. Returns `false` when there is none.
    fn find_segment(&mut self) -> io::Result<bool> {
        if self.open.is_some() {
            return Ok(true);
        }
        let mut following = self.segments()?.into_iter();
        let (segment, index) = loop {
            let Some(segment) = following.next() else {
                return Ok(false);
            };
            match File::open(segment.index(&self.dir)) {
                Ok(index) => break (segment, index),
                // The segment was deleted just now.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        };
        self.next = segment.number + 1;
        let mut open = Open {
            segment,
            index,
            line: Vec::new(),
            stdout: Data::default(),
            stderr: Data::default(),
            at: 0,
        };
        // Opens the files now: an open file stays readable when the segment is deleted.
        for stream in Stream::ALL {
            open.open(&self.dir, stream)?;
        }
        self.open = Some(open);
        Ok(true)
    }

    /// Returns the segments of the run that were not read yet.
    fn segments(&self) -> io::Result<Vec<Segment>> {
        let mut all = Segment::list(&self.dir)?;
        all.retain(|s| s.run == self.run && s.number >= self.next);
        Ok(all)
    }

    fn is_last_segment(&self) -> io::Result<bool> {
        Ok(self.segments()?.is_empty())
    }

    /// Passes on what the index of the open segment lists beyond the last position.
    fn segment<E: From<io::Error>>(
        &mut self,
        to: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(mut open) = self.open.take() else {
            return Ok(());
        };
        let result = self.lines(&mut open, to);
        self.open = Some(open);
        result
    }

    fn lines<E: From<io::Error>>(
        &mut self,
        open: &mut Open,
        to: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut new = Vec::new();
        open.index.read_to_end(&mut new)?;
        let mut text = std::mem::take(&mut open.line);
        text.extend_from_slice(&new);
        let whole = text
            .iter()
            .rposition(|b| *b == b'\n')
            .map_or(0, |at| at + 1);
        open.line = text.split_off(whole);
        for line in text.split(|b| *b == b'\n') {
            match Record::parse(line) {
                Some(Record::Begin(before)) => {
                    self.gap.add(&before.beyond(&self.counts));
                    self.counts = before;
                }
                Some(Record::Piece { stream, at, len }) => {
                    self.counts.add(&Bytes::of(stream, len));
                    open.at = at;
                    self.piece(open, stream, len, to)?;
                }
                Some(Record::Lost { stream, len, .. }) => {
                    self.counts.add(&Bytes::of(stream, len));
                    self.gap.add(&Bytes::of(stream, len));
                }
                Some(Record::End { .. }) => self.ended = true,
                None => {}
            }
        }
        if self.ended {
            self.report_gap(to)?;
        }
        Ok(())
    }

    fn report_gap<E>(&mut self, to: &mut impl FnMut(Event<'_>) -> Result<(), E>) -> Result<(), E> {
        if self.gap.sum() > 0 {
            to(Event::Gap(std::mem::take(&mut self.gap)))?;
        }
        Ok(())
    }

    /// Hands over the next bytes of a stream's file.
    fn piece<E: From<io::Error>>(
        &mut self,
        open: &mut Open,
        stream: Stream,
        len: u64,
        to: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut left, at) = (len, open.at);
        let is_there = open.open(&self.dir, stream)?;
        let data = open.data(stream);
        while is_there && left > 0 {
            let Some(file) = &data.file else { break };
            let most = usize::try_from(left).map_or(MOST, |left| left.min(MOST));
            self.buffer.resize(most, 0);
            let n = file.read_at(&mut self.buffer, data.position)?;
            if n == 0 {
                break;
            }
            data.position += n as u64;
            left -= n as u64;
            if self.gap.sum() > 0 {
                to(Event::Gap(std::mem::take(&mut self.gap)))?;
            }
            let bytes = &self.buffer[..n];
            to(Event::Piece { stream, at, bytes })?;
        }
        // The file was deleted, or shortened.
        data.position += left;
        self.gap.add(&Bytes::of(stream, left));
        Ok(())
    }

    /// Passes on what the files of the open segment have beyond its index. Continues with the next
    /// segment.
    fn leave<E: From<io::Error>>(
        &mut self,
        to: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(mut open) = self.open.take() else {
            return Ok(());
        };
        for stream in Stream::ALL {
            open.open(&self.dir, stream)?;
            let data = open.data(stream);
            let len = match &data.file {
                Some(file) => file.metadata()?.len().saturating_sub(data.position),
                None => 0,
            };
            self.counts.add(&Bytes::of(stream, len));
            self.piece(&mut open, stream, len, to)?;
        }
        Ok(())
    }
}
