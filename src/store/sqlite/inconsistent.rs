//! Rows that should not exist: finds them for an examination, and repairs them on request.

use rusqlite::{Connection, Row, types::ValueRef};

use super::{
    batch::{Batch, Sql},
    columns,
    errors::Stop,
    lease, log_lines, recount,
    rows::{self, RECORD, RECORD_TABLES},
    texts::Text,
};
use crate::store::{
    Advice, Remedy,
    examine::{Finding, Strays, Verdict, log_parts},
};

/// The rows that should not exist.
pub(super) struct Inconsistent {
    quarantined: Strays,
    ids: Strays,
    records: Strays,
    commands: Strays,
    claims: Strays,
    pending: Strays,
    counts: Strays,
    logs: Strays,
    log_parts: Strays,
}

/// The number of repaired rows.
#[derive(Default)]
pub(super) struct Repaired {
    commands: u64,
    claims: u64,
    pending: u64,
    counts: u64,
    logs: u64,
    log_parts: u64,
}

const WITHOUT_TASK: &str =
    "SELECT id FROM windlass_commands WHERE n NOT IN (SELECT n FROM windlass_tasks)";
const LOG_WITHOUT_TASK: &str = "SELECT 'part ' || part || ' of row ' || n FROM windlass_log
     WHERE n NOT IN (SELECT n FROM windlass_tasks)";
const WITHOUT_LEASE: &str =
    "SELECT coalesce(t.id, s.n) FROM windlass_states s LEFT JOIN windlass_tasks t ON t.n = s.n
     WHERE s.owner IS NOT NULL AND NOT EXISTS
         (SELECT 1 FROM windlass_leases l WHERE l.id = s.owner AND l.ended_at IS NULL)";
const MISCOUNTED: &str = "SELECT t.id FROM windlass_states s JOIN windlass_tasks t ON t.n = s.n
     WHERE s.ended_at IS NULL AND s.quarantine IS NULL AND s.pending <>
         (SELECT count(*) FROM windlass_commands c WHERE c.n = s.n AND c.outcome IS NULL)";

/// Finds rows that should not exist.
pub(super) fn find(conn: &Connection) -> Result<Inconsistent, Stop> {
    let named = |sql: &str| -> Sql<Strays> {
        let mut found = conn.prepare(sql)?;
        let names = found.query_map((), |row| name(row, 0))?;
        names.collect()
    };
    Ok(Inconsistent {
        quarantined: unreadable(conn)?,
        ids: without_id(conn)?.into_iter().collect(),
        records: named(
            "SELECT 'state ' || n FROM windlass_states WHERE n NOT IN (SELECT n FROM windlass_tasks)
             UNION ALL SELECT id FROM windlass_tasks WHERE n NOT IN (SELECT n FROM windlass_states)",
        )?,
        commands: named(WITHOUT_TASK)?,
        claims: named(WITHOUT_LEASE)?,
        pending: named(MISCOUNTED)?,
        counts: recount::wrong(conn)?,
        logs: named(LOG_WITHOUT_TASK)?,
        log_parts: log_lines::damaged(conn)?,
    })
}

/// Returns the rows of tasks whose id cannot be read, which no list shows.
pub(super) fn without_id(conn: &Connection) -> Sql<Vec<String>> {
    let mut tasks = conn.prepare("SELECT n, id FROM windlass_tasks")?;
    let rows = tasks.query_map((), |row| {
        let id = columns::id(row, 1)?;
        let n: i64 = row.get(0)?;
        Ok(id.is_none().then(|| format!("row {n} of windlass_tasks")))
    })?;
    rows.filter_map(Result::transpose).collect()
}

/// Returns the text in a column, or a description of another value there.
fn name(row: &Row<'_>, column: usize) -> Sql<String> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        other => format!("{other:?}"),
    })
}

/// Returns the tasks whose record this program cannot read. SQLite preselects them: it also rejects JSON that
/// is nested deeper than about 1,000 levels, which this program reads.
fn unreadable(conn: &Connection) -> Sql<Strays> {
    let mut suspects = conn.prepare(&format!(
        "SELECT {RECORD} FROM {RECORD_TABLES} WHERE s.quarantine IS NOT NULL
             OR NOT json_valid(s.state) OR NOT json_valid(t.props)
             OR NOT json_valid(ifnull(t.terms, '{{}}')) OR NOT json_valid(ifnull(t.labels, '{{}}'))
             OR NOT json_valid(ifnull(t.retry, '{{}}')) OR t.priority NOT BETWEEN -2147483648 AND 2147483647
             OR s.data_version NOT BETWEEN 1 AND 4294967295
             OR t.kind GLOB '*[^a-zA-Z0-9._-]*' OR t.kind = ''"
    ))?;
    let names = suspects.query_map((), |row| match rows::record(row) {
        Ok(Some(record)) if record.state.is_ok() => Ok(None),
        _ => name(row, 7).map(Some),
    })?;
    names.filter_map(Result::transpose).collect()
}

impl Inconsistent {
    pub(super) fn findings(&self, repaired: &Repaired) -> Vec<Finding> {
        let error = |what| (Verdict::Error, what);
        let repair = Advice::new("a repair resolves it", Remedy::Repair);
        vec![
            Finding::none_of(
                "quarantined",
                (Verdict::Warning, "records that cannot be read"),
                &self.quarantined,
                0,
                Advice::new(
                    "a list shows the reason; a retry reads them again",
                    Remedy::ReadQuarantined,
                ),
            ),
            Finding::none_of(
                "ids",
                error("tasks whose id cannot be read"),
                &self.ids,
                0,
                "no list shows them, and none of them runs: give the row an id with SQL, or delete it",
            ),
            Finding::none_of(
                "records",
                error("states without task, or tasks without state"),
                &self.records,
                0,
                "the file was changed by hand: restore a backup, or delete those rows",
            ),
            Finding::none_of(
                "commands",
                error("commands for tasks that do not exist"),
                &self.commands,
                repaired.commands,
                repair,
            ),
            Finding::none_of(
                "queues",
                error("tasks with a wrong number of waiting commands"),
                &self.pending,
                repaired.pending,
                repair,
            ),
            Finding::none_of(
                "claims",
                error("claims of nodes that do not exist"),
                &self.claims,
                repaired.claims,
                repair,
            ),
            Finding::none_of(
                "counts",
                error("counts that differ from the tasks"),
                &self.counts,
                repaired.counts,
                repair,
            ),
            Finding::none_of(
                "logs",
                error("log lines of tasks that do not exist"),
                &self.logs,
                repaired.logs,
                repair,
            ),
            log_parts::finding(&self.log_parts, repaired.log_parts),
        ]
    }
}

/// Repairs what can be repaired safely.
pub(super) fn repair(batch: &mut Batch<'_>) -> Sql<Repaired> {
    let commands = batch.run(
        "DELETE FROM windlass_commands WHERE n NOT IN (SELECT n FROM windlass_tasks)",
        (),
    )?;
    let pending = batch.run(
        "UPDATE windlass_states SET pending =
             (SELECT count(*) FROM windlass_commands c WHERE c.n = windlass_states.n AND c.outcome IS NULL)
         WHERE ended_at IS NULL AND quarantine IS NULL AND pending <>
             (SELECT count(*) FROM windlass_commands c WHERE c.n = windlass_states.n AND c.outcome IS NULL)",
        (),
    )?;
    let leases: Vec<(i64, String)> = batch.all(
        "SELECT DISTINCT s.owner, coalesce((SELECT node FROM windlass_leases l WHERE l.id = s.owner), '')
         FROM windlass_states s WHERE s.owner IS NOT NULL AND NOT EXISTS
             (SELECT 1 FROM windlass_leases l WHERE l.id = s.owner AND l.ended_at IS NULL)",
        (),
        |row| Ok((row.get(0)?, row.get(1).map(Text::of)?)),
    )?;
    let mut claims = 0;
    for (lease, node) in leases {
        let node = if node.is_empty() { "unknown" } else { &node };
        claims += lease::end_claims(batch, lease, Some(node))?;
    }
    let logs = batch.run(
        "DELETE FROM windlass_log WHERE n NOT IN (SELECT n FROM windlass_tasks)",
        (),
    )?;
    Ok(Repaired {
        commands: commands as u64,
        claims: claims as u64,
        pending: pending as u64,
        counts: recount::recount(batch)?,
        logs: logs as u64,
        log_parts: log_lines::delete_damaged(batch)?,
    })
}
