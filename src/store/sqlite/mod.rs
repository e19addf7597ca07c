//! The embedded store: one SQLite file, for several processes of one machine at once.
//!
//! # Flow
//!
//! 1. [`SqliteStore::open`] opens the file (WAL), makes its tables or brings them up to date, and
//!    starts two threads: one writes, one watches.
//! 2. Whatever is to be written while the disk syncs the last transaction goes into the next one,
//!    together: many transitions, one sync.
//! 3. Each change is a row of one log. It is the history of the tasks, what the watches of all
//!    processes resume from, and the feed of the clients. The fence of a claim is its number
//!    plus the floor that imports raise.
//!
//! # Guarantees
//!
//! - What was answered with success is on the disk ([`Synchronous::Full`], the default).
//! - A write whose transaction failed changed nothing, and is reported as
//!   [`Error::Unavailable`]: nothing is lost when the disk is full.
//! - Leases end by a clock that all processes of the machine share and that nobody can set. After
//!   a restart of the machine all leases have ended.
//!
//! # Assumptions
//!
//! - The file is on a local disk. Network file systems do not keep SQLite's locks.
//! - The processes run on one machine and see the same start of it; containers that share the file
//!   share its clock too, unless they are given a time of their own.
//!
//! # Errors
//!
//! [`Error::Unusable`] when the file is not ours, is newer than this
//! program, is damaged or cannot be written; its text says what to do.

mod apply;
mod batch;
mod boot;
mod claim;
mod codes;
mod command;
mod commit;
mod coordinator;
mod delete;
mod doctor;
mod errors;
mod feed;
mod file;
mod history;
mod hub;
mod lease;
mod log;
mod modes;
mod node;
mod open;
mod open_files;
mod process;
mod progress;
mod query;
mod readers;
mod registry;
mod retention;
mod retry;
mod rows;
mod schema;
mod space;
mod state_store;
mod submit;
mod texts;
mod transfer;
mod views;
mod wal;
mod watch;
mod writer;

use std::{fmt, path::Path, sync::Arc, time::Duration};

use boot::LeaseClock;
pub use errors::Failure;
use hub::Hub;
use readers::Readers;
pub use state_store::SqliteStates;
use wal::Wal;
use writer::Writer;

use super::{Error, Limits, retention::PruneClock};
use crate::clock::Clock;

/// When a write counts as durable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// When the disk says that it has it. What was acknowledged survives a power failure.
    #[default]
    Full,
    /// When the operating system has it: several times as many small writes a second. What was
    /// acknowledged survives a crash of the program, but the last moments before a power failure
    /// may be gone; the file stays whole.
    Normal,
}

/// How a store is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// When a write counts as durable: [`Synchronous::Full`] by default.
    pub synchronous: Synchronous,
    /// How long to wait for another process that has the file locked: 5 s by default.
    pub busy_timeout: Duration,
    /// What the store takes at the most.
    pub limits: Limits,
    /// How much memory the writer may use to keep pages of the file, in MiB: 200 by default.
    pub cache_mib: u32,
    /// How large this process may make the file; as large as it gets by default. When it is
    /// reached, writes answer [`Error::Unavailable`] until tasks are purged.
    pub max_file_bytes: Option<u64>,
    /// The id of another process on which the leases of this process depend: `None` by default.
    ///
    /// Others take over the tasks of a process that has ended without waiting for its lease. With a
    /// supervisor that ends what its process has started, they wait until both have ended, or the
    /// lease has.
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

/// A store in a SQLite file. Clones are the same open store; the file is closed with the last one.
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
    lease_clock: LeaseClock,
    prune_clock: PruneClock,
    readers: Arc<Readers>,
    // Dropped, and so ended, in this order.
    writer: Writer,
    hub: Hub,
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SqliteStore").field(&self.0.path).finish()
    }
}

impl SqliteStore {
    /// Opens the file, and makes it if there is none (its folder must be there). `clock` tells the
    /// times that are recorded and when tasks are due; leases have a clock of their own.
    ///
    /// # Errors
    ///
    /// [`Error::Unusable`] with what to do; [`Error::Unavailable`] when another process has the
    /// file locked for longer than [`Options::busy_timeout`].
    pub async fn open(
        path: impl AsRef<Path>,
        options: Options,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let path = path.as_ref().to_owned();
        blocking(move || {
            let (files, conn) = open::writer(&path, &options)?;
            let hub = Hub::start(files.clone(), open::Settings::of(&options))?;
            let lease_clock = LeaseClock::new(options.supervisor);
            // Before this process writes anything.
            let newest = retention::newest_at(&conn).map_err(|e| errors::opening(&path, &e))?;
            let prune_clock = PruneClock::new(clock.clone(), newest);
            let writer = Writer::start(writer::Setup {
                wal: Wal::new(&conn, &files)?,
                conn,
                files: files.clone(),
                clock,
                lease_clock: lease_clock.clone(),
                limits: options.limits,
                busy_timeout: options.busy_timeout,
                committed: hub.ringer(),
            })?;
            Ok(Self(Arc::new(Inner {
                readers: Arc::new(Readers::new(files.clone(), open::Settings::of(&options))),
                path: files.path().clone(),
                limits: options.limits,
                lease_clock,
                prune_clock,
                writer,
                hub,
            })))
        })
        .await
    }

    /// Opens a file that exists to read it, also one that this user cannot write. Creates no file and
    /// changes nothing: what ended leases have claimed stays claimed. Every write returns
    /// [`Error::Unusable`].
    ///
    /// Sees what processes write meanwhile if they have the file open. Otherwise the file must not
    /// change: a read beside a program that begins to write returns [`Error::Unavailable`].
    ///
    /// # Errors
    ///
    /// [`Error::Unusable`] with what to do: there is no such file, an earlier version wrote it, or its
    /// log is there without the index of the log.
    pub async fn open_to_read(
        path: impl AsRef<Path>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let path = path.as_ref().to_owned();
        let options = Options::default();
        blocking(move || {
            let (files, conn) = open::to_read(&path, &options)?;
            let settings = open::Settings::of(&options);
            let newest = retention::newest_at(&conn).map_err(|e| errors::opening(&path, &e))?;
            Ok(Self(Arc::new(Inner {
                hub: Hub::start(files.clone(), settings)?,
                lease_clock: LeaseClock::new(None),
                prune_clock: PruneClock::new(clock, newest),
                writer: Writer::refusing(errors::read_only(files.path())),
                readers: Arc::new(Readers::new(files.clone(), settings)),
                path: files.path().clone(),
                limits: options.limits,
            })))
        })
        .await
    }

    /// Returns whether this user can write the file at `path`, its folder, and the two files that
    /// SQLite keeps beside it. A file that does not exist counts as one that can be written.
    pub fn is_writable(path: impl AsRef<Path>) -> bool {
        open::is_writable(path.as_ref())
    }

    /// Returns whether there is a file at `path`, without opening or creating one. A symbolic link
    /// to a file that does not exist is not there.
    ///
    /// # Errors
    ///
    /// [`Error::Unusable`] when the path cannot be looked at, is a folder, or when only the log of
    /// the file is left: the file itself is then missing, and what is in the log must not be lost.
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

/// A JSON text of one of our own types.
fn json<T: serde::Serialize>(field: &'static str, value: &T) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|e| {
        let reason = format!("cannot be written as JSON: {e}");
        windlass_statemachine::Invalid::new(field, reason).into()
    })
}

/// One answer for each of `count` items, when none of them could be tried.
fn all_failed<T>(count: usize, error: &Error) -> Vec<Result<T, Error>> {
    (0..count).map(|_| Err(error.clone())).collect()
}

/// What comes out of a channel, for as long as the store is held open by it.
fn stream<T: Send + 'static>(
    open: Arc<Inner>,
    mut items: tokio::sync::mpsc::Receiver<T>,
) -> impl futures::Stream<Item = T> + Send + 'static {
    futures::stream::poll_fn(move |context| {
        let _open = &open;
        items.poll_recv(context)
    })
}
