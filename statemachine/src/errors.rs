//! [`ErrorLog`]: the bounded history of errors of a task.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{NodeName, fingerprint, json::FIRST_DATA_VERSION};

/// What the error of a lost node says of it.
const LOST: &str = "was lost while it had the task";

/// How many of the last errors a task keeps, unless its retry policy needs more.
pub const DEFAULT_KEPT: usize = 8;

/// How many errors a task keeps at most, whatever its retry policy asks for.
pub const MAX_KEPT: usize = 64;

/// The longest error text that is kept, in bytes. A longer text is cut at a character.
pub const MAX_ERROR_BYTES: usize = 4096;

/// Cuts a text at a character to [`MAX_ERROR_BYTES`].
pub(crate) fn cut(text: &mut String) {
    if text.len() > MAX_ERROR_BYTES {
        let mut end = MAX_ERROR_BYTES - '…'.len_utf8();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
}

/// One error of a task, with its time.
///
/// # Example
///
/// ```
/// use windlass_statemachine::{ErrorEntry, ErrorLog};
/// use jiff::Timestamp;
///
/// let failed = ErrorEntry::new(Timestamp::UNIX_EPOCH, "timed out");
/// let lost = ErrorEntry::abandoned(Timestamp::UNIX_EPOCH, "node-a");
/// assert!(lost.is_abandonment() && !failed.is_abandonment());
/// assert_eq!(lost.error, "the claim was abandoned: node node-a was lost while it had the task");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ErrorEntry {
    /// When the error was recorded.
    pub timestamp: Timestamp,
    /// What went wrong.
    pub error: String,
    /// Whether the error records the loss of a node, and not an error of a handler.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    abandoned: bool,
    /// The node whose handler failed, or that was lost; absent when no handler ran, or when the program that stored the error
    /// named none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeName>,
    /// The data version of the handler that failed; absent for version 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_version: Option<u32>,
}

impl ErrorEntry {
    /// Returns an error of an attempt.
    pub fn new(timestamp: Timestamp, error: impl Into<String>) -> Self {
        Self {
            timestamp,
            error: error.into(),
            abandoned: false,
            node: None,
            data_version: None,
        }
    }

    /// Returns the error of an attempt whose node was lost while it had the task.
    pub fn abandoned(timestamp: Timestamp, node: &str) -> Self {
        Self {
            timestamp,
            error: format!("the claim was abandoned: node {node} {LOST}"),
            abandoned: true,
            node: node.parse().ok(),
            data_version: None,
        }
    }

    /// Returns the [`fingerprint`] of the error. The loss of a node has the same one whatever the node was.
    ///
    /// # Example
    ///
    /// ```
    /// use jiff::Timestamp;
    /// use windlass_statemachine::ErrorEntry;
    ///
    /// let lost = |node| ErrorEntry::abandoned(Timestamp::UNIX_EPOCH, node).fingerprint();
    /// assert_eq!(lost("paris"), lost("berlin"));
    /// ```
    pub fn fingerprint(&self) -> String {
        match &self.node {
            Some(node) => {
                let of_node = format!("node {node} {LOST}");
                fingerprint(&self.error.replace(&of_node, LOST))
            }
            None => fingerprint(&self.error),
        }
    }

    /// Returns whether the error has this fingerprint, as this version or an earlier one computes it: a store may have failed
    /// tasks under the earlier one.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_statemachine::ErrorEntry;
    /// use jiff::Timestamp;
    ///
    /// let failed = |text| ErrorEntry::new(Timestamp::UNIX_EPOCH, text);
    /// let print = failed("exit code 1").fingerprint();
    /// assert!(failed("exit code 1").has_fingerprint(&print));
    /// assert!(!failed("exit code 2").has_fingerprint(&print));
    /// ```
    pub fn has_fingerprint(&self, print: &str) -> bool {
        self.fingerprint() == print
            || crate::fingerprint::earlier(&self.error).contains(&print.to_owned())
    }

    /// Returns whether [`TaskState::claimed`](crate::TaskState::claimed) recorded the error because the
    /// previous claim was lost with its node.
    pub fn is_abandonment(&self) -> bool {
        self.abandoned
    }
}

/// The last errors of a task, oldest first, and their total number.
///
/// # Example
///
/// ```
/// use windlass_statemachine::ErrorLog;
/// use jiff::Timestamp;
///
/// let mut log = ErrorLog::default();
/// for n in 0..10 {
///     log.push(Timestamp::UNIX_EPOCH, format!("error {n}"), 8);
/// }
/// assert_eq!(log.total(), 10);
/// assert_eq!(log.entries().len(), 8);
/// assert_eq!(log.last().unwrap().error, "error 9");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorLog {
    entries: Vec<ErrorEntry>,
    total: u64,
}

impl ErrorLog {
    pub(crate) fn from_parts(entries: Vec<ErrorEntry>, total: Option<u64>) -> Self {
        let total = total.unwrap_or(0).max(entries.len() as u64);
        Self { entries, total }
    }

    /// Records an error and drops the oldest beyond `keep` (at least one is kept).
    pub fn push(&mut self, timestamp: Timestamp, error: impl Into<String>, keep: usize) {
        self.push_entry(ErrorEntry::new(timestamp, error), keep);
    }

    /// Records an entry and drops the oldest beyond `keep` (at least one is kept).
    pub fn push_entry(&mut self, mut entry: ErrorEntry, keep: usize) {
        cut(&mut entry.error);
        self.entries.push(entry);
        self.total = self.total.saturating_add(1);
        self.trim(keep);
    }

    /// Notes on the errors after the first `known` ones where they happened: in a handler of this node, which writes this
    /// data version, or, without a handler, on the node whose loss was the last error.
    pub(crate) fn name(&mut self, known: u64, handler: Option<&NodeName>, data_version: u32) {
        let new = usize::try_from(self.total.saturating_sub(known)).unwrap_or(usize::MAX);
        let from = self.entries.len().saturating_sub(new);
        let before = from.checked_sub(1).and_then(|at| self.entries.get(at));
        let lost = before.filter(|entry| entry.abandoned);
        let lost = lost.and_then(|entry| entry.node.clone());
        let version = Some(data_version).filter(|version| *version != FIRST_DATA_VERSION);
        for entry in self.entries.iter_mut().skip(from) {
            match handler {
                _ if entry.abandoned => {}
                Some(node) => (entry.node, entry.data_version) = (Some(node.clone()), version),
                None => entry.node.clone_from(&lost),
            }
        }
    }

    /// Drops the oldest errors beyond `keep` (at least one is kept, at most [`MAX_KEPT`]).
    pub fn trim(&mut self, keep: usize) {
        let over = self.entries.len().saturating_sub(keep.clamp(1, MAX_KEPT));
        self.entries.drain(..over);
    }

    /// Returns the errors that are kept, oldest first.
    pub fn entries(&self) -> &[ErrorEntry] {
        &self.entries
    }

    /// Returns the newest error.
    pub fn last(&self) -> Option<&ErrorEntry> {
        self.entries.last()
    }

    /// Returns the number of errors so far, including those no longer kept.
    pub fn total(&self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(text: &str) -> String {
        let mut log = ErrorLog::default();
        log.push(Timestamp::UNIX_EPOCH, text, 8);
        log.last().unwrap().error.clone()
    }

    #[test]
    fn an_error_of_the_greatest_length_is_kept_whole() {
        let longest = "x".repeat(MAX_ERROR_BYTES);
        assert_eq!(kept(&longest), longest);
    }

    #[test]
    fn a_longer_error_keeps_every_character_that_fits_before_the_ellipsis() {
        let room = MAX_ERROR_BYTES - "…".len();
        for (text, whole) in [("x", room), ("ü", room / 2), ("😀", room / 4)] {
            let expected = format!("{}…", text.repeat(whole));
            assert_eq!(kept(&text.repeat(MAX_ERROR_BYTES + 1)), expected);
        }
        let one_more = "x".repeat(MAX_ERROR_BYTES + 1);
        assert_eq!(kept(&one_more).len(), MAX_ERROR_BYTES);
    }

    #[test]
    fn keeping_none_still_keeps_the_last() {
        let mut log = ErrorLog::default();
        log.push(Timestamp::UNIX_EPOCH, "a", 0);
        log.push(Timestamp::UNIX_EPOCH, "b", 0);
        assert_eq!(log.entries().len(), 1);
        assert_eq!(log.last().unwrap().error, "b");
    }
}
