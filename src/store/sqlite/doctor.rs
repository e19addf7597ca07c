//! [`Doctor`]: the examination of a file.

mod nodes;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension as _};

use super::{
    SqliteStore,
    batch::Sql,
    codes::time,
    copied, dependencies,
    errors::Stop,
    file, file_identity, inbox,
    inconsistent::{self, Repaired},
    modes::{only_read, permissions},
    schema,
    space::free,
    texts::Text,
    wal,
};
use crate::store::{
    Advice, Doctor, Error, Remedy,
    examine::{Examination, Finding, Latency, Verdict, circle, joined_ahead, seconds_ahead},
};

const CALLS: usize = 10;
/// The size of a log that is written back too rarely, in bytes.
const LARGE_WAL: u64 = 256 << 20;
/// How long a repair waits for another connection that copies the log.
const WRITE_BACK_WITHIN: Duration = Duration::from_secs(5);
/// How often a repair checks whether the other connection has copied the log.
const COPY_STEP: Duration = Duration::from_millis(5);
/// How often a repair tries to truncate a log that a reader keeps.
const WRITE_BACK_TRIES: u32 = 3;

#[async_trait]
impl Doctor for SqliteStore {
    async fn examine(&self, how: &Examination) -> Result<Vec<Finding>, Error> {
        let inner = &self.0;
        let (clock, full) = (inner.lease_clock.clone(), how.full);
        let tables = self.tables(how.repair).await?;
        if tables.verdict != Verdict::Ok {
            // Most other checks need every table, column and index.
            let read = move |conn: &_| Ok(integrity(conn, full)?);
            let integrity = inner.readers.run("examine the store", read).await?;
            let findings = [
                tables,
                integrity,
                permissions(&inner.path),
                space(&inner.path),
            ];
            return Ok(findings.into());
        }
        let writes = !inner.writer.refuses();
        // Before anything is written, because the next write ends expired leases.
        let read = inner.readers.run("examine the store", move |conn| {
            let mut findings = first(conn, full)?;
            // Only a program that writes turns the write-ahead log on.
            findings.retain(|finding| writes || finding.check != "journal");
            Ok((findings, inconsistent::find(conn)?))
        });
        let (mut findings, inconsistent) = read.await?;
        findings.push(self.nodes(&clock).await?);
        let (mut reads, mut writes) = (Latency::default(), Latency::default());
        for _ in 0..CALLS {
            let read = inner.readers.run("read the schema's version", |conn| {
                Ok(schema::stored(conn)?)
            });
            reads.measure(read).await?;
            if inner.writer.refuses() {
                continue;
            }
            // A different value each time, because SQLite skips a page that stays the same.
            let write = inner
                .writer
                .run("write the mark of an examination", 1, |batch| {
                    batch.run(
                        "INSERT OR REPLACE INTO windlass_meta (name, value)
                     VALUES ('examined', hex(randomblob(8)))",
                        (),
                    )
                });
            match writes.measure(write).await {
                Ok(_) => {}
                // The other checks, which only read, show the cause.
                Err(error) if error.is_retryable() => {
                    findings.push(not_written(&error));
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        findings.insert(0, Latency::finding(reads, writes));
        findings.insert(2, tables);
        let mut repaired = Repaired::default();
        if how.repair {
            let repair = inner
                .writer
                .run("repair the store", 1, inconsistent::repair);
            repaired = repair.await?;
        }
        findings.extend(inconsistent.findings(&repaired));
        findings.push(log(&inner.path, self, how.repair).await?);
        findings.push(permissions(&inner.path));
        if inner.writer.refuses() {
            findings.push(only_read(&inner.path, Self::is_writable(&inner.path)));
        }
        findings.push(space(&inner.path));
        Ok(findings)
    }
}

impl SqliteStore {
    /// Compares the tables of the file with those of this program, and recreates missing indexes on request.
    async fn tables(&self, repair: bool) -> Result<Finding, Error> {
        let inner = &self.0;
        let compare = async || {
            let read = |conn: &_| Ok(schema::differences(conn)?);
            inner.readers.run("compare the tables", read).await
        };
        let before: schema::Differences = compare().await?;
        if before.is_empty() || !repair {
            return Ok(before.finding(0));
        }
        let repaired = inner
            .writer
            .run("repair the tables", 1, |batch| schema::repair(batch));
        let repaired = repaired.await?;
        Ok(compare().await?.finding(repaired))
    }
}

/// Returns the finding for a store that accepts no writes.
fn not_written(error: &Error) -> Finding {
    let advice = "no task makes progress until writes succeed: look at the finding `space`, and for a \
                  program that keeps the file locked";
    Finding::new("writes", Verdict::Error, error.to_string(), advice)
}

/// Examines the file and the clock.
fn first(conn: &Connection, full: bool) -> Result<Vec<Finding>, Stop> {
    let mut findings = vec![Finding::ok(
        "version",
        format!(
            "schema {} (this program: {}), SQLite {}",
            schema::stored(conn)?,
            schema::VERSION,
            rusqlite::version()
        ),
    )];
    findings.push(integrity(conn, full)?);
    let mode: String = conn.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    findings.push(journal(&mode));
    findings.push(clocks(conn)?);
    findings.push(inbox::finding(conn)?);
    findings.extend(copied::finding(conn)?);
    findings.push(circle::finding(&dependencies::waiting(conn)?));
    Ok(findings)
}

/// Checks the integrity. The quick check reads every page; the full one also compares each index
/// with its table.
fn integrity(conn: &Connection, full: bool) -> Sql<Finding> {
    let (check, whole) = if full {
        (
            "PRAGMA integrity_check(5)",
            "the file is whole (full check)",
        )
    } else {
        (
            "PRAGMA quick_check(5)",
            "the file is whole (quick check; a full one also compares the indexes)",
        )
    };
    let lines = conn
        .prepare(check)?
        .query_map((), |row| row.get(0).map(Text::of))
        .and_then(Iterator::collect::<Sql<Vec<String>>>);
    let lines = match lines {
        Ok(lines) if full && lines == ["ok"] => {
            partial_indexes(conn).map(|wrong| match wrong.is_empty() {
                true => lines,
                false => wrong,
            })
        }
        lines => lines,
    };
    let damaged = "stop every program that uses the file, copy it with its -wal, and restore a \
                   backup, or save what can be read: sqlite3 FILE .recover | sqlite3 new.db";
    let wrong = match lines {
        Ok(lines) if lines == ["ok"] => return Ok(Finding::ok("integrity", whole)),
        Ok(lines) => lines.join("; "),
        Err(error) => error.to_string(),
    };
    Ok(Finding::new("integrity", Verdict::Error, wrong, damaged))
}

/// Returns what is wrong with partial indexes. For these, SQLite's own check compares only the number of entries
/// (since 3.54 at the latest).
fn partial_indexes(conn: &Connection) -> Sql<Vec<String>> {
    let mut partial = conn.prepare(
        "SELECT name, tbl_name, substr(sql, instr(upper(sql), ' WHERE ') + 7) FROM sqlite_schema
         WHERE type = 'index' AND instr(upper(sql), ' WHERE ') > 0 AND name LIKE 'windlass\\_%' ESCAPE '\\'",
    )?;
    let text = |row: &rusqlite::Row<'_>, column| row.get(column).map(Text::of);
    let read = |row: &rusqlite::Row<'_>| Ok((text(row, 0)?, text(row, 1)?, text(row, 2)?));
    let partial: Vec<(String, String, String)> =
        partial.query_map((), read)?.collect::<Sql<_>>()?;
    let count = |sql: &str| conn.query_row(sql, (), |row| row.get::<_, i64>(0));
    let mut wrong = Vec::new();
    for (index, table, part) in partial {
        let entries = count(&format!(
            "SELECT count(*) FROM {table} INDEXED BY {index} WHERE {part}"
        ))?;
        let rows = count(&format!(
            "SELECT count(*) FROM {table} NOT INDEXED WHERE {part}"
        ))?;
        if entries != rows {
            wrong.push(format!(
                "{entries} entries in index {index} for {rows} rows"
            ));
        }
    }
    Ok(wrong)
}

fn journal(mode: &str) -> Finding {
    if mode == "wal" {
        return Finding::ok("journal", "write-ahead log");
    }
    let advice = "open the file with windlass: it turns the write-ahead log on";
    Finding::new("journal", Verdict::Error, format!("mode {mode}"), advice)
}

/// Examines whether the newest changes are in the future of this clock.
fn clocks(conn: &Connection) -> Result<Finding, Stop> {
    let of_nodes = "SELECT node, joined_at FROM windlass_leases WHERE ended_at IS NULL ORDER BY joined_at DESC LIMIT 1";
    let last = conn.query_row(of_nodes, (), |row| {
        Ok((row.get::<_, Text>(0)?.0, row.get(1)?))
    });
    let now = jiff::Timestamp::now();
    let node = last.optional()?;
    if let Some(found) = node.and_then(|(node, joined)| joined_ahead(&node, time(joined), now)) {
        return Ok(found);
    }
    let newest: Option<i64> = conn.query_row(
        "SELECT max(at) FROM windlass_changes WHERE seq > (SELECT max(seq) FROM windlass_changes) - 100",
        (),
        |row| row.get(0),
    )?;
    let ahead = newest.and_then(|newest| seconds_ahead(time(newest), now));
    let Some(ahead) = ahead else {
        return Ok(Finding::ok("clock", "nothing was written in the future"));
    };
    let found = format!("the newest change was written {ahead} s in the future of this clock");
    let advice = "the clock of this machine is behind, or that of another program was ahead: wake-ups follow them. \
                  `nodes` names a live node whose clock is ahead";
    Ok(Finding::new("clock", Verdict::Warning, found, advice))
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

fn bytes_of(path: &Path, ending: &str) -> u64 {
    file_identity::length(&file::beside(path, ending))
}

/// Examines the log of the file, and writes it back on request.
async fn log(path: &Path, store: &SqliteStore, repair: bool) -> Result<Finding, Error> {
    let before = bytes_of(path, "-wal");
    let mut is_kept = false;
    if repair {
        let checkpoint = store.0.readers.run("write the log back", |conn| {
            conn.pragma_update(None, "query_only", false)?;
            let done = write_back(conn);
            conn.pragma_update(None, "query_only", true)?;
            Ok(done?)
        });
        is_kept = !checkpoint.await.unwrap_or(true);
    }
    let bytes = bytes_of(path, "-wal");
    if is_kept && bytes > 0 {
        let found = format!("{}; a program that reads keeps it", mib(bytes));
        let advice = "writes continue; repeat the repair when no backup and no shell keeps a transaction open";
        return Ok(Finding::new("log", Verdict::Warning, found, advice));
    }
    if bytes < LARGE_WAL {
        let mut finding = Finding::ok("log", mib(bytes));
        finding.repaired = u64::from(repair && bytes < before);
        return Ok(finding);
    }
    let advice = "a program keeps a transaction open, so that the log cannot be written back: look \
                  for a backup or a shell; a repair tries to write it back";
    let advice = Advice::new(advice, Remedy::Repair);
    Ok(Finding::new("log", Verdict::Warning, mib(bytes), advice))
}

/// Writes the whole log to the file and truncates it. Waits while another connection copies the log, and
/// tries a few times while a reader keeps it; writers wait during each try. Returns whether it was
/// truncated.
fn write_back(conn: &Connection) -> Sql<bool> {
    let usual: u32 = conn.pragma_query_value(None, "busy_timeout", |row| row.get(0))?;
    conn.busy_timeout(wal::PATIENCE)?;
    let done = try_to_write_back(conn);
    conn.busy_timeout(Duration::from_millis(usual.into()))?;
    done
}

fn try_to_write_back(conn: &Connection) -> Sql<bool> {
    let until = Instant::now() + WRITE_BACK_WITHIN;
    let mut kept = 0;
    loop {
        let (is_busy, pages): (bool, i64) =
            conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        // The number of pages is unknown while another connection copies the log.
        let is_copied = pages < 0;
        kept += u32::from(is_busy && !is_copied);
        if !is_busy {
            return Ok(true);
        }
        if kept == WRITE_BACK_TRIES || Instant::now() >= until {
            return Ok(false);
        }
        std::thread::sleep(if is_copied { COPY_STEP } else { wal::PATIENCE });
    }
}

fn space(path: &Path) -> Finding {
    let size = bytes_of(path, "") + bytes_of(path, "-wal");
    let Some(free) = free(path) else {
        let found = format!("{}; the free space is not known", mib(size));
        return Finding::new("space", Verdict::Unknown, found, "");
    };
    let found = format!("{}, {} free on that disk", mib(size), mib(free));
    evaluate_space(size, free, found)
}

/// Evaluates the free space. A full disk stops every write, and compacting a file temporarily needs
/// its size again.
fn evaluate_space(size: u64, free: u64, found: String) -> Finding {
    let advice = "free space on that disk: deletions and purges need space, too";
    let verdict = match free {
        free if free < 32 << 20 => Verdict::Error,
        free if free < size.max(256 << 20) => Verdict::Warning,
        _ => return Finding::ok("space", found),
    };
    Finding::new("space", verdict, found, advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nearly_full_disk_is_reported() {
        let verdict = |size, free| evaluate_space(size, free, String::new()).verdict;
        assert_eq!(verdict(1 << 20, 1 << 30), Verdict::Ok);
        assert_eq!(verdict(1 << 20, 200 << 20), Verdict::Warning);
        assert_eq!(verdict(1 << 40, 1 << 30), Verdict::Warning);
        assert_eq!(verdict(1 << 20, 1 << 20), Verdict::Error);
    }

    /// A file cannot be put into this mode while a store has it open.
    #[test]
    fn another_journal_mode_is_reported() {
        assert_eq!(journal("wal").verdict, Verdict::Ok);
        let finding = journal("delete");
        assert_eq!(
            (finding.verdict, &*finding.found),
            (Verdict::Error, "mode delete")
        );
        assert!(finding.advice.contains("open the file with windlass"));
    }
}
