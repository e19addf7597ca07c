//! durare on SQLite, as a peer of `cargo xtask bench peers`.

use std::{sync::Arc, time::Duration};

use durare::{DurableContext, DurableEngine, SqliteProvider, WorkflowOptions, WorkflowQueue};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use windlass_peers_common::{Error, Job, Payload, Peer, Ran};

const QUEUE: &str = "noops";

struct Durare {
    pool: SqlitePool,
    engine: DurableEngine,
    ran: Arc<std::sync::OnceLock<Arc<Ran>>>,
}

impl Peer for Durare {
    type Worker = ();

    /// The setting is the level of `synchronous`: `normal`, as durare opens its files, or `full`. The other
    /// settings are those of `SqliteProvider::connect`, and 60 s instead of 5 s to wait for a lock.
    async fn open(job: &Job) -> Result<Self, Error> {
        let level = match job.setting()?.as_str() {
            "normal" => SqliteSynchronous::Normal,
            "full" => SqliteSynchronous::Full,
            other => return Err(format!("setting={other}: write normal or full").into()),
        };
        let options = SqliteConnectOptions::new()
            .filename(job.dir.join("durare.db"))
            .create_if_missing(true)
            .foreign_keys(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(level)
            .busy_timeout(Duration::from_secs(60));
        let pool = SqlitePoolOptions::new()
            .max_connections(5)
            .acquire_timeout(Duration::from_secs(300))
            .connect_with(options)
            .await?;
        let provider = Arc::new(SqliteProvider::from_pool(pool.clone()));
        let mut engine = DurableEngine::new(provider).await?;
        let ran: Arc<std::sync::OnceLock<Arc<Ran>>> = Arc::default();
        let counts = ran.clone();
        engine.register("noop", move |_: DurableContext, text: String| {
            if let Some(ran) = counts.get() {
                ran.ran_task(|| Ok(text));
            }
            async { Ok(()) }
        });
        // A dispatcher claims as many workflows at once as it runs, and polls as in the guide of durare's queues:
        // by default it claims at most 100 a second.
        engine.register_queue(
            WorkflowQueue::new(QUEUE)
                .worker_concurrency(job.slots)
                .max_tasks_per_iteration(job.slots)
                .base_polling_interval(Duration::from_millis(20)),
        );
        Ok(Self { pool, engine, ran })
    }

    async fn submit(&self, task: &Payload) -> Result<(), Error> {
        let options = WorkflowOptions::with_id(task.id()).queue(QUEUE);
        let start = self
            .engine
            .start::<_, ()>("noop", task.text.clone(), options);
        start.await?;
        Ok(())
    }

    async fn submit_later(&self, task: &Payload, wait: Duration) -> Result<(), Error> {
        let mut options = WorkflowOptions::with_id(task.id()).queue(QUEUE);
        options.delay = Some(wait);
        let start = self
            .engine
            .start::<_, ()>("noop", task.text.clone(), options);
        start.await?;
        Ok(())
    }

    async fn work(&self, job: &Job, ran: Arc<Ran>) -> Result<(), Error> {
        self.ran.set(ran).map_err(|_| "the worker runs already")?;
        if job.name == "kills" {
            // A program that starts after a crash calls this, as durare's guide shows: only then are the workflows
            // of the killed process run.
            self.engine.recover().await?;
        }
        self.engine.launch().await?;
        Ok(())
    }

    async fn settle(&self, (): (), count: usize) -> Result<(), Error> {
        while self.left(count).await? > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    async fn left(&self, count: usize) -> Result<usize, Error> {
        let ended = "SELECT count(*) FROM workflow_status WHERE status = 'SUCCESS'";
        let ended: i64 = sqlx::query_scalar(ended).fetch_one(&self.pool).await?;
        Ok(count - usize::try_from(ended)?)
    }

    async fn facts(&self) -> Result<Vec<(String, String)>, Error> {
        let mut connections = Vec::new();
        for _ in 0..self.pool.size() {
            connections.push(self.pool.acquire().await?);
        }
        let mut levels = Vec::new();
        for connection in &mut connections {
            let level = sqlx::query_scalar("PRAGMA synchronous").fetch_one(&mut **connection);
            levels.push(level.await?);
        }
        Ok(vec![windlass_peers_common::synchronous(&levels)])
    }
}

fn main() -> std::process::ExitCode {
    windlass_peers_common::main::<Durare>()
}
