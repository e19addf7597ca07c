//! apalis-sqlite, as a peer of `cargo xtask bench peers`.

use std::{sync::Arc, time::Duration};

use apalis::prelude::{TaskBuilder, *};
use apalis_sqlite::{Config, SqliteConnectOptions, SqlitePool, SqlitePoolOptions, SqliteStorage};
use sqlx::sqlite::{SqliteJournalMode, SqliteSynchronous};
use tokio::{sync::oneshot, task::JoinHandle};
use windlass_peers_common::{Error, Job, Payload, Peer, Ran};

const QUEUE: &str = "noops";

/// How often the worker of `lateness` polls: as often as the dispatcher of durare.
const POLL: Duration = Duration::from_millis(20);

struct Apalis {
    pool: SqlitePool,
    storage: SqliteStorage<String>,
}

struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), WorkerError>>,
}

/// Opens the pool of apalis' documentation: `setup` sets `synchronous` to OFF on the one connection that it uses.
async fn by_default(options: SqliteConnectOptions) -> Result<SqlitePool, Error> {
    let pool = SqlitePoolOptions::new().connect_with(options).await?;
    SqliteStorage::setup(&pool).await?;
    Ok(pool)
}

/// Opens a pool with the settings of `setup` on each connection, but for `synchronous`, which is FULL.
async fn full(options: SqliteConnectOptions) -> Result<SqlitePool, Error> {
    let options = options
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .pragma("temp_store", "MEMORY")
        .pragma("cache_size", "64000")
        .pragma("journal_size_limit", "67108864")
        .busy_timeout(Duration::from_secs(60));
    let pool = SqlitePoolOptions::new().connect_with(options).await?;
    sqlx::query("PRAGMA optimize").execute(&pool).await?;
    SqliteStorage::migrations().run(&pool).await?;
    Ok(pool)
}

impl Peer for Apalis {
    type Worker = Running;

    /// The setting is `default` or `full`.
    async fn open(job: &Job) -> Result<Self, Error> {
        let options = SqliteConnectOptions::new()
            .filename(job.dir.join("apalis.db"))
            .create_if_missing(true);
        let pool = match job.setting()?.as_str() {
            "default" => by_default(options).await?,
            "full" => full(options).await?,
            other => return Err(format!("setting={other}: write default or full").into()),
        };
        // A worker fetches as many tasks at once as it runs.
        let config = Config::default().queue(QUEUE).batch_size(job.slots);
        let storage = SqliteStorage::new(&pool).with_config(config);
        Ok(Self { pool, storage })
    }

    async fn submit(&self, task: &Payload) -> Result<(), Error> {
        let mut storage = self.storage.clone();
        storage.push(task.text.clone()).await?;
        Ok(())
    }

    async fn submit_later(&self, task: &Payload, wait: Duration) -> Result<(), Error> {
        let mut storage = self.storage.clone();
        let later = TaskBuilder::new(task.text.clone()).run_after(wait);
        storage.push_task(later.build()).await?;
        Ok(())
    }

    async fn work(&self, job: &Job, ran: Arc<Ran>) -> Result<Running, Error> {
        let noop = |text: String, ran: Data<Arc<Ran>>| async move {
            ran.ran_task(|| Ok(text));
            Ok::<(), BoxDynError>(())
        };
        // A name is refused while an earlier worker of this name counts as alive: 60 s after a crash.
        let worker = WorkerBuilder::new(format!("worker-{}", std::process::id()));
        let (stop, stopped) = oneshot::channel();
        let signal = async {
            let _ = stopped.await;
            Ok::<(), std::io::Error>(())
        };
        let storage = self.storage.clone();
        // By default only its heartbeat, each 30 s, wakes an idle worker.
        let task = if job.name == "lateness" {
            let worker = worker.backend(storage.poll_with_interval(POLL));
            let worker = worker.data(ran).concurrency(job.slots).build(noop);
            tokio::spawn(worker.run_until(signal))
        } else {
            let worker = worker.backend(storage);
            let worker = worker.data(ran).concurrency(job.slots).build(noop);
            tokio::spawn(worker.run_until(signal))
        };
        Ok(Running { stop, task })
    }

    async fn settle(&self, running: Running, count: usize) -> Result<(), Error> {
        while self.left(count).await? > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let _ = running.stop.send(());
        running.task.abort();
        Ok(())
    }

    async fn left(&self, count: usize) -> Result<usize, Error> {
        let ended = "SELECT count(*) FROM Jobs WHERE status = 'Done'";
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
    windlass_peers_common::main::<Apalis>()
}
