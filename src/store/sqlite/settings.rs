//! The settings of connections, including those that make a commit durable.

use std::{path::Path, time::Duration};

use rusqlite::{Connection, config::DbConfig};

use super::{
    Options, Synchronous,
    batch::Sql,
    errors::{self, Stop},
};

/// The settings of every connection of an open store.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub(super) busy_timeout: Duration,
    pub(super) synchronous: Synchronous,
}

impl Settings {
    pub(super) fn of(options: &Options) -> Self {
        Self {
            busy_timeout: options.busy_timeout,
            synchronous: options.synchronous,
        }
    }
}

/// Returns the number that SQLite reports for a level, and its name.
pub(super) fn level(synchronous: Synchronous) -> (i64, &'static str) {
    match synchronous {
        Synchronous::Full => (2, "FULL"),
        Synchronous::Normal => (1, "NORMAL"),
    }
}

/// Reads back the settings that make a commit durable, and refuses a connection with other values.
/// This includes connections that only read, because they may write the log back.
pub(super) fn is_durable(
    conn: &Connection,
    path: &Path,
    synchronous: Synchronous,
) -> Result<(), Stop> {
    let (wanted, name) = level(synchronous);
    let found: i64 = conn.pragma_query_value(None, "synchronous", |row| row.get(0))?;
    if found != wanted {
        let set = format!("{wanted} ({name})");
        return Err(errors::not_durable(path, "synchronous", &found.to_string(), &set).into());
    }
    let mode: String = conn.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    if mode != "wal" {
        return Err(errors::not_durable(path, "journal_mode", &mode, "wal").into());
    }
    Ok(())
}

/// Makes SQLite plan each statement once. By default it plans many of them again for each bound value,
/// in case a partial index fits that value, which took most of the time of a submit, a claim and a turn
/// of a watch.
pub(super) fn keep_plans(conn: &Connection) -> Sql<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
        .map(drop)
}

pub(super) fn configure(conn: &Connection, options: &Options) -> Sql<()> {
    conn.pragma_update(None, "cache_size", -i64::from(options.cache_mib) * 1024)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    if let Some(bytes) = options.max_file_bytes {
        let page: i64 = conn.pragma_query_value(None, "page_size", |row| row.get(0))?;
        let pages = (bytes / page.unsigned_abs().max(1)).max(1);
        conn.query_row(&format!("PRAGMA max_page_count = {pages}"), (), |_| Ok(()))?;
    }
    Ok(())
}

pub(super) fn only_reads(conn: &Connection) -> Sql<()> {
    conn.pragma_update(None, "query_only", true)?;
    conn.pragma_update(None, "cache_size", -16 * 1024)
}

#[cfg(test)]
mod tests {
    use super::{super::open::writer, *};
    use crate::store::Error;

    /// `.cargo/config.toml` sets the flags. This one shows that they are used; the other, `HAVE_FDATASYNC`, is not
    /// among the options that SQLite reports.
    #[test]
    fn the_bundled_sqlite_is_built_with_the_flags_of_the_workspace() {
        let conn = Connection::open_in_memory().unwrap();
        let has =
            "SELECT 1 FROM pragma_compile_options WHERE compile_options = 'DEFAULT_MEMSTATUS=0'";
        assert!(conn.prepare(has).unwrap().exists(()).unwrap());
    }

    #[test]
    fn a_connection_that_is_less_durable_than_it_was_set_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tasks.db");
        let (_files, conn) = writer(&path, &Options::default()).unwrap();
        let refused = |conn: &Connection| match is_durable(conn, &path, Synchronous::Full) {
            Err(Stop::Refused(Error::Unusable(text))) => text,
            other => panic!("{other:?}"),
        };
        for (level, number) in [("OFF", 0), ("NORMAL", 1)] {
            conn.pragma_update(None, "synchronous", level).unwrap();
            let text = refused(&conn);
            let expected = format!("synchronous is {number}, not 2 (FULL)");
            assert!(text.contains(&expected), "{text}");
        }
        let other = Connection::open_in_memory().unwrap();
        let text = refused(&other);
        assert!(text.contains("journal_mode is memory, not wal"), "{text}");
    }
}
