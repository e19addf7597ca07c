//! [`Wal`]: keeps the write-ahead log (`PATH-wal`) short.
//!
//! SQLite appends every page that a transaction changes to the log. It reuses the log from its start
//! once a checkpoint has copied all of it to the file and no connection reads it. The log is
//! checkpointed when it is about as large as the file, within [`LEAST`] and [`MOST`]: a checkpoint
//! then writes each page of the file about once, and the log at most doubles the space of a store.
//!
//! A checkpoint does not wait for readers. When the log still grows to twice its limit, the writer
//! truncates it, and waits for readers up to [`PATIENCE`]. A transaction that stays open (of a backup,
//! of a shell) keeps the log growing: a warning names the log.
//!
//! The writer also truncates a log that is larger than the free space of its disk: a disk full of log
//! has no room for the pages that a checkpoint adds to the file.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use rusqlite::Connection;

use super::{batch::Sql, errors, file, open_files::OpenFiles, space};
use crate::store::Error;

/// The smallest and the largest limit of the log, in pages. With a larger limit, fewer pages of a large
/// file are written twice.
const LEAST: u64 = 1000;
const MOST: u64 = 10_000;
/// How long a truncation waits for readers. Writes of all processes wait with it.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long the writer waits after a truncation that failed.
const TRY_EVERY: Duration = Duration::from_secs(5);
/// How often a warning about a long log is repeated.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// The log of one file, as its writer keeps it.
pub(super) struct Wal {
    file: PathBuf,
    log: PathBuf,
    page_bytes: u64,
    /// The number of pages at which the log is checkpointed.
    limit: u64,
    /// When a truncation failed last.
    failed: Option<Instant>,
    warned: Option<Instant>,
}

/// Returns the limit for a file of this many pages.
fn limit_of(pages: u64) -> u64 {
    pages.next_multiple_of(LEAST).clamp(LEAST, MOST)
}

impl Wal {
    /// Sets the limit on the connection that writes.
    pub(super) fn new(conn: &Connection, files: &OpenFiles) -> Result<Self, Error> {
        let failed = |error| errors::opening(files.path(), &error);
        let page = conn.pragma_query_value(None, "page_size", |row| row.get::<_, i64>(0));
        let mut wal = Self {
            file: files.path().to_path_buf(),
            log: file::beside(files.path(), "-wal"),
            page_bytes: page.map_err(failed)?.unsigned_abs().max(1),
            limit: 0,
            failed: None,
            warned: None,
        };
        wal.adapt(conn).map_err(failed)?;
        Ok(wal)
    }

    /// Adapts the limit to the size of the file.
    fn adapt(&mut self, conn: &Connection) -> Sql<()> {
        let limit = limit_of(file::length(&self.file) / self.page_bytes);
        if limit == self.limit {
            return Ok(());
        }
        let set = |pragma: String| conn.query_row(&pragma, (), |_| Ok(()));
        set(format!("PRAGMA wal_autocheckpoint = {limit}"))?;
        // The first commit after a checkpoint shortens a longer log to this size.
        let bytes = limit * self.page_bytes;
        set(format!("PRAGMA journal_size_limit = {bytes}"))?;
        self.limit = limit;
        Ok(())
    }

    /// Shortens the log if it has outgrown its limit. The writer calls this between transactions.
    pub(super) fn keep_short(&mut self, conn: &Connection) {
        if let Err(error) = self.adapt(conn) {
            tracing::debug!(%error, "could not set the limit of the log");
        }
        let free = space::free(&self.file).unwrap_or(u64::MAX);
        let most = free.min(2 * self.limit * self.page_bytes);
        let recent = |at: Option<Instant>, every| at.is_some_and(|at| at.elapsed() < every);
        if file::length(&self.log) <= most || recent(self.failed, TRY_EVERY) {
            return;
        }
        let truncated = self.truncate(conn);
        let bytes = file::length(&self.log);
        if bytes <= most {
            return;
        }
        self.failed = Some(Instant::now());
        if !recent(self.warned, WARN_EVERY) {
            self.warned = self.failed;
            tracing::warn!(
                error = truncated.err().map(tracing::field::display),
                log = %self.log.display(),
                bytes,
                "could not truncate the log of the store; look for a program (a backup, a shell) \
                 that keeps a transaction open, and for free space on the disk"
            );
        }
    }

    /// Copies the log to the file and truncates it, unless a reader keeps it open.
    fn truncate(&self, conn: &Connection) -> Sql<()> {
        conn.busy_timeout(PATIENCE)?;
        let done = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()));
        // The writer waits for locks itself.
        conn.busy_timeout(Duration::ZERO)?;
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_follows_the_size_of_the_file() {
        for (pages, limit) in [
            (0, 1000),
            (1000, 1000),
            (1001, 2000),
            (9001, 10_000),
            (u64::MAX / 2, 10_000),
        ] {
            assert_eq!(limit_of(pages), limit, "{pages} pages");
        }
    }
}
