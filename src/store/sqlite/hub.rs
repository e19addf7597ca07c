//! [`Hub`]: the one thread of an open store that follows the log of changes, for the nodes and the
//! clients of this process.
//!
//! The thread sleeps until the writer of this process has committed, or for a few milliseconds. Then it
//! asks SQLite whether any process has committed (`data_version`, about two microseconds). Without
//! a watch or a feed it sleeps until one is added.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rusqlite::Connection;

use super::{
    batch::Sql, errors::Stop, feed::Feed, open, open_files::OpenFiles, progress::Progress,
    views::Views, watch::Watch,
};
use crate::store::Error;

/// How often the thread looks for commits of other processes.
const POLL: Duration = Duration::from_millis(5);
/// How long the thread waits for a reader whose queue is full: this long at first, and longer after
/// each turn, up to `FULL_FOR_LONG` times as long.
const FULL: Duration = Duration::from_millis(1);
const FULL_FOR_LONG: u32 = 20;
/// How often the thread checks that the files are still there.
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// How long the thread waits after a failure of the store.
const FAILED: Duration = Duration::from_millis(200);

pub(super) enum Message {
    Watch(Watch),
    Feed(Feed),
    Committed,
    Stop,
}

/// The handle of the thread. Dropping it ends the thread.
pub(super) struct Hub {
    messages: mpsc::Sender<Message>,
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

/// Wakes the thread after a commit of this process, unless it is awake or follows nothing.
struct Bell {
    watching: AtomicBool,
    rung: AtomicBool,
}

impl Hub {
    pub(super) fn start(files: Arc<OpenFiles>, settings: open::Settings) -> Result<Self, Error> {
        let (messages, queue) = mpsc::channel();
        let bell = Arc::new(Bell {
            watching: AtomicBool::new(false),
            rung: AtomicBool::new(false),
        });
        let mut thread = Thread {
            files,
            checked: None,
            settings,
            conn: None,
            bell: bell.clone(),
            seen: None,
            full: 0,
            views: Views::default(),
            watches: Vec::new(),
            feeds: Vec::new(),
        };
        let thread = std::thread::Builder::new()
            .name("windlass-sqlite-watch".into())
            .spawn(move || thread.run(&queue))
            .map_err(|e| Error::unavailable_by("start the thread that watches", e))?;
        Ok(Self {
            messages,
            bell,
            thread: Some(thread),
        })
    }

    /// Returns the function that the writer calls after each commit.
    pub(super) fn ringer(&self) -> Box<dyn Fn() + Send> {
        let (messages, bell) = (self.messages.clone(), self.bell.clone());
        Box::new(move || {
            if bell.watching.load(Ordering::Acquire) && !bell.rung.swap(true, Ordering::AcqRel) {
                // A thread that has stopped needs no waking.
                let _ = messages.send(Message::Committed);
            }
        })
    }

    pub(super) fn add(&self, message: Message) -> Result<(), Error> {
        let sent = self.messages.send(message);
        sent.map_err(|_| Error::unavailable("watch", "the store was closed"))
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.messages.send(Message::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Thread {
    files: Arc<OpenFiles>,
    /// When the files were last checked.
    checked: Option<Instant>,
    settings: open::Settings,
    conn: Option<Connection>,
    bell: Arc<Bell>,
    /// The `data_version` up to which every reader has received everything.
    seen: Option<i64>,
    /// The number of turns in a row in which a reader's queue was full.
    full: u32,
    views: Views,
    watches: Vec<Watch>,
    feeds: Vec<Feed>,
}

impl Thread {
    fn run(&mut self, queue: &mpsc::Receiver<Message>) {
        let mut wait = None;
        loop {
            let message = match wait {
                Some(wait) => queue.recv_timeout(wait),
                None => queue.recv().map_err(RecvTimeoutError::from),
            };
            match message {
                Ok(Message::Watch(watch)) => {
                    self.watches.push(watch);
                    self.seen = None;
                }
                Ok(Message::Feed(feed)) => {
                    self.feeds.push(feed);
                    self.seen = None;
                }
                Ok(Message::Committed) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            }
            self.bell.rung.store(false, Ordering::Release);
            wait = match self.turn() {
                Ok(wait) => wait,
                Err(error) => {
                    tracing::warn!(%error, "could not read the log of changes; retries");
                    self.conn = None;
                    self.seen = None;
                    Some(FAILED)
                }
            };
            let watching = wait.is_some();
            self.bell.watching.store(watching, Ordering::Release);
        }
    }

    /// Returns whether the files are gone. If so, ends every watch, and every feed with the reason.
    fn is_gone(&mut self) -> bool {
        if self.checked.is_some_and(|at| at.elapsed() < CHECK_EVERY) {
            return false;
        }
        self.checked = Some(Instant::now());
        let Err(error @ Error::StoreGone(_)) = self.files.check() else {
            return false;
        };
        self.watches.clear();
        self.feeds.drain(..).for_each(|feed| feed.fail(&error));
        self.conn = None;
        self.checked = None;
        true
    }

    /// Delivers new changes to every watch and feed. Returns how long to sleep; `None` until a
    /// message comes.
    fn turn(&mut self) -> Sql<Option<Duration>> {
        self.watches.retain(|watch| !watch.is_closed());
        self.feeds.retain(|feed| !feed.is_closed());
        if self.watches.is_empty() && self.feeds.is_empty() {
            // The next watch begins with a new connection and a new cache.
            self.conn = None;
            self.seen = None;
            self.views = Views::default();
            return Ok(None);
        }
        if self.is_gone() {
            return Ok(None);
        }
        let conn = match self.conn.take() {
            Some(conn) => conn,
            None => match open::reader(&self.files, self.settings) {
                Ok(conn) => conn,
                Err(Stop::Sql(error)) => return Err(error),
                Err(Stop::Refused(error)) => {
                    tracing::warn!(%error, "could not read the log of changes; retries");
                    return Ok(Some(FAILED));
                }
            },
        };
        let conn = self.conn.insert(conn);
        let version = open::data_version(conn)?;
        if self.seen == Some(version) {
            return Ok(Some(POLL));
        }
        let views = &mut self.views;
        let (watches, feeds) = (&mut self.watches, &mut self.feeds);
        let furthest = at_once(conn, || {
            let (mut furthest, mut failed) = (Progress::Done, None);
            let mut stays = |advanced: Sql<Progress>| {
                let progress = advanced.unwrap_or_else(|error| {
                    failed = Some(error);
                    Progress::Done
                });
                furthest = furthest.max(progress);
                progress != Progress::Ended
            };
            watches.retain_mut(|watch| stays(watch.advance(conn, views)));
            feeds.retain_mut(|feed| stays(feed.advance(conn)));
            failed.map_or(Ok(furthest), Err)
        })?;
        self.full = if furthest == Progress::Full {
            FULL_FOR_LONG.min(self.full + 1)
        } else {
            0
        };
        Ok(Some(match furthest {
            Progress::More => Duration::ZERO,
            Progress::Full => FULL * self.full,
            Progress::Done | Progress::Ended => {
                self.seen = Some(version);
                POLL
            }
        }))
    }
}

/// Reads with one transaction. Each statement would begin one of its own, with its locks.
fn at_once<T>(conn: &Connection, read: impl FnOnce() -> Sql<T>) -> Sql<T> {
    conn.prepare_cached("BEGIN")?.execute(())?;
    let result = read();
    let ended = conn.prepare_cached("ROLLBACK")?.execute(());
    // The caller drops the connection when either fails.
    result.and_then(|result| ended.map(|_| result))
}
