//! The names of the files of a log: `INCARNATION.ATTEMPT.FENCE.NTH.SEGMENT.stdout`, `.stderr`, `.index`.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use windlass::Fence;

/// One of the two streams of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Stdout, Self::Stderr];

    /// Its name, which is also the ending of its files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// A number of bytes of each stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bytes {
    /// On standard output.
    pub stdout: u64,
    /// On standard error.
    pub stderr: u64,
}

impl Bytes {
    /// Returns the bytes of one stream.
    pub fn of(stream: Stream, bytes: u64) -> Self {
        let mut all = Self::default();
        *all.get_mut(stream) = bytes;
        all
    }

    /// Returns the number of a stream.
    pub fn get(&self, stream: Stream) -> u64 {
        match stream {
            Stream::Stdout => self.stdout,
            Stream::Stderr => self.stderr,
        }
    }

    /// Returns the number of a stream, to change it.
    pub fn get_mut(&mut self, stream: Stream) -> &mut u64 {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }

    /// Returns the number of both streams.
    pub fn sum(&self) -> u64 {
        self.stdout + self.stderr
    }

    /// Returns how many more bytes this has than `other`, per stream.
    pub fn beyond(&self, other: &Self) -> Self {
        Self {
            stdout: self.stdout.saturating_sub(other.stdout),
            stderr: self.stderr.saturating_sub(other.stderr),
        }
    }

    /// Returns the line for a gap of these bytes; a gap of zero bytes has an unknown length.
    pub fn missing_here(&self) -> String {
        let name = |bytes: u64, what: &str| match bytes {
            1 => format!("1 byte of {what}"),
            bytes => format!("{bytes} bytes of {what}"),
        };
        let (out, err) = (
            name(self.stdout, "standard output"),
            name(self.stderr, "standard error"),
        );
        match (self.stdout, self.stderr) {
            (0, 0) => "windlass: the beginning of the output is missing here".to_owned(),
            (_, 0) => format!("windlass: {out} missing here"),
            (0, _) => format!("windlass: {err} missing here"),
            _ => format!("windlass: {out} and {err} missing here"),
        }
    }

    /// Adds the numbers of another.
    pub fn add(&mut self, other: &Self) {
        self.stdout += other.stdout;
        self.stderr += other.stderr;
    }
}

/// One run of a task's command. An attempt has several runs if its task was paused or released in
/// between.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Run {
    /// The fence of the claim. A task that need not wait long keeps its claim from attempt to attempt.
    pub fence: Fence,
    /// The incarnation of the task.
    pub incarnation: u32,
    /// The attempt.
    pub attempt: u32,
    /// How many earlier runs of the same claim and attempt have a log.
    pub nth: u32,
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            fence,
            incarnation,
            attempt,
            nth,
        } = self;
        write!(f, "{incarnation}.{attempt}.{fence}.{nth}")
    }
}

/// One segment of a log: its index, and the bytes of each stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) run: Run,
    pub(super) number: u64,
}

impl Segment {
    /// The ending of the index.
    const INDEX: &str = "index";

    fn parse(name: &str) -> Option<Self> {
        let mut parts = name.split('.');
        let run = Run {
            incarnation: parts.next()?.parse().ok()?,
            attempt: parts.next()?.parse().ok()?,
            fence: Fence(parts.next()?.parse().ok()?),
            nth: parts.next()?.parse().ok()?,
        };
        let number = parts.next()?.parse().ok()?;
        let ending = parts.next()?;
        let known = ending == Self::INDEX || Stream::ALL.iter().any(|s| s.name() == ending);
        (known && parts.next().is_none()).then_some(Self { run, number })
    }

    fn file(&self, dir: &Path, ending: &str) -> PathBuf {
        dir.join(format!("{}.{}.{ending}", self.run, self.number))
    }

    pub(super) fn index(&self, dir: &Path) -> PathBuf {
        self.file(dir, Self::INDEX)
    }

    pub(super) fn data(&self, dir: &Path, stream: Stream) -> PathBuf {
        self.file(dir, stream.name())
    }

    /// Returns the segments in the folder of a task, those of the newest run last.
    pub(super) fn list(dir: &Path) -> io::Result<Vec<Self>> {
        let entries = match fs::read_dir(dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let names = entries.flatten().map(|entry| entry.file_name());
        let mut all: Vec<Self> = names
            .filter_map(|name| Self::parse(name.to_str()?))
            .collect();
        all.sort_by_key(|s| (s.run, s.number));
        all.dedup();
        Ok(all)
    }

    fn files(&self, dir: &Path) -> [PathBuf; 3] {
        [
            self.index(dir),
            self.data(dir, Stream::Stdout),
            self.data(dir, Stream::Stderr),
        ]
    }

    /// Returns how many bytes its files take.
    pub(super) fn bytes(&self, dir: &Path) -> u64 {
        let sizes = self.files(dir).into_iter().map(fs::metadata);
        sizes.flatten().map(|meta| meta.len()).sum()
    }

    /// Deletes its files. The index is deleted last: files without an index are not found again.
    pub(super) fn remove(&self, dir: &Path) {
        let [index, stdout, stderr] = self.files(dir);
        for file in [stdout, stderr, index] {
            match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    let file = file.display();
                    tracing::warn!(%file, %error, "could not delete a part of a log");
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_was_written() {
        let run = Run {
            incarnation: 2,
            attempt: 3,
            fence: Fence(41),
            nth: 1,
        };
        let segment = Segment { run, number: 7 };
        let dir = Path::new("");
        for file in segment.files(dir) {
            assert_eq!(Segment::parse(file.to_str().unwrap()), Some(segment));
        }
        for other in [
            "2.3.41.1.7",
            "2.3.41.1.7.txt",
            "2.3.x.1.7.index",
            "2.3.41.1.7.index.gz",
        ] {
            assert_eq!(Segment::parse(other), None, "{other}");
        }
    }
}
