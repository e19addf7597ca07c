//! [`LastLook`]: removes a log that remains when several processes close the file at the same time.
//!
//! SQLite copies the log to the file and deletes it when the last connection is closed. When two processes
//! close theirs at the same time, each finds the other, and neither deletes the log. So a process whose
//! log still exists checks again: if no process has the file open any more, it opens the file and closes
//! it once more.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use super::{
    file::beside,
    open,
    open_files::{Access, OpenFiles},
    settings::Settings,
};

/// How often a process checks: two that check at the same time would find each other again.
const LOOKS: u32 = 5;
/// The longest pause before the first check. The pause doubles each time.
const PAUSE: Duration = Duration::from_millis(1);

/// Dropped after the last connection of an open store.
pub(super) struct LastLook {
    files: Arc<OpenFiles>,
    settings: Settings,
}

impl LastLook {
    pub(super) fn new(files: Arc<OpenFiles>, settings: Settings) -> Self {
        Self { files, settings }
    }
}

impl Drop for LastLook {
    fn drop(&mut self) {
        // A file that replaced this one must not be touched.
        if self.files.access() != Access::Write || !self.files.is_there() {
            return;
        }
        let path = self.files.path();
        let log = beside(path, "-wal");
        for look in 0..LOOKS {
            if !log.exists() || is_open_elsewhere(path) {
                return;
            }
            if let Err(error) = open::and_close(path, self.settings) {
                tracing::debug!(%error, "could not remove the log of the file");
                return;
            }
            // Random, so that two processes do not check at the same time again.
            let most = PAUSE.as_micros() as u64 * (1 << look);
            thread::sleep(Duration::from_micros(fastrand::u64(..most)));
        }
    }
}

/// Returns whether a process holds a lock on the file, as every process does that has it open. `false` if
/// the system does not show locks: the file is then opened and closed in parallel, which is harmless.
fn is_open_elsewhere(path: &Path) -> bool {
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino;
    #[cfg(not(unix))]
    let inode = |_: &std::fs::Metadata| 0;
    let Ok(inode) = path.metadata().map(|found| inode(&found)) else {
        return false;
    };
    let locks = std::fs::read_to_string(PathBuf::from("/proc/locks"));
    locks.is_ok_and(|locks| is_locked(&locks, inode))
}

/// Returns whether a list of locks, as Linux prints it, names a file with this number:
/// `1: POSIX  ADVISORY  READ 1234 08:02:131 1073741826 1073742335`.
fn is_locked(locks: &str, inode: u64) -> bool {
    let inode = inode.to_string();
    let of = |line: &str| -> Option<String> {
        let file = line.split_whitespace().nth(5)?;
        Some(file.rsplit_once(':')?.1.to_owned())
    };
    locks
        .lines()
        .any(|line| of(line).as_deref() == Some(&inode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locks_of_a_file_are_found() {
        let locks = "1: POSIX  ADVISORY  READ 1234 08:02:131 1073741826 1073742335\n\
                     2: FLOCK  ADVISORY  WRITE 99 00:1a:7 0 EOF\n";
        assert!(is_locked(locks, 131));
        assert!(is_locked(locks, 7));
        assert!(!is_locked(locks, 31));
        assert!(!is_locked(locks, 1234));
        assert!(!is_locked("", 131));
    }

    #[test]
    fn a_log_that_is_left_is_removed_and_one_in_use_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let [path, left] = ["tasks.db", "left.db"].map(|name| folder.path().join(name));
        let options = super::super::Options::default();
        let settings = Settings::of(&options);
        let (files, conn) = super::super::open::writer(&path, &options).unwrap();
        drop(LastLook::new(files, settings));
        assert!(beside(&path, "-wal").exists(), "a connection has it open");
        // The files as left by processes that do not close them.
        let copy = |endings: &[&str]| {
            for ending in endings {
                std::fs::copy(beside(&path, ending), beside(&left, ending)).unwrap();
            }
        };
        copy(&["", "-wal", "-shm"]);
        let (files, closed) = super::super::open::writer(&left, &options).unwrap();
        drop(closed);
        copy(&["-wal", "-shm"]);
        drop(LastLook::new(files, settings));
        assert!(!beside(&left, "-wal").exists());
        assert!(!beside(&left, "-shm").exists());
        drop(conn);
    }
}
