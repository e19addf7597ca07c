//! Maps SQLite's errors to errors that say what to do.

use std::path::Path;

use rusqlite::{Error as Sql, ErrorCode};

use super::space;
use crate::{MachineFault, store::Error};

/// Why an item of a job fails: the database failed, which ends the whole transaction, or the item is
/// refused, which does not affect the other items.
#[derive(Debug)]
pub(super) enum Stop {
    Sql(Sql),
    Refused(Error),
}

impl From<Sql> for Stop {
    fn from(error: Sql) -> Self {
        Self::Sql(error)
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<windlass_statemachine::Invalid> for Stop {
    fn from(error: windlass_statemachine::Invalid) -> Self {
        Self::Refused(error.into())
    }
}

/// Returns an item's own error as its result, and a failure of the database as an error.
pub(super) fn item<T>(result: Result<T, Stop>) -> Result<Result<T, Error>, Sql> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(Stop::Refused(error)) => Ok(Err(error)),
        Err(Stop::Sql(error)) => Err(error),
    }
}

/// An error of SQLite: the source of [`store::Error::Unavailable`](Error::Unavailable).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct Failure {
    /// The extended result code (<https://sqlite.org/rescode.html>): 5 is `SQLITE_BUSY`. `None` for an
    /// error that is not SQLite's own.
    pub code: Option<i32>,
    /// The text.
    pub message: String,
}

impl From<&Sql> for Failure {
    fn from(error: &Sql) -> Self {
        let code = match error {
            Sql::SqliteFailure(e, _) => Some(e.extended_code),
            _ => None,
        };
        let message = error.to_string();
        Self { code, message }
    }
}

fn code(error: &Sql) -> Option<ErrorCode> {
    match error {
        Sql::SqliteFailure(e, _) => Some(e.code),
        _ => None,
    }
}

/// Returns the error for a log whose next number does not follow its greatest one.
pub(super) fn misnumbered() -> Sql {
    let text = "the next change would not get the number after the newest one";
    let corrupt = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    Sql::SqliteFailure(corrupt, Some(text.to_owned()))
}

/// Returns whether another connection holds the lock.
pub(super) fn is_busy(error: &Sql) -> bool {
    matches!(
        code(error),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

/// Returns the error of an operation on an open store.
pub(super) fn running(path: &Path, operation: &'static str, error: &Sql) -> Error {
    of_operation(path, operation, error, || space::fault_of(path)).because(Failure::from(error))
}

/// Returns the error for an operation that fails because the machine lacks something.
pub(super) fn lacking(path: &Path, operation: &'static str, fault: MachineFault) -> Error {
    let (what, advice) = (fault.what(), fault.advice());
    let file = path.display();
    Error::unavailable(
        operation,
        format!("could not use '{file}': {what}; this write changed nothing; {advice}"),
    )
}

/// Returns whether a trigger has refused a change. Only the mark of a copy has triggers that do.
pub(super) fn is_of_trigger(error: &Sql) -> bool {
    matches!(error, Sql::SqliteFailure(code, _)
        if code.extended_code == rusqlite::ffi::SQLITE_CONSTRAINT_TRIGGER)
}

/// Returns the error of an operation, like [`running`]. `fault` returns what the machine lacks.
fn of_operation(
    path: &Path,
    operation: &'static str,
    error: &Sql,
    fault: impl Fn() -> Option<MachineFault>,
) -> Error {
    let file = path.display();
    if let Sql::SqliteFailure(_, Some(text)) = error
        && is_of_trigger(error)
    {
        // The text of a `copied` trigger says what to do.
        return Error::Unusable(text.clone());
    }
    match code(error) {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::unavailable(
            operation,
            format!(
                "another program has held '{file}' locked for too long; this write changed nothing; look for a \
                 program (a backup, a shell) that keeps a transaction open"
            ),
        ),
        Some(ErrorCode::DiskFull) => match fault() {
            Some(fault) => lacking(path, operation, fault),
            None => Error::unavailable(
                operation,
                format!(
                    "could not use '{file}': the disk is full, or the file has reached its largest \
                     size; this write changed nothing; free space on that disk, or delete tasks"
                ),
            ),
        },
        Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) => {
            // The last write may or may not be in the file.
            let advice = match fault() {
                Some(fault) => fault.to_string(),
                None => format!(
                    "{error}; check the disk, the limit of the size of files (ulimit -f), and the log \
                     of the kernel (dmesg)"
                ),
            };
            Error::unavailable(operation, format!("could not use '{file}': {advice}"))
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => damaged(path, error),
        Some(ErrorCode::ReadOnly) => Error::unavailable(
            operation,
            format!("'{file}' cannot be written any more ({error}); make it writable again"),
        ),
        _ => match missing(error) {
            Some(what) => Error::Unusable(format!(
                "could not {operation}: '{file}' lacks a table, column or index of windlass ({what}); stop every \
                 program that uses it, and let the doctor name and repair what is missing (`windlass doctor --repair`)"
            )),
            None => Error::unavailable(operation, error),
        },
    }
}

/// Returns the text of SQLite about a missing part of the schema. SQLite has no separate code for this.
pub(super) fn missing(error: &Sql) -> Option<&str> {
    let text = match error {
        Sql::SqlInputError { msg, .. } => msg,
        Sql::SqliteFailure(_, Some(text)) => text,
        _ => return None,
    };
    let missing = [
        "no such table: ",
        "no such column: ",
        "no such index: ",
        "has no column named ",
    ];
    missing.iter().any(|one| text.contains(one)).then_some(text)
}

/// Returns the error of opening a store.
pub(super) fn opening(path: &Path, error: &Sql) -> Error {
    let file = path.display();
    match code(error) {
        Some(ErrorCode::NotADatabase) => Error::Unusable(format!(
            "'{file}' is not a SQLite database; choose another file, or move this one away to start \
             with an empty store"
        )),
        Some(ErrorCode::DatabaseCorrupt) => damaged(path, error),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => read_only(path),
        Some(ErrorCode::CannotOpen) if space::fault_of(path).is_none() => {
            Error::Unusable(match of_another_user(path) {
                Some(text) => format!("'{file}' cannot be opened ({error}): {text}"),
                None => format!(
                    "'{file}' cannot be opened or made ({error}); check that its folder can be written \
                     by this user: SQLite keeps two more files beside it"
                ),
            })
        }
        _ => running(path, "open the file", error),
    }
}

/// Returns the error for a file that cannot be written, or whose folder cannot.
pub(super) fn read_only(path: &Path) -> Error {
    let of_another_user = of_another_user(path).map_or(String::new(), |text| format!("; {text}"));
    Error::Unusable(format!(
        "'{}' is read-only for this user; make the file and its folder writable (SQLite keeps two \
         more files beside it), or choose another file{of_another_user}",
        path.display()
    ))
}

/// Returns the owner and the mode of a file that belongs to another user and that this user cannot
/// write.
#[cfg(unix)]
fn of_another_user(path: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;

    use nix::unistd::{AccessFlags, Uid, User, access, geteuid};

    let found = std::fs::metadata(path).ok()?;
    let owner = Uid::from_raw(found.uid());
    if owner == geteuid() || access(path, AccessFlags::R_OK | AccessFlags::W_OK).is_ok() {
        return None;
    }
    let name = User::from_uid(owner).ok().flatten();
    let name = name.map_or_else(|| owner.to_string(), |user| user.name);
    let mode = found.mode() & 0o7777;
    Some(format!(
        "the file belongs to the user '{name}' and has mode {mode:04o}; run as that user, or give this user \
         access to it"
    ))
}

#[cfg(not(unix))]
fn of_another_user(_: &Path) -> Option<String> {
    None
}

/// Returns the error for a log with changes whose index is missing.
pub(super) fn log_not_read(path: &Path) -> Error {
    let file = path.display();
    Error::Unusable(format!(
        "could not read '{file}': its log '{file}-wal' holds changes, and '{file}-shm' is missing; \
         run the command as a user that can write both and their folder, or read a copy of '{file}' \
         and '{file}-wal' in a folder of your own"
    ))
}

/// Returns the error for a connection whose commits are less durable than requested.
pub(super) fn not_durable(path: &Path, pragma: &str, found: &str, wanted: &str) -> Error {
    Error::Unusable(format!(
        "could not open '{}': SQLite reports that {pragma} is {found}, not {wanted}, so a power \
         failure could take acknowledged tasks; put the file on a local disk, and use the SQLite \
         that windlass is built with",
        path.display()
    ))
}

fn damaged(path: &Path, error: &Sql) -> Error {
    let file = path.display();
    Error::Unusable(format!(
        "'{file}' is damaged ({error}); stop every program that uses it, copy it together with \
         '{file}-wal', and restore a backup, or save what can be read with: sqlite3 '{file}' \
         .recover | sqlite3 new.db"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    fn failure(code: i32) -> Sql {
        Sql::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn an_error_of_a_full_disk_names_the_file_and_the_disk() {
        let path = Path::new("/data/w.db");
        let io = [ffi::SQLITE_IOERR_SHMSIZE, ffi::SQLITE_IOERR_WRITE];
        for code in io
            .into_iter()
            .chain([ffi::SQLITE_FULL, ffi::SQLITE_CANTOPEN])
        {
            let error = of_operation(path, "open the file", &failure(code), || {
                Some(MachineFault::DiskFull)
            });
            assert!(error.is_retryable(), "{error}");
            let text = error.to_string();
            let says = "could not use '/data/w.db': the disk is full (ENOSPC); ";
            assert!(text.contains(says), "{text}");
            let error = of_operation(path, "open the file", &failure(code), || {
                Some(MachineFault::Descriptors)
            });
            assert!(error.to_string().contains("ulimit -n"), "{error}");
        }
    }

    /// A node retried this error for ever, as if it were temporary.
    #[test]
    fn a_missing_part_of_the_schema_is_no_passing_fault() {
        let conn = rusqlite::Connection::open_in_memory().unwrap();
        conn.execute_batch("CREATE TABLE a (b)").unwrap();
        for sql in [
            "SELECT 1 FROM c",
            "SELECT c FROM a",
            "SELECT 1 FROM a INDEXED BY c",
            "INSERT INTO a (c) VALUES (1)",
        ] {
            let error = conn.prepare(sql).err().unwrap();
            let error = running(Path::new("/data/w.db"), "commit", &error);
            assert!(!error.is_retryable(), "{sql}: {error}");
            assert!(error.to_string().contains("the doctor"), "{sql}: {error}");
        }
        let syntax = conn.prepare("SELEC").err().unwrap();
        let error = running(Path::new("/data/w.db"), "commit", &syntax);
        assert!(error.is_retryable(), "{error}");
    }

    #[test]
    fn every_failure_says_what_to_do() {
        let path = Path::new("/data/w.db");
        for (code, retryable, says) in [
            (ffi::SQLITE_BUSY, true, "keeps a transaction open"),
            (ffi::SQLITE_FULL, true, "free space"),
            (ffi::SQLITE_READONLY, true, "make it writable again"),
            (ffi::SQLITE_CORRUPT, false, ".recover"),
            (ffi::SQLITE_IOERR, true, "dmesg"),
        ] {
            let error = running(path, "commit", &failure(code));
            let cause = std::error::Error::source(&error).and_then(|e| e.downcast_ref::<Failure>());
            let kept = cause.and_then(|failure| failure.code);
            assert_eq!(kept, Some(code).filter(|_| retryable));
            assert_eq!(error.is_retryable(), retryable, "{error}");
            assert!(error.to_string().contains(says), "{error}");
        }
        for (code, retryable, says) in [
            (ffi::SQLITE_BUSY, true, "locked for too long"),
            (
                ffi::SQLITE_READONLY,
                false,
                "make the file and its folder writable",
            ),
            (
                ffi::SQLITE_PERM,
                false,
                "make the file and its folder writable",
            ),
            (
                ffi::SQLITE_CANTOPEN,
                false,
                "check that its folder can be written",
            ),
            (ffi::SQLITE_NOTADB, false, "choose another file"),
            (ffi::SQLITE_CORRUPT, false, "restore a backup"),
        ] {
            let error = opening(path, &failure(code));
            assert_eq!(error.is_retryable(), retryable, "{error}");
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
