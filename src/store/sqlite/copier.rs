//! [`Copier`]: copies the write-ahead log to the file while transactions continue.
//!
//! A separate thread copies what has been committed. The writer adds to the log in the meantime, so the
//! thread copies again until little is left. The writer copies the rest between two transactions, and the
//! log starts again. So no transaction waits until thousands of pages are on the disk.

use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rusqlite::Connection;

use super::{batch::Sql, open, open_files::OpenFiles, settings::Settings};

/// The writer copies at most about this many pages itself.
const FEW: u64 = 100;
/// How many times the thread copies in a row, if each time leaves less than half.
const TURNS: u32 = 6;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Idle,
    /// The thread copies.
    Copying,
    /// The thread has copied as much as it could.
    Copied,
    Stopped,
}

/// What the threads share.
struct Shared {
    stage: Mutex<Stage>,
    changed: Condvar,
    /// The number of pages in the log, by the last transaction of the writer.
    pages: Arc<AtomicU64>,
    /// The duration of the thread's last copy, in microseconds.
    took: AtomicU64,
}

impl Shared {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, stage: Stage) {
        *self.stage() = stage;
        self.changed.notify_all();
    }

    fn pages(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }
}

/// The handle of the thread, which starts when it is first needed. Dropping the handle ends the thread.
pub(super) struct Copier {
    shared: Arc<Shared>,
    files: Arc<OpenFiles>,
    settings: Settings,
    thread: Option<JoinHandle<()>>,
}

impl Copier {
    pub(super) fn new(files: Arc<OpenFiles>, settings: Settings, pages: Arc<AtomicU64>) -> Self {
        let shared = Shared {
            stage: Mutex::new(Stage::Idle),
            changed: Condvar::new(),
            pages,
            took: AtomicU64::new(0),
        };
        Self {
            shared: Arc::new(shared),
            files,
            settings,
            thread: None,
        }
    }

    pub(super) fn stage(&self) -> Stage {
        *self.shared.stage()
    }

    /// Returns the duration of the thread's last copy.
    pub(super) fn took(&self) -> Duration {
        Duration::from_micros(self.shared.took.load(Ordering::Relaxed))
    }

    /// Starts to copy. If the thread cannot be started, nothing is copied, and the writer copies
    /// everything.
    pub(super) fn start(&mut self) {
        self.shared.set(Stage::Copying);
        if self.thread.is_some() {
            return;
        }
        let (shared, files, settings) = (self.shared.clone(), self.files.clone(), self.settings);
        let thread = std::thread::Builder::new()
            .name("windlass-sqlite-copy".into())
            .spawn(move || run(&shared, &files, settings));
        match thread {
            Ok(thread) => self.thread = Some(thread),
            Err(error) => {
                tracing::debug!(%error, "could not start the thread that copies the log");
                self.shared.set(Stage::Copied);
            }
        }
    }

    /// The writer has copied the rest.
    pub(super) fn finish(&self) {
        self.shared.set(Stage::Idle);
    }

    /// Waits until the thread has stopped copying, at most for this long.
    pub(super) fn wait(&self, patience: Duration) {
        let copies = |stage: &mut Stage| *stage == Stage::Copying;
        let stage = self.shared.stage();
        drop(
            self.shared
                .changed
                .wait_timeout_while(stage, patience, copies),
        );
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        self.shared.set(Stage::Stopped);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported where it happened.
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared, files: &OpenFiles, settings: Settings) {
    let mut conn = None;
    loop {
        let idle = |stage: &mut Stage| matches!(stage, Stage::Idle | Stage::Copied);
        let waited = shared.changed.wait_while(shared.stage(), idle);
        if *waited.unwrap_or_else(PoisonError::into_inner) == Stage::Stopped {
            return;
        }
        if conn.is_none() {
            conn = open::reader(files, settings).ok();
        }
        let begun = Instant::now();
        let copied = conn.as_ref().map(|conn| copy(conn, shared));
        let took = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        shared.took.store(took, Ordering::Relaxed);
        if let Some(Err(error)) = copied {
            tracing::debug!(%error, "could not copy the log; the writer copies it");
            conn = None;
        }
        let mut stage = shared.stage();
        if *stage == Stage::Copying {
            *stage = Stage::Copied;
        }
        shared.changed.notify_all();
    }
}

/// Copies until little is left, until as much was written in the meantime, or until a reader keeps the
/// rest in the log.
fn copy(conn: &Connection, shared: &Shared) -> Sql<()> {
    let mut before = u64::MAX;
    for _ in 0..TURNS {
        let (log, copied) = checkpoint(conn)?;
        let left = shared.pages().saturating_sub(copied);
        let is_useless = left <= FEW || left > before / 2;
        if copied < log || is_useless || *shared.stage() == Stage::Stopped {
            break;
        }
        before = left;
    }
    Ok(())
}

/// Copies the pages that no reader needs in the log. Returns how many are in the log, and how many of them
/// have been copied.
pub(super) fn checkpoint(conn: &Connection) -> Sql<(u64, u64)> {
    conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", (), |row| {
        let number = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
        Ok((number(1)?, number(2)?))
    })
}
