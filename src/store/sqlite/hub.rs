//! [`Hub`]: the one thread of an open store that reads the log of changes, for the nodes and the clients of this process.
//!
//! The thread sleeps until the writer of this process has committed, or another process writes to the log
//! file ([`FileWatch`]). Then it asks SQLite whether any process has committed (`data_version`, about two
//! microseconds). A notice about another process comes before its commit is visible, so the thread asks
//! again, first at once and then less and less often ([`Pace`]). Without a watch or a feed the thread
//! sleeps until one is added.

use std::{
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{self, RecvTimeoutError},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rusqlite::Connection;

use super::{
    batch::Sql,
    errors::{self, Stop},
    feed::Feed,
    file_watch::{FileWatch, Notice, OwnWrites},
    inbox_watch::InboxWatch,
    open,
    open_files::OpenFiles,
    progress::Progress,
    settings::Settings,
    views::Views,
    wake::{self, CommitNotifier, Pace, WakeFlags},
    watch::Watch,
    writer::Poster,
};
use crate::store::Error;

/// How long the thread first waits for a reader whose queue is full. The wait grows with each turn,
/// up to `FULL_FOR_LONG` times as long.
const FULL: Duration = Duration::from_millis(1);
const FULL_FOR_LONG: u32 = 20;
/// How often the thread checks that the files still exist.
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// The same interval while a file watch also reports changes of the files.
const CHECK_BESIDE_FILE_WATCH: Duration = Duration::from_secs(1);
/// How long the thread waits after a failure of the store.
const FAILED: Duration = Duration::from_millis(200);

pub(super) enum Message {
    Watch(Watch),
    Feed(Feed),
    /// Asks the thread to pass the rows of the inbox to the writer from now on.
    Inbox(Poster),
    Committed,
    /// A report of the system about the files.
    Notice(Notice),
    Stop,
}

/// The handle of the thread. Dropping it ends the thread.
pub(super) struct Hub {
    messages: mpsc::Sender<Message>,
    flags: Arc<WakeFlags>,
    own: Arc<OwnWrites>,
    thread: Option<JoinHandle<()>>,
}

impl Hub {
    pub(super) fn start(files: Arc<OpenFiles>, settings: Settings) -> Result<Self, Error> {
        let (messages, queue) = mpsc::channel();
        let (flags, own) = (
            Arc::new(WakeFlags::default()),
            Arc::new(OwnWrites::default()),
        );
        let mut thread = Thread {
            files,
            checked: None,
            settings,
            conn: None,
            failed: None,
            messages: messages.clone(),
            flags: flags.clone(),
            own: own.clone(),
            file_watch: None,
            pace: Pace::default(),
            seen: None,
            full: 0,
            views: Views::default(),
            watches: Vec::new(),
            feeds: Vec::new(),
            inbox_watch: InboxWatch::default(),
        };
        let thread = std::thread::Builder::new()
            .name("windlass-sqlite-watch".into())
            .spawn(move || {
                wake::sleep_exactly();
                thread.run(&queue);
            })
            .map_err(|e| Error::unavailable_by("start the thread that watches", e))?;
        Ok(Self {
            messages,
            flags,
            own,
            thread: Some(thread),
        })
    }

    /// Returns the handle with which the writer wakes the thread.
    pub(super) fn notifier(&self) -> CommitNotifier {
        let (messages, flags) = (self.messages.clone(), self.flags.clone());
        let notify = move || {
            if flags.must_send(&flags.committed) {
                // A thread that has stopped need not be woken.
                let _ = messages.send(Message::Committed);
            }
        };
        CommitNotifier {
            notify: Box::new(notify),
            own: self.own.clone(),
        }
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
    settings: Settings,
    conn: Option<Connection>,
    /// Why the last read failed; `None` when it succeeded.
    failed: Option<String>,
    /// The thread's own queue, for the reports of the system.
    messages: mpsc::Sender<Message>,
    flags: Arc<WakeFlags>,
    own: Arc<OwnWrites>,
    /// The file watch, while the thread has readers and the system reports writes.
    file_watch: Option<FileWatch>,
    pace: Pace,
    /// The `data_version` up to which every reader has received everything.
    seen: Option<i64>,
    /// The number of turns in a row in which a reader's queue was full.
    full: u32,
    views: Views,
    watches: Vec<Watch>,
    feeds: Vec<Feed>,
    inbox_watch: InboxWatch,
}

impl Thread {
    /// Logs why a read failed. Repeats the same reason only after a success.
    fn note_failure(&mut self, error: &str) {
        if self.failed.as_deref() != Some(error) {
            tracing::warn!(error, "could not read the log of changes; retries");
            self.failed = Some(error.to_owned());
        }
    }

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
                Ok(Message::Inbox(writer)) => self.inbox_watch.writer = Some(writer),
                Ok(Message::Notice(Notice::Written)) => self.pace.written(Instant::now()),
                Ok(Message::Notice(Notice::PerhapsWritten)) => {
                    self.pace.perhaps_written(Instant::now());
                }
                Ok(Message::Notice(notice @ (Notice::Moved | Notice::Changed))) => {
                    if notice == Notice::Moved {
                        self.files.were_moved();
                    }
                    self.checked = None;
                }
                Ok(Message::Committed) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            }
            let flags = &self.flags;
            flags.committed.store(false, Ordering::Release);
            flags.written.store(false, Ordering::Release);
            flags.perhaps_written.store(false, Ordering::Release);
            wait = match self.turn() {
                Ok(wait) => {
                    self.failed = self.failed.take().filter(|_| self.conn.is_none());
                    wait
                }
                Err(error) => {
                    // The text says what to do.
                    let file = self.files.path();
                    let error = errors::running(file, "read the log of changes", &error);
                    self.note_failure(&error.to_string());
                    self.conn = None;
                    self.seen = None;
                    // Each new connection sees its own write, so without a pause it would be tried again at
                    // once.
                    std::thread::sleep(FAILED);
                    Some(FAILED)
                }
            };
            let watching = wait.is_some();
            self.flags.watching.store(watching, Ordering::Release);
        }
    }

    /// Starts to listen for writes of other processes.
    fn listen(&self) -> Option<FileWatch> {
        let (messages, flags) = (self.messages.clone(), self.flags.clone());
        let notice = move |notice| {
            // Several writes cause one message to the thread.
            let must_send = match notice {
                Notice::Written => flags.must_send(&flags.written),
                Notice::PerhapsWritten => flags.must_send(&flags.perhaps_written),
                Notice::Moved | Notice::Changed => true,
            };
            if must_send {
                let _ = messages.send(Message::Notice(notice));
            }
        };
        FileWatch::start(
            self.files.log()?,
            self.files.others(),
            self.own.clone(),
            notice,
        )
    }

    /// Returns whether the files are gone. If so, ends every watch and every feed, with the reason.
    fn is_gone(&mut self) -> bool {
        let every = match self.file_watch {
            Some(_) => CHECK_BESIDE_FILE_WATCH,
            None => CHECK_EVERY,
        };
        if self.checked.is_some_and(|at| at.elapsed() < every) {
            return false;
        }
        self.checked = Some(Instant::now());
        let Err(error @ Error::StoreGone { .. }) = self.files.check() else {
            return false;
        };
        self.watches.clear();
        self.feeds.drain(..).for_each(|feed| feed.fail(&error));
        self.conn = None;
        self.file_watch = None;
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
            self.file_watch = None;
            self.seen = None;
            self.views = Views::default();
            return Ok(None);
        }
        if self.is_gone() {
            return Ok(None);
        }
        if self.conn.is_none() {
            // Before the first read, so that nothing is missed in between. An earlier write may belong to a commit
            // that becomes visible after the read.
            self.file_watch = self.listen();
            self.pace.perhaps_written(Instant::now());
        }
        let conn = match self.conn.take() {
            Some(conn) => conn,
            None => match open::reader(&self.files, self.settings) {
                Ok(conn) => conn,
                Err(Stop::Sql(error)) => return Err(error),
                Err(Stop::Refused(error)) => {
                    self.note_failure(&error.to_string());
                    return Ok(Some(FAILED));
                }
            },
        };
        let conn = self.conn.insert(conn);
        let version = open::data_version(conn)?;
        let has_file_watch = self.file_watch.is_some();
        if self.seen == Some(version) {
            self.inbox_watch.ask_again(version);
            return Ok(Some(self.pace.wait(has_file_watch, Instant::now())));
        }
        self.pace.committed(Instant::now());
        let views = &mut self.views;
        let (watches, feeds, inbox_watch) =
            (&mut self.watches, &mut self.feeds, &mut self.inbox_watch);
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
            inbox_watch.look(conn, version)?;
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
                self.pace.wait(has_file_watch, Instant::now())
            }
        }))
    }
}

/// Reads in one transaction. Otherwise each statement would begin its own, with its own locks.
fn at_once<T>(conn: &Connection, read: impl FnOnce() -> Sql<T>) -> Sql<T> {
    conn.prepare_cached("BEGIN")?.execute(())?;
    let result = read();
    let ended = conn.prepare_cached("ROLLBACK")?.execute(());
    // The caller drops the connection when either fails.
    result.and_then(|result| ended.map(|_| result))
}
