//! [`Builder`]: putting a node together.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use hashbrown::HashMap;
use tokio::{
    sync::{Notify, mpsc, watch},
    time::{Instant, sleep},
};
use tracing::{debug, warn};
use windlass_statemachine::{Backoff, Invalid, Kind, NodeName, task::Labels};

use super::{
    config::{KindConfig, NodeConfig, check_slots},
    engine::{Engine, Parts},
    gauges,
    handle::Unstored,
    input::In,
    kinds::{KindEntry, Kinds},
    lease::{self, Keeper, Wanted},
    maintain,
    node::Runner,
};
use crate::{
    balancer::{Balancer, Greedy},
    handler::{MissingState, Shared, StatefulHandler, Typed},
    job::Job,
    schedule::{KIND, Scheduler, watch_clock},
    store::{
        Coordinator, Error, NodeSpec, NodeStatus, Store, model::data_versions::check_data_version,
    },
};

/// Why a node did not start.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A setting is wrong; the error names it.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// A live node has that name.
    #[error(
        "a node named '{0}' is alive in this namespace; give this one another name, or stop that one \
         (one that died is forgotten when its lease ends)"
    )]
    NameTaken(NodeName),
    /// A handler needs a shared value that the node does not have ([`KindConfig::needs_state`]).
    #[error("could not start the handler of {kind}: {missing}")]
    MissingState {
        /// The kind of the handler: `'mail'`, or `every other kind` for the default handler.
        kind: String,
        /// The type of the value.
        missing: MissingState,
    },
    /// The store did not let it join.
    #[error(transparent)]
    Store(#[from] Error),
}

/// Puts a node together. Defaults: a name made of host and process, 100 slots, a lease of 15 s,
/// tasks parked when they sleep longer than 10 s, finished tasks kept for 7 days.
///
/// See [`Runner`] for an example.
#[must_use]
pub struct Builder {
    store: Store,
    name: Option<String>,
    config: NodeConfig,
    kinds: Vec<(String, KindEntry)>,
    default: Option<KindEntry>,
    schedules: bool,
    selector: Labels,
    balancer: Arc<dyn Balancer>,
    shared: Shared,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Runner {
    /// Returns a builder of a node on this store.
    pub fn builder(store: &Store) -> Builder {
        Builder {
            store: store.clone(),
            name: None,
            config: NodeConfig::default(),
            kinds: Vec::new(),
            default: None,
            schedules: true,
            selector: Labels::new(),
            balancer: Arc::new(Greedy),
            shared: Shared::default(),
        }
    }
}

impl Builder {
    /// The node's name, unique in the namespace. By default one that no other process has.
    pub fn node(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How many handlers run at once on this node: 1 to 1,000,000, 100 by default. A slot is free when
    /// its handler has returned: the next task may start before the end of the one before is durable.
    pub fn slots(mut self, slots: u32) -> Self {
        self.config.slots = slots;
        self
    }

    /// The handler of a kind, with the defaults of [`KindConfig`].
    pub fn handler(self, kind: impl Into<String>, handler: impl StatefulHandler) -> Self {
        self.handler_with(kind, KindConfig::default(), handler)
    }

    /// The handler of a kind, and how it is run.
    pub fn handler_with(
        mut self,
        kind: impl Into<String>,
        config: KindConfig,
        handler: impl StatefulHandler,
    ) -> Self {
        self.kinds
            .push((kind.into(), KindEntry::new(config, handler)));
        self
    }

    /// The handler of a typed kind, with the defaults of [`KindConfig`].
    ///
    /// See [`job`](crate::job) for an example.
    pub fn job<J: Job, M: 'static>(self, handler: impl StatefulHandler<J, M>) -> Self {
        self.job_with(KindConfig::default(), handler)
    }

    /// The handler of a typed kind, and how it is run.
    pub fn job_with<J: Job, M: 'static>(
        self,
        config: KindConfig,
        handler: impl StatefulHandler<J, M>,
    ) -> Self {
        self.handler_with(
            J::KIND,
            config.data_version(J::DATA_VERSION),
            Typed::new(handler),
        )
    }

    /// A handler for every kind that has none of its own: this node then claims every kind.
    pub fn default_handler(mut self, config: KindConfig, handler: impl StatefulHandler) -> Self {
        self.default = Some(KindEntry::new(config, handler));
        self
    }

    /// Gives the handlers of the node a value to share, such as a pool of connections: at most one of each
    /// type. They take it with [`TaskContext::state`](crate::TaskContext::state).
    ///
    /// # Example
    ///
    /// See [`TaskContext::state`](crate::TaskContext::state).
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.shared.insert(value);
        self
    }

    /// Leaves [schedules](crate::schedule) to other nodes. By default a node runs them, unless it has a
    /// handler of its own for the kind `schedule`. A default handler would then take them.
    pub fn without_schedules(mut self) -> Self {
        self.schedules = false;
        self
    }

    /// Takes only tasks that have this label, and [schedules](crate::schedule) whatever their labels are.
    pub fn select(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.selector.insert(name.into(), value.into());
        self
    }

    /// Decides whether this node takes a task, and which tasks it releases for others: [`Greedy`] by
    /// default.
    pub fn balancer(mut self, balancer: impl Balancer + 'static) -> Self {
        self.balancer = Arc::new(balancer);
        self
    }

    /// How long the node's claims stand without a renewal; then other nodes take its tasks. 15 s by
    /// default, from 200 ms (for tests; use at least 5 s otherwise) to 1 h.
    pub fn lease_ttl(mut self, ttl: Duration) -> Self {
        self.config.lease_ttl = ttl;
        self
    }

    /// How often the node sets the gauges of the namespace and of its slots ([`telemetry`](crate::telemetry)): 15 s by
    /// default, at least 100 ms. It sets none, and asks the store nothing for them, while the program has no recorder.
    pub fn gauges_every(mut self, every: Duration) -> Self {
        self.config.gauges_every = every;
        self
    }

    /// A task that sleeps for longer than this releases its claim: 10 s by default.
    pub fn park_after(mut self, wait: Duration) -> Self {
        self.config.park_after = wait;
        self
    }

    /// How long finished tasks are kept; `None` for ever, 7 days by default. The node looks for older
    /// tasks every tenth of `keep`: at most once a second, and at least once an hour.
    pub fn retention(mut self, keep: Option<Duration>) -> Self {
        self.config.retention = keep;
        self
    }

    /// How long to wait for the name while a node that has it counts as alive (an earlier process of this
    /// node that has crashed, say): not at all by default.
    pub fn wait_for_name(mut self, wait: Duration) -> Self {
        self.config.name_wait = wait;
        self
    }

    /// How long to try to join while the store is unavailable (a file that another program
    /// has locked, a cluster without a quorum): not at all by default.
    pub fn wait_for_store(mut self, wait: Duration) -> Self {
        self.config.store_wait = wait;
        self
    }

    /// Whether failed attempts are written to standard error in a program that has never set a
    /// `tracing` subscriber: yes by default. A program with a subscriber gets them as events of the
    /// level `WARN` instead.
    pub fn failures_to_stderr(mut self, write: bool) -> Self {
        self.config.failures_to_stderr = write;
        self
    }

    /// Joins the namespace and begins to work.
    ///
    /// # Errors
    ///
    /// [`StartError`]: a setting is wrong, the name is taken, or the store did not let it join.
    pub async fn start(self) -> Result<Runner, StartError> {
        let Self {
            store,
            name,
            config,
            kinds,
            default,
            schedules,
            selector,
            balancer,
            shared,
        } = self;
        config.check()?;
        shared.check()?;
        let node = NodeName::new(name.unwrap_or_else(default_name))
            .map_err(|e| Invalid::new("node", e.reason().to_owned()))?;
        let mut table = HashMap::new();
        if let Some(default) = &default {
            check_data_version(default.config.writes_version())?;
            has_state(&shared, default, || "every other kind".to_owned())?;
        }
        for (kind, entry) in kinds {
            let kind = Kind::new(kind)?;
            check_data_version(entry.config.writes_version())?;
            has_state(&shared, &entry, || format!("'{kind}'"))?;
            if let Some(slots) = entry.config.slots {
                check_slots("slots of a kind", slots)?;
            }
            if table.insert(kind.clone(), Arc::new(entry)).is_some() {
                let reason = format!("'{kind}' has two handlers; give it one");
                return Err(Invalid::new("handler", reason).into());
            }
        }
        if table.is_empty() && default.is_none() {
            let reason = "there is none; a node without a handler has nothing to run";
            return Err(Invalid::new("handler", reason).into());
        }
        if schedules {
            let config = Scheduler::config();
            let scheduler = || Arc::new(KindEntry::new(config, Scheduler::new(&store)));
            table.entry(Kind::new(KIND)?).or_insert_with(scheduler);
        }
        let coordinator = store.coordinator().clone();
        let kinds = Kinds {
            named: table,
            default: default.map(Arc::new),
            shared: shared.clone(),
        };
        let spec = NodeSpec {
            kinds: kinds.listed(),
            data_versions: kinds.data_versions(),
            labels: selector.clone(),
            slots: config.slots,
            slots_of: kinds.slots_of(),
            ..NodeSpec::new(node.clone())
        };
        let first = join(&store, &spec, &config).await?;
        let (tx, rx) = mpsc::unbounded_channel();
        let (until, until_rx) = watch::channel(first.1);
        let spec = Arc::new(spec);
        let (wanted, wanted_rx) = watch::channel(Wanted {
            spec: spec.clone(),
            status: NodeStatus::default(),
            leave: false,
        });
        let keeper = Keeper {
            coordinator: coordinator.clone(),
            spec,
            ttl: config.lease_ttl,
            to_engine: tx.clone(),
            until,
            wanted: wanted_rx,
        };
        let (retention, gauges_every) = (config.retention, config.gauges_every);
        let peers_changed = Arc::new(Notify::new());
        let failure = Arc::new(OnceLock::new());
        let (unstored, unstored_rx) = watch::channel(Unstored::default());
        let engine = Engine::new(Parts {
            coordinator: coordinator.clone(),
            clock: store.clock().clone(),
            node: node.clone(),
            config,
            kinds,
            selector,
            balancer,
            until: until_rx.clone(),
            wanted,
            failure: failure.clone(),
            unstored,
            peers_changed: peers_changed.clone(),
            tx: tx.clone(),
            rx,
        });
        let keeper = tokio::spawn(keeper.run(first));
        let peers = tokio::spawn(peers(coordinator.clone(), peers_changed, tx.clone()));
        let maintain = tokio::spawn(maintain::run(coordinator, retention));
        let gauges = tokio::spawn(gauges::run(store.clone(), gauges_every));
        let clock = schedules.then(|| tokio::spawn(watch_clock(store.clone())));
        let ended = tokio::spawn(async move {
            engine.run().await;
            maintain.abort();
            gauges.abort();
            if let Some(clock) = clock {
                clock.abort();
            }
            peers.abort();
            // The lease is ended when the keeper returns.
            let _ = keeper.await;
        });
        Ok(Runner {
            node,
            tx,
            ended: Some(ended),
            shared,
            failure,
            until: until_rx,
            unstored: unstored_rx,
        })
    }
}

/// Checks that the node has what a handler takes.
fn has_state(
    shared: &Shared,
    entry: &KindEntry,
    kind: impl Fn() -> String,
) -> Result<(), StartError> {
    let has = shared.has(&entry.config.needs);
    has.map_err(|missing| StartError::MissingState {
        kind: kind(),
        missing,
    })
}

async fn join(
    store: &Store,
    spec: &NodeSpec,
    config: &NodeConfig,
) -> Result<(crate::store::Lease, Instant), StartError> {
    let store_until = Instant::now() + config.store_wait;
    let mut name_until = Instant::now() + config.name_wait;
    let mut reported = false;
    let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
    loop {
        let coordinator = &**store.coordinator();
        // Before this node writes anything with the time of its clock.
        let joined = match coordinator.check_clock(config.retention).await {
            Err(e) if e.is_retryable() => Err(e),
            checked => {
                if let Err(error) = checked {
                    debug!(node = %spec.name, %error, "could not compare the clock with the store");
                }
                lease::join(coordinator, spec, config.lease_ttl).await
            }
        };
        match joined {
            Ok(held) => return Ok(held),
            Err(Error::AlreadyExists { .. }) if Instant::now() < name_until => {
                if !reported {
                    warn!(node = %spec.name, "the name is taken: waiting for that node's lease to end");
                    reported = true;
                }
                sleep(Duration::from_millis(200)).await;
            }
            Err(Error::AlreadyExists { .. }) => {
                return Err(StartError::NameTaken(spec.name.clone()));
            }
            Err(e) if e.is_retryable() && Instant::now() < store_until => {
                warn!(node = %spec.name, error = %e, "could not join; trying again");
                sleep(backoff.pause()).await;
                // It may have joined all the same. Then the node that has the name is this one.
                name_until = Instant::now() + config.name_wait;
            }
            Err(e) => return Err(e.into()),
        }
    }
}

/// Notifies the engine of changes among the other nodes.
async fn peers(
    coordinator: Arc<dyn Coordinator>,
    changed: Arc<Notify>,
    tx: mpsc::UnboundedSender<In>,
) {
    loop {
        match coordinator.peers().await {
            Ok(nodes) => {
                if tx.send(In::Nodes(nodes)).is_err() {
                    return;
                }
            }
            // The last known nodes stay. The lease reports a store that does not answer.
            Err(e) => debug!(error = %e, "could not list the nodes"),
        }
        tokio::select! {
            () = sleep(PEERS_EVERY.mul_f64(0.75 + fastrand::f64() / 2.0)) => {}
            // Many changes at once are one reading.
            () = changed.notified() => sleep(PEERS_TOGETHER).await,
        }
    }
}

/// How long after a change the nodes are read.
const PEERS_TOGETHER: Duration = Duration::from_millis(10);

/// How often a node reads which other nodes there are, about.
const PEERS_EVERY: Duration = Duration::from_secs(2);

/// A name that no other node has: the process and a random part.
fn default_name() -> String {
    format!(
        "node-{}-{:06x}",
        std::process::id(),
        fastrand::u32(0..1 << 24)
    )
}
