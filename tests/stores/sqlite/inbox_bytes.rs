//! The bytes of rows of the inbox: how many one write takes, and those that are not text.

use windlass::{
    NewTask,
    store::{Limits, sqlite::inbox},
};

use super::{
    inbox::{INSERT, ids, left, submit_row},
    support::*,
};

/// Regression: the row was read as text with all others, which blocked the inbox for ever.
#[tokio::test]
async fn a_transaction_id_that_is_no_utf8_is_refused_alone() {
    let file = file();
    drop(file.open().await);
    let raw = file.raw();
    for (id, transaction) in [
        ("a", "NULL"),
        ("b", "CAST(x'ff' AS TEXT)"),
        ("c", "'t'"),
        ("d", "CAST(x'ff' AS TEXT)"),
    ] {
        let insert = format!(
            "INSERT INTO windlass_inbox (operation, transaction_id) VALUES (?1, {transaction})"
        );
        raw.execute(&insert, [submit_row(id)]).unwrap();
    }
    let store = file.open().await;
    assert_eq!(ids(&store).await, ["a", "c"]);
    let rows = left(&file);
    let why = "transaction_id: is not UTF-8";
    assert!(
        rows.iter()
            .all(|(_, refused)| refused.as_ref().is_some_and(|text| text.contains(why))),
        "{rows:?}"
    );
    let rows: Vec<i64> = rows.into_iter().map(|(seq, _)| seq).collect();
    assert_eq!(rows, [2, 4]);
    let correct = "UPDATE windlass_inbox SET transaction_id = NULL";
    raw.execute(correct, ()).unwrap();
    drop(store);
    assert_eq!(ids(&file.open().await).await, ["a", "c", "b", "d"]);
}

/// Regression: 400 rows of 1 MB were one write, which blocked every other program for 3 s.
#[tokio::test]
async fn a_write_takes_rows_of_bounded_bytes() {
    let file = file();
    drop(file.open().await);
    let mut raw = file.raw();
    let transaction = raw.transaction().unwrap();
    let props = "x".repeat(1_000_000);
    let rows = 3 * Limits::WRITE_BYTES / props.len();
    for place in 0..rows {
        let task = NewTask::new("k").id(format!("t{place}")).props(&props);
        inbox::submit(&transaction, task).unwrap();
    }
    transaction.commit().unwrap();
    let store = file.open().await;
    assert_eq!(ids(&store).await.len(), rows);
    assert_eq!(left(&file), []);
    // Every write of a store has one time.
    let writes: u32 = raw
        .query_row(
            "SELECT count(DISTINCT at) FROM windlass_changes",
            (),
            |row| row.get(0),
        )
        .unwrap();
    assert!((4..=8).contains(&writes), "{writes} writes of {rows} rows");
}

/// No write can be divided that has to be applied in full or not at all.
#[tokio::test]
async fn a_transaction_with_too_many_bytes_is_refused_before_it_is_read() {
    let file = file();
    drop(file.open().await);
    let raw = file.raw();
    let insert = "INSERT INTO windlass_inbox (operation, transaction_id) VALUES (?1, 'large')";
    let filling = " ".repeat(1 << 20);
    for place in 0..=Limits::WRITE_BYTES / filling.len() {
        let row = format!("{}{filling}", submit_row(&format!("t{place}")));
        raw.execute(insert, [row]).unwrap();
    }
    raw.execute(INSERT, [submit_row("small")]).unwrap();
    let store = file.open().await;
    assert_eq!(ids(&store).await, ["small"]);
    let why = left(&file).pop().unwrap().1.unwrap();
    assert!(why.contains("operations has 17"), "{why}");
    assert!(why.contains("the store takes at most 16777216"), "{why}");
}
