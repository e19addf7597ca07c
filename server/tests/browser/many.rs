//! [`million`]: a file with 1,000,000 tasks, in seconds.
//!
//! A client and a node make 1,000 tasks. Their rows are then copied 999 times with SQL: tasks, states, changes and counts, with the
//! numbers and ids of each copy moved behind those of the one before. A test of this file compares the counts with the tasks.

use std::{path::Path, time::Duration};

use jiff::Timestamp;
use rusqlite::Connection;
use tempfile::TempDir;
use tokio::time::Instant;
use windlass::{Client, NewTask, StateKind};

use crate::dashboard::{self, FILE};

/// How many tasks are made by a client.
const BLOCK: usize = 1000;
/// How many of them fail, ask a person, and have no node. The others sleep.
const FAILED: usize = 40;
const ASKING: usize = 10;
const WITHOUT_NODE: usize = 50;
/// How long the whole file may take.
const FILL: Duration = Duration::from_secs(90);
/// How long the first tasks may take to get their states.
const SETTLE: Duration = Duration::from_secs(60);

/// Copies each row of the first tasks 999 times. `?1` is the number of the newest change: a copy begins behind the one before.
const COPY: &str = "
CREATE TEMP TABLE copies (c INTEGER PRIMARY KEY);
WITH RECURSIVE counted(c) AS (SELECT 1 UNION ALL SELECT c + 1 FROM counted WHERE c < 999)
    INSERT INTO copies SELECT c FROM counted;
CREATE TEMP TABLE last AS SELECT max(seq) AS seq FROM windlass_changes;
CREATE TEMP TABLE tasks AS SELECT * FROM windlass_tasks;
CREATE TEMP TABLE states AS SELECT * FROM windlass_states;
CREATE TEMP TABLE changes AS SELECT * FROM windlass_changes;
INSERT INTO windlass_tasks (n, id, kind, priority, submitted_at, labels, start_at, retry, props, terms)
    SELECT n + c * seq, printf('t-%07d', substr(id, 3) + c * 1000), kind, priority, submitted_at, labels, start_at, retry, props, terms
    FROM last CROSS JOIN copies CROSS JOIN tasks;
INSERT INTO windlass_states (n, kind, code, due, owner, fence, last, pending, size, version, lost_by, ended_at, quarantine, state,
        data_version, waits, limited, deadline, failure)
    SELECT n + c * seq, kind, code, due, owner, iif(fence > 0, fence + c * seq, 0), last + c * seq, pending, size, version, lost_by,
        ended_at, quarantine, state, data_version, waits, limited, deadline, failure
    FROM last CROSS JOIN copies CROSS JOIN states;
INSERT INTO windlass_changes (seq, n, prev, at, what, detail, fence, command, by)
    SELECT changes.seq + c * last.seq, n + c * last.seq, iif(prev > 0, prev + c * last.seq, 0), at, what, detail,
        iif(fence > 0, fence + c * last.seq, 0), command, by
    FROM last CROSS JOIN copies CROSS JOIN changes;
UPDATE windlass_counts SET tasks = 1000 * tasks;
UPDATE windlass_failures SET tasks = 1000 * tasks;
";

/// Returns the n-th task of the block.
fn task(n: usize) -> NewTask {
    let groups = [
        (FAILED, "mail"),
        (ASKING, "deploy"),
        (WITHOUT_NODE, "report"),
    ];
    let (mut kind, mut from) = ("archive", 0);
    for (tasks, of_group) in groups {
        if (from..from + tasks).contains(&n) {
            kind = of_group;
        }
        from += tasks;
    }
    let task = NewTask::new(kind)
        .id(format!("t-{n:07}"))
        .label("team", format!("t{}", n % 10))
        .props(&serde_json::json!({"to": format!("user-{n}@example.com"), "size": n}));
    match kind {
        "archive" => task.start_at(Timestamp::MAX),
        _ => task,
    }
}

/// Makes the tasks that are copied, and waits until they are in their states.
async fn make(dir: &Path) {
    let store = dashboard::store_in(dir).await;
    let client = Client::new(&store);
    for submitted in client.submit_many((0..BLOCK).map(task)).await {
        submitted.unwrap();
    }
    let node = dashboard::node(&store).await;
    let end = Instant::now() + SETTLE;
    loop {
        let counts = client.counts().await.unwrap();
        let of = |state| {
            let of_state = counts.iter().filter(|count| count.state == Some(state));
            of_state.map(|count| count.tasks).sum::<u64>()
        };
        let now = (of(StateKind::Failed), of(StateKind::Paused));
        if now == (FAILED as u64, ASKING as u64) {
            break;
        }
        assert!(
            Instant::now() < end,
            "{now:?} tasks have failed and ask after {SETTLE:?}: {counts:?}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    node.shutdown().await;
}

/// Makes a folder with the file of a million tasks.
pub(crate) async fn million() -> TempDir {
    let begun = Instant::now();
    let dir = tempfile::tempdir().unwrap();
    make(dir.path()).await;
    let file = dir.path().join(FILE);
    let copied = tokio::task::spawn_blocking(move || {
        let conn = Connection::open(file)?;
        // Nobody else has the file open, and a half made one is of no use.
        conn.execute_batch("PRAGMA journal_mode = DELETE; PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -262144; BEGIN;")?;
        conn.execute_batch(COPY)?;
        conn.execute_batch("COMMIT")
    });
    copied.await.unwrap().unwrap();
    let took = begun.elapsed();
    assert!(
        took < FILL,
        "a million tasks took {took:?}, more than {FILL:?}"
    );
    dir
}
