//! The mark of a file that was copied into another store ([`Copied`]): a row of `windlass_meta`, and triggers that
//! refuse to start work. A file without the mark has no triggers, so that its writes cost nothing extra. A trigger
//! also stops programs that opened the file before the copy.

use rusqlite::Connection;

use super::{
    batch::{Batch, Sql, first},
    codes, columns,
    errors::{Stop, is_of_trigger},
    json,
};
use crate::store::{Error, copy::Copied, examine::Finding};

/// Returns the triggers, each with its table and its condition.
fn triggers() -> [(&'static str, String); 3] {
    let starts = codes::STARTS.map(|what| what.to_string()).join(", ");
    [
        ("windlass_changes", format!("NEW.what IN ({starts})")),
        ("windlass_leases", "NEW.ended_at IS NULL".to_owned()),
        // The transaction of the other program fails: its row would stay in the inbox for ever.
        ("windlass_inbox", "1".to_owned()),
    ]
}

/// Returns the mark of the file.
///
/// # Errors
///
/// [`Error::Corrupt`] for one that cannot be read.
pub(super) fn read(conn: &Connection) -> Result<Option<Copied>, Stop> {
    let mut read = conn.prepare_cached("SELECT value FROM windlass_meta WHERE name = 'copied'")?;
    let mark = first(&mut read, (), |row| {
        columns::json::<Copied>(row, 0, "copied")
    })?;
    let mark = mark.unwrap_or(Ok(None));
    Ok(mark.map_err(|reason| Error::Corrupt {
        what: "the mark of a copy".to_owned(),
        reason,
    })?)
}

/// Sets the mark, or removes it.
pub(super) fn set(batch: &Batch<'_>, mark: Option<&Copied>) -> Result<(), Stop> {
    let conn = batch.connection();
    for (table, condition) in triggers() {
        conn.execute_batch(&format!("DROP TRIGGER IF EXISTS {table}_copied"))?;
        let Some(mark) = mark else { continue };
        // Programs with an older SQLite also use the file, and their SQLite does not allow an
        // expression here.
        let text = mark
            .refusal()
            .to_string()
            .replace('\'', "''")
            .replace('\0', "");
        conn.execute_batch(&format!(
            "CREATE TRIGGER {table}_copied BEFORE INSERT ON {table} WHEN {condition} BEGIN
                 SELECT RAISE(ABORT, '{text}');
             END"
        ))?;
    }
    match mark {
        Some(mark) => batch.run(
            "INSERT OR REPLACE INTO windlass_meta (name, value) VALUES ('copied', ?1)",
            [json("copied", mark)?],
        )?,
        None => {
            // The store that was backed up has given out fences since, and so may have another copy of the same backup. All of
            // them count less than a million claims a second, so that the time in microseconds is greater.
            if let Ok(Some(mark)) = read(conn)
                && mark.is_backup
            {
                batch.raise_fences(batch.at.max(codes::micros(mark.at)))?;
            }
            batch.run("DELETE FROM windlass_meta WHERE name = 'copied'", ())?
        }
    };
    Ok(())
}

/// Replaces the refusal of a trigger by the error of the mark.
pub(super) fn refused(conn: &Connection, stop: Stop) -> Stop {
    match &stop {
        Stop::Sql(error) if is_of_trigger(error) => match read(conn) {
            Ok(Some(mark)) => Stop::Refused(mark.refusal()),
            // The text of the trigger has the same content.
            Ok(None) | Err(_) => stop,
        },
        _ => stop,
    }
}

/// Examines the mark; `None` for a file without one.
pub(super) fn finding(conn: &Connection) -> Sql<Option<Finding>> {
    let mark = match read(conn) {
        Ok(mark) => Ok(mark),
        Err(Stop::Refused(error)) => Err(error),
        Err(Stop::Sql(error)) => return Err(error),
    };
    Ok(Copied::finding(mark))
}
