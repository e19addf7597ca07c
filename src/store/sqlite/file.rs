//! The database file: the path by which it is opened, and whether it is safe to open.
//!
//! SQLite finds the log (`PATH-wal`) and the index of the log (`PATH-shm`) by the name of the file. A
//! file that is opened by two names has two logs, and each process overwrites the acknowledged writes
//! of the other. SQLite deletes a log whose file is missing. It also deletes or overwrites a database
//! that has the name of another database's log.

use std::{
    ffi::OsStr,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use windlass_statemachine::text::of_io;

pub(super) use super::file_identity::beside;
use super::{errors, file_identity::length, modes};
use crate::{MachineFault, store::Error};

/// The endings of the files that SQLite keeps next to a database.
const LOGS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// The first bytes of a database file. A log never begins with them.
const DATABASE: &[u8] = b"SQLite format 3\0";

/// How many symbolic links a path follows, as in Linux.
const MAX_LINKS: usize = 40;

/// Checks that the file is safe to open, and returns its canonical path. If the file does not exist,
/// creates an empty one that only its owner can read and write; SQLite gives its other files the
/// same mode.
pub(super) fn prepare(path: &Path) -> Result<PathBuf, Error> {
    // Closing a file ends all locks that the process holds on it, so no call may open the file before
    // the call that creates it has closed it.
    static PREPARING: Mutex<()> = Mutex::new(());
    let _one = PREPARING.lock().unwrap_or_else(PoisonError::into_inner);
    let real = resolve(path)?;
    let found = match look(&real)? {
        Some(found) => found,
        None => {
            create(&real)?;
            look(&real)?.ok_or_else(|| {
                Error::unavailable("create the file", "it was deleted at the same time")
            })?
        }
    };
    is_safe(&real, &found)?;
    Ok(real)
}

fn create(path: &Path) -> Result<(), Error> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(match MachineFault::of(&error) {
            Some(fault) => errors::lacking(path, "create the file", fault),
            None => Error::Unusable(format!(
                "could not create '{}': {}; check that its folder can be written by this user: \
                 SQLite keeps two more files beside it",
                path.display(),
                of_io(&error)
            )),
        }),
    }
}

/// Checks that an existing file is safe to open, and returns its canonical path.
pub(super) fn existing(path: &Path) -> Result<PathBuf, Error> {
    let real = resolve(path)?;
    let Some(found) = look(&real)? else {
        return Err(not_opened(
            &real,
            "there is no such file; choose another path",
        ));
    };
    is_safe(&real, &found)?;
    Ok(real)
}

/// Refuses a file that is not regular, that has several names, or whose log another user has planted.
fn is_safe(path: &Path, found: &fs::Metadata) -> Result<(), Error> {
    if !found.is_file() {
        return Err(not_opened(
            path,
            "it is not a regular file; choose another path",
        ));
    }
    if let Some(reason) = modes::planted(path, found) {
        return Err(not_opened(path, reason));
    }
    has_one_name(path, found)
}

/// Returns whether there is a file at `path`.
pub(super) fn exists(path: &Path) -> Result<bool, Error> {
    let absolute = std::path::absolute(path).ok();
    let folder = absolute.as_deref().and_then(Path::parent);
    if folder.is_some_and(|folder| matches!(folder.try_exists(), Ok(false))) {
        return Ok(false);
    }
    let real = resolve(path)?;
    Ok(look(&real)?.is_some())
}

fn not_opened(path: &Path, reason: impl std::fmt::Display) -> Error {
    Error::Unusable(format!("could not open '{}': {reason}", path.display()))
}

/// Makes the path absolute and follows its symbolic links, even to a file that does not exist.
fn resolve(path: &Path) -> Result<PathBuf, Error> {
    let unusable = |text| Err(Error::Unusable(text));
    // Names that are special to SQLite (":memory:", "file:…") are plain file names here.
    let path: PathBuf = match std::path::absolute(path) {
        Ok(path) => path,
        Err(error) => {
            let reason = of_io(&error);
            return unusable(format!("'{}' is not a path: {reason}", path.display()));
        }
    };
    let file = path.display();
    if path.is_dir() {
        let inside = path.join("windlass.db");
        return unusable(format!(
            "'{file}' is a folder; name a file in it, '{}' for example",
            inside.display()
        ));
    }
    if let Some(folder) = path.parent()
        && !folder.is_dir()
    {
        return unusable(format!(
            "could not create '{file}': there is no folder '{}'; create it first",
            folder.display()
        ));
    }
    let real = follow(&path).map_err(|error| {
        let advice = "check the folders and the symbolic links of this path";
        not_opened(&path, format!("{}; {advice}", of_io(&error)))
    })?;
    is_no_log(&real)?;
    has_no_log_beside_links(&path, &real)?;
    Ok(real)
}

/// Refuses a link with a log next to it: the file was moved without its log, and a link took its place.
fn has_no_log_beside_links(path: &Path, real: &Path) -> Result<(), Error> {
    let mut link = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(target) = fs::read_link(&link) else {
            break;
        };
        let mut logs = ["-wal", "-journal"]
            .map(|ending| (ending, beside(&link, ending)))
            .into_iter();
        if let Some((ending, log)) = logs.find(|(_, log)| length(log) > 0) {
            return Err(not_opened(
                path,
                format!(
                    "it is a link to '{real}', but next to the link is the log '{log}', which may hold acknowledged \
                     tasks; stop every program that uses them, and move the log to '{real}{ending}' if it belongs to \
                     that file, or away if it does not",
                    real = real.display(),
                    log = log.display(),
                ),
            ));
        }
        link = link.parent().unwrap_or(Path::new("/")).join(target);
    }
    Ok(())
}

/// Refuses a name that SQLite gives to the log of another database.
fn is_no_log(path: &Path) -> Result<(), Error> {
    let name = path.as_os_str().as_encoded_bytes();
    let Some(ending) = LOGS.iter().find(|end| name.ends_with(end.as_bytes())) else {
        return Ok(());
    };
    Err(not_opened(
        path,
        format!(
            "SQLite gives names that end in '{ending}' to the logs of other databases, and deletes \
             or overwrites such files; choose another name (to rename a store, stop every program \
             that uses it, and move its -wal along)"
        ),
    ))
}

/// Refuses to open `path` when another database has the name of its log: SQLite would delete or
/// overwrite that database.
///
/// Does not open `PATH-shm`: closing it would end the locks that another open store of this process
/// holds on it. SQLite does not lock the two other files.
fn has_no_database_as_log(path: &Path) -> Result<(), Error> {
    for log in ["-wal", "-journal"].map(|ending| beside(path, ending)) {
        let unreadable = |error: io::Error| {
            let advice = "check that this user can read it";
            not_opened(
                path,
                format!("'{}': {}; {advice}", log.display(), of_io(&error)),
            )
        };
        // Opening a pipe would wait for its writer.
        if fs::metadata(&log).is_ok_and(|found| !found.is_file()) {
            let reason = format!(
                "'{}' is not a regular file; find out who made it, and remove it",
                log.display()
            );
            return Err(not_opened(path, reason));
        }
        let mut start = Vec::with_capacity(DATABASE.len());
        match fs::File::open(&log) {
            Ok(file) => file
                .take(DATABASE.len() as u64)
                .read_to_end(&mut start)
                .map_err(unreadable)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(unreadable(error)),
        };
        if start == DATABASE {
            return Err(not_opened(
                path,
                format!(
                    "'{}' is a database of its own, which SQLite would take for a log of this file \
                     and delete or overwrite; stop every program that uses that database, and \
                     rename it, or choose another path",
                    log.display()
                ),
            ));
        }
    }
    Ok(())
}

fn follow(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        match path.canonicalize() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => return other,
        }
        // The file does not exist, but its folder does.
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            break;
        };
        let folder = folder.canonicalize()?;
        let file = folder.join(name);
        match fs::read_link(&file) {
            Ok(target) => path = folder.join(target),
            Err(_) => return Ok(file),
        }
    }
    Err(io::Error::other("the path has too many symbolic links"))
}

/// Reads the metadata of the file. Refuses a missing file that has a log, because SQLite would
/// delete the log.
///
/// Reads the logs first: a process that creates a store makes the file before the logs, and never
/// removes the file.
fn look(path: &Path) -> Result<Option<fs::Metadata>, Error> {
    has_no_database_as_log(path)?;
    let (wal, journal) = (beside(path, "-wal"), beside(path, "-journal"));
    let (in_wal, in_journal) = (length(&wal), length(&journal));
    let found = match fs::metadata(path) {
        Ok(found) => Some(found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            let advice = "check that this user can read its folder";
            return Err(not_opened(path, format!("{}; {advice}", of_io(&error))));
        }
    };
    let (what, log) = match &found {
        None if in_wal > 0 => ("missing", &wal),
        None if in_journal > 0 => ("missing", &journal),
        // A new file gets its first page before it gets a log.
        Some(file) if file.is_file() && file.len() == 0 && in_wal > 0 => ("empty", &wal),
        _ => return Ok(found),
    };
    Err(not_opened(
        path,
        format!(
            "the file is {what}, but its log '{}' may hold acknowledged tasks; put back the very \
             file that the log belongs to (not an older copy), or move the log away to start with \
             an empty store",
            log.display()
        ),
    ))
}

/// Refuses a file that other programs may open by another name.
#[cfg(unix)]
fn has_one_name(path: &Path, found: &fs::Metadata) -> Result<(), Error> {
    use std::os::unix::fs::MetadataExt;

    let links = found.nlink();
    if links > 1 {
        let folder = path.parent().unwrap_or(path).display();
        return Err(not_opened(
            path,
            format!(
                "the file has {links} names (hard links), and each name has a log of its own, so \
                 that acknowledged tasks are lost; remove the other names (find them with: find \
                 '{folder}' -xdev -inum {})",
                found.ino()
            ),
        ));
    }
    let mounted = match fs::read("/proc/self/mountinfo") {
        // Devices cannot be compared: on an overlay, files have other devices than folders.
        Ok(mounts) => is_mount_point(&mounts, path),
        Err(_) => path
            .parent()
            .and_then(|folder| fs::metadata(folder).ok())
            .is_some_and(|folder| folder.dev() != found.dev()),
    };
    if mounted {
        return Err(not_opened(
            path,
            "the file is mounted on its own, so that its log is not next to it and \
             acknowledged tasks are lost; mount the folder of the file instead (docker run -v \
             /host/folder:/data, then sqlite:/data/FILE)",
        ));
    }
    Ok(())
}

#[cfg(not(unix))]
fn has_one_name(_path: &Path, _found: &fs::Metadata) -> Result<(), Error> {
    Ok(())
}

/// Returns whether `/proc/self/mountinfo` names this path as a mount point.
#[cfg(unix)]
fn is_mount_point(mounts: &[u8], path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;

    let mut points = mounts
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    points.any(|point| OsStr::from_bytes(&unescaped(point)) == path.as_os_str())
}

/// Replaces the escapes of `/proc/self/mountinfo`: a backslash and three octal digits.
#[cfg(unix)]
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..3).and_then(|d| std::str::from_utf8(d).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        rest = match escaped {
            Some(code) if byte == b'\\' => {
                plain.push(code);
                &after[3..]
            }
            _ => {
                plain.push(byte);
                after
            }
        };
    }
    plain
}

#[cfg(all(test, unix))]
#[path = "planted_tests.rs"]
mod planted_tests;

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_found_by_their_path() {
        let mounts = b"22 1 0:20 / / rw,relatime - ext4 /dev/vda rw\n\
            36 22 0:20 /srv/jobs.db /data/jobs.db rw - ext4 /dev/vda rw\n\
            37 22 0:20 /x /with\\040space\\134/a\\012b.db rw shared:1 - ext4 /dev/vda rw\n";
        for mounted in ["/data/jobs.db", "/with space\\/a\nb.db", "/"] {
            assert!(is_mount_point(mounts, Path::new(mounted)), "{mounted}");
        }
        for other in ["/srv/jobs.db", "/data", "/data/jobs.db-wal", "", "rw"] {
            assert!(!is_mount_point(mounts, Path::new(other)), "{other}");
        }
    }

    #[test]
    fn other_text_stays() {
        assert_eq!(unescaped(b"a\\9z\\04"), b"a\\9z\\04");
        assert_eq!(unescaped(b"\\134040"), b"\\040");
    }
}
