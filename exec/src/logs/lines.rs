//! [`Lines`]: splits the pieces of a log into lines, with a prefix in front of each.

use jiff::Timestamp;

use super::name::Stream;

/// The longest line, in bytes. A longer one is broken.
const LONGEST: usize = 1 << 20;

/// The prefix of each line, and the lines that have not ended.
#[derive(Debug, Default)]
pub struct Lines {
    prefix: String,
    times: bool,
    /// Whether pieces of one line are joined.
    whole: bool,
    stdout: Line,
    stderr: Line,
}

/// A line that has not ended.
#[derive(Debug, Default)]
struct Line {
    bytes: Vec<u8>,
    /// When its first byte was read.
    at: i64,
}

impl Lines {
    /// Returns a value that passes pieces on unchanged.
    pub fn plain() -> Self {
        Self::default()
    }

    /// Returns a value that writes this text in front of each line.
    pub fn prefixed(prefix: String) -> Self {
        Self {
            prefix,
            whole: true,
            ..Self::default()
        }
    }

    /// Returns a value that writes the time in front of each line at which it was read.
    pub fn timed() -> Self {
        Self {
            times: true,
            ..Self::whole()
        }
    }

    /// Returns a value that passes on whole lines, unchanged.
    pub fn whole() -> Self {
        Self {
            whole: true,
            ..Self::default()
        }
    }

    /// Takes a piece, and passes the bytes to print to the receiver.
    ///
    /// # Errors
    ///
    /// The errors of the receiver.
    pub fn feed<E>(
        &mut self,
        stream: Stream,
        at: i64,
        bytes: &[u8],
        to: &mut impl FnMut(Stream, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.whole {
            return to(stream, bytes);
        }
        let mut whole = Vec::new();
        for part in bytes.split_inclusive(|b| *b == b'\n') {
            let line = self.line(stream);
            if line.bytes.is_empty() {
                line.at = at;
            }
            line.bytes.extend_from_slice(part);
            if part.ends_with(b"\n") || line.bytes.len() >= LONGEST {
                self.end_line(stream, &mut whole);
            }
        }
        match whole.is_empty() {
            true => Ok(()),
            false => to(stream, &whole),
        }
    }

    /// Passes on the last line if it has no line break, with one.
    ///
    /// # Errors
    ///
    /// The errors of the receiver.
    pub fn finish<E>(
        &mut self,
        to: &mut impl FnMut(Stream, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        for stream in Stream::ALL {
            let mut whole = Vec::new();
            self.end_line(stream, &mut whole);
            if !whole.is_empty() {
                to(stream, &whole)?;
            }
        }
        Ok(())
    }

    fn line(&mut self, stream: Stream) -> &mut Line {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }

    fn end_line(&mut self, stream: Stream, whole: &mut Vec<u8>) {
        let Line { bytes, at } = std::mem::take(self.line(stream));
        if bytes.is_empty() {
            return;
        }
        if self.times {
            whole.extend_from_slice(time(at).as_bytes());
            whole.push(b' ');
        }
        whole.extend_from_slice(self.prefix.as_bytes());
        whole.extend_from_slice(&bytes);
        if !bytes.ends_with(b"\n") {
            whole.push(b'\n');
        }
    }
}

/// Returns a time as RFC 3339, with milliseconds.
pub fn time(at: i64) -> String {
    let time = Timestamp::from_millisecond(at).unwrap_or_default();
    format!("{time:.3}")
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn fed(mut lines: Lines, pieces: &[(Stream, &str)]) -> String {
        let mut all = String::new();
        let mut to = |stream: Stream, bytes: &[u8]| {
            all.push_str(&format!(
                "{}<{}>",
                stream.name(),
                String::from_utf8_lossy(bytes)
            ));
            Ok::<(), io::Error>(())
        };
        for (at, (stream, text)) in (1_000..).zip(pieces) {
            lines.feed(*stream, at, text.as_bytes(), &mut to).unwrap();
        }
        lines.finish(&mut to).unwrap();
        all
    }

    #[test]
    fn a_prefix_stands_in_front_of_whole_lines() {
        use Stream::{Stderr, Stdout};
        let pieces = [
            (Stdout, "a\nb"),
            (Stderr, "x"),
            (Stdout, "c\n\nd"),
            (Stderr, "y\n"),
        ];
        assert_eq!(
            fed(Lines::prefixed("t: ".into()), &pieces),
            "stdout<t: a\n>stdout<t: bc\nt: \n>stderr<t: xy\n>stdout<t: d\n>"
        );
        assert_eq!(fed(Lines::plain(), &pieces[..2]), "stdout<a\nb>stderr<x>");
        assert_eq!(
            fed(Lines::timed(), &pieces[2..3]),
            "stdout<1970-01-01T00:00:01.000Z c\n1970-01-01T00:00:01.000Z \n>\
             stdout<1970-01-01T00:00:01.000Z d\n>"
        );
    }
}
