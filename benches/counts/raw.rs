//! SQLite without windlass: the bound of what a store on it can do.

use std::path::Path;

use rusqlite::Connection;

use crate::{data, runtime, store};

/// How many items a transaction has.
const A_TRANSACTION: u64 = 100;

/// Replaces a text of 400 bytes, in transactions of 100.
pub(crate) fn updates(count: u64, dir: &Path) {
    let conn = Connection::open(dir.join("raw.db")).unwrap();
    conn.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
         CREATE TABLE rows (n INTEGER PRIMARY KEY, state TEXT NOT NULL)",
    )
    .unwrap();
    for n in 0..A_TRANSACTION {
        let row = (n as i64, text(n));
        conn.execute("INSERT INTO rows VALUES (?1, ?2)", row)
            .unwrap();
    }
    transactions(&conn, count, |call| {
        let sql = "UPDATE rows SET state = ?2 WHERE n = ?1";
        let mut update = conn.prepare_cached(sql).unwrap();
        for n in 0..A_TRANSACTION {
            update.execute((n as i64, text(call + n))).unwrap();
        }
    });
}

/// What a transition has to write in the tables of the store, and no more: the state of the task if its claim
/// stands, and a line of its history.
pub(crate) fn transitions(count: u64, dir: &Path) {
    runtime().block_on(async {
        store::submit(&store::on_sqlite(dir).await, 0..A_TRANSACTION).await;
    });
    let conn = Connection::open(store::file(dir)).unwrap();
    conn.pragma_update(None, "synchronous", "NORMAL").unwrap();
    let mut seq: i64 = conn
        .query_row("SELECT max(seq) FROM windlass_changes", (), |row| {
            row.get(0)
        })
        .unwrap();
    let mut last: Vec<i64> = (1..=A_TRANSACTION as i64).collect();
    transactions(&conn, count, |call| {
        let update = "UPDATE windlass_states SET last = ?2, version = ?3, state = ?4
             WHERE n = ?1 AND fence = 0 AND last = ?5";
        let insert =
            "INSERT INTO windlass_changes (seq, n, prev, at, what, detail, fence, command, by)
             VALUES (?1, ?2, ?3, ?4, 3, 1, 0, 0, 0)";
        let mut update = conn.prepare_cached(update).unwrap();
        let mut insert = conn.prepare_cached(insert).unwrap();
        for (n, last) in (1..).zip(&mut last) {
            seq += 1;
            let row = (n, seq, call as i64, text(call), *last);
            assert_eq!(update.execute(row).unwrap(), 1);
            insert.execute((seq, n, *last, seq)).unwrap();
            *last = seq;
        }
    });
}

fn transactions(conn: &Connection, count: u64, mut work: impl FnMut(u64)) {
    for call in 0..count / A_TRANSACTION {
        conn.prepare_cached("BEGIN IMMEDIATE")
            .and_then(|mut begin| begin.execute(()))
            .unwrap();
        work(call);
        conn.prepare_cached("COMMIT")
            .and_then(|mut commit| commit.execute(()))
            .unwrap();
    }
}

/// As long as the state of a task with data of 300 bytes.
fn text(n: u64) -> String {
    let text = data(n);
    [&text, &text[..100]].concat()
}
