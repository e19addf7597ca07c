//! [`Raw`]: SQLite without windlass, with the same settings, on one thread: what there is to reach.

use std::{
    path::Path,
    sync::{Arc, mpsc},
    time::Duration,
};

use rusqlite::Connection;
use tokio::{runtime::Runtime, sync::oneshot};

use crate::support::{self, Meter, Rate};

/// How many updates or inserts a transaction has.
pub(crate) const GROUP: usize = 1000;
/// Bytes of a line of history.
const LINE: usize = 24;

/// One table with a text in each row.
pub(crate) struct Raw {
    conn: Connection,
    text: String,
    /// The rows that are updated.
    hot: Vec<i64>,
    next: usize,
    inserted: i64,
}

impl Raw {
    /// A file with `rows` rows of `size` bytes, of which `hot` are updated, evenly spread.
    pub(crate) fn new(file: &Path, rows: usize, hot: usize, size: usize) -> Self {
        let conn = Connection::open(file).unwrap();
        // As the store sets its own connection up.
        conn.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -204800;
             PRAGMA wal_autocheckpoint = 10000; PRAGMA journal_size_limit = 67108864;
             CREATE TABLE raw (n INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT;
             CREATE TABLE named (n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
                 text TEXT NOT NULL) STRICT;
             CREATE TABLE history (n INTEGER PRIMARY KEY, line TEXT NOT NULL) STRICT;
             BEGIN",
        )
        .unwrap();
        let mut raw = Self {
            conn,
            text: "x".repeat(size),
            hot: (0..hot).map(|n| (n * rows / hot) as i64).collect(),
            next: 0,
            inserted: 0,
        };
        {
            let mut insert = raw
                .conn
                .prepare("INSERT INTO raw (n, text) VALUES (?1, ?2)")
                .unwrap();
            for n in 0..rows {
                insert.execute((n as i64, &raw.text)).unwrap();
            }
        }
        raw.conn.execute_batch("COMMIT").unwrap();
        raw.updates(Duration::from_millis(200), GROUP);
        raw
    }

    /// Updates rows for a while, `group` in a transaction; returns how many a second.
    pub(crate) fn updates(&mut self, time: Duration, group: usize) -> Rate {
        let sql = "UPDATE raw SET text = ?2 WHERE n = ?1";
        let mut update = self.conn.prepare_cached(sql).unwrap();
        let (meter, mut done) = (Meter::start(), 0);
        while meter.elapsed() < time {
            self.conn.execute_batch("BEGIN IMMEDIATE").unwrap();
            for _ in 0..group {
                self.next += 1;
                // Another text each time: what stays the same is not written.
                stamp(&mut self.text, self.next);
                let n = self.hot[self.next % self.hot.len()];
                update.execute((n, &self.text)).unwrap();
            }
            self.conn.execute_batch("COMMIT").unwrap();
            done += group;
        }
        meter.rate(done as u64)
    }

    /// Updates rows for a while, one in a transaction with a line of history, for a caller that is a task of the
    /// runtime: it hands each to the thread of the connection and waits for the answer. Returns how many a second.
    pub(crate) fn handed_over(&mut self, runtime: &Runtime, time: Duration) -> Rate {
        let (jobs, queue) = mpsc::channel::<oneshot::Sender<()>>();
        let meter = Arc::new(Meter::start());
        let caller = {
            let meter = meter.clone();
            runtime.spawn(async move {
                let mut done = 0;
                while meter.elapsed() < time {
                    let (answer, answered) = oneshot::channel();
                    jobs.send(answer).unwrap();
                    answered.await.unwrap();
                    done += 1;
                }
                done
            })
        };
        // This thread is that of the connection.
        let sql = "UPDATE raw SET text = ?2 WHERE n = ?1";
        let mut update = self.conn.prepare_cached(sql).unwrap();
        let sql = "INSERT INTO history (line) VALUES (?1)";
        let mut line = self.conn.prepare_cached(sql).unwrap();
        while let Ok(answer) = queue.recv() {
            self.next += 1;
            stamp(&mut self.text, self.next);
            let n = self.hot[self.next % self.hot.len()];
            self.conn.execute_batch("BEGIN IMMEDIATE").unwrap();
            update.execute((n, &self.text)).unwrap();
            line.execute([&self.text[..LINE]]).unwrap();
            self.conn.execute_batch("COMMIT").unwrap();
            answer.send(()).unwrap();
        }
        let done = runtime.block_on(caller).unwrap();
        meter.rate(done)
    }

    /// Inserts rows with a name of 20 bytes for a while; answers how many a second.
    pub(crate) fn inserts(&mut self, time: Duration) -> Rate {
        let sql = "INSERT INTO named (n, id, text) VALUES (?1, ?2, ?3)";
        let mut insert = self.conn.prepare_cached(sql).unwrap();
        let (meter, mut done) = (Meter::start(), 0);
        while meter.elapsed() < time {
            self.conn.execute_batch("BEGIN IMMEDIATE").unwrap();
            for _ in 0..GROUP {
                self.inserted += 1;
                let id = support::id(self.inserted as usize);
                insert.execute((self.inserted, id, &self.text)).unwrap();
            }
            self.conn.execute_batch("COMMIT").unwrap();
            done += GROUP;
        }
        meter.rate(done as u64)
    }
}

fn stamp(text: &mut String, n: usize) {
    let n = format!("{n:012}");
    text.replace_range(..n.len().min(text.len()), &n[..n.len().min(text.len())]);
}
