//! Bytes that are not UTF-8, which another program, a restored backup or a damaged disk can leave in any text. One
//! such row stops no other row, no node and no examination.

use std::time::Duration;

use windlass::{
    Author, Command, Limit, Message, NodeName, Retry, StateKind, Unique, Waits,
    store::{
        Coordinator, Filter, NodeCommand, Page, Registry, SendCommand, Transaction,
        examine::Verdict, sqlite::SqliteStore,
    },
};

use super::{
    examine::{examine, of},
    support::*,
};

/// The facts about the file itself, which do not belong to a task.
const META: &str = "windlass_meta";

/// Fills every table; the tasks that do not change are last.
async fn fill(file: &File) {
    let store = file.open().await;
    submit(&store, "ended").await;
    let early = join(&store, "early").await;
    let ended = claim(&store, &early, "ended").await;
    commit(&store, &ended, Message::complete()).await.unwrap();
    store.leave(&early).await.unwrap();
    let mut first = task("first");
    first.labels = [("team".to_owned(), "a".to_owned())].into();
    first.start_at = Some(jiff::Timestamp::now() + Duration::from_secs(3600));
    first.retry = Some(Retry::Never);
    first.unique = Some(Unique::new("key", Duration::from_secs(3600)).unwrap());
    try_submit(&store, first).await.unwrap();
    submit(&store, "deleted").await;
    store.delete(vec![id("deleted")]).await.remove(0).unwrap();
    let lease = join(&store, "left").await;
    for name in ["slot", "held"] {
        let mut limited = task(name);
        limited.limits = vec![Limit::at_once("limit", 1).unwrap()];
        try_submit(&store, limited).await.unwrap();
    }
    claim(&store, &lease, "slot").await;
    assert!(try_claim(&store, &lease, "held").await.unwrap().is_none());
    let mut waits = task("waits");
    waits.waits = Some(Box::new(Waits::new("after", ["first"]).unwrap()));
    try_submit(&store, waits).await.unwrap();
    for (place, id_of) in [("first", "c1"), ("slot", "c2")] {
        let command = SendCommand::new(id(place), id_of.parse().unwrap(), Command::Pause);
        let transaction = Transaction::from(windlass::store::Operation::Send(command));
        let transaction = transaction
            .with_id(format!("t-{id_of}").parse().unwrap())
            .by(Author::user(7));
        store.apply(vec![transaction]).await.remove(0).unwrap();
    }
    let node = NodeName::new("left").unwrap();
    store
        .send_node(&node, NodeCommand::Freeze, Some(&Author::user(7)))
        .await
        .unwrap();
    for name in ["value", "other"] {
        let value = windlass::store::SetValue::new(name, "text");
        assert!(store.set_value(&value).await.unwrap());
    }
    submit(&store, "quarantined").await;
    drop(store);
    file.raw()
        .execute_batch(
            "UPDATE windlass_states SET quarantine = 'x', lost_by = 'left' WHERE n IN
                 (SELECT n FROM windlass_tasks WHERE id IN ('quarantined', 'first'));
             UPDATE windlass_states SET quarantine = NULL WHERE n =
                 (SELECT n FROM windlass_tasks WHERE id = 'first');
             INSERT INTO windlass_watches SELECT 'first', n FROM windlass_tasks WHERE id = 'waits';
             INSERT INTO windlass_log SELECT n, 0, 0, 1, '{}' FROM windlass_tasks WHERE id = 'first';
             INSERT INTO windlass_states_alone VALUES ('first', 1, 1, 1, '{}');
             UPDATE windlass_commands SET outcome = '\"applied\"' WHERE id = 'c2';
             UPDATE windlass_node_commands SET outcome = 'done';
             INSERT INTO windlass_inbox (operation, transaction_id, refused, refused_at)
                 VALUES ('{}', 'broken', 'no', '2030-01-01T00:00:00Z');",
        )
        .unwrap();
    submit(&file.open().await, "good").await;
}

/// Every text column of the tables of windlass.
fn columns(file: &File) -> Vec<(String, String)> {
    let raw = file.raw();
    let mut columns = raw
        .prepare(
            "SELECT t.name, c.name FROM sqlite_schema t JOIN pragma_table_info(t.name) c
             WHERE t.type = 'table' AND t.name LIKE 'windlass\\_%' ESCAPE '\\' AND c.type IN ('TEXT', 'ANY')",
        )
        .unwrap();
    let columns = columns.query_map((), |row| Ok((row.get(0)?, row.get(1)?)));
    let columns: Vec<(String, String)> = columns.unwrap().map(Result::unwrap).collect();
    columns.into_iter().filter(|(of, _)| of != META).collect()
}

/// Writes bytes that are not UTF-8 into the first two rows that have a text there.
fn plant(file: &File, table: &str, column: &str) {
    let raw = file.raw();
    let bytes = "CAST(x'7b22ff' AS TEXT)";
    let by_row = format!(
        "UPDATE {table} SET {column} = {bytes} || rowid WHERE rowid IN
             (SELECT rowid FROM {table} WHERE {column} IS NOT NULL ORDER BY rowid LIMIT 2)"
    );
    let by_value = format!(
        "UPDATE {table} SET {column} = {bytes} WHERE {column} =
             (SELECT {column} FROM {table} WHERE {column} IS NOT NULL LIMIT 1)"
    );
    let changed = raw
        .execute(&by_row, ())
        .or_else(|_| raw.execute(&by_value, ()))
        .unwrap();
    assert!(changed > 0, "{table}.{column} has no text");
}

/// Uses the store in every way that must still work.
async fn works(store: &SqliteStore) {
    let all = Filter::default();
    store.list(&all, Page::default()).await.unwrap();
    store.counts().await.unwrap();
    store.nodes().await.unwrap();
    store.limits_in_use().await.unwrap();
    store.history(&id("good"), 100).await.unwrap();
    assert_eq!(store.values("").await.unwrap().len(), 2);
    // The row of the inbox was inserted before the file was opened.
    assert_eq!(code(store, "late").await, StateKind::Runnable);
    submit(store, "later").await;
    let lease = join(store, "right").await;
    let mut events = store.watch(&lease, None).await.unwrap();
    until(&mut events, |event| is_task(event, "later")).await;
    // Claims are made in groups.
    let wanted = ["first", "held", "waits", "good", "later"].map(id).to_vec();
    let claimed = store.claim(&lease, wanted).await;
    let good = claimed[3].as_ref().unwrap().as_ref().unwrap();
    commit(store, good, Message::complete()).await.unwrap();
    assert_eq!(code(store, "good").await, StateKind::Completed);
    store.maintain(Some(Duration::ZERO)).await.unwrap();
    store.leave(&lease).await.unwrap();
}

#[tokio::test]
async fn a_text_that_is_no_utf8_stops_nothing_else() {
    let whole = file();
    fill(&whole).await;
    let columns = columns(&whole);
    assert!(columns.len() > 30, "{columns:?}");
    for (table, column) in columns {
        let file = file();
        std::fs::copy(whole.path(), file.path()).unwrap();
        plant(&file, &table, &column);
        let submit = r#"{"op":"submit","id":"late","kind":"k"}"#;
        let insert = "INSERT INTO windlass_inbox (operation) VALUES (?1)";
        file.raw().execute(insert, [submit]).unwrap();
        let checked = async {
            let store = file.open().await;
            for repair in [false, true] {
                let findings = examine(&store, repair).await;
                assert_eq!(of(&findings, "integrity").verdict, Verdict::Ok);
            }
            works(&store).await;
            examine(&store, false).await;
        };
        let what = format!("{table}.{column}");
        let checked = std::panic::AssertUnwindSafe(checked);
        let outcome = futures::FutureExt::catch_unwind(checked).await;
        assert!(outcome.is_ok(), "{what} stops others: see the panic above");
    }
}
