//! [`Wal`]: keeps the write-ahead log (`PATH-wal`) short.
//!
//! SQLite appends every page that a transaction changes to the log. It reuses the log from its start
//! once a checkpoint has copied all of it to the file and no connection reads it. The log is
//! checkpointed when it is about as large as the file, within [`LEAST`] and [`MOST`]: a checkpoint
//! then writes each page of the file about once, and the log at most doubles the space of a store. A
//! thread does most of the work ([`Copier`]), or the writer, if the log fills quickly ([`RUSH`]).
//!
//! A checkpoint does not wait for readers. If the log grows to twice its limit, the writer truncates it, and
//! waits for readers up to [`PATIENCE`]. Readers that overlap can keep the log in use for longer, so the
//! writer waits twice as long each time the log has doubled, up to [`LONGEST_PATIENCE`]. A transaction that
//! stays open (of a backup, or a shell) makes the log grow further: a warning names the log.
//!
//! The writer also truncates a log that is larger than the free space on its disk: a disk full of log
//! has no room for the pages that a checkpoint adds to the file.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicU64},
    time::{Duration, Instant},
};

use rusqlite::Connection;

use super::{
    batch::Sql,
    copier::{self, Copier, Stage},
    errors, file, file_identity, log_pages,
    open_files::OpenFiles,
    settings::Settings,
    space,
};
use crate::store::Error;

/// The smallest and the largest limit of the log, in pages. With a larger limit, fewer pages of a large
/// file are written twice.
const LEAST: u64 = 1000;
const MOST: u64 = 10_000;
/// The bytes before each page in the log.
const FRAME_HEADER: u64 = 24;
/// The number of steps in which the thread copies a log that reaches its limit. Each step ends with a
/// sync of the file, for which the syncs of transactions wait; more steps make it shorter.
const STEPS: u64 = 5;
/// How many times longer than the last step the thread pauses, unless the log reaches its limit. A
/// page that is written again and again is copied by each step: without pauses, 1,000 busy tasks
/// lose a third of their rate.
const REST: u32 = 19;
/// The longest pause: the load may have changed by then.
const LONGEST_REST: Duration = Duration::from_millis(500);
/// The writer itself copies a log of [`MOST`] pages that fills within this time. If the thread copied
/// it, much would be added in the meantime, usually to the same pages, and the writer would copy these
/// once more.
const RUSH: Duration = Duration::from_millis(250);
/// How long a truncation waits for readers. Writes of all processes wait with it.
pub(super) const PATIENCE: Duration = Duration::from_millis(100);
/// The longest wait, for a log that has doubled several times.
const LONGEST_PATIENCE: Duration = Duration::from_secs(1);
/// How long a truncation waits for the thread that copies.
const COPIED_WITHIN: Duration = Duration::from_secs(1);
/// How long the writer waits after a failed truncation, unless the log doubles.
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
    /// The number of pages in the log, by the last transaction.
    pages: Arc<AtomicU64>,
    /// The number of pages at the last check.
    seen: u64,
    /// The number of pages at which the thread copies next.
    next: u64,
    /// When the log last started again.
    began: Instant,
    /// When the thread's pause ends.
    rested: Instant,
    copier: Copier,
    stuck: Option<Stuck>,
    warned: Option<Instant>,
}

/// A log that readers have kept from being truncated.
struct Stuck {
    /// When a truncation was last tried.
    at: Instant,
    /// The size of the log when a truncation was tried with this patience.
    bytes: u64,
    patience: Duration,
}

impl Stuck {
    /// Returns how long to wait for readers in a truncation of a log of this size now, and what to remember if it
    /// fails. `None` if no truncation is due.
    fn again(before: Option<&Self>, bytes: u64, now: Instant) -> Option<(Duration, Self)> {
        let next = |bytes, patience| Self {
            at: now,
            bytes,
            patience,
        };
        match before {
            None => Some((PATIENCE, next(bytes, PATIENCE))),
            Some(stuck) if bytes >= 2 * stuck.bytes => {
                let patience = (2 * stuck.patience).min(LONGEST_PATIENCE);
                Some((patience, next(bytes, patience)))
            }
            Some(stuck) if now.duration_since(stuck.at) >= TRY_EVERY => {
                Some((PATIENCE, next(stuck.bytes, stuck.patience)))
            }
            Some(_) => None,
        }
    }
}

/// Returns the limit for a file of this many pages.
fn limit_of(pages: u64) -> u64 {
    pages.next_multiple_of(LEAST).clamp(LEAST, MOST)
}

impl Wal {
    /// Sets the limit on the connection that writes.
    pub(super) fn new(
        conn: &mut Connection,
        files: &Arc<OpenFiles>,
        settings: Settings,
    ) -> Result<Self, Error> {
        let failed = |error| errors::opening(files.path(), &error);
        log_pages::count(conn).map_err(failed)?;
        let pages = Arc::default();
        let page = conn.pragma_query_value(None, "page_size", |row| row.get::<_, i64>(0));
        let mut wal = Self {
            file: files.path().to_path_buf(),
            log: file::beside(files.path(), "-wal"),
            page_bytes: page.map_err(failed)?.unsigned_abs().max(1),
            limit: 0,
            copier: Copier::new(files.clone(), settings, Arc::clone(&pages)),
            pages,
            seen: 0,
            next: LEAST / STEPS,
            began: Instant::now(),
            rested: Instant::now(),
            stuck: None,
            warned: None,
        };
        wal.adapt(conn).map_err(failed)?;
        Ok(wal)
    }

    /// Adapts the limit to the size of the file.
    fn adapt(&mut self, conn: &Connection) -> Sql<()> {
        let limit = limit_of(file_identity::length(&self.file) / self.page_bytes);
        if limit == self.limit {
            return Ok(());
        }
        let set = |pragma: String| conn.query_row(&pragma, (), |_| Ok(()));
        // The first commit after a checkpoint shortens a longer log to this size. A log that reaches its limit, and
        // slightly more while it is copied, keeps its size: extending it again would cost each sync a write of the
        // inode.
        let bytes = (limit + limit / 4) * (self.page_bytes + FRAME_HEADER);
        set(format!("PRAGMA journal_size_limit = {bytes}"))?;
        self.limit = limit;
        Ok(())
    }

    /// Shortens the log if it has outgrown its limit. The writer calls this between transactions.
    pub(super) fn keep_short(&mut self, conn: &Connection) {
        if let Err(error) = self.adapt(conn) {
            tracing::debug!(%error, "could not set the limit of the log");
        }
        if let Err(error) = self.checkpoint(conn) {
            tracing::debug!(%error, "could not checkpoint the log");
        }
        let free = space::free(&self.file).unwrap_or(u64::MAX);
        let most = free.min(2 * self.limit * self.page_bytes);
        let bytes = file_identity::length(&self.log);
        if bytes <= most {
            self.stuck = None;
            return;
        }
        let now = Instant::now();
        let Some((patience, stuck)) = Stuck::again(self.stuck.as_ref(), bytes, now) else {
            return;
        };
        self.copier.wait(COPIED_WITHIN);
        let truncated = self.truncate(conn, patience);
        let bytes = file_identity::length(&self.log);
        if bytes <= most {
            self.stuck = None;
            return;
        }
        self.stuck = Some(stuck);
        if self.warned.is_none_or(|at| at.elapsed() >= WARN_EVERY) {
            self.warned = Some(now);
            tracing::warn!(
                error = truncated.err().map(tracing::field::display),
                log = %self.log.display(),
                bytes,
                "could not truncate the log of the store; look for a program (a backup, a shell) \
                 that keeps a transaction open, and for free space on the disk"
            );
        }
    }

    /// Has the thread copy the log step by step. At the limit, copies what is left: the next transaction
    /// starts the log again.
    fn checkpoint(&mut self, conn: &Connection) -> Sql<()> {
        let (before, pages) = (self.seen, log_pages::latest(&self.pages));
        self.seen = pages;
        if pages < before {
            // The log has started again.
            self.next = self.limit / STEPS;
            self.began = Instant::now();
        }
        let is_full = pages >= self.limit;
        match self.copier.stage() {
            Stage::Idle if pages < self.next => {}
            Stage::Idle if is_full && self.limit == MOST && self.began.elapsed() < RUSH => {
                let begun = Instant::now();
                copier::checkpoint(conn)?;
                self.is_copied(pages, begun.elapsed());
            }
            Stage::Idle if is_full || Instant::now() >= self.rested => self.copier.start(),
            Stage::Idle | Stage::Copying | Stage::Stopped => {}
            Stage::Copied => {
                self.copier.finish();
                self.is_copied(pages, self.copier.took());
                if is_full {
                    copier::checkpoint(conn)?;
                }
            }
        }
        Ok(())
    }

    fn is_copied(&mut self, pages: u64, took: Duration) {
        self.next = pages + self.limit / STEPS;
        self.rested = Instant::now() + (REST * took).min(LONGEST_REST);
    }

    /// Copies the log to the file and truncates it, unless a reader keeps it open.
    fn truncate(&self, conn: &Connection, patience: Duration) -> Sql<()> {
        conn.busy_timeout(patience)?;
        let done = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()));
        // The writer waits for locks itself.
        conn.busy_timeout(Duration::ZERO)?;
        done
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

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

    #[test]
    fn a_log_that_doubles_is_truncated_with_more_patience_and_others_every_few_seconds() {
        let start = Instant::now();
        let (waits, mut stuck) = Stuck::again(None, 10, start).unwrap();
        assert_eq!((waits, stuck.bytes), (PATIENCE, 10));
        assert!(Stuck::again(Some(&stuck), 19, start).is_none());
        for (bytes, times) in [(20, 2), (40, 4), (80, 8), (160, 10), (320, 10)] {
            let waits;
            (waits, stuck) = Stuck::again(Some(&stuck), bytes, start).unwrap();
            assert_eq!((waits, stuck.bytes), (times * PATIENCE, bytes));
        }
        let later = start + TRY_EVERY;
        let (waits, again) = Stuck::again(Some(&stuck), 639, later).unwrap();
        assert_eq!((waits, again.at, again.bytes), (PATIENCE, later, 320));
        let (waits, _) = Stuck::again(Some(&again), 640, later).unwrap();
        assert_eq!(waits, LONGEST_PATIENCE);
    }

    fn write_pages(conn: &Connection, pages: u64) {
        let bytes = pages * 4096;
        conn.execute("REPLACE INTO fill VALUES (1, zeroblob(?1))", [bytes as i64])
            .unwrap();
    }

    /// A transaction that reached the limit once copied the whole log, and all others waited for it.
    #[test]
    fn a_thread_copies_the_log_and_the_writer_only_what_came_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tasks.db");
        let options = super::super::Options::default();
        let (files, mut conn) = super::super::open::writer(&path, &options).unwrap();
        let mut wal = Wal::new(&mut conn, &files, Settings::of(&options)).unwrap();
        conn.execute_batch("CREATE TABLE fill (n INTEGER PRIMARY KEY, data BLOB)")
            .unwrap();
        write_pages(&conn, 100);
        wal.keep_short(&conn);
        assert_eq!(wal.copier.stage(), Stage::Idle);
        write_pages(&conn, LEAST);
        let copied = file_identity::length(&path);
        assert!(copied < LEAST * 4096, "the transaction copied its pages");
        wal.keep_short(&conn);
        wal.copier.wait(Duration::from_secs(60));
        assert_eq!(wal.copier.stage(), Stage::Copied);
        assert!(file_identity::length(&path) >= LEAST * 4096);
        // These came while the thread copied.
        write_pages(&conn, 10);
        wal.keep_short(&conn);
        assert_eq!(wal.copier.stage(), Stage::Idle);
        write_pages(&conn, 10);
        let pages = log_pages::latest(&wal.pages);
        assert!(pages < 100, "{pages}: the log starts again");
    }

    /// Steps copied the pages that 1,000 tasks write again and again five times as often.
    #[test]
    fn the_thread_rests_between_its_steps_until_the_log_is_full() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tasks.db");
        let options = super::super::Options::default();
        let (files, mut conn) = super::super::open::writer(&path, &options).unwrap();
        let mut wal = Wal::new(&mut conn, &files, Settings::of(&options)).unwrap();
        let mut stage_at = |pages: u64, rest: Duration, age: Duration| {
            wal.copier.wait(Duration::from_secs(60));
            wal.copier.finish();
            wal.next = LEAST / STEPS;
            wal.rested = Instant::now() + rest;
            wal.began = Instant::now().checked_sub(age).unwrap();
            wal.pages.store(pages, Ordering::Relaxed);
            wal.checkpoint(&conn).unwrap();
            wal.copier.stage()
        };
        let (none, hour) = (Duration::ZERO, Duration::from_secs(3600));
        assert_eq!(stage_at(LEAST / STEPS - 1, none, RUSH), Stage::Idle);
        assert_ne!(stage_at(LEAST / STEPS, none, RUSH), Stage::Idle);
        assert_eq!(stage_at(LEAST - 1, hour, RUSH), Stage::Idle, "it rests");
        assert_ne!(stage_at(LEAST, hour, RUSH), Stage::Idle, "the log is full");
        assert_ne!(stage_at(LEAST, hour, none), Stage::Idle, "the log is short");
        wal.copier.wait(Duration::from_secs(60));
        wal.copier.finish();
        wal.limit = MOST;
        wal.began = Instant::now();
        wal.pages.store(MOST, Ordering::Relaxed);
        wal.checkpoint(&conn).unwrap();
        let stage = wal.copier.stage();
        assert_eq!(stage, Stage::Idle, "the writer has copied it");
        assert!(wal.next > MOST && wal.rested <= Instant::now() + LONGEST_REST);
    }

    #[test]
    fn pages_that_a_reader_needs_are_copied_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tasks.db");
        let options = super::super::Options::default();
        let (files, mut conn) = super::super::open::writer(&path, &options).unwrap();
        let mut wal = Wal::new(&mut conn, &files, Settings::of(&options)).unwrap();
        conn.execute_batch("CREATE TABLE fill (n INTEGER PRIMARY KEY, data BLOB)")
            .unwrap();
        let reader = super::super::open::reader(&files, Settings::of(&options));
        let reader = reader.unwrap_or_else(|_| panic!("no reader"));
        reader.execute_batch("BEGIN; SELECT * FROM fill").unwrap();
        write_pages(&conn, LEAST);
        let mut turn = |conn: &Connection| {
            wal.keep_short(conn);
            wal.copier.wait(Duration::from_secs(60));
            wal.keep_short(conn);
            let pages = log_pages::latest(&wal.pages);
            (wal.copier.stage(), wal.next > pages)
        };
        assert_eq!(turn(&conn), (Stage::Idle, true));
        // It is not tried again with each transaction.
        write_pages(&conn, 10);
        assert_eq!(turn(&conn), (Stage::Idle, true));
        reader.execute_batch("COMMIT").unwrap();
        write_pages(&conn, LEAST / 5);
        turn(&conn);
        write_pages(&conn, 10);
        turn(&conn);
        let pages = log_pages::latest(&wal.pages);
        assert!(pages < 100, "{pages}: the log starts again");
    }
}
