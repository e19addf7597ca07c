//! Compares the tables of a file with those of this program.

use std::{collections::BTreeMap, path::Path};

use rusqlite::Connection;

use super::{super::texts::Text, TABLES};
use crate::store::{
    Advice, Error, Remedy,
    examine::{Finding, Strays, Verdict},
    sqlite::batch::{Batch, Sql},
};

/// Selects the name, the kind and the SQL of tables, indexes and triggers.
const OBJECTS: &str = "SELECT name, type, sql FROM sqlite_schema
     WHERE sql IS NOT NULL AND name LIKE 'windlass\\_%' ESCAPE '\\'";

/// A table, an index or a trigger.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Object {
    kind: String,
    sql: String,
}

/// The differences between a file and the tables of this program.
#[derive(Debug, Default)]
pub(in crate::store::sqlite) struct Differences {
    /// The missing indexes and triggers, each with its SQL. They can be recreated.
    missing: BTreeMap<String, Object>,
    /// Other missing or differing objects.
    wrong: Strays,
}

fn objects(conn: &Connection) -> Sql<BTreeMap<String, Object>> {
    let mut objects = conn.prepare(OBJECTS)?;
    let read = objects.query_map((), |row| {
        let text = |column| row.get(column).map(Text::of);
        let (name, kind, sql) = (text(0)?, text(1)?, text(2)?);
        Ok((name, Object { kind, sql }))
    })?;
    read.collect()
}

/// Compares the tables, indexes and triggers.
pub(in crate::store::sqlite) fn differences(conn: &Connection) -> Sql<Differences> {
    let expected = Connection::open_in_memory()?;
    expected.execute_batch(TABLES)?;
    let found = objects(conn)?;
    let mut differences = Differences::default();
    for (name, object) in objects(&expected)? {
        match found.get(&name) {
            Some(there) if *there == object => {}
            None if object.kind != "table" => {
                differences.missing.insert(name, object);
            }
            None => differences
                .wrong
                .add(format!("{} {name} is missing", object.kind)),
            Some(_) => differences
                .wrong
                .add(format!("{} {name} was changed", object.kind)),
        }
    }
    Ok(differences)
}

/// Recreates the missing indexes and triggers, and returns their number.
pub(in crate::store::sqlite) fn repair(batch: &Batch<'_>) -> Sql<u64> {
    let conn = batch.connection();
    let missing = differences(conn)?.missing;
    for object in missing.values() {
        conn.execute_batch(&object.sql)?;
    }
    Ok(missing.len() as u64)
}

impl Differences {
    /// Returns whether the file has everything that this program creates.
    pub(in crate::store::sqlite) fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.wrong.count == 0
    }

    /// Checks that the file is one for nodes.
    ///
    /// # Errors
    ///
    /// [`Error::Unusable`] that names what is missing or was changed.
    pub(in crate::store::sqlite) fn check(&self, path: &Path) -> Result<(), Error> {
        if self.is_empty() {
            return Ok(());
        }
        let found = self.finding(0).found;
        let then = match self.wrong.count {
            0 => "let the doctor repair it",
            _ => "stop every program that uses it, and restore a backup",
        };
        let file = path.display();
        Err(Error::Unusable(format!(
            "'{file}' is no store for a node: {found}; {then}"
        )))
    }

    /// Returns the finding. `repaired` indexes and triggers were recreated.
    pub(in crate::store::sqlite) fn finding(&self, repaired: u64) -> Finding {
        let missing = self.missing.iter();
        let mut found: Vec<String> = missing
            .map(|(name, object)| format!("{} {name} is missing", object.kind))
            .collect();
        found.extend(self.wrong.names.iter().cloned());
        if found.is_empty() {
            return Finding {
                repaired,
                ..Finding::ok("tables", "as this program makes them")
            };
        }
        let advice = match self.wrong.count {
            0 => Advice::new("a repair makes them again", Remedy::Repair),
            _ => {
                let text = "stop every program that uses the file, and restore a backup; an export writes what can \
                            still be read to a file";
                Advice::new(text, Remedy::Export)
            }
        };
        Finding {
            repaired,
            ..Finding::new("tables", Verdict::Error, found.join(", "), advice)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::schema;

    fn found(change: &str) -> (Verdict, String) {
        let mut conn = Connection::open_in_memory().unwrap();
        schema::make(&mut conn, "memory").unwrap();
        conn.execute_batch(change).unwrap();
        let finding = differences(&conn).unwrap().finding(0);
        (finding.verdict, finding.found)
    }

    #[test]
    fn what_is_missing_or_changed_is_named() {
        let whole = found("CREATE TABLE mine (a); CREATE INDEX my_index ON windlass_tasks (kind)");
        assert_eq!(
            whole,
            (Verdict::Ok, "as this program makes them".to_owned())
        );
        for (change, says) in [
            (
                "DROP INDEX windlass_states_owned",
                "index windlass_states_owned is missing",
            ),
            (
                "DROP TRIGGER windlass_inbox_corrected",
                "trigger windlass_inbox_corrected is missing",
            ),
            ("DROP TABLE windlass_held", "table windlass_held is missing"),
            (
                "ALTER TABLE windlass_states DROP COLUMN lost_by",
                "table windlass_states was changed",
            ),
        ] {
            let (verdict, text) = found(change);
            assert_eq!(verdict, Verdict::Error, "{change}");
            assert!(text.contains(says), "{change}: {text}");
        }
    }
}
