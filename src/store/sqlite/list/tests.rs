//! Which rows the lists read.

use rusqlite::StatementStatus;

use super::*;
use crate::store::sqlite::schema;

/// Makes a file with `ended` ended tasks and then `live` live ones, the first of them claimed.
fn file_with(ended: i64, live: i64) -> Connection {
    let mut conn = Connection::open_in_memory().unwrap();
    schema::make(&mut conn, "f").unwrap();
    conn.execute_batch(
        "INSERT INTO windlass_leases (node, spec, status, ttl, boot, expires, joined_at)
         VALUES ('n', '{}', '{}', 1, '', 1, 1)",
    )
    .unwrap();
    let state = |code, ended: &str, owner: &str| {
        format!(
            "INSERT INTO windlass_states VALUES (?1, 1, {code}, 0, {owner}, 1, 1, 0, 4, 1, NULL, {ended}, NULL, '{{}}', 1, 0, 0, NULL, -1)"
        )
    };
    for n in 1..=ended + live {
        let task = "INSERT INTO windlass_tasks (n, id, kind, priority, submitted_at, props)
                    VALUES (?1, 'id' || ?1, 'k', 0, 0, 'null')";
        conn.execute(task, [n]).unwrap();
        let state = match n - ended {
            ..1 => state(4, "1", "NULL"),
            1 => state(1, "NULL", "1"),
            _ => state(1, "NULL", "NULL"),
        };
        conn.execute(&state, [n]).unwrap();
    }
    conn
}

/// Makes a file like [`file_with`], with ten live tasks.
fn file(ended: i64) -> Connection {
    file_with(ended, 10)
}

/// Returns the number of steps that SQLite takes for a list, and the number of rows.
fn steps(ended: i64, filter: &Filter) -> (i32, usize) {
    let conn = file(ended);
    let (sql, values) = by_submit(filter, Some(0), true);
    let mut statement = conn.prepare(&sql).unwrap();
    let mut rows = statement.query(rusqlite::params_from_iter(values)).unwrap();
    let mut found = 0;
    while rows.next().unwrap().is_some() {
        found += 1;
    }
    drop(rows);
    (statement.get_status(StatementStatus::VmStep), found)
}

/// A run reads the results of the tasks that it has waited for by their ids.
#[test]
fn a_list_of_named_tasks_reads_no_others() {
    let steps = |ended| {
        let conn = file(ended);
        let filter = Filter::new().ids(["id3", "id5", "none"].map(|id| id.parse().unwrap()));
        let (sql, values) = by_id(&filter, None, true);
        let mut statement = conn.prepare(&sql).unwrap();
        let mut rows = statement.query(rusqlite::params_from_iter(values)).unwrap();
        let mut found = 0;
        while rows.next().unwrap().is_some() {
            found += 1;
        }
        drop(rows);
        (statement.get_status(StatementStatus::VmStep), found)
    };
    let (few, many) = (steps(10), steps(10_000));
    assert_eq!((few.1, many.1), (2, 2));
    assert!(many.0 < few.0 + 100, "{few:?} {many:?}");
}

#[test]
fn a_list_of_live_tasks_reads_no_ended_task() {
    let live = Filter {
        states: vec![StateKind::Runnable, StateKind::Sleeping],
        ..Filter::default()
    };
    let of_kind = Filter {
        kind: Some("k".parse().unwrap()),
        ..live.clone()
    };
    let of_node = Filter {
        node: Some("n".parse().unwrap()),
        ..Filter::default()
    };
    let claimed = Filter {
        claimed: true,
        ..Filter::default()
    };
    for (filter, tasks) in [(live, 10), (of_kind, 10), (of_node, 1), (claimed, 1)] {
        let (alone, found) = steps(0, &filter);
        assert_eq!(found, tasks, "{filter:?}");
        let among = steps(3000, &filter);
        assert_eq!(among, (alone, tasks), "{filter:?}");
    }
}

/// Returns the number of steps that SQLite takes for the first ten rows of a query.
fn first_steps(conn: &Connection, (sql, values): (String, Vec<Value>)) -> i32 {
    let mut statement = conn.prepare(&sql).unwrap();
    let mut rows = statement.query(params_from_iter(values)).unwrap();
    for n in 0..10 {
        assert!(rows.next().unwrap().is_some(), "{n}: {sql}");
    }
    drop(rows);
    statement.get_status(StatementStatus::VmStep)
}

#[test]
fn a_page_by_submit_by_id_or_by_end_reads_what_it_returns() {
    let all = Filter::default();
    let (few, many) = (file_with(100, 100), file_with(3000, 3000));
    for ascending in [true, false] {
        let steps = |conn| {
            let by_submit = by_submit(&all, None, ascending);
            let behind = by_submit_behind(conn, ascending);
            let by_end = by_end(&all, StateKind::Completed, None, ascending);
            let by_id = by_id(&all, None, ascending);
            [by_submit, behind, by_end, by_id].map(|query| first_steps(conn, query))
        };
        // The rows themselves differ by a few steps, because some tasks have a node.
        for (few, many) in steps(&few).into_iter().zip(steps(&many)) {
            assert!(many < few + 20, "{ascending}: {few} and {many} steps");
        }
    }
}

/// A page from the middle of the list.
fn by_submit_behind(conn: &Connection, ascending: bool) -> (String, Vec<Value>) {
    let middle = "SELECT max(n) / 2 FROM windlass_tasks";
    let middle: i64 = conn.query_row(middle, (), |row| row.get(0)).unwrap();
    by_submit(&Filter::default(), Some(middle as u64), ascending)
}

#[test]
fn failed_tasks_with_an_error_and_tasks_that_wait_for_a_signal_are_found_among_others() {
    let failed = Filter {
        states: vec![StateKind::Failed],
        fingerprint: Some("000000000007".to_owned()),
        ..Filter::default()
    };
    let waiting = Filter {
        awaits_signal: true,
        ..Filter::default()
    };
    let steps = |tasks: i64| {
        let conn = file_with(tasks, tasks);
        let fail = "UPDATE windlass_states SET code = 5, failure = iif(n % 9 = 0 AND n < 100, 7, 8) WHERE code = 4";
        conn.execute(fail, ()).unwrap();
        let wait =
            "UPDATE windlass_states SET waits = -1 WHERE code = 1 AND n % 9 = 0 AND n - ?1 < 100";
        conn.execute(wait, [tasks]).unwrap();
        let by_end = by_end(&failed, StateKind::Failed, None, false);
        let by_submit = by_submit(&waiting, None, false);
        [by_end, by_submit].map(|query| first_steps(&conn, query))
    };
    for (few, many) in steps(100).into_iter().zip(steps(3000)) {
        assert!(many < few + 20, "{few} and {many} steps");
    }
}

#[test]
fn the_end_of_a_prefix() {
    assert_eq!(after_prefix("ab").as_deref(), Some("ac"));
    assert_eq!(after_prefix("a\u{d7ff}").as_deref(), Some("a\u{e000}"));
    assert_eq!(after_prefix("a\u{10ffff}").as_deref(), Some("b"));
    assert_eq!(after_prefix("\u{10ffff}"), None);
    assert_eq!(after_prefix(""), None);
}
