//! Files whose pages or indexes are damaged, and the findings of an examination.

use windlass::store::examine::{Examination, Verdict};

use super::{
    examine::{examine, examine_as, of},
    support::*,
};

#[tokio::test]
async fn a_damaged_file_is_reported() {
    let file = file();
    let store = file.open().await;
    for n in 0..2000 {
        submit(&store, &format!("task-{n}")).await;
    }
    examine(&store, true).await;
    drop(store);
    // The index of the ids no longer fits the rows.
    let raw = file.raw();
    raw.execute_batch(
        "PRAGMA writable_schema = ON;
         UPDATE sqlite_schema SET sql = replace(sql, 'fence       INTEGER NOT NULL', 'fence       TEXT NOT NULL')
             WHERE name = 'windlass_states';
         PRAGMA writable_schema = OFF;",
    )
    .unwrap();
    drop(raw);
    let store = file.open().await;
    let findings = examine(&store, false).await;
    assert_eq!(
        of(&findings, "integrity").verdict,
        Verdict::Error,
        "{findings:#?}"
    );
}

/// Changes a table without updating one of its indexes.
fn change_without(file: &File, index: &str, change: &str) {
    let schema = |sql: &str| {
        let raw = file.raw();
        raw.pragma_update(None, "writable_schema", true).unwrap();
        raw.execute_batch(sql).unwrap();
    };
    schema(&format!(
        "CREATE TABLE kept AS SELECT * FROM sqlite_schema WHERE name = '{index}';
         DELETE FROM sqlite_schema WHERE name = '{index}'"
    ));
    file.raw().execute_batch(change).unwrap();
    schema("INSERT INTO sqlite_schema SELECT * FROM kept; DROP TABLE kept");
}

/// A quick check counts the rows of an index, but does not compare them.
#[tokio::test]
async fn a_full_check_finds_an_index_that_contradicts_its_table() {
    let file = file();
    let store = file.open().await;
    submit(&store, "t").await;
    let insert = "INSERT INTO windlass_commands (ord, id, n, sent_at, command, outcome)
         SELECT 900, 'c', n, 0, '{}', '{}' FROM windlass_tasks";
    file.raw().execute_batch(insert).unwrap();
    let change = "UPDATE windlass_commands SET n = n + 1";
    change_without(&file, "windlass_commands_of_task", change);
    drop(store);

    let store = file.open().await;
    let mut how = Examination::default();
    let quick = examine_as(&store, how.clone()).await;
    assert_eq!(of(&quick, "integrity").verdict, Verdict::Ok, "{quick:#?}");
    how.full = true;
    let full = examine_as(&store, how).await;
    let finding = of(&full, "integrity");
    assert_eq!(finding.verdict, Verdict::Error, "{full:#?}");
    assert!(
        finding
            .found
            .contains("missing from index windlass_commands_of_task"),
        "{finding:?}"
    );
}

/// SQLite's own check ignores entries of partial indexes that have no row.
#[tokio::test]
async fn a_full_check_finds_entries_of_a_partial_index_without_a_row() {
    let file = file();
    let store = file.open().await;
    submit(&store, "t").await;
    let change = "UPDATE windlass_states SET ended_at = 1";
    change_without(&file, "windlass_states_live", change);
    drop(store);

    let store = file.open().await;
    let mut how = Examination::default();
    how.full = true;
    let full = examine_as(&store, how).await;
    let finding = of(&full, "integrity");
    assert_eq!(finding.verdict, Verdict::Error, "{full:#?}");
    let expected = "1 entries in index windlass_states_live for 0 rows";
    assert!(finding.found.contains(expected), "{finding:?}");
}
