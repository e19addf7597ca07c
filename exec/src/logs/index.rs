//! [`Record`]: a line of the index of a log's segment.
//!
//! The index orders the pieces of both streams by the time at which the worker read them. Its first
//! line is `windlass-log 1 STDOUT STDERR`: how many bytes of each stream came before the segment. The
//! other lines are
//!
//! | line | meaning |
//! |---|---|
//! | `o MS LEN` | the next LEN bytes of the segment's file `stdout` were read at MS, in milliseconds since 1970 |
//! | `e MS LEN` | the same for `stderr` |
//! | `-o MS LEN`, `-e MS LEN` | LEN bytes of that stream could not be written |
//! | `end MS` | the output has ended |

use super::name::{Bytes, Stream};

/// The start of the first line of an index.
const MAGIC: &str = "windlass-log 1";

/// A line of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Record {
    /// The first line: how many bytes of each stream came before this segment.
    Begin(Bytes),
    /// The next bytes of a stream's file.
    Piece { stream: Stream, at: i64, len: u64 },
    /// Bytes that could not be written.
    Lost { stream: Stream, at: i64, len: u64 },
    /// The output has ended.
    End { at: i64 },
}

fn letter(stream: Stream) -> char {
    match stream {
        Stream::Stdout => 'o',
        Stream::Stderr => 'e',
    }
}

impl Record {
    /// Appends the line.
    pub(super) fn write(&self, to: &mut Vec<u8>) {
        let line = match self {
            Self::Begin(before) => format!("{MAGIC} {} {}\n", before.stdout, before.stderr),
            Self::Piece { stream, at, len } => format!("{} {at} {len}\n", letter(*stream)),
            Self::Lost { stream, at, len } => format!("-{} {at} {len}\n", letter(*stream)),
            Self::End { at } => format!("end {at}\n"),
        };
        to.extend_from_slice(line.as_bytes());
    }

    /// Reads a line without its line break. `None` for a line of a later version, and for a damaged
    /// one.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(line).ok()?;
        if let Some(counts) = line.strip_prefix(MAGIC) {
            let mut counts = counts.split_whitespace().map(str::parse);
            return Some(Self::Begin(Bytes {
                stdout: counts.next()?.ok()?,
                stderr: counts.next()?.ok()?,
            }));
        }
        let mut words = line.split(' ');
        let what = words.next()?;
        let at = words.next()?.parse().ok()?;
        if what == "end" {
            return Some(Self::End { at });
        }
        let len = words.next()?.parse().ok()?;
        let stream = match what.trim_start_matches('-') {
            "o" => Stream::Stdout,
            "e" => Stream::Stderr,
            _ => return None,
        };
        Some(match what.starts_with('-') {
            true => Self::Lost { stream, at, len },
            false => Self::Piece { stream, at, len },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let (at, len) = (-5, 70);
        for record in [
            Record::Begin(Bytes {
                stdout: 1,
                stderr: u64::MAX,
            }),
            Record::Piece {
                stream: Stream::Stdout,
                at,
                len,
            },
            Record::Lost {
                stream: Stream::Stderr,
                at,
                len,
            },
            Record::End { at },
        ] {
            let mut line = Vec::new();
            record.write(&mut line);
            assert_eq!(line.pop(), Some(b'\n'));
            assert_eq!(Record::parse(&line), Some(record));
        }
        for line in ["", "o", "o 1", "x 1 2", "o 1 -2", "\u{fffd}"] {
            assert_eq!(Record::parse(line.as_bytes()), None, "{line}");
        }
    }
}
