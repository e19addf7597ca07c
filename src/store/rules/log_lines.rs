//! The log lines of a task: which part a line is added to, and which parts are deleted. A log is a series of parts.
//! Only its last part is ever written again.

use std::collections::HashMap;

use windlass_statemachine::Fence;

use crate::store::{LogCursor, LogLine, LogPage, LogPart, LogQuery, Logged, model::PartLine};

/// The most bytes of text in one part.
pub(crate) const PART_BYTES: usize = 8 * 1024;
/// The most lines of one part.
pub(crate) const PART_LINES: usize = 256;
/// The most parts of one attempt.
pub(crate) const ATTEMPT_PARTS: usize = 32;
/// The most parts of one task.
pub(crate) const TASK_PARTS: usize = 128;

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
                text: line.text.to_string(),
            });
            is_changed = true;
        }
    }
    put.extend(open.clone().filter(|_| is_changed));
    head.last = open;
    let removed = cut(&mut head.parts);
    put.retain(|part| !removed.contains(&PartPlace::of(part)));
    Added { put, removed, head }
}

fn has_room(part: &LogPart, line: &Logged) -> bool {
    let bytes: usize = part.lines.iter().map(|line| line.text.len()).sum();
    part.lines.len() < PART_LINES && bytes + line.text.len() <= PART_BYTES
}

/// Removes the oldest parts beyond the bounds, and returns them.
fn cut(parts: &mut Vec<PartPlace>) -> Vec<PartPlace> {
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

/// Returns the selected lines of these parts, which are in order and begin with that of the cursor.
pub(crate) fn page(parts: Vec<LogPart>, query: &LogQuery) -> LogPage {
    let LogQuery {
        incarnation,
        attempt,
        after,
    } = *query;
    let mut page = LogPage {
        next: after,
        ..LogPage::default()
    };
    let is_all = incarnation.is_none() && attempt.is_none();
    // The number of the line before the next one.
    let mut before = after.line;
    for part in parts {
        let is_selected = incarnation.is_none_or(|n| n == part.incarnation)
            && attempt.is_none_or(|n| n == part.attempt);
        if !is_all {
            // Missing lines up to there belong to another attempt.
            before = before.max(part.start);
        }
        for line in part.lines.into_iter().filter(|line| line.n > after.line) {
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
