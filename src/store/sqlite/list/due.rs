//! Lists sleeping tasks by their wake-up, and unclaimed tasks by how late they are.
//!
//! The index of sleeping tasks has the unclaimed tasks of each kind, data version and waits in the order of their
//! wake-ups. A list reads the first tasks of each of these groups: the tasks that it returns, and one index entry for
//! each group. It reads all claimed tasks, which are few.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, params_from_iter, types::Value};
use windlass_statemachine::StateKind;

use super::{Conditions, direction, each, for_span};
use crate::store::{
    Filter, Order, Place, Span, TaskRecord,
    rules::list::Selection,
    sqlite::{errors::Stop, rows},
};

/// The condition of the index of sleeping tasks.
const ASLEEP: &str = "s.code = 1 AND s.owner IS NULL AND s.quarantine IS NULL";

/// The condition of sleeping tasks that a node has claimed: their sleep is short, or has ended so that
/// they run.
const CLAIMED: &str = "s.code = 1 AND s.owner IS NOT NULL AND s.quarantine IS NULL";

/// The condition of tasks that wait for a node: in `runnable` and `fault`. No index has their order, so all are read.
const READY: &str =
    "s.code IN (0, 3) AND s.owner IS NULL AND s.ended_at IS NULL AND s.quarantine IS NULL";

/// What the tasks of a group in the index have in common.
#[derive(Debug, Clone, Copy)]
struct Sleepers {
    kind: i64,
    data_version: i64,
    waits: i64,
    /// The first wake-up, and the task that has it.
    first: (i64, i64),
}

impl Sleepers {
    /// A value less than every group.
    const FIRST: Self = Self {
        kind: i64::MIN,
        data_version: 0,
        waits: -2,
        first: (0, 0),
    };

    /// Returns the query of the first group from a given one on. A comparison with '>' would read all entries of
    /// that group.
    fn query_from() -> String {
        format!(
            "SELECT s.kind, s.data_version, s.waits, s.due, s.n
             FROM windlass_states s INDEXED BY windlass_states_asleep
             WHERE {ASLEEP} AND (s.kind, s.data_version, s.waits) >= (?1, ?2, ?3)
             ORDER BY s.kind, s.data_version, s.waits, s.due, s.n LIMIT 1"
        )
    }

    /// Returns the next group.
    fn next(self, conn: &Connection) -> Result<Option<Self>, Stop> {
        let mut next = conn.prepare_cached(&Self::query_from())?;
        let from = (self.kind, self.data_version, self.waits + 1);
        let read = next.query_row(from, |row| {
            Ok(Self {
                kind: row.get(0)?,
                data_version: row.get(1)?,
                waits: row.get(2)?,
                first: (
                    row.get::<_, Option<i64>>(3)?.unwrap_or_default(),
                    row.get(4)?,
                ),
            })
        });
        Ok(read.optional()?)
    }

    /// Returns the groups with tasks of a span, those with the earliest wake-ups first: a list by wake-up reads little
    /// of the others.
    fn of_span(conn: &Connection, filter: &Filter, span: &Span) -> Result<Vec<Self>, Stop> {
        let kinds = kinds(conn, filter)?;
        let mut groups = Vec::new();
        let mut group = Self::FIRST;
        while let Some(next) = group.next(conn)? {
            group = next;
            let is_of_kind = kinds
                .as_ref()
                .is_none_or(|kinds| kinds.contains(&next.kind));
            let waits = match (filter.awaits_signal, span.only_waiting) {
                (true, _) => next.waits < 0,
                (false, true) => next.waits > 0,
                (false, false) => true,
            };
            if is_of_kind && waits {
                groups.push(next);
            }
        }
        groups.sort_unstable_by_key(|group| group.first);
        Ok(groups)
    }

    /// Returns the conditions on the tasks of the group.
    fn conditions(self) -> Conditions {
        let mut conditions = Conditions::new();
        conditions.and(ASLEEP);
        conditions.and_with("s.kind = ?", self.kind);
        conditions.and_with("s.data_version = ?", self.data_version);
        conditions.and_with("s.waits = ?", self.waits);
        conditions
    }
}

/// Returns the query of the tasks that meet the conditions, by their wake-up.
fn query(
    mut conditions: Conditions,
    index: &str,
    filter: &Filter,
    span: &Span,
) -> (String, Vec<Value>) {
    let (behind, sorted) = direction(span.ascending);
    if let Some(Place { at, order, .. }) = &span.after {
        conditions.and_with(&format!("(s.due, s.n) {behind} (?, ?)"), *at);
        conditions.values.push((*order as i64).into());
    }
    conditions.filter(filter);
    let Conditions { sql, values } = conditions;
    let sql = format!(
        "SELECT {} FROM windlass_states s INDEXED BY {index} {}{sql} \
         ORDER BY s.due{sorted}, s.n{sorted}",
        rows::RECORD,
        rows::RECORD_BY_STATE
    );
    (for_span(sql, filter, span), values)
}

/// Returns the tasks of a span by wake-up, or by lateness.
pub(super) fn span(
    conn: &Connection,
    filter: &Filter,
    span: &Span,
) -> Result<Vec<TaskRecord>, Stop> {
    let mut selection = Selection::of(span.clone());
    if span.order == Order::Late {
        take_ready(conn, filter, span, &mut selection)?;
    }
    if !filter.states.is_empty() && !filter.states.contains(&StateKind::Sleeping) {
        return Ok(selection.into_tasks());
    }
    let mut take = |conditions, index| {
        let (sql, values) = query(conditions, index, filter, span);
        let mut statement = conn.prepare_cached(&sql)?;
        each(&mut statement, values, filter, |record| {
            selection.take(record)
        })
    };
    let mut claimed = Conditions::new();
    claimed.and(CLAIMED);
    take(claimed, "windlass_states_owned")?;
    for group in Sleepers::of_span(conn, filter, span)? {
        take(group.conditions(), "windlass_states_asleep")?;
    }
    Ok(selection.into_tasks())
}

/// Adds the tasks that wait for a node to a list by lateness.
fn take_ready(
    conn: &Connection,
    filter: &Filter,
    span: &Span,
    selection: &mut Selection,
) -> Result<(), Stop> {
    let mut conditions = Conditions::new();
    conditions.and(READY);
    conditions.filter(filter);
    let Conditions { sql, values } = conditions;
    let sql = format!(
        "SELECT {} FROM windlass_states s INDEXED BY windlass_states_live {}{sql}",
        rows::RECORD,
        rows::RECORD_BY_STATE
    );
    let mut statement = conn.prepare_cached(&for_span(sql, filter, span))?;
    each(&mut statement, values, filter, |record| {
        // They come in no order: a later one may belong to the span.
        selection.take(record);
        true
    })
}

/// Returns the numbers of the kinds of a filter; `None` for every kind.
fn kinds(conn: &Connection, filter: &Filter) -> Result<Option<BTreeSet<i64>>, Stop> {
    let mut conditions = Conditions::new();
    conditions.kind("kind", filter);
    let Conditions { sql, values } = conditions;
    if values.is_empty() {
        return Ok(None);
    }
    let sql = format!("SELECT id FROM windlass_kinds{sql}");
    let mut read = conn.prepare_cached(&sql)?;
    let ids = read.query_map(params_from_iter(values), |row| row.get(0))?;
    Ok(Some(ids.collect::<Result<_, _>>()?))
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;
    use crate::store::sqlite::schema;

    /// Makes a file with sleeping tasks of two kinds and two data versions: this many in each of the four
    /// groups.
    fn file(of_each: i64) -> Connection {
        let mut conn = Connection::open_in_memory().unwrap();
        schema::make(&mut conn, "f").unwrap();
        let mut n = 0;
        for _ in 0..of_each {
            for (kind, version) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
                n += 1;
                let task = "INSERT INTO windlass_tasks (n, id, kind, priority, submitted_at, props)
                            VALUES (?1, 'id' || ?1, 'k' || ?2, 0, 0, 'null')";
                conn.execute(task, (n, kind)).unwrap();
                let state = "INSERT INTO windlass_states VALUES
                    (?1, ?2, 1, ?1 * 7 % 1000, NULL, 1, 1, 0, 4, 1, NULL, NULL, NULL, '{}', ?3, 0, 0, NULL, -1)";
                conn.execute(state, (n, kind, version)).unwrap();
            }
        }
        conn
    }

    /// Returns the groups, and the steps that SQLite takes to find them and the first ten tasks of each.
    fn steps(conn: &Connection, ascending: bool) -> (usize, i32) {
        let (mut found, mut steps) = (0, 0);
        let mut group = Sleepers::FIRST;
        let mut next = conn.prepare(&Sleepers::query_from()).unwrap();
        while let Some(of) = group.next(conn).unwrap() {
            let from = (group.kind, group.data_version, group.waits + 1);
            next.query_row(from, |_| Ok(())).unwrap();
            let span = Span {
                order: Order::Due,
                ascending,
                after: None,
                limit: 10,
                without_props: false,
                only_waiting: false,
            };
            let index = "windlass_states_asleep";
            let (sql, values) = query(of.conditions(), index, &Filter::default(), &span);
            let mut statement = conn.prepare(&sql).unwrap();
            let mut rows = statement.query(params_from_iter(values)).unwrap();
            for _ in 0..10 {
                assert!(rows.next().unwrap().is_some());
            }
            drop(rows);
            steps += statement.get_status(StatementStatus::VmStep);
            (found, group) = (found + 1, of);
        }
        (found, steps + next.get_status(StatementStatus::VmStep))
    }

    /// Regression: a list of one kind read the sleeping tasks of all others.
    #[test]
    fn a_list_of_a_kind_reads_no_sleeping_task_of_another() {
        let conn = file(3);
        let kinds = "INSERT INTO windlass_kinds (id, kind) VALUES (1, 'k1'), (2, 'k2')";
        conn.execute(kinds, ()).unwrap();
        let mut span = Span {
            order: Order::Due,
            ascending: true,
            after: None,
            limit: 10,
            without_props: false,
            only_waiting: false,
        };
        let groups = |filter: &Filter, span: &Span| {
            let groups = Sleepers::of_span(&conn, filter, span).unwrap();
            groups.iter().map(|group| group.kind).collect::<Vec<_>>()
        };
        let all = Filter::default();
        let of_kind = Filter {
            kind: Some("k2".parse().unwrap()),
            ..Filter::default()
        };
        assert_eq!(groups(&all, &span).len(), 4);
        assert_eq!(groups(&of_kind, &span), [2, 2]);
        span.only_waiting = true;
        assert!(groups(&all, &span).is_empty());
    }

    #[test]
    fn a_page_by_wake_up_reads_what_it_returns() {
        let (few, many) = (file(20), file(1000));
        for ascending in [true, false] {
            let ((groups, few), (same, many)) = (steps(&few, ascending), steps(&many, ascending));
            assert_eq!((groups, same), (4, 4));
            assert!(many < few + 20, "{ascending}: {few} and {many} steps");
        }
    }
}
