//! `doctor --repair` and the write-ahead log.

use std::time::{Duration, Instant};

use windlass::store::{Registry, examine::Verdict};

use super::{
    examine::{examine, of},
    support::*,
};

/// A connection that keeps a read transaction open.
fn reader(file: &File) -> rusqlite::Connection {
    let reader = file.raw();
    let begin = "BEGIN; SELECT count(*) FROM windlass_tasks";
    reader.execute_batch(begin).unwrap();
    reader
}

#[tokio::test]
async fn a_repair_writes_the_log_back() {
    let file = file();
    let store = file.open().await;
    for n in 0..50 {
        submit(&store, &format!("task-{n}")).await;
    }
    let log = file.path().with_extension("db-wal");
    assert!(std::fs::metadata(&log).unwrap().len() > 0);
    let findings = examine(&store, true).await;
    assert_eq!(of(&findings, "log").repaired, 1, "{findings:#?}");
    assert_eq!(std::fs::metadata(&log).unwrap().len(), 0);
}

/// Regression: the repair waited for the reader for up to 5 s, and blocked every writer.
#[tokio::test]
async fn a_repair_beside_a_reader_says_so_and_lets_writers_go_on() {
    let file = file();
    let store = file.open().await;
    submit(&store, "a").await;
    let reader = reader(&file);
    submit(&store, "b").await;
    let mut repair = std::pin::pin!(examine(&store, true));
    let (mut n, mut longest) = (0, Duration::ZERO);
    let findings = loop {
        let (began, name) = (Instant::now(), format!("c{n}"));
        let write = submit(&store, &name);
        tokio::select! {
            findings = &mut repair => break findings,
            () = write => longest = longest.max(began.elapsed()),
        }
        n += 1;
    };
    let finding = of(&findings, "log");
    assert_eq!(finding.verdict, Verdict::Warning, "{findings:#?}");
    assert!(finding.found.ends_with("a program that reads keeps it"));
    assert!(
        n > 0 && longest < Duration::from_secs(2),
        "{n}: {longest:?}"
    );
    reader.execute_batch("COMMIT").unwrap();
    let findings = examine(&store, true).await;
    assert_eq!(of(&findings, "log").repaired, 1, "{findings:#?}");
}

/// After its end a log only contains old bytes: only its size matters.
#[tokio::test]
async fn a_grown_log_is_reported_and_written_back() {
    let file = file();
    let store = file.open().await;
    submit(&store, "a").await;
    // Before the log grows: otherwise the writer of the store may truncate the log at once.
    let reader = reader(&file);
    let log = file.path().with_extension("db-wal");
    let grown = std::fs::OpenOptions::new().write(true).open(&log).unwrap();
    grown.set_len(300 << 20).unwrap();
    let findings = examine(&store, false).await;
    let finding = of(&findings, "log");
    let reported = (finding.verdict, &*finding.found);
    assert_eq!(reported, (Verdict::Warning, "300.0 MiB"), "{findings:#?}");
    reader.execute_batch("COMMIT").unwrap();
    let findings = examine(&store, true).await;
    let finding = of(&findings, "log");
    assert_eq!((finding.verdict, finding.repaired), (Verdict::Ok, 1));
    assert!(store.get(&id("a")).await.is_ok());
}
