//! Compares the counts ([`counts`](super::counts)) with the tasks.

use rusqlite::Connection;

use super::{
    batch::{Batch, Sql},
    codes::to_code,
    texts::Text,
};
use crate::store::examine::Strays;

/// Counts the tasks by a scan of all states.
const SCAN: &str = "SELECT kind, code, data_version, owner IS NOT NULL, min(waits, 1), quarantine IS NOT NULL, count(*)
     FROM windlass_states GROUP BY 1, 2, 3, 4, 5, 6";

/// Counts the failed tasks by a scan of their index.
const FAILED: &str =
    "SELECT failure, kind, count(*) AS tasks FROM windlass_states WHERE failure >= 0 GROUP BY 1, 2";

/// Returns the groups whose count differs from that of a scan. Reads all states.
pub(super) fn wrong(conn: &Connection) -> Sql<Strays> {
    let mut wrong = conn.prepare(&format!(
        "WITH scan (kind, code, data_version, claimed, waits, quarantined, tasks) AS ({SCAN}),
             both AS (SELECT *, 0 AS kept FROM scan
                 UNION ALL SELECT kind, code, data_version, claimed, waits, quarantined, 0, tasks FROM windlass_counts)
         SELECT k.kind, b.code, sum(b.tasks), sum(b.kept) FROM both b LEFT JOIN windlass_kinds k ON k.id = b.kind
         GROUP BY b.kind, b.code, b.data_version, b.claimed, b.waits, b.quarantined
         HAVING sum(b.tasks) <> sum(b.kept)"
    ))?;
    let mut strays = wrong_failures(conn)?;
    let rows = wrong.query_map((), |row| {
        let kind = row
            .get::<_, Option<Text>>(0)?
            .map_or_else(|| "unknown".to_owned(), Text::of);
        let (code, tasks, kept): (i64, i64, i64) = (row.get(1)?, row.get(2)?, row.get(3)?);
        let state = to_code(code).map_or_else(|| code.to_string(), |state| state.to_string());
        Ok(format!("{kind} {state}: {kept} instead of {tasks}"))
    })?;
    for row in rows {
        strays.add(row?);
    }
    Ok(strays)
}

/// Returns the groups of failed tasks whose number differs from that of a scan.
fn wrong_failures(conn: &Connection) -> Sql<Strays> {
    let mut wrong = conn.prepare(&format!(
        "WITH both (failure, kind, tasks, kept) AS (SELECT failure, kind, tasks, 0 FROM ({FAILED})
             UNION ALL SELECT failure, kind, 0, tasks FROM windlass_failures)
         SELECT failure, sum(tasks), sum(kept) FROM both GROUP BY failure, kind HAVING sum(tasks) <> sum(kept)"
    ))?;
    let rows = wrong.query_map((), |row| {
        let (failure, tasks, kept): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(format!(
            "failed with the error {failure:012x}: {kept} instead of {tasks}"
        ))
    })?;
    rows.collect()
}

/// Replaces the counts by those of a scan, and returns how many groups were wrong.
pub(super) fn recount(batch: &mut Batch<'_>) -> Sql<u64> {
    batch.write_counts()?;
    let found = wrong(batch.connection())?;
    if found.count > 0 {
        batch.run("DELETE FROM windlass_counts", ())?;
        batch.run("DELETE FROM windlass_failures", ())?;
        batch.connection().execute(
            &format!("INSERT INTO windlass_failures (failure, kind, tasks) {FAILED}"),
            (),
        )?;
        batch.connection().execute(
            &format!("INSERT INTO windlass_counts (kind, code, data_version, claimed, waits, quarantined, tasks) {SCAN}"),
            (),
        )?;
    }
    Ok(found.count)
}
