//! The named values.

use rusqlite::{Connection, Row};

use super::{
    audit,
    batch::{Batch, Sql},
    errors::Stop,
    texts::Text,
};
use crate::store::{AuditAction, NamedValue, SetValue};

fn value(row: &Row<'_>) -> Sql<NamedValue> {
    let text = |column| row.get(column).map(Text::of);
    let version = row.get::<_, i64>(2)?.unsigned_abs();
    Ok(NamedValue::new(text(0)?, text(1)?, version))
}

/// Returns the values whose names begin with a text, by name.
pub(super) fn read(conn: &Connection, folder: &str) -> Result<Vec<NamedValue>, Stop> {
    let mut values = conn.prepare_cached(
        "SELECT name, value, version FROM windlass_values
         WHERE name >= ?1 AND substr(name, 1, length(?1)) = ?1 ORDER BY name",
    )?;
    let values = values.query_map([folder], value)?;
    Ok(values.collect::<Sql<Vec<_>>>()?)
}

/// Sets or deletes a value, with the present author; `false` when the present value is not the expected one.
pub(super) fn set(batch: &Batch<'_>, change: &SetValue) -> Result<bool, Stop> {
    let name = &change.name;
    let version = "SELECT version FROM windlass_values WHERE name = ?1";
    let present = batch.first(version, [name], |row| row.get::<_, i64>(0))?;
    if !change.expected.is(present.map(i64::unsigned_abs)) {
        return Ok(false);
    }
    match &change.text {
        None if present.is_none() => return Ok(true),
        None => batch.run("DELETE FROM windlass_values WHERE name = ?1", [name])?,
        Some(text) => {
            // Random, so that a deleted value that is set again has another version.
            let version = fastrand::i64(1..1 << 53);
            batch.run(
                "INSERT OR REPLACE INTO windlass_values (name, value, version) VALUES (?1, ?2, ?3)",
                (name, text, version),
            )?
        }
    };
    audit::add(batch, &AuditAction::of_value(change))?;
    Ok(true)
}
