//! The log lines of a task: which part a line is added to, and which parts are deleted. A log is a series of parts.
//! Only its last part is ever written again.

use std::{collections::HashMap, sync::Arc};

#[cfg(any(feature = "etcd", feature = "sqlite-system"))]
use windlass_statemachine::TaskId;
use windlass_statemachine::{Fence, Invalid};

#[cfg(any(feature = "etcd", feature = "sqlite-system"))]
use crate::store::{DamagedPart, Error};
use crate::store::{
    LogCursor, LogLine, LogPage, LogPart, LogQuery, Logged, StoredLog, model::PartLine,
};

/// The most bytes of one line. The rest of a longer line is replaced by `…`.
pub(crate) const LINE_BYTES: usize = 4096;
/// The most bytes of text in one part.
pub(crate) const PART_BYTES: usize = 8 * 1024;
/// The most lines of one part.
pub(crate) const PART_LINES: usize = 256;
/// The most parts of one attempt.
pub(crate) const ATTEMPT_PARTS: usize = 32;
/// The most parts of one task.
pub(crate) const TASK_PARTS: usize = 128;
/// The greatest number of a part that is imported: the keys of etcd have it with twelve digits.
const LAST_PART: u64 = 999_999_999_999;
/// The greatest number of a line that is imported, so that further lines have numbers too.
const LAST_LINE: u64 = 1 << 62;

/// Returns a line, without the part that is too long.
pub(crate) fn cut(line: &str) -> Arc<str> {
    if line.len() <= LINE_BYTES {
        return line.into();
    }
    let most = LINE_BYTES - '…'.len_utf8();
    let end = (0..=most).rev().find(|at| line.is_char_boundary(*at));
    format!("{}…", &line[..end.unwrap_or(0)]).into()
}

/// The place of a stored part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PartPlace {
    pub(crate) part: u64,
    pub(crate) incarnation: u32,
    pub(crate) attempt: u32,
}

impl PartPlace {
    pub(crate) fn of(part: &LogPart) -> Self {
        Self {
            part: part.part,
            incarnation: part.incarnation,
            attempt: part.attempt,
        }
    }

    fn run(self) -> (u32, u32) {
        (self.incarnation, self.attempt)
    }

    /// Returns the part at this place as one that cannot be read.
    #[cfg(any(feature = "etcd", feature = "sqlite-system"))]
    pub(crate) fn damaged(self, reason: impl Into<String>) -> DamagedPart {
        DamagedPart {
            part: self.part,
            incarnation: self.incarnation,
            attempt: self.attempt,
            reason: reason.into(),
        }
    }
}

/// The stored log of a task, without the lines of its earlier parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LogHead {
    /// All parts, in order.
    pub(crate) parts: Vec<PartPlace>,
    /// The last part.
    pub(crate) last: Option<LogPart>,
}

/// The changes that add lines to a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Added {
    /// The parts to write, which may replace the last stored one.
    pub(crate) put: Vec<LogPart>,
    /// The stored parts to delete.
    pub(crate) removed: Vec<PartPlace>,
    /// The log after these changes.
    pub(crate) head: LogHead,
}

/// Adds lines of a claim to a log. Ignores lines that the log has taken before.
pub(crate) fn add(head: &LogHead, fence: Fence, lines: &[Logged]) -> Added {
    let mut head = head.clone();
    let mut put: Vec<LogPart> = Vec::new();
    let mut open = head.last.take();
    let mut is_changed = false;
    for line in lines {
        let (last_n, number) = match &open {
            Some(part) => {
                let seen = if part.fence == fence { part.seen } else { 0 };
                let last = part.lines.last().map_or(part.start, |line| line.n);
                (seen, last + line.n.saturating_sub(seen))
            }
            None => (0, line.n),
        };
        if line.n <= last_n {
            continue;
        }
        let run = (line.incarnation, line.attempt);
        let new = match &open {
            Some(part) if PartPlace::of(part).run() != run => {
                // Lines that were dropped before the first one of an attempt count as lines of that attempt.
                let start = part.lines.last().map_or(part.start, |line| line.n);
                Some((part.part + 1, start))
            }
            Some(part) if !has_room(part, line) => Some((part.part + 1, part.start)),
            Some(_) => None,
            // The last part cannot be read, or there is none.
            None => Some((head.parts.last().map_or(0, |part| part.part + 1), 0)),
        };
        if let Some((part, start)) = new {
            let new = LogPart {
                part,
                incarnation: line.incarnation,
                attempt: line.attempt,
                start,
                fence,
                seen: 0,
                lines: Vec::new(),
            };
            head.parts.push(PartPlace::of(&new));
            let full = open.replace(new);
            put.extend(full.filter(|_| is_changed));
        }
        if let Some(part) = &mut open {
            (part.fence, part.seen) = (fence, line.n);
            part.lines.push(PartLine {
                n: number,
                at: line.at,
                text: cut(&line.text).to_string(),
            });
            is_changed = true;
        }
    }
    put.extend(open.clone().filter(|_| is_changed));
    head.last = open;
    let removed = remove_oldest(&mut head.parts);
    put.retain(|part| !removed.contains(&PartPlace::of(part)));
    Added { put, removed, head }
}

fn has_room(part: &LogPart, line: &Logged) -> bool {
    let bytes = bytes_of(part);
    part.lines.len() < PART_LINES && bytes + line.text.len().min(LINE_BYTES) <= PART_BYTES
}

/// Removes the oldest parts beyond the bounds, and returns them.
fn remove_oldest(parts: &mut Vec<PartPlace>) -> Vec<PartPlace> {
    let mut of_run: HashMap<(u32, u32), usize> = HashMap::new();
    for part in parts.iter() {
        *of_run.entry(part.run()).or_default() += 1;
    }
    let mut over = parts.len().saturating_sub(TASK_PARTS);
    let mut removed = Vec::new();
    parts.retain(|part| {
        let count = of_run.entry(part.run()).or_default();
        let goes = over > 0 || *count > ATTEMPT_PARTS;
        if goes {
            *count -= 1;
            over = over.saturating_sub(1);
            removed.push(*part);
        }
        !goes
    });
    removed
}

/// Returns the lines of a task for another store.
///
/// # Errors
///
/// [`Error::Corrupt`] when a part cannot be read.
#[cfg(any(feature = "etcd", feature = "sqlite-system"))]
pub(crate) fn whole(id: &TaskId, log: StoredLog) -> Result<Vec<LogPart>, Error> {
    let Some(damaged) = log.damaged.first() else {
        return Ok(log.parts);
    };
    let reason = format!(
        "part {} of its log lines, of attempt {}: {}; delete the damaged parts with a repair of the store",
        damaged.part, damaged.attempt, damaged.reason
    );
    Err(Error::corrupt_task(id, reason))
}

/// Checks the log of a task from another store against the bounds of a log.
///
/// # Errors
///
/// [`Invalid`] (field `log`).
pub(crate) fn check(log: &[LogPart]) -> Result<(), Invalid> {
    let wrong = |reason: String| Err(Invalid::new("log", reason));
    if log.len() > TASK_PARTS {
        let parts = log.len();
        return wrong(format!(
            "has {parts} parts; a task has at most {TASK_PARTS}"
        ));
    }
    let mut of_run: HashMap<(u32, u32), usize> = HashMap::new();
    let mut after = None;
    for part in log {
        let n = part.part;
        if after >= Some(n) || n > LAST_PART {
            return wrong(format!(
                "has part {n} in the wrong place; the numbers of the parts grow, up to {LAST_PART}"
            ));
        }
        after = Some(n);
        let parts = of_run.entry(PartPlace::of(part).run()).or_default();
        *parts += 1;
        if *parts > ATTEMPT_PARTS || part.attempt == 0 {
            return wrong(format!(
                "has part {n} of attempt {}; attempts begin with 1, and each has at most {ATTEMPT_PARTS} parts",
                part.attempt
            ));
        }
        let (lines, bytes) = (part.lines.len(), bytes_of(part));
        if !(1..=PART_LINES).contains(&lines) || bytes > PART_BYTES {
            return wrong(format!(
                "has {lines} lines and {bytes} bytes in part {n}; a part has 1 to {PART_LINES} lines and at most \
                 {PART_BYTES} bytes"
            ));
        }
        check_lines(part)?;
    }
    Ok(())
}

/// Checks the lines of a part from another store.
fn check_lines(part: &LogPart) -> Result<(), Invalid> {
    let mut after = 0;
    for line in &part.lines {
        let n = line.n;
        if n <= after || n > LAST_LINE {
            let reason =
                format!("has line {n} after line {after}; give the lines in order, from 1");
            return Err(Invalid::new("log", reason));
        }
        after = n;
        if line.text.len() > LINE_BYTES || line.text.contains('\n') {
            let reason = format!(
                "has a line {n} of {} bytes; give at most {LINE_BYTES} bytes without a line break",
                line.text.len()
            );
            return Err(Invalid::new("log", reason));
        }
    }
    Ok(())
}

fn bytes_of(part: &LogPart) -> usize {
    part.lines.iter().map(|line| line.text.len()).sum()
}

/// Returns the selected lines of a log, which begins with the part of the cursor.
pub(crate) fn page(log: StoredLog, query: &LogQuery) -> LogPage {
    let LogQuery {
        incarnation,
        attempt,
        after,
    } = *query;
    let is_of_run = |of_incarnation: u32, of_attempt: u32| {
        incarnation.is_none_or(|n| n == of_incarnation) && attempt.is_none_or(|n| n == of_attempt)
    };
    let mut damaged = log.damaged;
    damaged.retain(|part| is_of_run(part.incarnation, part.attempt));
    let mut page = LogPage {
        next: after,
        damaged,
        ..LogPage::default()
    };
    let is_all = incarnation.is_none() && attempt.is_none();
    // The number of the line before the next one.
    let mut before = after.line;
    for part in log.parts {
        let is_selected = is_of_run(part.incarnation, part.attempt);
        if !is_all {
            // Missing lines up to there belong to another attempt.
            before = before.max(part.start);
        }
        // The numbers start again after a damaged part.
        let is_later = part.part > after.part;
        let lines = part.lines.into_iter();
        for line in lines.filter(|line| is_later || line.n > after.line) {
            page.next = LogCursor {
                part: part.part,
                line: line.n,
            };
            let missing = line.n.saturating_sub(before + 1);
            before = line.n;
            if is_selected {
                page.gone += missing;
                page.lines.push(LogLine {
                    number: line.n,
                    incarnation: part.incarnation,
                    attempt: part.attempt,
                    at: line.at,
                    text: line.text,
                });
            }
        }
    }
    page
}

#[cfg(test)]
#[path = "log_lines_tests.rs"]
mod tests;
