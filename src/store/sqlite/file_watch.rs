//! [`FileWatch`]: notices writes to the log file by any process, and files that go away, without polling.
//!
//! A commit writes to the log file first, syncs it, and then becomes visible. So a notice means that a
//! commit may follow soon. Linux reports writes (inotify). On other systems there is no file watch, and
//! readers poll every few milliseconds.

use std::{
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

/// A report this soon after the end of a transaction of this process may be about that transaction, because the
/// thread that waits for reports runs a moment later.
const LATE: Duration = Duration::from_millis(20);

/// Whether the writer of this process is working. Readers need no notice of its writes: it wakes them
/// after each commit.
#[derive(Debug, Default)]
pub(super) struct OwnWrites {
    under_way: AtomicBool,
    /// When the last transaction has ended.
    ended: Mutex<Option<Instant>>,
}

impl OwnWrites {
    /// Notes that the writer waits for the lock, or writes.
    pub(super) fn begin(&self) {
        self.under_way.store(true, Ordering::Release);
    }

    /// Notes the end of the transaction.
    pub(super) fn end(&self) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.under_way.store(false, Ordering::Release);
    }

    /// Returns whether the last transaction has ended within [`LATE`].
    fn have_just_ended(&self) -> bool {
        let ended = *self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.is_some_and(|at| at.elapsed() < LATE)
    }

    fn are_under_way(&self) -> bool {
        self.under_way.load(Ordering::Acquire)
    }
}

/// What the system reports of the files of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notice {
    /// Another process wrote to the log.
    Written,
    /// Another process wrote to the log, or this one did a moment ago.
    PerhapsWritten,
    /// A file was moved, and may be back.
    Moved,
    /// A file may have been deleted or replaced.
    Changed,
}

/// A thread that waits for reports. Dropping it ends the thread.
pub(super) struct FileWatch {
    #[cfg(target_os = "linux")]
    _thread: linux::Listener,
}

impl FileWatch {
    /// Calls `notice` after each write to the file at `log` that `own` does not explain, and when one of
    /// these files goes away. Returns `None` if the system reports neither.
    #[cfg(target_os = "linux")]
    pub(super) fn start<'a>(
        log: &Path,
        files: impl Iterator<Item = &'a Path>,
        own: Arc<OwnWrites>,
        notice: impl Fn(Notice) + Send + 'static,
    ) -> Option<Self> {
        match linux::Listener::start(log, files, own, notice) {
            Ok(thread) => Some(Self { _thread: thread }),
            Err(error) => {
                tracing::debug!(%error, "the system reports no writes; looks for them every few milliseconds");
                None
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn start<'a>(
        _log: &Path,
        _files: impl Iterator<Item = &'a Path>,
        _own: Arc<OwnWrites>,
        _notice: impl Fn(Notice) + Send + 'static,
    ) -> Option<Self> {
        None
    }
}

/// The number of consecutive reports of this process's own writes after which the reports pause.
const OWN_IN_A_ROW: u32 = 8;

/// Decides how to handle a report of the system.
#[derive(Debug, Default)]
struct Classifier {
    own_in_a_row: AtomicU32,
}

/// How to handle a report.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Another process wrote.
    Notice,
    /// Another process wrote, or this one did a moment ago.
    Perhaps,
    /// Only this process wrote.
    Ignore,
    /// This process writes a lot: the reports pause.
    Pause,
}

impl Classifier {
    fn classify(&self, own: &OwnWrites) -> Verdict {
        if !own.are_under_way() {
            self.own_in_a_row.store(0, Ordering::Relaxed);
            return match own.have_just_ended() {
                true => Verdict::Perhaps,
                false => Verdict::Notice,
            };
        }
        match self.own_in_a_row.fetch_add(1, Ordering::Relaxed) {
            before if before < OWN_IN_A_ROW => Verdict::Ignore,
            _ => Verdict::Pause,
        }
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::{
        io,
        path::{Path, PathBuf},
        sync::Arc,
        thread::JoinHandle,
        time::Duration,
    };

    use nix::{
        errno::Errno,
        sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor},
    };

    use super::{Classifier, Notice, OwnWrites, Verdict};

    /// The reports of a file that was renamed or unlinked, or is about to be replaced.
    const AWAY: AddWatchFlags = AddWatchFlags::IN_ATTRIB
        .union(AddWatchFlags::IN_MOVE_SELF)
        .union(AddWatchFlags::IN_DELETE_SELF);

    /// How long reports pause while this process writes a lot. A report takes a tenth of the time of
    /// the write.
    const PAUSE: Duration = Duration::from_millis(2);

    /// The reports of the log.
    const OF_LOG: AddWatchFlags = AWAY.union(AddWatchFlags::IN_MODIFY);

    pub(super) struct Listener {
        inotify: Arc<Inotify>,
        log: WatchDescriptor,
        thread: Option<JoinHandle<()>>,
    }

    impl Listener {
        pub(super) fn start<'a>(
            log: &Path,
            files: impl Iterator<Item = &'a Path>,
            own: Arc<OwnWrites>,
            notice: impl Fn(Notice) + Send + 'static,
        ) -> io::Result<Self> {
            let inotify = Arc::new(Inotify::init(InitFlags::IN_CLOEXEC)?);
            for file in files {
                inotify.add_watch(file, AWAY)?;
            }
            let path = log.to_path_buf();
            let log = inotify.add_watch(log, OF_LOG)?;
            let reports = Reports {
                inotify: inotify.clone(),
                log: path,
            };
            let thread = std::thread::Builder::new()
                .name("windlass-sqlite-files".into())
                .spawn(move || listen(&reports, &own, notice))?;
            Ok(Self {
                inotify,
                log,
                thread: Some(thread),
            })
        }
    }

    impl Drop for Listener {
        fn drop(&mut self) {
            // The thread gets a last report: the watch is gone. This fails when the file was deleted, and
            // the report of that was the last one.
            let _ = self.inotify.rm_watch(self.log);
            if let Some(thread) = self.thread.take() {
                let _ = thread.join();
            }
        }
    }

    struct Reports {
        inotify: Arc<Inotify>,
        log: PathBuf,
    }

    impl Reports {
        /// Stops reports of writes for a moment. A commit of another process in that time is found
        /// without a report if a transaction of this process ends after the pause, because that must_send
        /// the flags.
        fn pause(&self) {
            // Fails when the log is gone, which is reported in any case.
            let paused = self.inotify.add_watch(&self.log, AWAY);
            std::thread::sleep(PAUSE);
            if paused.is_ok()
                && let Err(error) = self.inotify.add_watch(&self.log, OF_LOG)
            {
                tracing::debug!(%error, "the log file no longer exists");
            }
        }
    }

    fn listen(reports: &Reports, own: &OwnWrites, notice: impl Fn(Notice)) {
        let classifier = Classifier::default();
        loop {
            let events = match reports.inotify.read_events() {
                Ok(events) => events,
                Err(Errno::EINTR) => continue,
                Err(error) => {
                    tracing::warn!(%error, "could not read which files were written");
                    return;
                }
            };
            if events
                .iter()
                .any(|e| e.mask.contains(AddWatchFlags::IN_IGNORED))
            {
                return;
            }
            if events
                .iter()
                .any(|e| e.mask.contains(AddWatchFlags::IN_MOVE_SELF))
            {
                notice(Notice::Moved);
            } else if events.iter().any(|e| e.mask.intersects(AWAY)) {
                notice(Notice::Changed);
            }
            if !events
                .iter()
                .any(|e| e.mask.contains(AddWatchFlags::IN_MODIFY))
            {
                continue;
            }
            match classifier.classify(own) {
                Verdict::Notice => notice(Notice::Written),
                Verdict::Perhaps => notice(Notice::PerhapsWritten),
                Verdict::Ignore => {}
                Verdict::Pause => {
                    reports.pause();
                    if !own.are_under_way() {
                        notice(Notice::PerhapsWritten);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_of_this_process_give_no_notice() {
        let (classifier, own) = (Classifier::default(), OwnWrites::default());
        assert_eq!(classifier.classify(&own), Verdict::Notice);
        own.begin();
        for _ in 0..OWN_IN_A_ROW {
            assert_eq!(classifier.classify(&own), Verdict::Ignore);
        }
        assert_eq!(classifier.classify(&own), Verdict::Pause);
        own.end();
        assert_eq!(
            classifier.classify(&own),
            Verdict::Perhaps,
            "it may be a late report"
        );
        *own.ended.lock().unwrap() = Instant::now().checked_sub(LATE);
        assert_eq!(classifier.classify(&own), Verdict::Notice);
        own.begin();
        assert_eq!(
            classifier.classify(&own),
            Verdict::Ignore,
            "the count starts again"
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_write_of_another_process_is_noticed() {
        use std::{fs, io::Write, sync::mpsc, time::Duration};

        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        fs::write(&log, "").unwrap();
        let own = Arc::default();
        let (notices, noticed) = mpsc::channel();
        let none = std::iter::empty();
        let watch = FileWatch::start(&log, none, own, move |notice| {
            let _ = notices.send(notice);
        });
        let mut file = fs::OpenOptions::new().append(true).open(&log).unwrap();
        file.write_all(b"frame").unwrap();
        let noticed_first = noticed.recv_timeout(Duration::from_secs(10));
        assert_eq!(noticed_first, Ok(Notice::Written));

        // The channel closes with the thread.
        drop(watch);
        while noticed.recv_timeout(Duration::from_secs(10)).is_ok() {}
        let left = noticed.recv_timeout(Duration::from_secs(10));
        assert_eq!(left, Err(mpsc::RecvTimeoutError::Disconnected));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_that_goes_away_is_noticed() {
        use std::{fs, sync::mpsc, time::Duration};

        type Away = (Notice, fn(&Path));
        let away: [Away; 3] = [
            (Notice::Changed, |path| fs::remove_file(path).unwrap()),
            (Notice::Moved, |path| {
                fs::rename(path, path.with_extension("moved")).unwrap();
            }),
            (Notice::Changed, |path| {
                let other = path.with_extension("other");
                fs::write(&other, "").unwrap();
                fs::rename(other, path).unwrap();
            }),
        ];
        for (n, (expected, go)) in away.into_iter().enumerate() {
            for which in ["log", "file"] {
                let folder = tempfile::tempdir().unwrap();
                let [log, file] = ["log", "file"].map(|name| folder.path().join(name));
                fs::write(&log, "").unwrap();
                fs::write(&file, "").unwrap();
                // Open as in the store: the files continue to exist, without a name.
                let _open = [&log, &file].map(|path| fs::File::open(path).unwrap());
                let (notices, noticed) = mpsc::channel();
                let files = [file.as_path()].into_iter();
                let watch = FileWatch::start(&log, files, Arc::default(), move |notice| {
                    let _ = notices.send(notice);
                });
                assert!(watch.is_some());
                go(&folder.path().join(which));
                let first = noticed.recv_timeout(Duration::from_secs(10));
                assert_eq!(first, Ok(expected), "{n} {which}");
            }
        }
    }
}
