//! duroxide on SQLite, as a peer of `cargo xtask bench peers`.

use std::{sync::Arc, time::Duration};

use duroxide::{
    Client, OrchestrationContext, OrchestrationRegistry,
    providers::sqlite::SqliteProvider,
    runtime::{Runtime, RuntimeOptions, registry::ActivityRegistry},
};
use sqlx::{Sqlite, pool::PoolConnection, sqlite::SqlitePool};
use tokio::sync::Semaphore;
use windlass_peers_common::{Error, Job, Payload, Peer, Ran, sleepers::YEAR};

const NOOP: &str = "noop";
const SLEEPER: &str = "sleeper";

/// The orchestrations that the runtime has failed, for example because SQLite was locked.
const FAILED: &str = "SELECT count(*) FROM executions WHERE status = 'Failed'";

/// How many orchestrations of `later` may wait for their first turn, which sets the timer.
const AHEAD: usize = 1_000;

/// How often the dispatcher of `lateness` polls: as often as the dispatcher of durare.
const POLL: Duration = Duration::from_millis(20);

struct Duroxide {
    provider: Arc<SqliteProvider>,
    client: Client,
    ahead: Arc<Semaphore>,
}

impl Duroxide {
    async fn count(&self, query: &str) -> Result<usize, Error> {
        let pool = self.provider.get_pool();
        let count: i64 = sqlx::query_scalar(query).fetch_one(pool).await?;
        Ok(usize::try_from(count)?)
    }

    async fn runtime(&self, job: &Job, ran: Arc<Ran>) -> Arc<Runtime> {
        let runs = ran.clone();
        let noop = move |_: OrchestrationContext, text: String| {
            runs.ran_task(|| Ok(text));
            async { Ok(String::new()) }
        };
        let ahead = self.ahead.clone();
        let sleeper = move |context: OrchestrationContext, _: String| {
            ahead.add_permits(1);
            let ran = ran.clone();
            async move {
                context.schedule_timer(YEAR).await;
                ran.ran();
                Ok(String::new())
            }
        };
        let orchestrations = OrchestrationRegistry::builder()
            .register(NOOP, noop)
            .register(SLEEPER, sleeper);
        // Two or more dispatchers lock each other out of SQLite (`benches/peers/README.md`).
        let mut options = RuntimeOptions {
            orchestration_concurrency: 1,
            ..RuntimeOptions::default()
        };
        if job.name == "lateness" {
            options.dispatcher_min_poll_interval = POLL;
        }
        let activities = ActivityRegistry::builder().build();
        let provider = self.provider.clone();
        Runtime::start_with_options(provider, activities, orchestrations.build(), options).await
    }
}

/// Opens and takes all connections of a pool.
async fn connections(pool: &SqlitePool) -> Result<Vec<PoolConnection<Sqlite>>, Error> {
    let mut connections = Vec::new();
    for _ in 0..pool.options().get_max_connections() {
        connections.push(pool.acquire().await?);
    }
    Ok(connections)
}

impl Peer for Duroxide {
    type Worker = Arc<Runtime>;

    /// The setting is the level of `synchronous`: `default`, as the provider opens its files, or `full`. The provider
    /// builds its own pool, so this opens each connection of the pool and sets the level there.
    async fn open(job: &Job) -> Result<Self, Error> {
        let url = format!("sqlite:{}?mode=rwc", job.dir.join("duroxide.db").display());
        let provider = Arc::new(SqliteProvider::new(&url, None).await?);
        match job.setting()?.as_str() {
            "default" => {}
            "full" => {
                for mut connection in connections(provider.get_pool()).await? {
                    let full = sqlx::query("PRAGMA synchronous = FULL");
                    full.execute(&mut *connection).await?;
                }
            }
            other => return Err(format!("setting={other}: write default or full").into()),
        }
        let peer = Self {
            client: Client::new(provider.clone()),
            provider,
            ahead: Arc::new(Semaphore::new(AHEAD)),
        };
        if job.name == "later" {
            // Its dispatcher runs as long as the process.
            peer.runtime(job, Ran::expecting(usize::MAX)).await;
        }
        Ok(peer)
    }

    async fn submit(&self, task: &Payload) -> Result<(), Error> {
        let started = self
            .client
            .start_orchestration(task.id(), NOOP, task.text.clone());
        started.await?;
        Ok(())
    }

    /// duroxide has no start for later: the orchestration sets a timer in its first turn, so a runtime runs in the
    /// meantime.
    async fn submit_later(&self, task: &Payload, _: Duration) -> Result<(), Error> {
        self.ahead.acquire().await?.forget();
        let started = self
            .client
            .start_orchestration(task.id(), SLEEPER, task.text.clone());
        started.await?;
        Ok(())
    }

    async fn asleep(&self, count: usize) -> Result<usize, Error> {
        loop {
            let timers = "SELECT count(*) FROM history WHERE event_type = 'TimerCreated'";
            let asleep = self.count(timers).await?;
            if asleep + self.count(FAILED).await? >= count {
                return Ok(asleep);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// An orchestration without activities is the smallest unit that survives a crash: its start is a row of the
    /// queue, and one commit stores its end.
    async fn work(&self, job: &Job, ran: Arc<Ran>) -> Result<Self::Worker, Error> {
        Ok(self.runtime(job, ran).await)
    }

    async fn settle(&self, runtime: Self::Worker, count: usize) -> Result<(), Error> {
        // A failed orchestration has ended too; the facts count it.
        while self.left(count).await? > self.count(FAILED).await? {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        runtime.shutdown(Some(0)).await;
        Ok(())
    }

    async fn left(&self, count: usize) -> Result<usize, Error> {
        let ended = "SELECT count(*) FROM executions WHERE status = 'Completed'";
        Ok(count - self.count(ended).await?)
    }

    async fn facts(&self) -> Result<Vec<(String, String)>, Error> {
        let mut levels = Vec::new();
        for mut connection in connections(self.provider.get_pool()).await? {
            let level = sqlx::query_scalar("PRAGMA synchronous").fetch_one(&mut *connection);
            levels.push(level.await?);
        }
        let mut facts = vec![windlass_peers_common::synchronous(&levels)];
        let failed = self.count(FAILED).await?;
        if failed > 0 {
            facts.push(("jobs that failed".to_owned(), failed.to_string()));
        }
        Ok(facts)
    }
}

fn main() -> std::process::ExitCode {
    windlass_peers_common::main::<Duroxide>()
}
