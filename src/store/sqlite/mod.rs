//! The embedded store: one SQLite file, which several processes of one machine can use at once.
//!
//! # Flow
//!
//! 1. [`SqliteStore::open`] opens the file (WAL), makes its tables if it has none, and starts two
//!    threads: one writes, one watches.
//! 2. While the disk syncs a transaction, further writes wait, and go into the next one together:
//!    many transitions share one sync.
//! 3. Each change is a row of one log. The log is the history of the tasks and the feed of the clients,
//!    and the watches of all processes resume from it. The fence of a claim is its number in the log
//!    plus an offset, which imports raise.
//!
//! # Guarantees
//!
//! - An acknowledged write is on the disk ([`Synchronous::Full`], the default).
//! - A write whose transaction failed changes nothing and returns [`Error::Unavailable`]: a full disk
//!   loses nothing.
//! - Leases end by the monotonic clock of the machine, which all processes share. After a restart of
//!   the machine all leases have ended.
//!
//! # Assumptions
//!
//! - The file is on a local disk. Network file systems do not keep SQLite's locks.
//! - The processes run on one machine, since its last start. Containers that share the file also share
//!   the clock, unless they have their own time namespace.
//!
//! # Errors
//!
//! [`Error::Unusable`] when a newer version or one before 0.1 wrote the file, or when the file is damaged or cannot
//! be written; [`Error::OldSqlite`] when the program uses a SQLite library that can corrupt the file. Their texts say
//! what to do.

mod audit;
mod backup;
mod batch;
mod boot;
mod change_rows;
mod claim;
mod claim_cache;
mod codes;
mod columns;
mod command;
mod commit;
mod coordinator;
mod copied;
mod copier;
mod counts;
mod delete;
mod dependencies;
mod doctor;
mod errors;
mod failures;
mod feed;
mod file;
mod file_identity;
mod file_watch;
mod history;
mod hub;
pub mod inbox;
mod inbox_watch;
mod inconsistent;
mod jobs;
mod last_look;
mod lease;
mod library;
mod limits;
mod list;
mod location;
mod log_lines;
mod log_pages;
mod modes;
mod moment;
mod node;
mod open;
mod open_files;
mod process;
mod progress;
mod query;
mod read_changes;
mod read_counts;
mod readers;
mod recount;
mod registry;
mod reschedule;
mod retention;
mod retry;
mod rows;
mod schema;
mod settings;
mod space;
mod state_store;
mod submit;
mod texts;
mod transaction;
mod transfer;
mod values;
mod views;
mod wake;
mod wal;
mod watch;
mod worker;
mod writer;

use std::{fmt, path::Path, sync::Arc, time::Duration};

use boot::LeaseClock;
pub use errors::Failure;
use hub::Hub;
use last_look::LastLook;
pub use location::Location;
use readers::Readers;
/// The SQLite library that windlass uses, for [`inbox::submit`].
pub use rusqlite;
use settings::Settings;
pub use state_store::SqliteStates;
use wal::Wal;
use writer::Writer;

use super::{Error, Limits, retention::PruneClock};
use crate::clock::Clock;

/// The moment at which a write counts as durable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Synchronous {
    /// When the disk reports that it is written. Acknowledged writes survive a power failure.
    #[default]
    Full,
    /// When the operating system has accepted it, which allows several times as many small writes a
    /// second. Acknowledged writes survive a crash of the program. A power failure may lose the latest
    /// ones, but does not damage the file.
    Normal,
}

/// The options with which a store is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// When a write counts as durable: [`Synchronous::Full`] by default.
    pub synchronous: Synchronous,
    /// How long to wait for another process that has locked the file: 5 s by default.
    pub busy_timeout: Duration,
    /// The limits of the store.
    pub limits: Limits,
    /// The page cache of the writer in MiB: 200 by default.
    pub cache_mib: u32,
    /// The size up to which this process may grow the file; `None`, the default, for no limit. At
    /// this size, writes return [`Error::Unavailable`] until tasks are purged.
    pub max_file_bytes: Option<u64>,
    /// The id of another process that also holds the leases of this process: `None` by default.
    ///
    /// Other processes take over the tasks of a process that has ended, without waiting for the end of
    /// its lease. Set this to a supervisor that stops what its process has started: other processes
    /// then wait until both have ended, or the lease has.
    pub supervisor: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            synchronous: Synchronous::Full,
            busy_timeout: Duration::from_secs(5),
            limits: Limits::default(),
            cache_mib: 200,
            max_file_bytes: None,
            supervisor: None,
        }
    }
}

/// A store in a SQLite file. Clones share the open store; the file is closed when the last one is
/// dropped.
///
/// # Example
///
/// ```
/// use windlass::{clock::SystemClock, store::sqlite::{Options, SqliteStore}};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// let path = folder.path().join("tasks.db");
/// let store = SqliteStore::open(&path, Options::default(), SystemClock::shared()).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct SqliteStore(Arc<Inner>);

struct Inner {
    path: Arc<Path>,
    limits: Limits,
    clock: Arc<dyn Clock>,
    lease_clock: LeaseClock,
    prune_clock: PruneClock,
    readers: Arc<Readers>,
    // The fields are dropped, and so ended, in this order.
    writer: Writer,
    hub: Hub,
    _last_look: LastLook,
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SqliteStore").field(&self.0.path).finish()
    }
}

impl SqliteStore {
    /// Opens the file, and creates it if it does not exist (its folder must exist). The file may have tables
    /// of other programs: the tables of windlass have the prefix `windlass_`, and are added to them. `clock`
    /// provides the recorded times and decides when tasks are due. Leases use the clock of the machine.
    ///
    /// # Errors
    ///
    /// [`Error::Unusable`] with what to do; [`Error::OldSqlite`] for a SQLite library that can corrupt the file;
    /// [`Error::Unavailable`] when another process keeps the file locked for longer than [`Options::busy_timeout`].
    pub async fn open(
        path: impl AsRef<Path>,
        options: Options,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let path = path.as_ref().to_owned();
        let (store, has_mail) = blocking(move || {
            let (files, mut conn) = open::writer(&path, &options)?;
            let has_mail = inbox::waits(&conn).map_err(|e| errors::opening(&path, &e))?;
            let hub = Hub::start(files.clone(), Settings::of(&options))?;
            let lease_clock = LeaseClock::new(options.supervisor);
            // Before this process writes anything.
            let newest = retention::newest_at(&conn).map_err(|e| errors::opening(&path, &e))?;
            let prune_clock = PruneClock::new(clock.clone(), newest);
            let writer = Writer::start(writer::Setup {
                wal: Wal::new(&mut conn, &files, Settings::of(&options))?,
                conn,
                files: files.clone(),
                clock: clock.clone(),
                lease_clock: lease_clock.clone(),
                limits: options.limits,
                busy_timeout: options.busy_timeout,
                notifier: Some(hub.notifier()),
            })?;
            hub.add(hub::Message::Inbox(writer.poster()))?;
            let store = Self(Arc::new(Inner {
                readers: Arc::new(Readers::new(files.clone(), Settings::of(&options))),
                path: files.path().clone(),
                limits: options.limits,
                clock,
                lease_clock,
                prune_clock,
                writer,
                hub,
                _last_look: LastLook::new(files, Settings::of(&options)),
            }));
            Ok((store, has_mail))
        })
        .await?;
        if has_mail {
            store.take_inbox().await;
        }
        Ok(store)
    }

    /// Takes every waiting row of the inbox. After a failure the rows stay until the next commit.
    async fn take_inbox(&self) {
        let take = || {
            let take = |batch: &mut batch::Batch<'_>| inbox::take(batch).map(inbox::report);
            self.0
                .writer
                .run("take the rows of the inbox", inbox::MOST, take)
        };
        loop {
            match take().await {
                Ok(taken) if taken.is_full => {}
                Ok(_) => return,
                Err(error) => return tracing::warn!(%error, "could not take the rows of the inbox"),
            }
        }
    }

    /// Opens an existing file only for reading, even one that this user cannot write. Creates no
    /// file and changes nothing: the claims of ended leases stay. Every write returns
    /// [`Error::Unusable`].
    ///
    /// Sees the writes of processes that have the file open. If no process has it open, the file must
    /// not change: a read while a program starts to write returns [`Error::Unavailable`].
    ///
    /// # Errors
    ///
    /// [`Error::Unusable`] with what to do: the file does not exist, another version wrote it, or
    /// its log exists without the index of the log.
    pub async fn open_to_read(
        path: impl AsRef<Path>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let path = path.as_ref().to_owned();
        let options = Options::default();
        blocking(move || {
            let (files, conn) = open::to_read(&path, &options)?;
            let settings = Settings::of(&options);
            let newest = retention::newest_at(&conn).map_err(|e| errors::opening(&path, &e))?;
            Ok(Self(Arc::new(Inner {
                hub: Hub::start(files.clone(), settings)?,
                lease_clock: LeaseClock::new(None),
                prune_clock: PruneClock::new(clock.clone(), newest),
                clock,
                writer: Writer::refusing(errors::read_only(files.path())),
                readers: Arc::new(Readers::new(files.clone(), settings)),
                path: files.path().clone(),
                limits: options.limits,
                _last_look: LastLook::new(files, settings),
            })))
        })
        .await
    }

    /// Returns whether this user can write the file at `path`, its folder, and the two files that
    /// SQLite keeps next to it. Returns true for a file that does not exist.
    pub fn is_writable(path: impl AsRef<Path>) -> bool {
        open::is_writable(path.as_ref())
    }

    /// Returns whether the file at `path` is a SQLite database with tables, but none of windlass.
    /// [`open`](Self::open) would add them. Changes nothing. `false` for a file that cannot be read: opening it
    /// returns the reason.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::store::sqlite::SqliteStore;
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("songs.db");
    /// rusqlite::Connection::open(&path)?.execute_batch("CREATE TABLE songs (name TEXT)")?;
    /// assert!(SqliteStore::is_foreign(&path));
    /// # Ok::<(), windlass::BoxError>(())
    /// ```
    pub fn is_foreign(path: impl AsRef<Path>) -> bool {
        open::is_foreign(path.as_ref())
    }

    /// Returns whether a file exists at `path`, without opening or creating one; `false` for a
    /// symbolic link to a missing file.
    ///
    /// # Errors
    ///
    /// [`Error::Unusable`] when the path cannot be read or is a folder, or when the file is missing
    /// but its log exists: the log may contain acknowledged tasks.
    pub fn exists(path: impl AsRef<Path>) -> Result<bool, Error> {
        file::exists(path.as_ref())
    }
}

/// Runs `work` on a thread where it may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let task = tokio::task::spawn_blocking(work);
    task.await
        .map_err(|e| Error::unavailable_by("open the file", e))?
}

/// Returns a value as JSON. Errors name `field`.
fn json<T: serde::Serialize>(field: &'static str, value: &T) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|e| {
        let reason = format!("cannot be written as JSON: {e}");
        windlass_statemachine::Invalid::new(field, reason).into()
    })
}

/// Returns `error` for each of `count` items.
fn all_failed<T>(count: usize, error: &Error) -> Vec<Result<T, Error>> {
    (0..count).map(|_| Err(error.clone())).collect()
}

/// Returns the items of a channel as a stream that keeps the store open.
fn stream<T: Send + 'static>(
    open: Arc<Inner>,
    mut items: tokio::sync::mpsc::Receiver<T>,
) -> impl futures::Stream<Item = T> + Send + 'static {
    futures::stream::poll_fn(move |context| {
        let _open = &open;
        items.poll_recv(context)
    })
}
