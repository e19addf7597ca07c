//! The tables of a file: made once, and of this version.

use std::time::Duration;

use windlass::{StateKind, store::Error};

use super::support::*;

/// The last version before 0.1 had the number in a row of another name.
#[tokio::test]
async fn a_file_of_a_development_version_is_refused_and_stays_as_it_is() {
    let file = file();
    submit(&file.open().await, "a").await;
    let before = "UPDATE windlass_meta SET name = 'schema', value = 14 WHERE name = 'version'";
    file.raw().execute_batch(before).unwrap();
    for _ in 0..2 {
        let Err(Error::Unusable(text)) = file.try_open().await else {
            panic!("the file was opened");
        };
        let says = "it was written by a development version of windlass (schema 14) before 0.1; let that version end \
                    its tasks, and choose another file";
        assert!(text.contains(says), "{text}");
    }
    let after = "UPDATE windlass_meta SET name = 'version', value = 1 WHERE name = 'schema'";
    file.raw().execute_batch(after).unwrap();
    assert_eq!(code(&file.open().await, "a").await, StateKind::Runnable);
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
