//! [`Line`]: a change as a row of `windlass_changes`.
//!
//! A transaction inserts several changes with one statement, because much of a statement's cost is its start and
//! its end.

use std::sync::LazyLock;

use super::codes::Log;

/// The most changes that are collected before they are inserted.
pub(super) const MOST: usize = 32;

/// The numbers of changes that one statement can insert.
const SIZES: [usize; 3] = [MOST, 8, 1];

static INSERTS: LazyLock<[String; SIZES.len()]> = LazyLock::new(|| SIZES.map(insert));

/// A row of `windlass_changes`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    pub(super) seq: i64,
    pub(super) n: i64,
    pub(super) prev: i64,
    pub(super) at: i64,
    pub(super) log: Log,
    /// The number of the author.
    pub(super) by: i64,
}

/// Changes of the same time that one statement inserts.
pub(super) struct Group<'l> {
    pub(super) insert: &'static str,
    at: i64,
    lines: &'l [Line],
}

impl Group<'_> {
    /// Returns the parameters of the statement.
    pub(super) fn params(&self) -> impl Iterator<Item = i64> {
        let columns = |line: &Line| {
            let log = line.log;
            let (what, detail, fence) = (log.what, log.detail, log.fence);
            [line.n, line.prev, what, detail, fence, log.command, line.by]
        };
        std::iter::once(self.at).chain(self.lines.iter().flat_map(columns))
    }

    /// Returns the number of the last change.
    pub(super) fn last(&self) -> Option<i64> {
        self.lines.last().map(|line| line.seq)
    }
}

/// Returns the statement that inserts this many changes. Without a `seq` SQLite numbers each row after the
/// greatest one, and need not check whether a row has the number.
fn insert(count: usize) -> String {
    // Each `?` is the parameter after the greatest one before it.
    let rows = vec!["(?1, ?, ?, ?, ?, ?, ?, ?)"; count].join(", ");
    format!(
        "INSERT INTO windlass_changes (at, n, prev, what, detail, fence, command, by) VALUES {rows}"
    )
}

/// Divides changes among as few statements as possible.
pub(super) fn groups(mut lines: &[Line]) -> impl Iterator<Item = Group<'_>> {
    std::iter::from_fn(move || {
        let at = lines.first()?.at;
        let same = lines.iter().take_while(|line| line.at == at).count();
        let mut inserts = INSERTS.iter().zip(SIZES);
        let (insert, size) = inserts.find(|(_, size)| *size <= same)?;
        let (group, rest) = lines.split_at(size);
        lines = rest;
        Some(Group {
            insert,
            at,
            lines: group,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seq: i64, at: i64) -> Line {
        Line {
            seq,
            n: 1,
            prev: 0,
            at,
            log: Log::deleted(),
            by: 0,
        }
    }

    #[test]
    fn every_change_is_in_one_statement_and_in_order() {
        for count in 0..=2 * MOST as i64 {
            let lines: Vec<_> = (0..count).map(|seq| line(seq, 0)).collect();
            let found = groups(&lines).flat_map(|group| group.lines.iter().map(|line| line.seq));
            assert!(found.eq(0..count));
        }
    }

    #[test]
    fn a_statement_inserts_changes_of_one_time() {
        let lines: Vec<_> = (0..60).map(|seq| line(seq, seq / 20)).collect();
        for group in groups(&lines) {
            assert!(group.lines.iter().all(|line| line.at == group.at));
        }
    }
}
