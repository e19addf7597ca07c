//! Full disks and locked files: an error with the cause, nothing lost, and the store continues.

use std::time::Duration;

use windlass::{
    Json, Message,
    store::{Error, Filter, Page, Registry},
};

use super::support::*;

#[tokio::test]
async fn a_full_disk_loses_nothing_and_it_goes_on_when_there_is_room() {
    let mut file = file();
    file.options.max_file_bytes = Some(1 << 20);
    let store = file.open().await;
    let lease = join(&store, "a").await;
    submit(&store, "held").await;
    let held = claim(&store, &lease, "held").await;
    let (mut accepted, mut full) = (0, None);
    for n in 0..1000 {
        let mut large = task(&format!("t{n}"));
        large.props = Json::new("props", &"x".repeat(20_000)).unwrap();
        match try_submit(&store, large).await {
            Ok(()) => accepted += 1,
            Err(error) => {
                full = Some(error);
                break;
            }
        }
    }
    let full = full.expect("the file never got full");
    assert!(full.is_retryable(), "{full}");
    let text = full.to_string();
    assert!(
        text.contains("this write changed nothing") && text.contains("free space"),
        "{text}"
    );
    // Acknowledged tasks exist, refused ones do not.
    let all = store
        .list(&Filter::default(), Page::default())
        .await
        .unwrap();
    assert_eq!(all.len(), accepted + 1);
    // Deleting needs almost no space, and frees some.
    for n in 0..5 {
        store
            .delete(vec![id(&format!("t{n}"))])
            .await
            .remove(0)
            .unwrap();
    }
    commit(&store, &held, Message::complete()).await.unwrap();
    let mut large = task("later");
    large.props = Json::new("props", &"x".repeat(20_000)).unwrap();
    try_submit(&store, large).await.unwrap();
    // Another process that has more room continues from there.
    file.options.max_file_bytes = None;
    let store = file.open().await;
    let all = store
        .list(&Filter::default(), Page::default())
        .await
        .unwrap();
    assert_eq!(all.len(), accepted + 1 - 5 + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_that_is_too_large_does_not_touch_the_others() {
    let mut file = file();
    file.options.max_file_bytes = Some(1 << 20);
    let store = file.open().await;
    // The writer waits for the lock with the first; the others come in the meantime, and go
    // together.
    let lock = file.raw();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let submit = |task| Box::pin(try_submit(&store, task));
    let mut first = submit(task("first"));
    assert!(futures::poll!(&mut first).is_pending());
    let mut large = task("large");
    large.props = Json::new("props", &"x".repeat(1_000_000)).unwrap();
    let mut jobs = vec![submit(large)];
    jobs.extend((0..10).map(|n| submit(task(&format!("t{n}")))));
    for job in &mut jobs {
        assert!(futures::poll!(job).is_pending());
    }
    lock.execute_batch("ROLLBACK").unwrap();
    first.await.unwrap();
    let mut results = futures::future::join_all(jobs).await;
    assert!(results.remove(0).unwrap_err().is_retryable());
    assert!(results.iter().all(Result::is_ok), "{results:?}");
}

#[tokio::test]
async fn a_long_lock_is_an_error_and_a_short_one_is_waited_for() {
    let mut file = file();
    file.options.busy_timeout = Duration::from_millis(300);
    let store = file.open().await;
    let lock = file.raw();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = try_submit(&store, task("t")).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains("locked for too long"), "{error}");
    // Reading continues in the meantime.
    assert!(store.get(&id("t")).await.is_err_and(|e| !e.is_retryable()));
    let waits = try_submit(&store, task("t"));
    let unlocks = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        lock.execute_batch("ROLLBACK").unwrap();
    };
    let (waited, ()) = tokio::join!(waits, unlocks);
    waited.unwrap();
}

#[tokio::test]
async fn a_transaction_that_fails_at_its_end_fails_all_its_items() {
    let file = file();
    let store = file.open().await;
    submit(&store, "t").await;
    // A constraint that is checked when the transaction is committed.
    file.raw()
        .execute_batch(
            "CREATE TABLE parents (x INTEGER PRIMARY KEY);
             CREATE TABLE hook (x INTEGER REFERENCES parents DEFERRABLE INITIALLY DEFERRED);
             CREATE TRIGGER refuse AFTER INSERT ON windlass_tasks BEGIN INSERT INTO hook VALUES (1); END;",
        )
        .unwrap();
    let error = try_submit(&store, task("u")).await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
    file.raw().execute_batch("DROP TRIGGER refuse").unwrap();
    try_submit(&store, task("u")).await.unwrap();
}
