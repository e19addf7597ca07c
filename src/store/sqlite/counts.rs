//! The counts of tasks, kept by the writes that change them.
//!
//! A row of `windlass_counts` counts the tasks of one [`Group`]. A task moves from one group to another only by
//! `Batch::write_state`, which notes the move. The end of the transaction adds the sums of all moves to the rows, with
//! one statement for each group that has changed, however many tasks moved. `read_counts` reads the rows, `recount` compares
//! them with the tasks.

use std::{cell::RefCell, hash::Hash};

use rusqlite::Row;

use crate::hash::HashMap;

/// `windlass_states.failure` of a task that has not failed.
pub(super) const NOT_FAILED: i64 = -1;

/// What the tasks of one row of `windlass_counts` have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Group {
    /// The number of the kind in `windlass_kinds`.
    pub(super) kind: i64,
    pub(super) code: i64,
    /// The version of the data.
    pub(super) version: i64,
    pub(super) claimed: bool,
    /// 1 if the tasks wait for other tasks, -1 if they wait for a signal, else 0.
    pub(super) waits: i64,
    pub(super) quarantined: bool,
    /// The fingerprint of its last error, if the tasks have failed; -1 otherwise. A count of its own.
    pub(super) failure: i64,
}

/// The columns of [`Group::read`]; `s` is the row of a state.
macro_rules! group_columns {
    () => {
        "s.kind, s.code, s.data_version, s.owner IS NOT NULL, min(s.waits, 1), s.quarantine IS NOT NULL, s.failure"
    };
}
pub(super) use group_columns;

impl Group {
    /// Returns the group of a task from the columns [`group_columns`], from `first` on.
    pub(super) fn read(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        Ok(Self {
            kind: row.get(first)?,
            code: row.get(first + 1)?,
            version: row.get(first + 2)?,
            claimed: row.get(first + 3)?,
            waits: row.get(first + 4)?,
            quarantined: row.get(first + 5)?,
            failure: row.get(first + 6)?,
        })
    }
}

/// The group that a task leaves, and the one that it joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Move {
    from: Option<Group>,
    to: Option<Group>,
}

impl Move {
    /// Returns the move of a new task.
    pub(super) fn new(to: Group) -> Self {
        Self {
            from: None,
            to: Some(to),
        }
    }

    /// Returns the move of a task that is deleted.
    pub(super) fn gone(from: Group) -> Self {
        Self {
            from: Some(from),
            to: None,
        }
    }

    pub(super) fn between(from: Group, to: Group) -> Self {
        Self {
            from: Some(from),
            to: Some(to),
        }
    }

    /// The move of a task that stays in its group, or whose caller notes the move with another
    /// statement.
    pub(super) const NONE: Self = Self {
        from: None,
        to: None,
    };
}

/// The moves of one transaction, in their order.
#[derive(Debug, Default)]
pub(super) struct Moves(Vec<Move>);

impl Moves {
    pub(super) fn note(&mut self, step: Move) {
        if step.from != step.to {
            self.0.push(step);
        }
    }

    /// Returns a position for [`undo`](Self::undo).
    pub(super) fn mark(&self) -> usize {
        self.0.len()
    }

    /// Drops the moves since this position.
    pub(super) fn undo(&mut self, mark: usize) {
        self.0.truncate(mark);
    }

    /// Returns how much the count of each group changes; groups that differ only in the failure are one.
    pub(super) fn sums(&self) -> HashMap<Group, i64> {
        self.sums_by(|group| {
            Some(Group {
                failure: NOT_FAILED,
                ..*group
            })
        })
    }

    /// Returns how much the number of tasks of each failure and kind changes.
    pub(super) fn failures(&self) -> HashMap<(i64, i64), i64> {
        self.sums_by(|group| (group.failure >= 0).then_some((group.failure, group.kind)))
    }

    fn sums_by<K: Eq + Hash>(&self, key: impl Fn(&Group) -> Option<K>) -> HashMap<K, i64> {
        let mut sums = HashMap::default();
        for Move { from, to } in &self.0 {
            for (group, by) in [(from, -1), (to, 1)] {
                if let Some(key) = group.as_ref().and_then(&key) {
                    *sums.entry(key).or_default() += by;
                }
            }
        }
        sums.retain(|_, by| *by != 0);
        sums
    }
}

/// Returns whether a statement may move a task from one group to another.
pub(super) fn moves_tasks(sql: &str) -> bool {
    let writes = [
        "INSERT INTO windlass_states (",
        "DELETE FROM windlass_states ",
    ];
    let columns = [
        "code",
        "data_version",
        "owner",
        "waits",
        "quarantine",
        "kind",
        "failure",
    ];
    writes.iter().any(|write| sql.starts_with(write))
        || sql.starts_with("UPDATE windlass_states SET")
            && columns
                .iter()
                .any(|column| sql.contains(&format!(" {column} = ")))
}

/// The numbers of kinds that were read, from one transaction to the next. A number never changes.
#[derive(Debug, Default)]
pub(super) struct Kinds(RefCell<HashMap<String, i64>>);

impl Kinds {
    /// Returns the number of a kind, if it is known.
    pub(super) fn get(&self, kind: &str) -> Option<i64> {
        self.0.borrow().get(kind).copied()
    }

    /// Remembers the number of a kind.
    pub(super) fn set(&self, kind: &str, number: i64) {
        self.0.borrow_mut().insert(kind.to_owned(), number);
    }

    /// Forgets the numbers: some may belong to a transaction that is rolled back.
    pub(super) fn forget(&self) {
        self.0.borrow_mut().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(code: i64) -> Group {
        Group {
            kind: 1,
            code,
            version: 1,
            claimed: false,
            waits: 0,
            quarantined: false,
            failure: NOT_FAILED,
        }
    }

    #[test]
    fn moves_are_summed_by_group() {
        let mut moves = Moves::default();
        for _ in 0..3 {
            moves.note(Move::new(group(0)));
            moves.note(Move::between(group(0), group(1)));
        }
        moves.note(Move::between(group(1), group(1)));
        let mark = moves.mark();
        moves.note(Move::gone(group(1)));
        assert_eq!(moves.sums(), [(group(1), 2)].into_iter().collect());
        moves.undo(mark);
        assert_eq!(moves.sums(), [(group(1), 3)].into_iter().collect());
    }

    #[test]
    fn statements_that_move_tasks_are_known() {
        for sql in [
            "INSERT INTO windlass_states (n) VALUES (1)",
            "DELETE FROM windlass_states WHERE n = 1",
            "UPDATE windlass_states SET owner = NULL WHERE n = 1",
            "UPDATE windlass_states SET due = 1, code = ?2 WHERE n = 1",
        ] {
            assert!(moves_tasks(sql), "{sql}");
        }
        for sql in [
            "UPDATE windlass_states SET pending = pending + 1, last = ?2 WHERE n = ?1",
            "INSERT INTO windlass_states_alone (task) VALUES (1)",
            "SELECT code FROM windlass_states WHERE owner = 1",
        ] {
            assert!(!moves_tasks(sql), "{sql}");
        }
    }
}
