//! [`Stored`]: the end of a task's output, from its record in the store.

use serde_json::Value;
use windlass::{TaskStatus, store::TaskRecord};

use crate::logs::{Bytes, Run, Stream};

/// The captured output of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Stored {
    stdout: String,
    stderr: String,
    /// How many bytes the command has written. `None` if that was not kept.
    total: Option<Bytes>,
    /// Whether the command has written more than is kept.
    pub(super) truncated: bool,
    /// The run of the command. `None` if that was not kept.
    pub(super) run: Option<Run>,
}

impl Stored {
    /// Reads the output from a JSON document: text in `stdout` and `stderr`, at the top or in
    /// `last_output`; or text in `last_output` itself.
    fn find(document: &Value) -> Option<Self> {
        let text = |name: &str| {
            document
                .get(name)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let (stdout, stderr) = (text("stdout"), text("stderr"));
        if stdout.is_some() || stderr.is_some() {
            return Some(Self {
                stdout: stdout.unwrap_or_default(),
                stderr: stderr.unwrap_or_default(),
                total: total(document),
                truncated: document.get("truncated").and_then(Value::as_bool) == Some(true),
                run: run(document),
            });
        }
        match document.get("last_output")? {
            Value::String(text) => Some(Self {
                stdout: text.clone(),
                ..Self::default()
            }),
            inner => Self::find(inner),
        }
    }

    /// Reads the output from the record of a task: from the result, else from the data.
    pub(super) fn of(record: &TaskRecord) -> Option<Self> {
        let state = record.state.as_ref().ok()?;
        let result = match &state.status {
            TaskStatus::Completed { result } => result.as_ref(),
            _ => None,
        };
        let mut documents = result.into_iter().chain(state.data.as_ref());
        documents.find_map(|json| Self::find(&json.get("output").ok()?))
    }

    /// Returns the text of one stream.
    pub(super) fn text(&self, stream: Stream) -> &str {
        match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        }
    }

    /// Returns how many bytes the command has written to the stream.
    pub(super) fn total(&self, stream: Stream) -> u64 {
        let kept = self.text(stream).len() as u64;
        self.total.map_or(kept, |total| total.get(stream))
    }

    /// Returns the part of a stream that is newer than `before`: the number of missing bytes, and
    /// the text after them.
    pub(super) fn since(&self, before: Option<&Self>, stream: Stream) -> (u64, &str) {
        let now = self.text(stream);
        let before = before.filter(|before| before.run == self.run);
        if self.total.is_none() {
            // All of it if the text is a different one.
            let before = before.map_or("", |before| before.text(stream));
            return (0, now.strip_prefix(before).unwrap_or(now));
        }
        let new = self
            .total(stream)
            .saturating_sub(before.map_or(0, |before| before.total(stream)));
        // U+FFFD stands for bytes that are not UTF-8, and is longer than most of them.
        let mut left = new;
        let begin = now.char_indices().rev().take_while(|(_, c)| {
            let takes = match c {
                '\u{fffd}' => 1,
                c => c.len_utf8() as u64,
            };
            left.checked_sub(takes).map(|rest| left = rest).is_some()
        });
        let begin = begin.last().map_or(now.len(), |(at, _)| at);
        // The rest of a character was already counted.
        let missing = if begin == 0 { left } else { 0 };
        (missing, &now[begin..])
    }
}

fn total(document: &Value) -> Option<Bytes> {
    let bytes = |name: &str| document.get(name).and_then(Value::as_u64);
    Some(Bytes {
        stdout: bytes("stdout_bytes")?,
        stderr: bytes("stderr_bytes")?,
    })
}

fn run(document: &Value) -> Option<Run> {
    serde_json::from_value(document.get("run")?.clone()).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn output_is_found_where_it_may_be() {
        let both = |a: &str, b: &str| {
            Some(Stored {
                stdout: a.into(),
                stderr: b.into(),
                ..Stored::default()
            })
        };
        for (document, found) in [
            (json!({"stdout": "a", "stderr": "b"}), both("a", "b")),
            (json!({"exit": 1, "stderr": "b"}), both("", "b")),
            (json!({"last_output": "a"}), both("a", "")),
            (json!({"last_output": {"stdout": "a"}}), both("a", "")),
            (json!({"stdout": 3}), None),
            (json!([1]), None),
            (json!(null), None),
        ] {
            assert_eq!(Stored::find(&document), found, "{document}");
        }
    }

    #[test]
    fn what_is_new_in_the_tail_is_counted_by_the_length_of_the_output() {
        let stored = |text: &str, total: u64, fence: u64| {
            let document = json!({
                "stdout": text, "stdout_bytes": total, "stderr": "", "stderr_bytes": 0,
                "run": {"incarnation": 0, "attempt": 1, "fence": fence, "nth": 0},
            });
            Stored::find(&document).unwrap()
        };
        let new = |now: &Stored, before: Option<&Stored>| {
            let (missing, text) = now.since(before, Stream::Stdout);
            (missing, text.to_owned())
        };
        let first = stored("abcd", 4, 1);
        assert_eq!(new(&first, None), (0, "abcd".into()));
        assert_eq!(new(&stored("cdef", 6, 1), Some(&first)), (0, "ef".into()));
        assert_eq!(
            new(&stored("ijkl", 12, 1), Some(&first)),
            (4, "ijkl".into())
        );
        assert_eq!(new(&first, Some(&first)), (0, String::new()));
        assert_eq!(new(&stored("xy", 2, 2), Some(&first)), (0, "xy".into()));
        assert_eq!(
            new(&stored("a\u{fffd}b", 7, 1), Some(&first)),
            (0, "a\u{fffd}b".into())
        );
        // The output of a kind that stores no lengths.
        let plain = |text: &str| Stored::find(&json!({ "stdout": text })).unwrap();
        assert_eq!(new(&plain("abc"), Some(&plain("ab"))), (0, "c".into()));
        assert_eq!(new(&plain("xyz"), Some(&plain("ab"))), (0, "xyz".into()));
    }
}
