//! Opening a file to read it.

use std::fs;

use windlass::{
    clock::SystemClock,
    store::{
        Doctor, Error, Filter, Page, Registry,
        examine::{Examination, Verdict},
        sqlite::SqliteStore,
    },
};

use super::support::*;

async fn to_read(file: &File) -> Result<SqliteStore, Error> {
    SqliteStore::open_to_read(file.path(), SystemClock::shared()).await
}

async fn ids(store: &SqliteStore) -> Vec<String> {
    let listed = store.list(&Filter::default(), Page::default()).await;
    let records = listed.unwrap().into_iter();
    records.map(|record| record.task.id.to_string()).collect()
}

#[tokio::test]
async fn a_file_that_is_not_open_is_read_without_any_other_file() {
    let file = file();
    let store = file.open().await;
    submit(&store, "t").await;
    drop(store);
    let store = to_read(&file).await.unwrap();
    assert_eq!(ids(&store).await, ["t"]);
    let beside = fs::read_dir(file.folder()).unwrap().count();
    assert_eq!(beside, 1, "the file alone");
    let error = try_submit(&store, task("u")).await.unwrap_err();
    assert!(matches!(error, Error::Unusable(_)), "{error:?}");
    let findings = store.examine(&Examination::default()).await.unwrap();
    let warned = findings.iter().find(|finding| finding.check == "access");
    assert_eq!(warned.unwrap().verdict, Verdict::Warning);
    assert!(
        findings.iter().all(|f| f.verdict < Verdict::Error),
        "{findings:?}"
    );
}

#[tokio::test]
async fn a_read_beside_a_program_that_begins_to_write_ends_with_an_error() {
    let file = file();
    drop(file.open().await);
    let reading = to_read(&file).await.unwrap();
    let writing = file.open().await;
    submit(&writing, "t").await;
    let listed = reading.list(&Filter::default(), Page::default()).await;
    let error = listed.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
    assert!(error.to_string().contains("try again"), "{error}");
    // Opened again, it reads while the program has the file open.
    assert_eq!(ids(&to_read(&file).await.unwrap()).await, ["t"]);
}

/// As on a full disk: there is no room for the index of the log.
#[tokio::test]
async fn an_empty_log_whose_index_cannot_be_made_is_left_out() {
    let file = file();
    let store = file.open().await;
    submit(&store, "t").await;
    drop(store);
    let beside = |ending| format!("{}{ending}", file.path().display());
    fs::write(beside("-wal"), "").unwrap();
    fs::create_dir(beside("-shm")).unwrap();
    assert_eq!(ids(&to_read(&file).await.unwrap()).await, ["t"]);
    // A log that holds changes is never left out.
    fs::remove_dir(beside("-shm")).unwrap();
    fs::write(beside("-wal"), "changes").unwrap();
    let error = to_read(&file).await.unwrap_err().to_string();
    assert!(error.contains("holds changes"), "{error}");
}

#[tokio::test]
async fn what_is_not_there_is_not_made() {
    let file = file();
    let error = to_read(&file).await.unwrap_err().to_string();
    assert!(error.contains("there is no such file"), "{error}");
    assert_eq!(fs::read_dir(file.folder()).unwrap().count(), 0);
}
