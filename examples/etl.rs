//! An ETL step: copies rows from one database into another in batches, and none twice, whatever fails.
//!
//! ```sh
//! cargo run --example etl
//! ```
//!
//! The same in Python: `sdk/python/examples/etl.py`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};
use windlass::{BoxError, Client, Message, NewTask, Runner, Store, TaskContext};

/// How many rows a write has.
const BATCH: u32 = 100;

#[derive(Serialize, Deserialize)]
struct Copy {
    source: String,
    target: String,
}

#[derive(Default, Serialize, Deserialize)]
struct Position {
    last: i64,
    rows: u64,
}

async fn etl(task: TaskContext) -> Result<Message, BoxError> {
    let copy: Copy = task.props()?;
    let mut position: Position = task.data()?.unwrap_or_default();
    loop {
        if task.should_stop() {
            return Ok(task.stop_requested().await.message());
        }
        let (id, fence) = (task.id().to_string(), i64::try_from(task.fence().0)?);
        let (source, target, last) = (copy.source.clone(), copy.target.clone(), position.last);
        let copied =
            tokio::task::spawn_blocking(move || copy_batch(&source, &target, last, &id, fence));
        let Some((last, rows)) = copied.await?? else {
            return Ok(Message::complete_with(position.rows));
        };
        position = Position {
            last,
            rows: position.rows + rows,
        };
        task.checkpoint(&position).await?;
    }
}

/// Copies the rows after `last`. Returns the id of the last one, and how many they were; `None` at the end.
fn copy_batch(
    source: &str,
    target: &str,
    last: i64,
    task: &str,
    fence: i64,
) -> Result<Option<(i64, u64)>, String> {
    let copied = || -> rusqlite::Result<_> {
        let source = Connection::open(source)?;
        let mut select =
            source.prepare("SELECT id, text FROM events WHERE id > ? ORDER BY id LIMIT ?")?;
        let rows = select.query_map(params![last, BATCH], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
        })?;
        let rows: Vec<(i64, String)> = rows.collect::<rusqlite::Result<_>>()?;
        let Some((last, _)) = rows.last() else {
            return Ok(Some(None));
        };
        let mut target = Connection::open(target)?;
        let write = target.transaction()?;
        write.execute_batch(
            "CREATE TABLE IF NOT EXISTS events (id INTEGER PRIMARY KEY, text TEXT);
             CREATE TABLE IF NOT EXISTS owner (task TEXT PRIMARY KEY, fence INTEGER);",
        )?;
        // A later claim of the task has written: this run was lost without noticing it, and must not write.
        write.execute(
            "INSERT INTO owner VALUES (?, 0) ON CONFLICT DO NOTHING",
            [task],
        )?;
        let owned = write.execute(
            "UPDATE owner SET fence = ?1 WHERE task = ?2 AND fence <= ?1",
            params![fence, task],
        )?;
        if owned == 0 {
            return Ok(None);
        }
        for (id, text) in &rows {
            // The same batch again changes nothing: a crash between this write and the checkpoint does no harm.
            write.execute(
                "INSERT OR REPLACE INTO events VALUES (?, ?)",
                params![id, text.to_uppercase()],
            )?;
        }
        write.commit()?;
        Ok(Some(Some((*last, rows.len() as u64))))
    };
    copied()
        .map_err(|e| format!("could not copy rows: {e}"))?
        .ok_or_else(|| "another node has this task".to_owned())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let source = Connection::open("source.db")?;
    source.execute_batch(
        "CREATE TABLE IF NOT EXISTS events (id INTEGER PRIMARY KEY, text TEXT);
         WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < 350)
         INSERT OR REPLACE INTO events SELECT id, 'event ' || id FROM n;",
    )?;
    let store = Store::open("sqlite:etl.db").await?;
    let client = Client::new(&store);
    let runner = Runner::builder(&store).handler("etl", etl).start().await?;
    let copy = Copy {
        source: "source.db".to_owned(),
        target: "target.db".to_owned(),
    };
    let task = NewTask::new("etl").id("copy").props(&copy);
    let task = client.submit(task.replace_finished()).await?;
    let rows: u64 = task.wait().await?;
    let target = Connection::open("target.db")?;
    let found: i64 = target.query_row("SELECT count(*) FROM events", [], |row| row.get(0))?;
    println!("{rows} rows copied, {found} in the target");
    runner.shutdown().await;
    Ok(())
}
