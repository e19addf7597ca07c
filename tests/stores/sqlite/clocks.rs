//! Clocks that are ahead, and what an examination says of them.

use windlass::store::examine::Verdict;

use super::{
    examine::{examine, of},
    support::*,
};

/// Records from a clock that was ahead are in the future of a correct one.
#[tokio::test]
async fn a_clock_that_was_ahead_is_reported() {
    let file = file();
    let store = file.open().await;
    submit(&store, "a").await;
    let raw = rusqlite::Connection::open(file.path()).unwrap();
    let hour = 3_600_000_000_i64;
    let moved = raw
        .execute("UPDATE windlass_changes SET at = at + ?1", [hour])
        .unwrap();
    assert!(moved > 0);
    let findings = examine(&store, false).await;
    let finding = of(&findings, "clock");
    assert_eq!(finding.verdict, Verdict::Warning, "{findings:#?}");
    let seconds = finding
        .found
        .split(' ')
        .find_map(|word| word.parse::<i64>().ok());
    assert!(
        (3500..=3600).contains(&seconds.unwrap()),
        "{}",
        finding.found
    );
}

/// Regression: the finding blamed the clock of this machine, and named no node.
#[tokio::test]
async fn a_node_whose_clock_is_ahead_is_named() {
    let file = file();
    let store = file.open().await;
    join(&store, "fast").await;
    join(&store, "right").await;
    let raw = rusqlite::Connection::open(file.path()).unwrap();
    let sql = "UPDATE windlass_leases SET joined_at = joined_at + 3600000000 WHERE node = 'fast'";
    assert_eq!(raw.execute(sql, []).unwrap(), 1);
    let findings = examine(&store, false).await;
    let clock = of(&findings, "clock");
    assert_eq!(clock.verdict, Verdict::Warning);
    assert!(clock.found.starts_with("node fast joined 3"), "{clock:?}");
}
