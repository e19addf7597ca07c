//! rustqueue, as a peer of `cargo xtask bench peers`.

use std::{sync::Arc, time::Duration};

use rustqueue::{
    JobOptions, QueueManager, StorageBackend,
    config::RetentionConfig,
    engine::scheduler::start_scheduler,
    storage::{BufferedRedbConfig, BufferedRedbStorage, RedbStorage, sqlite::SqliteStorage},
};
use windlass_peers_common::{Error, Job, Payload, Peer, Ran};

const QUEUE: &str = "noops";

struct RustQueue {
    manager: Arc<QueueManager>,
    level: &'static str,
}

impl Peer for RustQueue {
    type Worker = Vec<tokio::task::JoinHandle<()>>;

    /// The setting names the storage: `sqlite`, `redb` (the default of rustqueue), or `coalesced`, which is redb with
    /// the write coalescing of its guide.
    async fn open(job: &Job) -> Result<Self, Error> {
        let setting = job.setting()?;
        let redb = || RedbStorage::new(job.dir.join("rustqueue.redb"));
        let (storage, level): (Arc<dyn StorageBackend>, _) = match setting.as_str() {
            "sqlite" => (
                Arc::new(SqliteStorage::new(job.dir.join("rustqueue.db"))?),
                "synchronous NORMAL in its source, its one connection is private",
            ),
            "redb" => (Arc::new(redb()?), "redb, a sync for each write"),
            "coalesced" => {
                let config = BufferedRedbConfig::default();
                let storage = BufferedRedbStorage::new(Arc::new(redb()?), config);
                (
                    Arc::new(storage),
                    "redb, a sync for each batch of 10 ms or 100 writes",
                )
            }
            other => {
                return Err(format!("setting={other}: write sqlite, redb or coalesced").into());
            }
        };
        let manager = Arc::new(QueueManager::new(storage));
        Ok(Self { manager, level })
    }

    async fn submit(&self, task: &Payload) -> Result<(), Error> {
        let data = serde_json::Value::from(task.text.clone());
        self.manager.push(QUEUE, "noop", data, None).await?;
        Ok(())
    }

    async fn submit_later(&self, task: &Payload, wait: Duration) -> Result<(), Error> {
        let data = serde_json::Value::from(task.text.clone());
        let options = JobOptions {
            delay_ms: Some(u64::try_from(wait.as_millis())?),
            ..JobOptions::default()
        };
        self.manager
            .push(QUEUE, "noop", data, Some(options))
            .await?;
        Ok(())
    }

    /// Its worker runs one job at a time, so this starts as many loops as the job has slots. A loop does what the
    /// worker does: pull one job, run it, acknowledge it.
    async fn work(&self, job: &Job, ran: Arc<Ran>) -> Result<Self::Worker, Error> {
        let mut workers = Vec::new();
        if job.name == "sleepers" {
            // Looks for jobs that are due, with the intervals of rustqueue's builder.
            let retention = RetentionConfig::default();
            workers.push(start_scheduler(
                self.manager.clone(),
                1_000,
                30_000,
                retention,
            ));
        }
        let start = |_| {
            let (manager, ran) = (self.manager.clone(), ran.clone());
            tokio::spawn(async move {
                loop {
                    let pulled = manager.pull(QUEUE, 1).await.unwrap_or_default();
                    for job in &pulled {
                        if manager.ack(job.id, None).await.is_ok() {
                            ran.ran();
                        }
                    }
                    if pulled.is_empty() {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                    // SQLite is called on this thread, and no call of rustqueue yields: other tasks and timers would
                    // not run.
                    tokio::task::yield_now().await;
                }
            })
        };
        workers.extend((0..job.slots).map(start));
        Ok(workers)
    }

    /// A run counts after its acknowledgement: nothing is left to wait for.
    async fn settle(&self, workers: Self::Worker, _: usize) -> Result<(), Error> {
        for worker in workers {
            worker.abort();
        }
        Ok(())
    }

    async fn facts(&self) -> Result<Vec<(String, String)>, Error> {
        Ok(vec![("durability".to_owned(), self.level.to_owned())])
    }
}

fn main() -> std::process::ExitCode {
    windlass_peers_common::main::<RustQueue>()
}
