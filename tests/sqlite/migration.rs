//! Files of earlier versions. `v1.sql` makes one as the first version did; it is never changed.

use std::{fs, time::Duration};

use windlass::{
    StateKind,
    store::{Done, Error, Filter, Page, Registry, Transaction},
};

use crate::support::*;

#[tokio::test]
async fn a_file_of_version_1_is_brought_up_to_date_and_keeps_everything() {
    let file = file();
    let raw = file.raw();
    raw.execute_batch(include_str!("v1.sql")).unwrap();
    drop(raw);
    let store = file.open().await;
    let all = store
        .list(&Filter::default(), Page::default())
        .await
        .unwrap();
    let codes: Vec<_> = all
        .iter()
        .map(|record| {
            (
                record.task.id.to_string(),
                record.state.as_ref().unwrap().code(),
            )
        })
        .collect();
    let expected = [
        ("first".to_owned(), StateKind::Completed),
        ("second".to_owned(), StateKind::Sleeping),
        ("third".to_owned(), StateKind::Runnable),
    ];
    assert_eq!(codes, expected);
    assert_eq!(all[1].task.props.as_str(), r#"{"n":9007199254740993}"#);
    assert_eq!(store.commands(&id("second")).await.unwrap().len(), 1);
    assert_eq!(store.history(&id("first"), 10).await.unwrap().len(), 3);
    let lease = join(&store, "a").await;
    let claimed = claim(&store, &lease, "third").await;
    assert!(claimed.claim.fence.0 > 6, "the numbers go on");
    let read = "SELECT value FROM windlass_meta WHERE name = 'schema'";
    let version: i64 = file.raw().query_row(read, (), |row| row.get(0)).unwrap();
    let header = file
        .raw()
        .pragma_query_value(None, "user_version", |row| row.get(0));
    assert!(version >= 7, "{version}");
    assert_eq!(header, Ok(version), "earlier versions read it there");
    assert_eq!(claimed.state.data_version, 1);
    let transaction = Transaction::new().delete(id("first"));
    let applied = store.apply(vec![transaction]).await.remove(0);
    assert_eq!(applied.unwrap().done(), [Done::Deleted]);
}

/// A node of the earlier version would fail at its next write.
#[tokio::test]
async fn a_file_is_not_changed_while_nodes_of_an_earlier_version_use_it() {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let file = file();
    let raw = file.raw();
    raw.execute_batch(include_str!("v1.sql")).unwrap();
    let live = "INSERT INTO leases (node, spec, status, ttl, boot, expires, joined_at)
         VALUES (?1, '{}', '{}', 15000, ?2, ?3, 0)";
    for (node, boot, expires) in [
        ("old-a", boot.trim(), i64::MAX),
        ("old-b", boot.trim(), i64::MAX),
        ("dead", boot.trim(), 0),
        ("before", "another start of the machine", i64::MAX),
    ] {
        raw.execute(live, (node, boot, expires)).unwrap();
    }
    let Err(Error::Unusable(text)) = file.try_open().await else {
        panic!("the file was opened");
    };
    assert!(
        text.contains("nodes of the earlier version run on it ('old-a', 'old-b')"),
        "{text}"
    );
    assert!(
        text.contains("stop every windlass program that uses the file"),
        "{text}"
    );
    raw.execute_batch(
        "SELECT n FROM tasks; UPDATE leases SET ended_at = 1 WHERE node LIKE 'old-%'",
    )
    .unwrap();
    assert_eq!(code(&file.open().await, "third").await, StateKind::Runnable);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_may_bring_it_up_to_date_at_once() {
    let file = file();
    file.raw().execute_batch(include_str!("v1.sql")).unwrap();
    let (a, b) = tokio::join!(file.try_open(), file.try_open());
    submit(&a.unwrap(), "new").await;
    assert_eq!(code(&b.unwrap(), "new").await, StateKind::Runnable);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_processes_may_make_it_at_once() {
    for _ in 0..10 {
        let mut file = file();
        // The others may hold the file for longer than a store waits by default, on a slow disk.
        file.options.busy_timeout = Duration::from_secs(60);
        let opened = futures::future::join_all((0..8).map(|_| file.try_open())).await;
        for (n, store) in opened.into_iter().enumerate() {
            submit(&store.unwrap(), &format!("t{n}")).await;
        }
    }
}
