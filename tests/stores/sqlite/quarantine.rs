//! Damaged records of the file: quarantined, reported, and started again by a retry.

use windlass::{
    Command, StateKind,
    store::{Coordinator, Error, Event, Filter, Page, Registry, SendCommand},
};

use super::support::*;

#[tokio::test]
async fn an_unreadable_record_is_quarantined_and_retried() {
    let file = file();
    let store = file.open().await;
    let lease = join(&store, "a").await;
    for (name, damage) in [
        (
            "state",
            "UPDATE windlass_states SET state = '{\"state\":\"dancing\"}' WHERE n = ?1",
        ),
        (
            "bytes",
            "UPDATE windlass_states SET state = CAST(x'ff00' AS TEXT) WHERE n = ?1",
        ),
        (
            "labels",
            "UPDATE windlass_tasks SET labels = '[' WHERE n = ?1",
        ),
        (
            "retry",
            "UPDATE windlass_tasks SET retry = '{\"policy\":\"hope\"}' WHERE n = ?1",
        ),
        (
            "start",
            "UPDATE windlass_tasks SET start_at = 'soon' WHERE n = ?1",
        ),
        (
            "props",
            "UPDATE windlass_tasks SET props = '{' WHERE n = ?1",
        ),
        (
            "kind",
            "UPDATE windlass_tasks SET kind = 'a//b' WHERE n = ?1",
        ),
        // Regression: a number out of range failed every list, and ended each worker.
        (
            "priority",
            "UPDATE windlass_tasks SET priority = 4294967296 WHERE n = ?1",
        ),
    ] {
        submit(&store, name).await;
        let n = store.get(&id(name)).await.unwrap().order;
        file.raw().execute(damage, [n as i64]).unwrap();
        let error = try_claim(&store, &lease, name).await.unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{name}: {error:?}");
        assert!(try_claim(&store, &lease, name).await.unwrap().is_none());
        let aside = Filter::new().quarantined(true);
        let listed = store.list(&aside, Page::default()).await.unwrap();
        assert_eq!(listed.len(), 1, "{name}");
        assert!(listed[0].state.is_err());
        let whole = |n: u64| {
            let columns = "kind || '|' || coalesce(labels, '') || '|' || coalesce(start_at, '') || '|' || coalesce(retry, '') || '|' || props";
            let text = format!("SELECT {columns} FROM windlass_tasks WHERE n = ?1");
            let read = file.raw().query_row(&text, [n as i64], |row| row.get(0));
            read.unwrap()
        };
        let before: String = whole(n);
        let retried = store.retry(vec![id(name)]).await.remove(0);
        if damage.starts_with("UPDATE windlass_tasks") {
            // The text can be repaired: a retry would replace it.
            assert!(matches!(retried, Err(Error::Corrupt { .. })), "{retried:?}");
            assert_eq!(whole(n), before);
            store.delete(vec![id(name)]).await.remove(0).unwrap();
            continue;
        }
        retried.unwrap();
        let claimed = claim(&store, &lease, name).await;
        assert!(
            !claimed.state.errors.entries().is_empty(),
            "{name}: the reason is kept"
        );
    }
    let counts = store.counts().await.unwrap();
    assert_eq!(counts.iter().map(|c| c.tasks).sum::<u64>(), 2);
}

#[tokio::test]
async fn a_record_that_was_repaired_goes_on_where_it_was() {
    let file = file();
    let store = file.open().await;
    let lease = join(&store, "a").await;
    submit(&store, "t").await;
    let raw = file.raw();
    let text: String = raw
        .query_row("SELECT state FROM windlass_states", (), |row| row.get(0))
        .unwrap();
    raw.execute("UPDATE windlass_states SET state = 'x'", ())
        .unwrap();
    let mut watch = store.watch(&lease, None).await.unwrap();
    until(&mut watch, |e| matches!(e, Event::Listed)).await;
    try_claim(&store, &lease, "t").await.unwrap_err();
    until(&mut watch, |e| matches!(e, Event::Gone { .. })).await;
    raw.execute("UPDATE windlass_states SET state = ?1", [text])
        .unwrap();
    store.retry(vec![id("t")]).await.remove(0).unwrap();
    until(&mut watch, |e| is_task(e, "t")).await;
    assert!(
        claim(&store, &lease, "t")
            .await
            .state
            .errors
            .entries()
            .is_empty()
    );
    assert_eq!(code(&store, "t").await, StateKind::Runnable);
}

#[tokio::test]
async fn a_command_that_cannot_be_read_does_not_stop_those_behind_it() {
    let file = file();
    let store = file.open().await;
    let lease = join(&store, "a").await;
    submit(&store, "t").await;
    for command in ["c1", "c2"] {
        let send = SendCommand::new(id("t"), command.parse().unwrap(), Command::Pause);
        store.send(vec![send]).await.remove(0).unwrap();
    }
    let raw = file.raw();
    raw.execute(
        "UPDATE windlass_commands SET command = '{' WHERE id = 'c1'",
        (),
    )
    .unwrap();
    let claimed = claim(&store, &lease, "t").await;
    assert_eq!(claimed.commands.len(), 1);
    assert_eq!(claimed.commands[0].id.as_str(), "c2");
    let outcome: String = raw
        .query_row(
            "SELECT outcome FROM windlass_commands WHERE id = 'c1'",
            (),
            |row| row.get(0),
        )
        .unwrap();
    assert!(outcome.contains("cannot be read"), "{outcome}");
    assert_eq!(store.get(&id("t")).await.unwrap().commands, 1);
}
