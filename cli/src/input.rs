//! Reads values given as an argument, a file (`@FILE`) or standard input (`-`).

use std::{
    io::{BufRead, BufReader, Read},
    path::Path,
};

use windlass::{Invalid, Json, statemachine::plain};

use windlass_exec::text::MARK;
pub(crate) use windlass_exec::text::without_mark;

use crate::exit::Failure;

/// Reads the JSON document of an option: the text itself, `@FILE`, or `-` for standard input.
pub(crate) fn json(field: &'static str, text: &str) -> Result<Json, Failure> {
    let read = match text.strip_prefix('@') {
        Some(path) => text_of(Path::new(path), MAX_LINE)
            .map_err(|e| Failure::file(&format!("{field}: the file {path}"), &e))?,
        None if text == "-" => whole("-", MAX_LINE)
            .map_err(|e| Failure::file(&format!("{field}: standard input"), &e))?,
        None => text.to_owned(),
    };
    let json = Json::parse(field, without_mark(&read))?;
    plain::each_once(json.as_str()).map_err(|wrong| Invalid::new(field, wrong))?;
    Ok(json)
}

/// Reads the text of a file of at most `most` bytes.
///
/// # Errors
///
/// The errors of the file; and an error for a folder, a longer file, and an endless one
/// (`/dev/zero`).
pub(crate) fn text_of(path: &Path, most: u64) -> std::io::Result<String> {
    let file = std::fs::File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(std::io::Error::other("is a folder; name a file"));
    }
    text_from(file, most)
}

/// Reads all text of a file, or of standard input for `-`: at most `most` bytes.
///
/// # Errors
///
/// The errors of [`text_of`].
pub(crate) fn whole(path: &str, most: u64) -> std::io::Result<String> {
    match path {
        "-" => text_from(std::io::stdin().lock(), most),
        path => text_of(Path::new(path), most),
    }
}

/// Reads all text. Every input that a command reads as a whole is read here, so that an endless one does not fill
/// the memory.
fn text_from(from: impl Read, most: u64) -> std::io::Result<String> {
    let mut text = Vec::new();
    from.take(most + 1).read_to_end(&mut text)?;
    if text.len() as u64 > most {
        let reason = format!("has more than {most} bytes; give a shorter text");
        return Err(std::io::Error::other(reason));
    }
    String::from_utf8(text).map_err(|e| {
        let at = e.utf8_error().valid_up_to() + 1;
        std::io::Error::other(format!("is not UTF-8 at byte {at}"))
    })
}

/// Opens a file, or standard input for `-`, to be read line by line.
pub(crate) fn lines(field: &str, path: &str) -> Result<Box<dyn BufRead>, Failure> {
    if path == "-" {
        return Ok(Box::new(BufReader::new(SkipMark::new(std::io::stdin()))));
    }
    let failed = |e| Failure::file(&format!("{field}: the file {path}"), &e);
    let file = std::fs::File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_dir() {
        return Err(failed(std::io::Error::other("is a folder; name a file")));
    }
    Ok(Box::new(BufReader::new(SkipMark::new(file))))
}

/// Skips a byte order mark at the start. Reads nothing before the first call, and then no more than needed.
pub(crate) struct SkipMark<R> {
    from: R,
    begun: bool,
    /// The first bytes, if they are not a mark.
    held: Vec<u8>,
}

impl<R: Read> SkipMark<R> {
    pub(crate) fn new(from: R) -> Self {
        Self {
            from,
            begun: false,
            held: Vec::new(),
        }
    }

    /// Reads the first bytes, each further one only while they may be a mark, because a pipe may have no more for
    /// now.
    fn begin(&mut self) -> std::io::Result<()> {
        while !self.begun {
            let mut next = [0; MARK.len()];
            let room = next.split_at_mut(MARK.len() - self.held.len()).0;
            let read = self.from.read(room)?;
            self.held.extend_from_slice(&room[..read]);
            let is_mark = self.held == MARK.as_bytes();
            if is_mark {
                self.held.clear();
            }
            self.begun = is_mark || read == 0 || !MARK.as_bytes().starts_with(&self.held);
        }
        Ok(())
    }
}

impl<R: Read> Read for SkipMark<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.begin()?;
        if self.held.is_empty() {
            return self.from.read(into);
        }
        let read = self.held.as_slice().read(into)?;
        self.held.drain(..read);
        Ok(read)
    }
}

/// The longest line of a file of tasks, in bytes: props of the largest size, and room for the rest.
pub(crate) const MAX_LINE: u64 = 64 << 20;

/// Reads the next line; `None` at the end. Invalid text is an error of that line only.
pub(crate) fn next_line(
    from: &mut dyn BufRead,
) -> std::io::Result<Option<Result<String, Invalid>>> {
    let line = next_bytes(from, b'\n')?;
    Ok(line.map(|line| line.and_then(text)))
}

/// Returns the text of a line.
///
/// # Errors
///
/// When it is not UTF-8.
pub(crate) fn text(line: Vec<u8>) -> Result<String, Invalid> {
    String::from_utf8(line).map_err(|e| {
        let at = e.utf8_error().valid_up_to() + 1;
        Invalid::new("text", format!("is not UTF-8 at byte {at}"))
    })
}

/// Reads the next line like [`next_line`], for lines that end with this byte and need not be text.
/// Only that byte is removed from the end, except for line breaks.
pub(crate) fn next_bytes(
    mut from: &mut dyn BufRead,
    end: u8,
) -> std::io::Result<Option<Result<Vec<u8>, Invalid>>> {
    let mut bytes = Vec::new();
    let read = (&mut from).take(MAX_LINE).read_until(end, &mut bytes)?;
    if read == 0 {
        return Ok(None);
    }
    if bytes.last() != Some(&end) && read as u64 == MAX_LINE {
        // The rest of it is not another line.
        from.skip_until(end)?;
        let reason = format!("is longer than {MAX_LINE} bytes");
        return Ok(Some(Err(Invalid::new("text", reason))));
    }
    if end != b'\n' {
        bytes.pop_if(|last| *last == end);
    }
    while end == b'\n' && matches!(bytes.last(), Some(b'\n' | b'\r')) {
        bytes.pop();
    }
    Ok(Some(Ok(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns one byte at a time, and fails when more is read than was wanted.
    struct Slow(Vec<u8>);

    impl Read for Slow {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            if self.0.is_empty() {
                return Err(std::io::Error::other("has no more for now"));
            }
            into[0] = self.0.remove(0);
            Ok(1)
        }
    }

    #[test]
    fn a_mark_is_skipped_at_the_start_alone_and_costs_no_byte_more() {
        for (bytes, wanted) in [
            (&b"\xef\xbb\xbfab"[..], &b"ab"[..]),
            (b"ab\xef\xbb\xbf", b"ab\xef\xbb\xbf"),
            (b"\xef\xbb\xbf\xef\xbb\xbfa", b"\xef\xbb\xbfa"),
            (b"\xef\xbba", b"\xef\xbba"),
            (b"\xefa", b"\xefa"),
        ] {
            let mut read = Vec::new();
            SkipMark::new(bytes).read_to_end(&mut read).unwrap();
            assert_eq!(read, wanted);
            let mut slow = SkipMark::new(Slow(bytes.to_vec()));
            read.resize(wanted.len(), 0);
            slow.read_exact(&mut read).unwrap();
            assert_eq!(read, wanted);
        }
        for bytes in [&b""[..], b"\xef", b"\xef\xbb", b"\xef\xbb\xbf"] {
            let mut read = Vec::new();
            SkipMark::new(bytes).read_to_end(&mut read).unwrap();
            let wanted = if bytes.len() == MARK.len() {
                &b""[..]
            } else {
                bytes
            };
            assert_eq!(read, wanted);
        }
        let mut slow = SkipMark::new(Slow(b"a".to_vec()));
        assert_eq!(
            slow.read(&mut [0; 8]).unwrap(),
            1,
            "no second byte is awaited"
        );
    }

    #[test]
    fn a_text_without_an_end_is_an_error() {
        assert_eq!(text_from(&b"abc"[..], 3).unwrap(), "abc");
        let error = text_from(std::io::repeat(b'x'), 3).unwrap_err();
        assert_eq!(
            error.to_string(),
            "has more than 3 bytes; give a shorter text"
        );
        let error = text_from(&b"a\xff"[..], 3).unwrap_err();
        assert_eq!(error.to_string(), "is not UTF-8 at byte 2");
    }

    #[test]
    fn lines_end_in_many_ways() {
        let mut from: &[u8] = b"a\r\n\nb\xff\nc";
        let mut next = || next_line(&mut from).unwrap();
        assert_eq!(next(), Some(Ok("a".into())));
        assert_eq!(next(), Some(Ok(String::new())));
        assert!(next().unwrap().unwrap_err().to_string().contains("byte 2"));
        assert_eq!(next(), Some(Ok("c".into())));
        assert_eq!(next(), None);
        let mut from: &[u8] = b"a\r\n\0b";
        let mut next = || next_bytes(&mut from, 0).unwrap();
        assert_eq!(next(), Some(Ok(b"a\r\n".to_vec())));
        assert_eq!(next(), Some(Ok(b"b".to_vec())));
        assert_eq!(next(), None);
    }
}
