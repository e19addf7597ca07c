//! [`OpenFiles`]: the files of an open store, and the mode in which they are open.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use rusqlite::Connection;

use super::{
    errors,
    file::beside,
    file_identity::{Identity, identity, length},
};
use crate::store::Error;

/// How the connections of an open store access its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// They read and write.
    Write,
    /// They read while other processes write.
    Read,
    /// They read a file that no process has open, without a log.
    Frozen,
}

/// A file that is about to be opened.
pub(super) struct Opening {
    path: Arc<Path>,
    identity: Option<Identity>,
}

impl Opening {
    /// Identifies the file at `path`, which exists, before it is opened.
    pub(super) fn at(path: Arc<Path>) -> Result<Self, Error> {
        let found = identity(&path);
        let identity = found.map_err(|e| Error::unavailable_by("open the file", e))?;
        Ok(Self { path, identity })
    }

    /// Returns the files that this connection has opened and keeps open. After its first read, no other program
    /// deletes them; before that, another log may replace the one that was identified.
    pub(super) fn opened(self, access: Access, by: &Connection) -> Result<OpenFiles, Error> {
        by.query_row("SELECT count(*) FROM sqlite_schema", (), |_| Ok(()))
            .map_err(|e| errors::opening(&self.path, &e))?;
        let log = |ending| {
            let path = beside(&self.path, ending);
            match identity(&path) {
                Ok(identity) => Ok((path, identity)),
                Err(e) => Err(Error::unavailable_by("open the log of the file", e)),
            }
        };
        let mut files = vec![(self.path.to_path_buf(), self.identity)];
        if access != Access::Frozen {
            files.extend([log("-wal")?, log("-shm")?]);
        }
        let files = OpenFiles {
            files,
            access,
            path: self.path,
            gone: OnceLock::new(),
            closed: AtomicBool::new(false),
        };
        match files.changed()? {
            None => Ok(files),
            // Nothing was written yet, so an operator need not act.
            Some((path, what)) => Err(gone(files.reason(path, what))),
        }
    }
}

fn gone(reason: String) -> Error {
    let remedy = None;
    Error::StoreGone { reason, remedy }
}

/// The files of an open store: the database, its log, and the index of its log. While a connection
/// has them open, SQLite replaces none of them.
#[derive(Debug)]
pub(super) struct OpenFiles {
    path: Arc<Path>,
    files: Vec<(PathBuf, Option<Identity>)>,
    access: Access,
    /// Why every call fails from now on.
    gone: OnceLock<String>,
    /// Whether the writer closes its connection: SQLite deletes the log with the last one.
    closed: AtomicBool,
}

impl OpenFiles {
    pub(super) fn path(&self) -> &Arc<Path> {
        &self.path
    }

    /// Returns the file of the log; `None` for a file that is read without a log.
    pub(super) fn log(&self) -> Option<&Path> {
        self.files.get(1).map(|(path, _)| path.as_path())
    }

    /// Returns the files other than the log.
    pub(super) fn others(&self) -> impl Iterator<Item = &Path> {
        let paths = self.files.iter().map(|(path, _)| path.as_path());
        paths.filter(|path| Some(*path) != self.log())
    }

    pub(super) fn access(&self) -> Access {
        self.access
    }

    /// Checks that the names of the open files still refer to them. Once one does not, every further
    /// check fails. Calls `statx` three times, less than a microsecond each.
    pub(super) fn check(&self) -> Result<(), Error> {
        if let Some(reason) = self.gone.get() {
            return Err(gone(reason.clone()));
        }
        if let Some((path, what)) = self.changed()? {
            // Read after the names, because the connection is closed after it is set.
            if self.closed.load(Ordering::SeqCst) {
                return Err(Error::unavailable("read the file", "the store was closed"));
            }
            let reason = self.gone.get_or_init(|| {
                let reason = self.reason(path, what);
                tracing::error!("{reason}");
                reason
            });
            return Err(gone(reason.clone()));
        }
        if self.access == Access::Frozen && length(&beside(&self.path, "-wal")) > 0 {
            let reason = "another program has begun to write it; try again";
            return Err(Error::unavailable("read the file", reason));
        }
        Ok(())
    }

    /// Notes that the connections are about to be closed: that the log is gone afterwards is no fault.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Notes that one of the files was renamed for a while. Writes by its old name went to other logs in that
    /// time, so it does not matter whether the file is back.
    pub(super) fn were_moved(&self) {
        self.gone.get_or_init(|| {
            let reason = self.reason(&self.path, "it, or its log, had another name for a while");
            tracing::error!("{reason}");
            reason
        });
    }

    /// Returns the first file whose name no longer refers to it, and why.
    fn changed(&self) -> Result<Option<(&Path, &'static str)>, Error> {
        for (path, opened) in &self.files {
            let what = match identity(path) {
                Ok(found) if found == *opened => continue,
                Ok(_) => "another file has taken its place",
                Err(error) if error.kind() == io::ErrorKind::NotFound => "the file is not there",
                Err(error) => return Err(Error::unavailable_by("look at the file", error)),
            };
            return Ok(Some((path, what)));
        }
        Ok(None)
    }

    /// Returns whether the name of the database still refers to it, whatever the state of its log
    /// is.
    pub(super) fn is_there(&self) -> bool {
        let file = self.files.first();
        file.is_some_and(|(path, opened)| identity(path).is_ok_and(|found| found == *opened))
    }

    fn reason(&self, path: &Path, what: &str) -> String {
        let file = self.path.display();
        format!(
            "could not go on with '{file}': '{}' was moved, deleted or replaced while it was open \
             ({what}), and nothing is acknowledged any more; stop every program that uses the \
             file, put '{file}' and '{file}-wal' back together, and start again",
            path.display()
        )
    }
}
