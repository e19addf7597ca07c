//! Tests of the check of files.

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

#[test]
fn a_new_file_names_its_version() {
    let mut conn = Connection::open_in_memory().unwrap();
    for _ in 0..2 {
        make(&mut conn, "f").unwrap();
        assert_eq!(stored(&conn).unwrap(), VERSION);
        assert_eq!(header(&conn), (APPLICATION_ID.into(), VERSION));
    }
    let names = "SELECT count(*) FROM sqlite_schema
         WHERE name NOT LIKE 'windlass\\_%' ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
    let without: i64 = conn.query_row(names, (), |row| row.get(0)).unwrap();
    assert_eq!(without, 0, "every name has the prefix");
}

#[test]
fn tables_that_cannot_be_made_leave_the_file_as_it_was() {
    let mut conn = Connection::open_in_memory().unwrap();
    conn.execute_batch("CREATE TABLE theirs (x); PRAGMA max_page_count = 12")
        .unwrap();
    assert!(matches!(make(&mut conn, "f"), Err(Stop::Sql(_))));
    assert!(is_foreign(&conn, "f").unwrap(), "no table of windlass");
    conn.execute_batch("PRAGMA max_page_count = 1000").unwrap();
    make(&mut conn, "f").unwrap();
    assert!(matches!(contents(&conn, "f"), Ok(Contents::Tables)));
}

/// Every version before 0.1 is recognised: up to 6 by the header, from 7 on by the row `schema`.
#[test]
fn a_file_of_a_development_version_is_refused_by_its_number() {
    for schema in 1..=14 {
        let mut conn = Connection::open_in_memory().unwrap();
        let tables = match schema {
            ..7 => format!(
                "CREATE TABLE tasks (n INTEGER PRIMARY KEY); PRAGMA application_id = {APPLICATION_ID};
                 PRAGMA user_version = {schema};"
            ),
            _ => format!(
                "CREATE TABLE windlass_meta (name, value); INSERT INTO windlass_meta VALUES ('schema', {schema});"
            ),
        };
        conn.execute_batch(&tables).unwrap();
        let text = reported(make(&mut conn, "f"));
        let says = format!(
            "could not open 'f': it was written by a development version of windlass (schema {schema}) before 0.1; "
        );
        assert!(text.starts_with(&says), "{text}");
        assert_eq!(reported(check(&conn, "f")), text);
    }
}

#[test]
fn a_newer_file_is_refused() {
    let mut conn = Connection::open_in_memory().unwrap();
    make(&mut conn, "f").unwrap();
    let newer = "UPDATE windlass_meta SET value = 2 WHERE name = 'version'";
    conn.execute(newer, ()).unwrap();
    let text = reported(make(&mut conn, "f"));
    assert!(
        text.contains("newer windlass (schema 2; this program knows up to 1)"),
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
        let names = ["tasks", "states", "commands", "leases", "changes", "meta"];
        for name in names {
            theirs += &format!(
                "CREATE TABLE {name} (theirs); INSERT INTO {name} VALUES (7);
                 CREATE INDEX {name}_live ON {name} (theirs);"
            );
        }
        conn.execute_batch(&theirs).unwrap();
        let before = header(&conn);
        for _ in 0..2 {
            make(&mut conn, "f").unwrap();
        }
        for name in names {
            let read = format!("SELECT theirs FROM {name}");
            let found: i64 = conn.query_row(&read, (), |row| row.get(0)).unwrap();
            assert_eq!(found, 7);
        }
        assert_eq!(header(&conn), before, "their numbers");
        assert_eq!(stored(&conn).unwrap(), VERSION);
    }
}

/// A program may use SQLite's `user_version` for its own tables in a file that windlass has created.
#[test]
fn a_header_that_another_program_has_written_changes_nothing() {
    let mut conn = Connection::open_in_memory().unwrap();
    make(&mut conn, "f").unwrap();
    for theirs in [0, 3, 99] {
        conn.pragma_update(None, "user_version", theirs).unwrap();
        make(&mut conn, "f").unwrap();
        assert_eq!(header(&conn).1, theirs);
    }
}

#[test]
fn tables_with_the_prefix_that_are_not_of_windlass_are_refused() {
    for (theirs, reason) in [
        ("CREATE TABLE windlass_tasks (x)", "rename 'windlass_tasks'"),
        (
            "CREATE TABLE windlass_meta (x)",
            "has no row 'version' with a number",
        ),
        (
            "CREATE TABLE windlass_meta (name, value); INSERT INTO windlass_meta VALUES ('version', 'x')",
            "has no row 'version' with a number",
        ),
        (
            "CREATE TABLE windlass_meta (name, value); INSERT INTO windlass_meta VALUES ('version', 0)",
            "has no row 'version' with a number",
        ),
    ] {
        let mut conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(theirs).unwrap();
        let text = reported(make(&mut conn, "f"));
        assert!(text.contains(reason), "{text}");
        assert!(text.contains("choose another file"), "{text}");
    }
}
