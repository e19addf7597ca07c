//! The tables, and the check that a file has the tables of this program.
//!
//! The file may have tables of other programs. So the version is a row of `windlass_meta`, and the tables of
//! windlass are recognised by the prefix of their names.

mod compare;

pub(super) use compare::{Differences, differences, repair};
use rusqlite::{Connection, TransactionBehavior};

use super::{batch::Sql, errors::Stop, texts::Text};
use crate::store::Error;

/// Marks a file that windlass has created, in SQLite's own header (shown by `file` and other tools):
/// "Wdls".
const APPLICATION_ID: i32 = 0x5764_6c73;

/// The version of [`TABLES`] that this program reads and writes. A file stores it in the row `version`
/// of `windlass_meta`. Before 0.1 that row was called `schema`, and had numbers up to 14.
pub(super) const VERSION: i64 = 1;

const TABLES: &str = include_str!("schema/tables.sql");

/// Makes the tables of a file that has none, in one transaction. `file` is its name in errors. Other tables in
/// the file stay as they are.
pub(super) fn make(conn: &mut Connection, file: &str) -> Result<(), Stop> {
    if let Contents::Tables = contents(conn, file)? {
        return Ok(());
    }
    let tx = conn.transaction_with_behavior(TransactionBehavior::Exclusive)?;
    let is_ours = match contents(&tx, file)? {
        // Another process has made them in the meantime. A later version will convert the tables of an earlier
        // one here.
        Contents::Tables => return Ok(()),
        Contents::None { is_ours, .. } => is_ours,
    };
    tx.execute_batch(TABLES)?;
    tx.execute(
        "INSERT INTO windlass_meta (name, value) VALUES ('version', ?1)",
        [VERSION],
    )?;
    if is_ours {
        tx.pragma_update(None, "application_id", APPLICATION_ID)?;
        tx.pragma_update(None, "user_version", VERSION)?;
    }
    tx.commit()?;
    Ok(())
}

/// Refuses a file of another version, and a file whose tables have names of windlass but do not belong to
/// it. Accepts a file without such tables.
pub(super) fn check(conn: &Connection, file: &str) -> Result<(), Stop> {
    contents(conn, file).map(|_| ())
}

/// Refuses a file in which this program has not created its tables yet.
pub(super) fn has_tables(conn: &Connection, file: &str) -> Result<(), Stop> {
    match contents(conn, file)? {
        Contents::Tables => Ok(()),
        Contents::None { .. } => Err(Error::Unusable(format!(
            "could not read '{file}': it has no tables of windlass yet, and this user cannot write the file; submit a \
             task as a user that can"
        ))
        .into()),
    }
}

/// Returns whether the file has tables, but none of windlass.
pub(super) fn is_foreign(conn: &Connection, file: &str) -> Result<bool, Stop> {
    Ok(match contents(conn, file)? {
        Contents::Tables => false,
        Contents::None { is_foreign, .. } => is_foreign,
    })
}

/// Returns the stored version of an open file.
pub(super) fn stored(conn: &Connection) -> Sql<i64> {
    number(conn, "version")
}

fn number(conn: &Connection, name: &str) -> Sql<i64> {
    let mut number = conn.prepare_cached("SELECT value FROM windlass_meta WHERE name = ?1")?;
    number.query_row([name], |row| row.get(0))
}

/// The content of a file.
enum Contents {
    /// The tables of this version.
    Tables,
    /// No tables of windlass.
    None {
        /// Whether the file has tables of other programs.
        is_foreign: bool,
        /// Whether the file is empty. Then windlass sets the two numbers in SQLite's header, which another
        /// program may use in its own file.
        is_ours: bool,
    },
}

fn contents(conn: &Connection, file: &str) -> Result<Contents, Stop> {
    // One statement, which sees a single moment: another process may be creating the file.
    let (id, header, tables, ours, has_meta): (i32, i32, i64, Option<String>, bool) = conn
        .query_row(
            "SELECT application_id, user_version, count(name),
                min(name) FILTER (WHERE name LIKE 'windlass\\_%' ESCAPE '\\'),
                ifnull(max(name = 'windlass_meta'), 0)
         FROM pragma_application_id, pragma_user_version LEFT JOIN sqlite_schema",
            (),
            |row| {
                Ok((
                    row.get(0)?,
                    row.get(1)?,
                    row.get(2)?,
                    row.get::<_, Option<Text>>(3)?.map(Text::of),
                    row.get(4)?,
                ))
            },
        )?;
    let unusable = |text| Err(Error::Unusable(text).into());
    let development = |schema: i64| {
        unusable(format!(
            "could not open '{file}': it was written by a development version of windlass (schema {schema}) before \
             0.1; let that version end its tasks, and choose another file"
        ))
    };
    match (has_meta, ours) {
        (true, _) => {}
        (false, Some(name)) => {
            return unusable(format!(
                "'{file}' has a table or index '{name}' and no table 'windlass_meta': it is not a store of \
                 windlass; rename '{name}', or choose another file"
            ));
        }
        // The first development versions had tables without the prefix.
        (false, None) if id == APPLICATION_ID && header != 0 => return development(header.into()),
        (false, None) => {
            return Ok(Contents::None {
                is_foreign: tables > 0,
                is_ours: id == 0 && header == 0 && tables == 0,
            });
        }
    }
    match (stored(conn), number(conn, "schema")) {
        (Ok(VERSION), _) => Ok(Contents::Tables),
        (Ok(version @ 1..), _) => unusable(format!(
            "'{file}' was written by a newer windlass (schema {version}; this program knows up to {VERSION}); update \
             this program, or choose another file"
        )),
        (_, Ok(schema)) => development(schema),
        _ => unusable(format!(
            "could not open '{file}': its table 'windlass_meta' has no row 'version' with a number; restore a \
             backup, or choose another file"
        )),
    }
}

#[cfg(test)]
mod tests;
