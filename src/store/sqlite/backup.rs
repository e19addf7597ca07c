//! Backups: one state of the whole file, copied while other programs write.
//!
//! SQLite's online backup copies the state that a read transaction sees. Writers do not wait for it; they cannot shorten
//! their log until it is complete. The copy then gets the mark of a backup and loses its nodes, under a name of its own,
//! and gets the name that the caller chose when it is on the disk.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use rusqlite::{
    Connection,
    backup::{Backup as Copying, StepResult},
};
use windlass_statemachine::{Invalid, text::of_io};

use super::{
    Options, SqliteStore,
    batch::Batch,
    blocking, copied,
    errors::{self, Stop},
    file::beside,
    lease, open,
    settings::Settings,
    space,
};
use crate::{
    MachineFault,
    store::{
        Error,
        copy::{Backup, Copied},
    },
};

/// What the operation is called in errors.
const VERB: &str = "back up the store";
/// What the name of the file ends with while it is written.
const PART: &str = ".part";
/// How many bytes a backup leaves free on its disk: the store may be on the same one, and its log grows meanwhile.
const RESERVE: u64 = 64 << 20;
/// What SQLite keeps next to a file.
const LOGS: [&str; 3] = ["-wal", "-shm", "-journal"];
/// What programs keep next to the file of a store.
const OF_STORE: [&str; 3] = [".tasks", ".logs", ".lock"];

impl SqliteStore {
    /// Writes a backup to a new file.
    pub(super) async fn back_up(&self, to: &Path) -> Result<Backup, Error> {
        let to = std::path::absolute(to).map_err(|e| refused(to, of_io(&e)))?;
        let (place, store) = (to.clone(), self.0.path.clone());
        let part = blocking(move || {
            check_name(&place, &store)?;
            Part::of(&place)
        })
        .await?;
        let at = self.0.clock.now();
        // The part belongs to the thread that writes it, also when the caller is gone.
        let copy = move |conn: &Connection| {
            copy(conn, &part.path)?;
            Ok(part)
        };
        let part = self.0.readers.run(VERB, copy).await?;
        let url = format!("sqlite:{}", self.0.path.display());
        self.settle(&part, Copied::backup_of(url, at)).await?;
        blocking(move || part.keep(&to, at)).await
    }

    /// Makes a store of the copy that runs nothing: no node has a lease, and the mark refuses new ones.
    async fn settle(&self, part: &Part, mark: Copied) -> Result<(), Error> {
        let clock = self.0.clock.clone();
        let copy = Self::open(&part.path, Options::default(), clock).await?;
        let settle = move |batch: &mut Batch<'_>| {
            lease::end_all(batch)?;
            errors::item(copied::set(batch, Some(&mark)))
        };
        copy.0
            .writer
            .run("set the mark of a backup", 1, settle)
            .await?
    }
}

/// Copies the state of the database that the present transaction sees.
fn copy(conn: &Connection, to: &Path) -> Result<(), Stop> {
    let number = |name| conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let bytes = (number("page_count")? * number("page_size")?).unsigned_abs();
    if space::free(to).is_some_and(|free| free < bytes.saturating_add(RESERVE)) {
        return Err(full(to, bytes).into());
    }
    let failed = |error: rusqlite::Error| match space::fault_of(to) {
        Some(MachineFault::DiskFull) => Stop::Refused(full(to, bytes)),
        _ => error.into(),
    };
    let settings = Settings::of(&Options::default());
    let mut target = open::empty(to, settings).map_err(failed)?;
    let copied = Copying::new(conn, &mut target).and_then(|copying| copying.step(-1));
    match copied.map_err(failed)? {
        StepResult::Done => Ok(()),
        _ => Err(Error::unavailable(VERB, "another program has locked the file; try again").into()),
    }
}

fn full(to: &Path, bytes: u64) -> Error {
    let reason = format!(
        "the disk of '{}' has no room for the {bytes} bytes of the store and 64 MiB for its log; free space, or name a file on another disk",
        to.display()
    );
    Error::unavailable(VERB, reason)
}

fn refused(file: &Path, reason: impl std::fmt::Display) -> Error {
    Invalid::new(
        "file",
        format!("could not create '{}': {reason}", file.display()),
    )
    .into()
}

/// Refuses a name that a store has for another file of its own, or that SQLite takes for a log.
fn check_name(to: &Path, store: &Path) -> Result<(), Error> {
    let name = to
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    if let Some(ending) = LOGS.iter().find(|ending| name.ends_with(*ending)) {
        let reason =
            format!("a name that ends in '{ending}' is that of a log of SQLite; name another file");
        return Err(refused(to, reason));
    }
    let real = |path: &Path| {
        let folder = path.parent()?.canonicalize().ok()?;
        Some(folder.join(path.file_name()?))
    };
    let of_store = OF_STORE.map(|ending| beside(store, ending));
    if of_store
        .iter()
        .any(|own| real(own).is_some() && real(own) == real(to))
    {
        let reason = "the store has this name for files of its own; name another file";
        return Err(refused(to, reason));
    }
    Ok(())
}

/// The file of a backup while it is written. It has a name that no other file has, which is removed at the end: the complete
/// backup has another one.
struct Part {
    path: PathBuf,
    file: File,
}

impl Part {
    /// Creates the file next to `to`. One that an interrupted backup has left is replaced.
    fn of(to: &Path) -> Result<Self, Error> {
        let mut beside_it = LOGS.map(|ending| beside(to, ending)).into_iter();
        if to.symlink_metadata().is_ok() {
            return Err(refused(
                to,
                "it exists; name another file, or delete it first",
            ));
        }
        if let Some(log) = beside_it.find(|log| log.symlink_metadata().is_ok()) {
            let log = log.display();
            return Err(refused(
                to,
                format!("'{log}' exists, the log of another file of that name; name another file"),
            ));
        }
        if !to.parent().is_some_and(Path::is_dir) {
            return Err(refused(
                to,
                "its folder does not exist; create it, or name another file",
            ));
        }
        let path = beside(to, &format!(".{}{PART}", crate::unique_id::new()));
        let file = create(&path).map_err(|e| match MachineFault::of(&e) {
            Some(fault) => errors::lacking(&path, VERB, fault),
            None => refused(&path, of_io(&e)),
        })?;
        Ok(Self { path, file })
    }

    /// Gives the file its name, on the disk.
    fn keep(self, to: &Path, at: Timestamp) -> Result<Backup, Error> {
        let failed = |e: io::Error| match e.kind() {
            io::ErrorKind::AlreadyExists => refused(to, "it was created in the meantime"),
            _ => Error::unavailable_by(VERB, e),
        };
        let log = beside(&self.path, "-wal");
        if log.exists() {
            let reason = format!("'{}' remains, with a part of the backup", log.display());
            return Err(Error::unavailable(VERB, reason));
        }
        self.file.sync_all().map_err(failed)?;
        let bytes = self.file.metadata().map_err(failed)?.len();
        // A rename would replace a file that was created in the meantime.
        fs::hard_link(&self.path, to).map_err(failed)?;
        drop(self);
        if let Some(folder) = to.parent() {
            File::open(folder)
                .and_then(|folder| folder.sync_all())
                .map_err(failed)?;
        }
        Ok(Backup::new(bytes, at))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Removes the file and what SQLite keeps next to it, as far as they exist.
fn remove(path: &Path) {
    let logs = LOGS.map(|ending| beside(path, ending));
    for file in logs.iter().map(PathBuf::as_path).chain([path]) {
        if let Err(error) = fs::remove_file(file)
            && error.kind() != io::ErrorKind::NotFound
        {
            let file = file.display();
            tracing::warn!(%error, %file, "could not remove the rest of a backup; delete the file");
        }
    }
}

/// Creates a file that only its owner can read.
pub(super) fn create(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
