//! [`Capture`]: reads a stream of a command, for its log and for the last bytes that the store keeps ([`Output`]).

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    sync::mpsc::Sender,
    task::JoinHandle,
};

use super::awaited::SignalWaits;
use crate::logs::{Piece, Run, Stream};

/// The output that the store keeps of an attempt: the result of a completed task, otherwise the
/// task's data.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// The exit code; `None` while the command runs, and when a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// The end of its standard output.
    #[serde(default)]
    pub stdout: String,
    /// The end of its standard error.
    #[serde(default)]
    pub stderr: String,
    /// Whether the command wrote more than is kept.
    #[serde(default)]
    pub truncated: bool,
    /// How many bytes the command has written to its standard output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_bytes: Option<u64>,
    /// How many bytes the command has written to its standard error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_bytes: Option<u64>,
    /// The run of the command: its claim and its attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Run>,
    /// How long the command has run, in milliseconds.
    #[serde(default)]
    pub duration_ms: u64,
    /// The waits of the command for signals, for its next run. Not in the result of a completed task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<SignalWaits>,
}

/// The capacity of a pipe, in bytes.
const PIPE: usize = 64 * 1024;
/// The size of the first read, in bytes: most commands print little, or nothing.
const FIRST_READ: usize = 1024;

#[derive(Debug, Default)]
struct Tail {
    bytes: VecDeque<u8>,
    total: u64,
}

impl Tail {
    fn push(&mut self, read: &[u8], keep: usize) {
        self.total += read.len() as u64;
        let new = &read[read.len().saturating_sub(keep)..];
        let over = (self.bytes.len() + new.len()).saturating_sub(keep);
        self.bytes.drain(..over);
        self.bytes.extend(new);
    }
}

/// One stream of a command, read to its end in the background.
#[derive(Debug)]
pub(crate) struct Capture {
    tail: Arc<Mutex<Tail>>,
    reader: JoinHandle<()>,
}

impl Capture {
    /// Starts to read. At most `keep` bytes are kept; all bytes go to the log.
    pub(crate) fn start(
        mut from: impl AsyncRead + Send + Unpin + 'static,
        keep: usize,
        log: Option<(Stream, Sender<Piece>)>,
    ) -> Self {
        let tail = Arc::new(Mutex::new(Tail::default()));
        let into = tail.clone();
        let reader = tokio::spawn(async move {
            let mut buffer = vec![0; FIRST_READ];
            // An error ends the stream too: nothing more can be read.
            while let Ok(n @ 1..) = from.read(&mut buffer).await {
                let read = &buffer[..n];
                into.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(read, keep);
                if let Some((stream, log)) = &log {
                    // A log that accepts no more pieces does not stop the command.
                    let _ = log.send(Piece::now(*stream, read.to_vec())).await;
                }
                if n == buffer.len() {
                    buffer.resize(PIPE, 0);
                }
            }
        });
        Self { tail, reader }
    }

    /// Waits until the stream has ended. Safe to drop while it waits.
    pub(crate) async fn ended(&mut self) {
        if !self.reader.is_finished() {
            // The reader cannot panic, and nothing else aborts it.
            let _ = (&mut self.reader).await;
        }
    }

    /// Returns how many bytes were read.
    pub(crate) fn total(&self) -> u64 {
        self.tail
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .total
    }

    /// Returns the end of the stream as text of at most `max_json` bytes as JSON, and whether
    /// something is left out. Bytes that are not UTF-8 become U+FFFD.
    pub(crate) fn text(&self, max_json: usize) -> (String, bool) {
        let (bytes, total) = {
            let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
            (tail.bytes.iter().copied().collect::<Vec<u8>>(), tail.total)
        };
        let cut = total > bytes.len() as u64;
        // The rest of a character whose first bytes were dropped.
        let rest = bytes.iter().take(3).take_while(|b| **b & 0xc0 == 0x80);
        let begin = if cut { rest.count() } else { 0 };
        let text = String::from_utf8_lossy(&bytes[begin..]);
        let fits = fitting(&text, max_json);
        (fits.to_owned(), cut || fits.len() < text.len())
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// Returns the longest end of the text that takes at most `max_json` bytes as JSON.
fn fitting(text: &str, max_json: usize) -> &str {
    let mut left = max_json;
    for (at, c) in text.char_indices().rev() {
        let takes = match c {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            '\0'..='\u{1f}' => 6,
            c => c.len_utf8(),
        };
        match left.checked_sub(takes) {
            Some(rest) => left = rest,
            None => return &text[at + c.len_utf8()..],
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn captured(bytes: &'static [u8], keep: usize) -> (String, bool) {
        let mut capture = Capture::start(bytes, keep, None);
        capture.ended().await;
        assert_eq!(capture.total(), bytes.len() as u64);
        capture.text(1000)
    }

    #[tokio::test]
    async fn the_tail_is_kept() {
        assert_eq!(captured(b"", 4).await, (String::new(), false));
        assert_eq!(captured(b"abcd", 4).await, ("abcd".into(), false));
        assert_eq!(captured(b"abcdef", 4).await, ("cdef".into(), true));
        assert_eq!(captured(b"abc", 0).await, (String::new(), true));
    }

    #[tokio::test]
    async fn a_character_that_was_cut_is_left_out() {
        // "ü€" is c3 bc e2 82 ac.
        assert_eq!(captured("ü€".as_bytes(), 4).await, ("€".into(), true));
        assert_eq!(captured("ü€x".as_bytes(), 2).await, ("x".into(), true));
        assert_eq!(captured(b"a\xffb", 9).await, ("a\u{fffd}b".into(), false));
    }

    #[test]
    fn what_fits_is_counted_as_json() {
        for text in ["", "plain", "a\"b\\c\n", "\u{1}\u{2}", "ü€"] {
            let json = serde_json::to_string(text).unwrap().len() - 2;
            assert_eq!(fitting(text, json), text, "{text:?}");
            assert!(text.is_empty() || fitting(text, json - 1).len() < text.len());
        }
        assert_eq!(fitting("ab\u{1}", 7), "b\u{1}");
    }
}
