//! The inbox: operations that programs insert with SQL.

use futures::StreamExt;
use windlass::{
    Json, NewTask,
    store::{
        Coordinator, Doctor, Error, EventStream, Filter, Page, Registry,
        examine::{Examination, Finding, Verdict},
        sqlite::{SqliteStore, inbox},
    },
};

use super::support::*;

pub(crate) const INSERT: &str = "INSERT INTO windlass_inbox (operation) VALUES (?1)";

async fn watch(store: &SqliteStore) -> EventStream {
    let lease = join(store, "node").await;
    store.watch(&lease, None).await.unwrap()
}

pub(crate) async fn ids(store: &SqliteStore) -> Vec<String> {
    let listed = store.list(&Filter::default(), Page::default()).await;
    let records = listed.unwrap().into_iter();
    records.map(|record| record.task.id.to_string()).collect()
}

/// The rows that are left: their number, and why they were refused.
pub(crate) fn left(file: &File) -> Vec<(i64, Option<String>)> {
    let raw = file.raw();
    let mut rows = raw
        .prepare("SELECT seq, refused FROM windlass_inbox ORDER BY seq")
        .unwrap();
    let rows = rows.query_map((), |row| Ok((row.get(0)?, row.get(1)?)));
    rows.unwrap().map(Result::unwrap).collect()
}

async fn finding(store: &SqliteStore) -> Finding {
    let findings = store.examine(&Examination::default()).await.unwrap();
    let found = findings
        .into_iter()
        .find(|finding| finding.check == "inbox");
    found.unwrap()
}

pub(crate) fn submit_row(id: &str) -> String {
    format!(r#"{{"op":"submit","id":"{id}","kind":"k"}}"#)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_become_tasks_in_their_order_while_a_node_runs() {
    let file = file();
    let store = file.open().await;
    let mut events = watch(&store).await;
    let mut raw = file.raw();
    let transaction = raw.transaction().unwrap();
    for id in ["c", "a", "b"] {
        transaction.execute(INSERT, [submit_row(id)]).unwrap();
    }
    let pause = r#"{"op":"send","task":"c","command":"pause","id":"p"}"#;
    transaction.execute(INSERT, [pause]).unwrap();
    assert!(ids(&store).await.is_empty(), "not before the commit");
    transaction.commit().unwrap();
    until(&mut events, |event| is_task(event, "b")).await;
    assert_eq!(ids(&store).await, ["c", "a", "b"]);
    assert_eq!(left(&file), []);
    let commands = store.commands(&id("c")).await.unwrap();
    assert_eq!(commands[0].id.as_str(), "p");
}

#[tokio::test]
async fn a_row_takes_effect_only_with_the_transaction_that_inserted_it() {
    let file = file();
    drop(file.open().await);
    let mut raw = file.raw();
    raw.execute_batch("CREATE TABLE orders (id TEXT PRIMARY KEY)")
        .unwrap();
    for (order, commits) in [("dropped", false), ("kept", true)] {
        let transaction = raw.transaction().unwrap();
        transaction
            .execute("INSERT INTO orders VALUES (?1)", [order])
            .unwrap();
        let task = NewTask::new("k").id(order).props(&order);
        assert_eq!(inbox::submit(&transaction, task).unwrap().as_str(), order);
        if commits {
            transaction.commit().unwrap();
        } else {
            transaction.rollback().unwrap();
        }
    }
    // A program that opens the file takes what waits.
    let store = file.open().await;
    assert_eq!(ids(&store).await, ["kept"]);
    let orders: String = raw
        .query_row("SELECT group_concat(id) FROM orders", (), |row| row.get(0))
        .unwrap();
    assert_eq!(orders, "kept");
    let record = store.get(&id("kept")).await.unwrap();
    assert_eq!(record.task.props, Json::new("props", "kept").unwrap());
}

#[tokio::test]
async fn the_helper_refuses_what_a_submit_refuses() {
    let file = file();
    let mut raw = file.raw();
    let transaction = raw.transaction().unwrap();
    let no_inbox = inbox::submit(&transaction, NewTask::new("k")).unwrap_err();
    assert!(
        no_inbox
            .to_string()
            .contains("open the file with this version"),
        "{no_inbox}"
    );
    drop(transaction);
    drop(file.open().await);
    let transaction = raw.transaction().unwrap();
    let large = NewTask::new("k").props(&"x".repeat(1 << 20));
    let error = inbox::submit(&transaction, large).unwrap_err();
    assert!(
        matches!(error, Error::TooLarge { field: "props", .. }),
        "{error:?}"
    );
    let error = inbox::submit(&transaction, NewTask::new("a//b")).unwrap_err();
    assert!(
        matches!(&error, Error::Invalid(e) if e.field() == "kind"),
        "{error:?}"
    );
    let same = NewTask::new("k").id("same").props(&1).idempotent();
    inbox::submit(&transaction, same.clone()).unwrap();
    inbox::submit(&transaction, same).unwrap();
    transaction.commit().unwrap();
    let store = file.open().await;
    assert_eq!(left(&file), [], "if_exists is kept");
    assert_eq!(ids(&store).await, ["same"]);
}

/// Regression: it was accepted, and left no number for later rows, for ever.
#[tokio::test]
async fn a_row_with_the_greatest_number_is_refused_by_the_table() {
    let file = file();
    let store = file.open().await;
    let mut events = watch(&store).await;
    let raw = file.raw();
    let insert = |seq: &str, id: &str| {
        let operation = format!(r#"{{"op":"submit","id":"{id}","kind":"k"}}"#);
        let sql = format!("INSERT INTO windlass_inbox (seq, operation) VALUES ({seq}, ?1)");
        raw.execute(&sql, [operation])
    };
    for seq in ["9223372036854775807", "4611686018427387905", "0", "-1"] {
        let refused = insert(seq, "a").unwrap_err().to_string();
        assert!(
            refused.contains("CHECK constraint failed"),
            "{seq}: {refused}"
        );
    }
    insert("NULL", "b").unwrap();
    until(&mut events, |event| is_task(event, "b")).await;
    assert_eq!(ids(&store).await, ["b"]);
}

#[tokio::test]
async fn a_refused_row_stays_with_the_field_that_is_wrong() {
    let file = file();
    submit(&file.open().await, "taken").await;
    let raw = file.raw();
    let large = format!(
        r#"{{"op":"submit","id":"l","kind":"k","props":"{}"}}"#,
        "x".repeat(1 << 20)
    );
    let larger = format!(
        r#"{{"op":"submit","id":"l","kind":"k","props":"{}"}}"#,
        "x".repeat(2 << 20)
    );
    let taken = submit_row("taken");
    let cases = [
        ("no JSON", 1, "operation: is not JSON"),
        ("[]", 1, "operation: is an array, not an object"),
        (r#"{"op":"submit","kind":"k"}"#, 1, "id: is missing"),
        (r#"{"op":"submit","id":"a"}"#, 1, "kind: is missing"),
        (
            r#"{"op":"submit","id":"a","kind":"k","priority":"high"}"#,
            1,
            "priority: ",
        ),
        (&taken, 1, "'taken' exists"),
        (
            r#"{"op":"submit","id":"s","kind":"schedule"}"#,
            1,
            "props: ",
        ),
        (r#"{"op":"delete","task":"none"}"#, 1, "none"),
        (
            r#"{"op":"require","task":"taken","exists":true}"#,
            1,
            "op: 'require' needs a transaction",
        ),
        (
            r#"{"op":"submit","id":"a","kind":"k"}"#,
            2,
            "version: 2 is not known; this program reads version 1",
        ),
        (&large, 1, "props"),
        (&larger, 1, "operation"),
    ];
    for (operation, version, _) in cases {
        let insert = "INSERT INTO windlass_inbox (operation, version) VALUES (?1, ?2)";
        raw.execute(insert, (operation, version)).unwrap();
    }
    raw.execute(INSERT, [submit_row("after")]).unwrap();
    let store = file.open().await;
    assert_eq!(
        ids(&store).await,
        ["taken", "after"],
        "a refused row stops no other"
    );
    let rows = left(&file);
    assert_eq!(rows.len(), cases.len());
    for ((_, reason), (operation, _, expected)) in rows.iter().zip(cases) {
        let reason = reason.as_deref().unwrap();
        let operation = &operation[..operation.len().min(100)];
        assert!(reason.contains(expected), "{operation}: {reason}");
    }
    let found = finding(&store).await;
    assert_eq!(found.verdict, Verdict::Warning);
    assert!(
        found
            .found
            .starts_with("12 refused rows of windlass_inbox: 1 (operation: is not JSON"),
        "{found:?}"
    );
    // Refused rows cost no further work.
    let version: i64 = raw
        .query_row("SELECT count(*) FROM windlass_changes", (), |row| {
            row.get(0)
        })
        .unwrap();
    drop(file.open().await);
    let after: i64 = raw
        .query_row("SELECT count(*) FROM windlass_changes", (), |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(version, after);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_corrected_row_waits_again_and_a_deleted_one_is_gone() {
    let file = file();
    let store = file.open().await;
    submit(&store, "taken").await;
    let mut events = watch(&store).await;
    let raw = file.raw();
    for id in ["taken", "a/b", "c/d"] {
        raw.execute(INSERT, [submit_row(id)]).unwrap();
    }
    raw.execute(INSERT, [submit_row("mark-1")]).unwrap();
    until(&mut events, |event| is_task(event, "mark-1")).await;
    assert_eq!(left(&file).len(), 3);
    raw.execute(
        "UPDATE windlass_inbox SET operation = ?1 WHERE seq = 2",
        [submit_row("a-b")],
    )
    .unwrap();
    until(&mut events, |event| is_task(event, "a-b")).await;
    raw.execute("DELETE FROM windlass_inbox WHERE seq = 3", ())
        .unwrap();
    store
        .apply(vec![
            windlass::store::Operation::Delete(id("taken").into()).into(),
        ])
        .await
        .remove(0)
        .unwrap();
    raw.execute("UPDATE windlass_inbox SET refused = NULL WHERE seq = 1", ())
        .unwrap();
    until(&mut events, |event| is_task(event, "taken")).await;
    assert_eq!(left(&file), []);
    assert_eq!(finding(&store).await.verdict, Verdict::Ok);
}

#[tokio::test]
async fn rows_with_the_same_transaction_are_applied_together_or_not_at_all() {
    let file = file();
    submit(&file.open().await, "x").await;
    let raw = file.raw();
    let insert = |id: &str, operation: &str| {
        let insert = "INSERT INTO windlass_inbox (operation, transaction_id) VALUES (?1, ?2)";
        raw.execute(insert, (operation, id)).unwrap();
    };
    insert(
        "swap",
        r#"{"op":"require","task":"x","state":"runnable","unclaimed":true}"#,
    );
    insert("swap", r#"{"op":"delete","task":"x"}"#);
    insert("swap", &submit_row("y"));
    let store = file.open().await;
    assert_eq!(ids(&store).await, ["y"]);
    assert_eq!(left(&file), []);

    insert("next", &submit_row("z"));
    insert("next", r#"{"op":"delete","task":"none"}"#);
    insert("next", "no JSON");
    drop(file.open().await);
    assert_eq!(ids(&store).await, ["y"]);
    let reasons: Vec<_> = left(&file)
        .into_iter()
        .map(|(_, reason)| reason.unwrap())
        .collect();
    assert!(
        reasons[0].contains("row 6 of its transaction was refused"),
        "{reasons:?}"
    );
    assert!(reasons[2].contains("operation: is not JSON"), "{reasons:?}");
    raw.execute(
        "UPDATE windlass_inbox SET operation = ?1 WHERE seq = 6",
        [submit_row("w")],
    )
    .unwrap();
    drop(file.open().await);
    let reasons: Vec<_> = left(&file)
        .into_iter()
        .map(|(_, reason)| reason.unwrap())
        .collect();
    assert!(
        reasons[1].contains("task 'none' does not exist"),
        "{reasons:?}"
    );
    assert!(
        reasons[0].contains("row 5 of its transaction was refused"),
        "{reasons:?}"
    );
    raw.execute("DELETE FROM windlass_inbox WHERE seq = 5", ())
        .unwrap();
    raw.execute("UPDATE windlass_inbox SET refused = NULL WHERE seq = 4", ())
        .unwrap();
    drop(file.open().await);
    assert_eq!(ids(&store).await, ["y", "z", "w"]);
    assert_eq!(left(&file), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_processes_take_each_row_once() {
    let file = file();
    let (a, b) = (file.open().await, file.open().await);
    let mut events = watch(&a).await;
    let other = join(&b, "other").await;
    let mut others = b.watch(&other, None).await.unwrap();
    tokio::spawn(async move { while others.next().await.is_some() {} });
    let raw = file.raw();
    raw.busy_timeout(std::time::Duration::from_secs(20))
        .unwrap();
    tokio::task::spawn_blocking(move || {
        for n in 0..300 {
            raw.execute(INSERT, [submit_row(&format!("t{n}"))]).unwrap();
        }
    })
    .await
    .unwrap();
    until(&mut events, |event| is_task(event, "t299")).await;
    assert_eq!(
        left(&file),
        [],
        "none was taken twice, which would refuse it"
    );
    let count: u64 = a.counts().await.unwrap().iter().map(|c| c.tasks).sum();
    assert_eq!(count, 300);
}

#[tokio::test]
async fn a_row_waits_for_other_tasks() {
    let file = file();
    drop(file.open().await);
    let row = r#"{"op":"submit","id":"b","kind":"k","after_ok":["a"],"after_deadline":"2100-01-01T00:00:00Z"}"#;
    file.raw().execute(INSERT, [row]).unwrap();
    file.raw().execute(INSERT, [submit_row("a")]).unwrap();
    let store = file.open().await;
    let state = store.get(&id("b")).await.unwrap().state.unwrap();
    assert!(state.is_waiting(), "{state:?}");
    let waits = state.waits.unwrap();
    assert!(waits.ok && waits.deadline.is_some(), "{waits:?}");
    for (row, says) in [
        (
            r#"{"op":"submit","id":"c","kind":"k","after":["a"],"after_ok":["b"]}"#,
            "after_ok: is given together with",
        ),
        (
            r#"{"op":"submit","id":"c","kind":"k","after_deadline":"2100-01-01T00:00:00Z"}"#,
            "after_deadline: is the end of a wait",
        ),
    ] {
        file.raw().execute(INSERT, [row]).unwrap();
        drop(file.open().await);
        let refused = left(&file).pop().unwrap().1.unwrap();
        assert!(refused.starts_with(says), "{refused}");
        file.raw()
            .execute("DELETE FROM windlass_inbox", ())
            .unwrap();
    }
}
