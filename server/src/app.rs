//! [`App`]: what the handlers of requests share.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::Semaphore, time::Instant};
use tokio_util::sync::CancellationToken;
use windlass::{
    Client, Invalid, Json, Kind,
    client::Stats,
    store::{Error, Store},
    workers::Workers,
};

use crate::{
    activity::Counting,
    auth::{Keyring, Sessions},
    node_history::NodeHistory,
    peers::Peers,
    places::Places,
    problem::Problem,
    quota::Quotas,
    room::Room,
    settings::Settings,
};

/// How many callers are kept whose requests were counted.
const COUNTED: usize = 10_000;
/// How many parts of [`Room::PART`] large answers have at once: 256 MiB.
const ANSWERS: usize = (256 << 20) / Room::PART;
/// How many long computations run at once.
const COMPUTING: usize = 2;
/// How long the numbers of the tasks are kept.
const STATS_AGE: Duration = Duration::from_secs(1);

/// Checks the props of a new task of a kind.
pub(crate) type Check = Arc<dyn Fn(&Kind, &Json) -> Result<(), Invalid> + Send + Sync>;

/// Returns the metrics of the process, as text for Prometheus.
pub(crate) type Metrics = Arc<dyn Fn() -> String + Send + Sync>;

/// What the program that has the server decides.
pub(crate) struct Options {
    pub(crate) settings: Settings,
    pub(crate) check: Check,
    pub(crate) metrics: Option<Metrics>,
}

/// What the handlers of requests share.
pub(crate) struct App {
    pub(crate) store: Store,
    pub(crate) client: Client,
    pub(crate) keyring: Keyring,
    pub(crate) sessions: Sessions,
    pub(crate) quotas: Quotas,
    pub(crate) peers: Arc<Peers>,
    pub(crate) settings: Settings,
    pub(crate) check: Check,
    pub(crate) metrics: Option<Metrics>,
    /// The requests in work.
    pub(crate) in_flight: Places,
    /// The waits and the streams. They have places of their own: what they wait for comes by the other requests.
    pub(crate) waits: Places,
    /// The reports, registrations and farewells of workers.
    pub(crate) reports: Places,
    /// The bytes of answers that are made or sent, in parts of [`Room::PART`].
    pub(crate) answers: Places,
    /// What is computed at length, such as the times of a preview: beside the requests, one at a time for each caller.
    pub(crate) computing: Places,
    /// The remote workers for which this server speaks.
    pub(crate) workers: Workers,
    /// The exchanges that may still be opened.
    pub(crate) exchanges: Arc<Semaphore>,
    /// One backup at a time: each needs as much room on the disk as the store.
    pub(crate) backups: Arc<Semaphore>,
    /// Cancelled when the server shuts down: waits and streams end.
    pub(crate) stop: CancellationToken,
    /// What the tasks do, for all callers.
    pub(crate) activity: Counting,
    /// Which nodes joined again or went, as this server has seen it.
    pub(crate) node_history: Arc<NodeHistory>,
    rates: Mutex<HashMap<String, Bucket>>,
    /// The numbers of the tasks, as they were read last.
    stats: tokio::sync::Mutex<Option<(Instant, Arc<Stats>)>>,
}

/// The requests that a caller may still make at once.
struct Bucket {
    left: f64,
    at: Instant,
}

impl Drop for App {
    /// Ends what runs beside the requests, for a program that drops the routes without a shutdown.
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Returns the URLs of all servers of the namespace.
fn urls(keyring: &Keyring) -> Vec<String> {
    let all = keyring.servers().into_iter();
    all.flat_map(|(_, at)| at.urls).collect()
}

/// Returns the workers of a store. When the server stops, their open exchanges are answered.
fn workers_of(store: &Store, keyring: Keyring, stop: CancellationToken) -> Workers {
    let workers = Workers::new(store, move || urls(&keyring));
    let stopping = workers.clone();
    tokio::spawn(async move {
        stop.cancelled().await;
        stopping.shutdown().await;
    });
    workers
}

impl App {
    pub(crate) fn new(store: &Store, options: Options, stop: CancellationToken) -> Arc<Self> {
        let Options {
            settings,
            check,
            metrics,
        } = options;
        let peers = Peers::new(store, settings.advertised.clone());
        tokio::spawn(peers.clone().run(stop.clone()));
        let node_history = Arc::<NodeHistory>::default();
        tokio::spawn(
            node_history
                .clone()
                .follow(Client::new(store), stop.clone()),
        );
        let keyring = Keyring::follow(store);
        let workers = workers_of(store, keyring.clone(), stop.clone());
        Arc::new(Self {
            workers,
            exchanges: Arc::new(Semaphore::new(settings.workers)),
            peers,
            store: store.clone(),
            client: Client::new(store),
            keyring,
            sessions: Sessions::new(store),
            quotas: Quotas::default(),
            in_flight: Places::new(settings.in_flight),
            waits: Places::new(settings.in_flight),
            reports: Places::new(settings.in_flight),
            answers: Places::with_part(ANSWERS, ANSWERS / 4),
            computing: Places::with_part(COMPUTING, 1),
            backups: Arc::new(Semaphore::new(1)),
            settings,
            check,
            metrics,
            stop,
            activity: Counting::default(),
            node_history,
            rates: Mutex::default(),
            stats: tokio::sync::Mutex::default(),
        })
    }

    /// Returns the URLs of the other servers of the namespace, where a client can go on.
    pub(crate) fn others(&self) -> Vec<String> {
        let all = self.keyring.servers().into_iter();
        let others = all.filter(|(name, _)| name != self.peers.name());
        others.flat_map(|(_, at)| at.urls).collect()
    }

    /// Returns the URLs of the servers to which a worker may send its next request.
    pub(crate) fn servers_for_workers(&self) -> Vec<String> {
        match self.stop.is_cancelled() {
            true => self.others(),
            false => urls(&self.keyring),
        }
    }

    /// Returns the numbers of the tasks, at most a second old: however many ask, the store is read once a second.
    pub(crate) async fn stats(&self) -> Result<Arc<Stats>, Error> {
        let mut kept = self.stats.lock().await;
        if let Some((at, stats)) = kept.as_ref()
            && at.elapsed() < STATS_AGE
        {
            return Ok(stats.clone());
        }
        let stats = Arc::new(self.client.stats().await?);
        *kept = Some((Instant::now(), stats.clone()));
        Ok(stats)
    }

    /// Computes something at length, beside the requests, in turn.
    pub(crate) async fn compute<T: Send + 'static>(
        &self,
        caller: &str,
        what: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let place = self.computing.take(caller).await;
        let computed = tokio::task::spawn_blocking(move || {
            let _place = place;
            what()
        });
        computed.await.map_err(|error| {
            let status = axum::http::StatusCode::INTERNAL_SERVER_ERROR;
            Problem::new(status, "unusable", error.to_string())
        })
    }

    /// Counts a request of a caller, and refuses it when there were too many.
    pub(crate) fn count(&self, caller: &str) -> Result<(), Problem> {
        let rate = f64::from(self.settings.rate.max(1));
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if rates.len() >= COUNTED {
            rates.retain(|_, bucket| now.duration_since(bucket.at) < Duration::from_secs(1));
        }
        let full = || Bucket {
            left: rate,
            at: now,
        };
        let bucket = rates.entry(caller.to_owned()).or_insert_with(full);
        let since = now.duration_since(bucket.at).as_secs_f64();
        bucket.left = (bucket.left + since * rate).min(rate);
        bucket.at = now;
        if bucket.left < 1.0 {
            let detail = format!(
                "more than {rate} requests a second; send fewer, or several tasks in one request"
            );
            let status = axum::http::StatusCode::TOO_MANY_REQUESTS;
            return Err(Problem::new(status, "too_many", detail).retry_after(1));
        }
        bucket.left -= 1.0;
        Ok(())
    }
}
