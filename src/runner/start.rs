//! Starts a node: checks the settings of the [`Builder`], joins, and starts the tasks of the node.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use tokio::{
    sync::{Notify, mpsc, watch},
    time::{Instant, sleep},
};
use tracing::{debug, warn};
use windlass_statemachine::{Backoff, Invalid, Kind, NodeName};

use super::{
    builder::Builder,
    config::{NodeConfig, check_slots},
    engine::{Dependencies, Engine},
    gauges,
    input::EngineInput,
    kinds::{KindEntry, Kinds},
    lease::{self, Keeper, Wanted},
    maintain,
    node::Runner,
    snapshot::Unstored,
    store_errors::Errors,
};
use crate::hash::HashMap;
use crate::{
    handler::{MissingState, Shared},
    schedule::{KIND, Scheduler, report_boot, watch_clock},
    store::{
        Coordinator, Error, NodeSpec, NodeStatus, Store, model::data_versions::check_data_version,
    },
};

/// Why a node did not start.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A setting is invalid; the error names it.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// A live node has the name.
    #[error(
        "a node named '{0}' is alive in this namespace; give this one another name, or stop that one \
         (one that died is forgotten when its lease ends)"
    )]
    NameTaken(NodeName),
    /// A handler needs a shared value that the node does not have
    /// ([`KindConfig::needs_state`](super::KindConfig::needs_state)).
    #[error("could not start the handler of {kind}: {missing}")]
    MissingState {
        /// The kind of the handler: `'mail'`, or `every other kind` for the default handler.
        kind: String,
        /// The type of the value.
        missing: MissingState,
    },
    /// The store did not let the node join.
    #[error(transparent)]
    Store(#[from] Error),
}

impl Builder {
    /// Joins the namespace and starts to work.
    ///
    /// # Errors
    ///
    /// [`StartError`]: a setting is invalid, the name is taken, or the store did not let the node join.
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
        let mut table = HashMap::default();
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
            errors: Errors::new(config.store_errors),
        };
        let (retention, gauges_every) = (config.retention, config.gauges_every);
        let peers_changed = Arc::new(Notify::new());
        let failure = Arc::new(OnceLock::new());
        let (unstored, unstored_rx) = watch::channel(Unstored::default());
        let engine = Engine::new(Dependencies {
            coordinator: coordinator.clone(),
            store: Arc::new(store.clone()),
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
        let gauges = tokio::spawn(gauges::run(
            store.clone(),
            gauges_every,
            gauges::Oldest::Unclaimed,
        ));
        let clock = schedules.then(|| tokio::spawn(watch_clock(store.clone())));
        let boot = schedules.then(|| tokio::spawn(report_boot(store.clone())));
        let ended = tokio::spawn(async move {
            engine.run().await;
            maintain.abort();
            gauges.abort();
            for watch in [clock, boot].into_iter().flatten() {
                watch.abort();
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

/// Checks that the node has the shared values that a handler needs.
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
                // This node may have joined all the same, so that the node that has the name is
                // this one.
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
    tx: mpsc::UnboundedSender<EngineInput>,
) {
    let mut wait = PEERS_FIRST;
    loop {
        match coordinator.peers().await {
            Ok(nodes) => {
                if tx.send(EngineInput::Nodes(nodes)).is_err() {
                    return;
                }
            }
            // The last known nodes stay. The lease reports a store that does not respond.
            Err(e) => debug!(error = %e, "could not list the nodes"),
        }
        tokio::select! {
            biased;
            () = sleep(wait) => {}
            // Several changes within a moment cause one read.
            () = changed.notified() => sleep(PEERS_TOGETHER).await,
        }
        wait = PEERS_EVERY.mul_f64(0.75 + fastrand::f64() / 2.0);
    }
}

/// How long after a change the nodes are read.
const PEERS_TOGETHER: Duration = Duration::from_millis(10);

/// When a node reads the other nodes for the second time: soon, because they may have started together.
/// [`Fair`](crate::balancer::Fair) claims nothing before that.
const PEERS_FIRST: Duration = Duration::from_millis(900);

/// The approximate interval at which a node reads the other nodes.
const PEERS_EVERY: Duration = Duration::from_secs(2);

/// Returns a name that no other node has: the process and a random part.
fn default_name() -> String {
    format!(
        "node-{}-{:06x}",
        std::process::id(),
        fastrand::u32(0..1 << 24)
    )
}
