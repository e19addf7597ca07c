//! Opens files and sets up connections.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use rusqlite::{Connection, OpenFlags};

use super::{
    Options,
    batch::Sql,
    errors::{self, Stop},
    file, file_identity, library,
    open_files::{Access, OpenFiles, Opening},
    schema,
    settings::{Settings, configure, is_durable, keep_plans, level, only_reads},
};
use crate::store::Error;

/// How many statements a connection keeps ready.
const STATEMENTS: usize = 128;

/// Opens the file for writing. Creates the file and its tables if they do not exist.
pub(super) fn writer(
    path: &Path,
    options: &Options,
) -> Result<(Arc<OpenFiles>, Connection), Error> {
    library::check(path)?;
    let path: Arc<Path> = file::prepare(path)?.into();
    let opening = Opening::at(path.clone())?;
    let mut conn = connect(&path, options).map_err(|e| stop(&path, e))?;
    let file = path.display().to_string();
    schema::make(&mut conn, &file).map_err(|e| stop(&path, e))?;
    configure(&conn, options).map_err(|e| errors::opening(&path, &e))?;
    // The writer waits for locks itself.
    conn.busy_timeout(Duration::ZERO)
        .map_err(|e| errors::opening(&path, &e))?;
    Ok((Arc::new(opening.opened(Access::Write, &conn)?), conn))
}

/// Returns whether the file has only tables of other programs. `false` for a file that cannot be read now:
/// opening it returns the reason.
pub(super) fn is_foreign(path: &Path) -> bool {
    look(path, schema::is_foreign).unwrap_or(false)
}

/// Reads from a file without changing anything.
fn look<T>(path: &Path, read: impl Fn(&Connection, &str) -> Result<T, Stop>) -> Result<T, Error> {
    library::check(path)?;
    let look = |access| {
        let path: Arc<Path> = file::existing(path)?.into();
        let settings = Settings::of(&Options::default());
        let (_files, conn) = first_reader(&path, access, settings)?;
        read(&conn, &path.display().to_string()).map_err(|e| stop(&path, e))
    };
    look(Access::Read).or_else(|_| look(Access::Frozen))
}

/// Opens the file for reading, even one that this user cannot write. Creates no file next to it.
pub(super) fn to_read(
    path: &Path,
    options: &Options,
) -> Result<(Arc<OpenFiles>, Connection), Error> {
    library::check(path)?;
    let path: Arc<Path> = file::existing(path)?.into();
    let [log, index] = ["-wal", "-shm"].map(|ending| file::beside(&path, ending));
    let has_log = file_identity::length(&log) > 0;
    // A process that has the file open keeps both files in place.
    if log.exists() && index.exists() {
        match read_with(&path, Access::Read, options) {
            // A full disk may have no room for the index of an empty log.
            Err(_) if !has_log => {}
            opened => return opened,
        }
    } else if has_log {
        return Err(errors::log_not_read(&path));
    }
    read_with(&path, Access::Frozen, options)
}

fn read_with(
    path: &Arc<Path>,
    access: Access,
    options: &Options,
) -> Result<(Arc<OpenFiles>, Connection), Error> {
    let (files, conn) = first_reader(path, access, Settings::of(options))?;
    schema::has_tables(&conn, &path.display().to_string()).map_err(|e| stop(path, e))?;
    Ok((Arc::new(files), conn))
}

/// Opens a connection that only reads, and identifies its open files. Before its first read, the last
/// program that closes the file may delete the log, and the next one may create another.
fn first_reader(
    path: &Arc<Path>,
    access: Access,
    settings: Settings,
) -> Result<(OpenFiles, Connection), Error> {
    let opening = Opening::at(path.clone())?;
    // SQLite would create both, even for a connection that only reads.
    let mut logs = ["-wal", "-shm"]
        .map(|ending| file::beside(path, ending))
        .into_iter();
    if access == Access::Read && !logs.all(|log| log.exists()) {
        let reason = "no program has the file open";
        return Err(Error::unavailable("open the log of the file", reason));
    }
    let open = || {
        let conn = open(path, access, settings)?;
        only_reads(&conn)?;
        Ok(conn)
    };
    let conn = open().map_err(|e| errors::opening(path, &e))?;
    Ok((opening.opened(access, &conn)?, conn))
}

/// Returns whether this user can write the file, its folder, and the files that SQLite keeps next to
/// it.
#[cfg(unix)]
pub(super) fn is_writable(path: &Path) -> bool {
    use nix::unistd::{AccessFlags, access};

    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let can = |path: &Path, how| access(path, how).is_ok();
    let mut files = ["", "-wal", "-shm"]
        .map(|ending| file::beside(&path, ending))
        .into_iter();
    let writable = files.all(|file| !file.exists() || can(&file, AccessFlags::W_OK));
    let folder = path.parent();
    writable && folder.is_none_or(|f| can(f, AccessFlags::W_OK | AccessFlags::X_OK))
}

#[cfg(not(unix))]
pub(super) fn is_writable(_: &Path) -> bool {
    true
}

fn stop(path: &Path, stop: Stop) -> Error {
    match stop {
        Stop::Sql(error) => errors::opening(path, &error),
        Stop::Refused(error) => error,
    }
}

/// Opens a connection. All connections are opened here.
fn open(path: &Path, access: Access, settings: Settings) -> Sql<Connection> {
    let uri;
    let (path, flags) = match access {
        Access::Write => (path, OpenFlags::SQLITE_OPEN_READ_WRITE),
        Access::Read => (path, OpenFlags::SQLITE_OPEN_READ_ONLY),
        Access::Frozen => {
            uri = immutable(path);
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
            (Path::new(&uri), flags)
        }
    };
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    keep_plans(&conn)?;
    conn.busy_timeout(settings.busy_timeout)?;
    let (_, synchronous) = level(settings.synchronous);
    conn.pragma_update(None, "synchronous", synchronous)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(conn)
}

/// Opens an empty file, to copy a whole database into it.
pub(super) fn empty(path: &Path, settings: Settings) -> Sql<Connection> {
    open(path, Access::Write, settings)
}

/// Opens a whole file that nobody changes, to read it. No other file is needed, so its name may be removed.
pub(super) fn private(path: &Path, settings: Settings) -> Sql<Connection> {
    let conn = open(path, Access::Frozen, settings)?;
    only_reads(&conn)?;
    // SQLite reads the beginning of the file now, under its name.
    conn.query_row("SELECT count(*) FROM sqlite_schema", (), |_| Ok(()))?;
    Ok(conn)
}

/// Returns the URI by which SQLite reads a file that does not change, without any other file.
fn immutable(path: &Path) -> String {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                uri.push(char::from(*byte));
            }
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri + "?immutable=1"
}

/// Opens the file and its log, and closes them. SQLite then removes the log if no other process has it open.
pub(super) fn and_close(path: &Path, settings: Settings) -> Sql<()> {
    let conn = open(path, Access::Write, settings)?;
    conn.query_row("SELECT count(*) FROM sqlite_schema", (), |_| Ok(()))?;
    conn.close().map_err(|(_, error)| error)
}

fn connect(path: &Path, options: &Options) -> Result<Connection, Stop> {
    let conn = open(path, Access::Write, Settings::of(options))?;
    // Only reads, so that a refused file is not changed.
    schema::check(&conn, &path.display().to_string())?;
    if conn.is_readonly(rusqlite::MAIN_DB)? {
        return Err(Stop::Refused(errors::read_only(path)));
    }
    let since = Instant::now();
    let mode = loop {
        // SQLite does not wait for locks when it changes the mode.
        match conn.query_row("PRAGMA journal_mode = WAL", (), |row| {
            row.get::<_, String>(0)
        }) {
            Err(e) if errors::is_busy(&e) && since.elapsed() < options.busy_timeout => {
                std::thread::sleep(Duration::from_millis(5));
            }
            other => break other?,
        }
    };
    if mode != "wal" {
        return Err(Stop::Refused(Error::Unusable(format!(
            "'{}' is on a file system that does not let processes share memory (a network share?); \
             put it on a local disk",
            path.display()
        ))));
    }
    is_durable(&conn, path, options.synchronous)?;
    Ok(conn)
}

/// Opens a connection that only reads, to the files of an open store.
pub(super) fn reader(files: &OpenFiles, settings: Settings) -> Result<Connection, Stop> {
    files.check()?;
    let conn = open(files.path(), files.access(), settings)?;
    // Another file may have replaced this one in the meantime.
    files.check()?;
    if files.access() == Access::Write {
        is_durable(&conn, files.path(), settings.synchronous)?;
    }
    only_reads(&conn)?;
    Ok(conn)
}

/// Returns a number that changes when another connection, of any process, has committed.
pub(super) fn data_version(conn: &Connection) -> Sql<i64> {
    let mut version = conn.prepare_cached("PRAGMA data_version")?;
    version.query_row((), |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::{super::Synchronous, *};

    fn options(synchronous: Synchronous) -> Options {
        Options {
            synchronous,
            ..Options::default()
        }
    }

    fn found(conn: &Connection) -> (i64, String) {
        let read = |pragma| conn.pragma_query_value(None, pragma, |row| row.get(0));
        let mode = conn.pragma_query_value(None, "journal_mode", |row| row.get(0));
        (read("synchronous").unwrap(), mode.unwrap())
    }

    #[test]
    fn the_writer_and_every_reader_are_as_durable_as_the_store() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tasks.db");
        for (synchronous, number) in [(Synchronous::Full, 2), (Synchronous::Normal, 1)] {
            let options = options(synchronous);
            let (files, conn) = writer(&path, &options).unwrap();
            assert_eq!(found(&conn), (number, "wal".to_owned()));
            let reading = reader(&files, Settings::of(&options)).unwrap();
            assert_eq!(found(&reading), (number, "wal".to_owned()));
        }
    }

    /// The files were identified before SQLite had opened the log. A program that closed the file in between deleted
    /// the log, and the reader reported the log as moved, deleted or replaced.
    #[test]
    fn a_reader_has_opened_the_log_that_it_identifies() {
        let folder = tempfile::tempdir().unwrap();
        let path: Arc<Path> = folder.path().join("tasks.db").into();
        let options = Options::default();
        let (_, writer) = super::writer(&path, &options).unwrap();
        let (files, reader) = first_reader(&path, Access::Read, Settings::of(&options)).unwrap();
        drop(writer);
        files.check().unwrap();
        drop(reader);
    }

    /// SQLite deletes the log with the last connection. A reader that the same store opened at that moment reported the log
    /// as moved, deleted or replaced, as an error of a command that had succeeded.
    #[test]
    fn a_log_that_goes_with_the_last_connection_is_no_fault() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tasks.db");
        let options = Options::default();
        let (files, writer) = super::writer(&path, &options).unwrap();
        files.close();
        files.check().unwrap();
        drop(writer);
        for _ in 0..2 {
            let error = files.check().unwrap_err();
            assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        }
    }

    /// Reads the settings of the four readers and the writer, and checks that no other source opens a
    /// connection.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_connection_of_an_open_store_syncs_each_commit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tasks.db");
        let clock = crate::clock::SystemClock::shared();
        let store = super::super::SqliteStore::open(path, Options::default(), clock);
        let store = store.await.unwrap();
        let together = Arc::new(std::sync::Barrier::new(4));
        let read = || {
            let together = together.clone();
            store.0.readers.run("look", move |conn| {
                together.wait();
                Ok(found(conn))
            })
        };
        let durable = (2, "wal".to_owned());
        let (a, b, c, d) = tokio::join!(read(), read(), read(), read());
        for reader in [a, b, c, d] {
            assert_eq!(reader.unwrap(), durable);
        }
        let writer = |batch: &mut super::super::batch::Batch<'_>| Ok(found(batch.connection()));
        assert_eq!(
            store.0.writer.run("look", 1, writer).await.unwrap(),
            durable
        );
        // The thread of the hub opens one more with `reader`.
        let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/sqlite");
        let (mut sources, mut opened) = (vec![std::path::PathBuf::from(sources)], Vec::new());
        while let Some(path) = sources.pop() {
            if path.is_dir() {
                let entries = std::fs::read_dir(path).unwrap();
                sources.extend(entries.map(|entry| entry.unwrap().path()));
                continue;
            }
            if path.ends_with("tests.rs") {
                continue;
            }
            let text = std::fs::read_to_string(path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let lines = code.lines().map(str::trim).filter(|l| !l.starts_with("//"));
            // A connection in memory is not a store.
            let lines =
                lines.filter(|l| l.contains("Connection::open") && !l.contains("in_memory"));
            opened.extend(lines.map(str::to_owned));
        }
        assert_eq!(
            opened,
            ["let conn = Connection::open_with_flags(path, flags)?;"]
        );
    }
}
