//! What is opened and what is refused, with what to do.

use std::{fs, path::Path};

use windlass::{
    Command, Message, StateKind,
    clock::SystemClock,
    store::{
        Coordinator, Doctor, Error, Filter, Page, Registry, SendCommand, Store,
        examine::Examination,
        sqlite::{Options, SqliteStore, Synchronous},
    },
};

use super::support::*;

async fn refused(path: impl AsRef<Path>) -> String {
    let opened = SqliteStore::open(path, Options::default(), SystemClock::shared()).await;
    match opened {
        Err(Error::Unusable(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn reopening_keeps_everything() {
    let file = file();
    let (records, commands, history, fence);
    {
        let store = file.open().await;
        let mut rich = task("rich");
        rich.props = windlass::Json::parse("props", r#"{"n":123456789012345678901}"#).unwrap();
        rich.labels.insert("team".into(), "a".into());
        rich.start_at = Some("2100-01-01T00:00:00.123456789Z".parse().unwrap());
        rich.retry = Some(windlass::Retry::Never);
        try_submit(&store, rich).await.unwrap();
        submit(&store, "done").await;
        submit(&store, "held").await;
        let lease = join(&store, "a").await;
        let done = claim(&store, &lease, "done").await;
        commit(&store, &done, Message::complete()).await.unwrap();
        let held = claim(&store, &lease, "held").await;
        fence = held.claim.fence;
        let send = SendCommand::new(id("rich"), "c1".parse().unwrap(), Command::Pause);
        store.send(vec![send]).await.remove(0).unwrap();
        store.leave(&lease).await.unwrap();
        records = store
            .list(&Filter::default(), Page::default())
            .await
            .unwrap();
        commands = store.commands(&id("rich")).await.unwrap();
        history = store.history(&id("done"), 100).await.unwrap();
    }
    let store = file.open().await;
    let again = store
        .list(&Filter::default(), Page::default())
        .await
        .unwrap();
    assert_eq!((records.len(), again.len()), (3, 3));
    for (record, again) in records.iter().zip(&again) {
        assert_eq!(record.task, again.task);
        assert_eq!(
            record.state.as_ref().unwrap(),
            again.state.as_ref().unwrap()
        );
        assert_eq!(record.order, again.order);
        assert_eq!(record.submitted_at, again.submitted_at);
    }
    assert_eq!(commands, store.commands(&id("rich")).await.unwrap());
    assert_eq!(history, store.history(&id("done"), 100).await.unwrap());
    let lease = join(&store, "a").await;
    assert!(claim(&store, &lease, "held").await.claim.fence > fence);
    assert_eq!(code(&store, "done").await, StateKind::Completed);
}

#[tokio::test]
async fn a_name_opens_a_file() {
    let file = file();
    let url = format!("sqlite:{}", file.path().display());
    let store = Store::open(&url).await.unwrap();
    assert!(store.registry().nodes().await.unwrap().is_empty());
    assert!(file.path().exists());
    for wrong in ["sqlite:", "sqlite", "tasks.db"] {
        let error = Store::open(wrong).await.unwrap_err().to_string();
        assert!(error.contains("sqlite:PATH"), "{error}");
    }
}

#[tokio::test]
async fn normal_synchronisation_is_an_option() {
    let mut file = file();
    file.options.synchronous = Synchronous::Normal;
    submit(&file.open().await, "t").await;
    assert_eq!(code(&file.open().await, "t").await, StateKind::Runnable);
}

#[tokio::test]
async fn a_folder_is_refused() {
    let text = refused(file().folder()).await;
    assert!(text.contains("is a folder; name a file in it"), "{text}");
}

#[tokio::test]
async fn a_missing_folder_is_refused() {
    let path = file().folder().join("no/such/tasks.db");
    let text = refused(&path).await;
    assert!(text.contains("create it first"), "{text}");
    assert!(!path.exists());
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let file = file();
    let bytes = "name,age\n".repeat(1000);
    fs::write(file.path(), &bytes).unwrap();
    let text = refused(file.path()).await;
    assert!(text.contains("is not a SQLite database"), "{text}");
    assert_eq!(fs::read_to_string(file.path()).unwrap(), bytes);
}

#[tokio::test]
async fn an_empty_file_becomes_a_store() {
    let file = file();
    fs::write(file.path(), "").unwrap();
    submit(&file.open().await, "t").await;
}

#[tokio::test]
async fn a_store_lives_beside_the_tables_of_another_program() {
    let file = file();
    let theirs = file.raw();
    theirs
        .execute_batch(
            "PRAGMA page_size = 1024; PRAGMA auto_vacuum = FULL; PRAGMA user_version = 4;
             CREATE TABLE tasks (theirs); INSERT INTO tasks VALUES (7);
             CREATE VIEW states AS SELECT theirs FROM tasks;",
        )
        .unwrap();
    assert!(SqliteStore::is_foreign(file.path()));
    let store = file.open().await;
    assert!(!SqliteStore::is_foreign(file.path()));
    submit(&store, "t").await;
    theirs.execute("INSERT INTO tasks VALUES (8)", ()).unwrap();
    let lease = join(&store, "a").await;
    let claimed = claim(&store, &lease, "t").await;
    commit(&store, &claimed, Message::complete()).await.unwrap();
    drop(store);
    let sum = |conn: &rusqlite::Connection| -> i64 {
        let read = "SELECT sum(theirs) FROM states";
        conn.query_row(read, (), |row| row.get(0)).unwrap()
    };
    assert_eq!(sum(&theirs), 15);
    let set = |pragma| -> i64 {
        let value = theirs.pragma_query_value(None, pragma, |row| row.get(0));
        value.unwrap()
    };
    let settings = ["user_version", "application_id", "page_size", "auto_vacuum"].map(set);
    assert_eq!(settings, [4, 0, 1024, 1], "what is theirs stays");
    let copy = file.folder().join("copy.db");
    theirs
        .execute("VACUUM INTO ?1", [copy.to_str().unwrap()])
        .unwrap();
    drop(theirs);
    assert_eq!(code(&file.open().await, "t").await, StateKind::Completed);
    let copied = SqliteStore::open(&copy, Options::default(), SystemClock::shared()).await;
    assert_eq!(code(&copied.unwrap(), "t").await, StateKind::Completed);
    assert_eq!(sum(&rusqlite::Connection::open(&copy).unwrap()), 15);
}

#[tokio::test]
async fn a_table_that_has_a_name_of_windlass_is_refused_and_left_alone() {
    let file = file();
    let theirs = file.raw();
    theirs
        .execute_batch("CREATE TABLE windlass_tasks (x); INSERT INTO windlass_tasks VALUES (1)")
        .unwrap();
    let before = fs::read(file.path()).unwrap();
    let text = refused(file.path()).await;
    assert!(text.contains("rename 'windlass_tasks'"), "{text}");
    assert_eq!(fs::read(file.path()).unwrap(), before);
}

#[tokio::test]
async fn a_newer_file_is_refused() {
    let file = file();
    drop(file.open().await);
    let newer = "UPDATE windlass_meta SET value = 99 WHERE name = 'version'";
    file.raw().execute(newer, ()).unwrap();
    let text = refused(file.path()).await;
    assert!(text.contains("newer windlass (schema 99"), "{text}");
    assert!(text.contains("update this program"), "{text}");
}

#[tokio::test]
async fn a_damaged_file_is_reported_with_advice() {
    let file = file();
    {
        let store = file.open().await;
        for n in 0..200 {
            submit(&store, &format!("t{n}")).await;
        }
    }
    let mut bytes = fs::read(file.path()).unwrap();
    bytes[4096..].fill(0x5a);
    fs::write(file.path(), &bytes).unwrap();
    let error = match file.try_open().await {
        Err(error) => error,
        Ok(store) => store.get(&id("t7")).await.unwrap_err(),
    };
    assert!(matches!(error, Error::Unusable(_)), "{error:?}");
    let text = error.to_string();
    assert!(
        text.contains("is damaged") && text.contains(".recover"),
        "{text}"
    );
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_read_only_folder_is_reported_with_advice() {
    let text = refused("/proc/tasks.db").await;
    assert!(text.contains("folder can be written"), "{text}");
}

/// The administrator may write everything, so for him the file is not read-only: then the store
/// opens. `errors.rs` has the text for everybody else.
#[tokio::test]
async fn a_read_only_file_is_reported_with_advice() {
    let file = file();
    drop(file.open().await);
    let mut permissions = fs::metadata(file.path()).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(file.path(), permissions).unwrap();
    if fs::OpenOptions::new()
        .write(true)
        .open(file.path())
        .is_err()
    {
        let text = refused(file.path()).await;
        assert!(text.contains("read-only"), "{text}");
    } else {
        file.open().await;
    }
}

/// A worker on such a file failed with each call, and tried again for ever.
#[tokio::test]
async fn a_node_does_not_join_a_file_that_lacks_an_index() {
    let file = file();
    let store = file.open().await;
    let drop_index = "DROP INDEX windlass_states_owned";
    file.raw().execute_batch(drop_index).unwrap();
    let ttl = std::time::Duration::from_secs(15);
    let error = store.join(&node("n"), ttl).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::Unusable(_)), "{text}");
    assert!(
        text.contains("index windlass_states_owned is missing; let the doctor repair it"),
        "{text}"
    );
    let mut how = Examination::default();
    how.repair = true;
    Doctor::examine(&store, &how).await.unwrap();
    store.join(&node("n"), ttl).await.unwrap();
}
