//! Tests of the migration.

use super::*;

fn reported(result: Result<(), Stop>) -> String {
    match result {
        Err(Stop::Refused(error)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

fn header(conn: &Connection) -> (i64, i64) {
    let read = |pragma| conn.pragma_query_value(None, pragma, |row| row.get(0));
    (
        read("application_id").unwrap(),
        read("user_version").unwrap(),
    )
}

/// Every column and index of the tables of windlass, without their order.
fn shape(conn: &Connection) -> Vec<String> {
    let mut columns = conn
        .prepare(
            "SELECT s.type || ' ' || s.name || ' ' || c.name || ' ' || c.type || ' ' || c.\"notnull\" || ' '
                 || ifnull(c.dflt_value, '') || ' ' || c.pk
             FROM sqlite_schema s, pragma_table_xinfo(s.name) c
             WHERE s.name LIKE 'windlass\\_%' ESCAPE '\\'
             UNION ALL SELECT sql FROM sqlite_schema
             WHERE name LIKE 'windlass\\_%' ESCAPE '\\' AND type <> 'table' ORDER BY 1",
        )
        .unwrap();
    let rows = columns.query_map((), |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

fn of_version(version: usize) -> Connection {
    let conn = Connection::open_in_memory().unwrap();
    for step in earlier::STEPS.iter().take(version) {
        conn.execute_batch(step).unwrap();
    }
    conn.pragma_update(None, "application_id", APPLICATION_ID)
        .unwrap();
    conn.pragma_update(None, "user_version", version as i64)
        .unwrap();
    conn
}

#[test]
fn a_migrated_file_has_the_tables_of_a_new_one() {
    let mut new = Connection::open_in_memory().unwrap();
    migrate(&mut new, "f").unwrap();
    let expected = shape(&new);
    assert!(expected.len() > 70, "{expected:#?}");
    for version in 1..FIRST {
        let mut conn = of_version(version);
        migrate(&mut conn, "f").unwrap();
        assert_eq!(shape(&conn), expected, "from version {version}");
        assert_eq!(stored(&conn).unwrap(), NEWEST as i64);
        assert_eq!(header(&conn), (APPLICATION_ID.into(), NEWEST as i64));
        let strangers = "SELECT count(*) FROM sqlite_schema
             WHERE name NOT LIKE 'windlass\\_%' ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
        let left: i64 = conn.query_row(strangers, (), |row| row.get(0)).unwrap();
        assert_eq!(left, 0, "from version {version}");
    }
}

#[test]
fn a_step_that_fails_leaves_the_file_as_it_was() {
    let mut conn = of_version(6);
    let broken = ["CREATE TABLE windlass_b (x); nonsense"];
    for _ in 0..2 {
        assert!(matches!(
            migrate_by(&mut conn, "f", &broken),
            Err(Stop::Sql(_))
        ));
        conn.execute_batch("SELECT n FROM tasks").unwrap();
    }
    migrate_by(&mut conn, "f", &[]).unwrap();
    assert!(matches!(
        migrate_by(&mut conn, "f", &broken),
        Err(Stop::Sql(_))
    ));
    assert_eq!(stored(&conn).unwrap(), FIRST as i64);
    migrate_by(&mut conn, "f", &["CREATE TABLE windlass_b (x)"]).unwrap();
    conn.execute("INSERT INTO windlass_b VALUES (1)", [])
        .unwrap();
    assert_eq!(header(&conn).1, FIRST as i64 + 1);
}

#[test]
fn a_newer_file_is_refused() {
    let mut conn = Connection::open_in_memory().unwrap();
    migrate_by(&mut conn, "f", &["", ""]).unwrap();
    let text = reported(migrate_by(&mut conn, "f", &[""]));
    assert!(
        text.contains("newer windlass (schema 9; this program knows up to 8)"),
        "{text}"
    );
}

/// The version is never concluded from the names of tables without the prefix, or from a header that another
/// program has written.
#[test]
fn tables_of_another_program_stay_as_they_are() {
    for numbers in [
        "",
        "PRAGMA user_version = 3;",
        "PRAGMA application_id = 1; PRAGMA user_version = 99;",
    ] {
        let mut conn = Connection::open_in_memory().unwrap();
        let mut theirs = numbers.to_owned();
        let names = [
            "tasks",
            "states",
            "commands",
            "leases",
            "node_commands",
            "changes",
            "gone",
            "transactions",
            "states_alone",
            "meta",
        ];
        for name in names {
            theirs += &format!(
                "CREATE TABLE {name} (theirs); INSERT INTO {name} VALUES (7);
                 CREATE INDEX {name}_live ON {name} (theirs);"
            );
        }
        conn.execute_batch(&theirs).unwrap();
        let before = header(&conn);
        migrate(&mut conn, "f").unwrap();
        let steps = [STEPS, &["CREATE TABLE windlass_b (x)"]].concat();
        migrate_by(&mut conn, "f", &steps).unwrap();
        for name in names {
            let read = format!("SELECT theirs FROM {name}");
            let found: i64 = conn.query_row(&read, (), |row| row.get(0)).unwrap();
            assert_eq!(found, 7);
        }
        assert_eq!(header(&conn), before, "their numbers");
        assert_eq!(stored(&conn).unwrap(), NEWEST as i64 + 1);
    }
}

/// A program may use SQLite's `user_version` for its own tables in a file that windlass has created.
#[test]
fn a_header_that_another_program_has_written_changes_nothing() {
    let mut conn = Connection::open_in_memory().unwrap();
    migrate_by(&mut conn, "f", &[]).unwrap();
    for theirs in [0, 3, 99] {
        conn.pragma_update(None, "user_version", theirs).unwrap();
        migrate_by(&mut conn, "f", &[]).unwrap();
    }
    migrate_by(&mut conn, "f", &["CREATE TABLE windlass_b (x)"]).unwrap();
    assert_eq!(header(&conn).1, 99);
}

#[test]
fn tables_with_the_prefix_that_are_not_of_windlass_are_refused() {
    for (theirs, reason) in [
        ("CREATE TABLE windlass_tasks (x)", "rename 'windlass_tasks'"),
        (
            "CREATE TABLE windlass_meta (x)",
            "has no row 'schema' with a number",
        ),
        (
            "CREATE TABLE windlass_meta (name, value); INSERT INTO windlass_meta VALUES ('schema', 'x')",
            "has no row 'schema' with a number",
        ),
    ] {
        let mut conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(theirs).unwrap();
        let text = reported(migrate(&mut conn, "f"));
        assert!(text.contains(reason), "{text}");
        assert!(text.contains("choose another file"), "{text}");
    }
}
