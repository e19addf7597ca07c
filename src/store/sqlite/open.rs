//! Opening files: what a file must be, and how connections are set up.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use rusqlite::{Connection, OpenFlags, config::DbConfig};

use super::{
    Options, Synchronous,
    batch::Sql,
    errors::{self, Stop},
    file::{self, OpenFiles, Opening},
    schema,
};
use crate::store::Error;

/// How many statements a connection keeps ready.
const STATEMENTS: usize = 128;
/// The size of the log at which it is written back to the file, in pages. The larger, the fewer
/// pages are written twice: twice the throughput of SQLite's default of 1,000.
const CHECKPOINT_PAGES: i64 = 10_000;

/// Opens the file for writing, creates it if there is none, and migrates it to the newest version.
pub(super) fn writer(
    path: &Path,
    options: &Options,
) -> Result<(Arc<OpenFiles>, Connection), Error> {
    let path: Arc<Path> = file::prepare(path)?.into();
    let opening = Opening::at(path.clone())?;
    let mut conn = connect(&path, options).map_err(|e| stop(&path, e))?;
    let file = path.display().to_string();
    schema::migrate(&mut conn, &file, schema::MIGRATIONS).map_err(|e| stop(&path, e))?;
    configure(&conn, options).map_err(|e| errors::opening(&path, &e))?;
    // The writer waits in a way of its own.
    conn.busy_timeout(Duration::ZERO)
        .map_err(|e| errors::opening(&path, &e))?;
    Ok((Arc::new(opening.opened()?), conn))
}

fn stop(path: &Path, stop: Stop) -> Error {
    match stop {
        Stop::Sql(error) => errors::opening(path, &error),
        Stop::Told(error) => error,
    }
}

fn connect(path: &Path, options: &Options) -> Result<Connection, Stop> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    keep_plans(&conn)?;
    conn.busy_timeout(options.busy_timeout)?;
    // Nothing is changed in a file that is not ours: this only reads.
    schema::check(&conn, &path.display().to_string())?;
    if conn.is_readonly(rusqlite::MAIN_DB)? {
        return Err(Stop::Told(errors::read_only(path)));
    }
    let since = Instant::now();
    let mode = loop {
        // Changing the mode does not wait for locks by itself.
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
        return Err(Stop::Told(Error::Unusable(format!(
            "'{}' is on a file system that does not let processes share memory (a network share?); \
             put it on a local disk",
            path.display()
        ))));
    }
    Ok(conn)
}

/// Statements are planned once. Otherwise SQLite plans many of them anew each time that a value is
/// bound, in case a partial index fits that very value; here that was most of the time of a submit,
/// a claim, and a look of a watch.
fn keep_plans(conn: &Connection) -> Sql<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
        .map(drop)
}

fn configure(conn: &Connection, options: &Options) -> Sql<()> {
    let synchronous = match options.synchronous {
        Synchronous::Full => "FULL",
        Synchronous::Normal => "NORMAL",
    };
    conn.pragma_update(None, "synchronous", synchronous)?;
    conn.pragma_update(None, "cache_size", -i64::from(options.cache_mib) * 1024)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.query_row(
        &format!("PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}"),
        (),
        |_| Ok(()),
    )?;
    // After a burst, the log gives its disk space back.
    conn.query_row("PRAGMA journal_size_limit = 67108864", (), |_| Ok(()))?;
    if let Some(bytes) = options.max_file_bytes {
        let page: i64 = conn.pragma_query_value(None, "page_size", |row| row.get(0))?;
        let pages = (bytes / page.unsigned_abs().max(1)).max(1);
        conn.query_row(&format!("PRAGMA max_page_count = {pages}"), (), |_| Ok(()))?;
    }
    conn.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(())
}

/// Opens a connection that only reads, to the files that a [`writer`] has open.
pub(super) fn reader(files: &OpenFiles, busy_timeout: Duration) -> Result<Connection, Stop> {
    files.check()?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(files.path(), flags)?;
    // Nothing of another file is read that has come in the place of this one.
    files.check()?;
    keep_plans(&conn)?;
    conn.busy_timeout(busy_timeout)?;
    conn.pragma_update(None, "query_only", true)?;
    conn.pragma_update(None, "cache_size", -16 * 1024)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(conn)
}

/// A number that changes when another connection, of any process, has committed.
pub(super) fn data_version(conn: &Connection) -> Sql<i64> {
    let mut version = conn.prepare_cached("PRAGMA data_version")?;
    version.query_row((), |row| row.get(0))
}
