//! What the process of a node does.

use std::{path::Path, sync::Arc, time::Duration};

use tokio::{sync::Notify, time::sleep};
use windlass::{
    NodeName, Runner,
    store::{
        Store,
        etcd::{EtcdStore, Options},
    },
};
use windlass_robustness::{
    BoxError, kinds,
    late::Late,
    reuse::{self, SIDES},
    terms::{SIDE, Terms},
    time,
    witness::Journal,
};

use super::{Plan, Shared, driver::Role, remote};
use crate::{locked, network::Network, process::WallClock};

/// How long the writes of a node take to reach its store, at most.
const LATE: Duration = Duration::from_millis(60);

/// The name of the process of a node.
pub(super) fn name(number: usize) -> String {
    format!("node-{number}")
}

/// The key of the registration of a node.
pub(super) fn registration(number: usize) -> String {
    format!("/simulated/nodes/{}/_metafora", name(number))
}

/// The name of a node.
#[allow(clippy::expect_used, reason = "these names are valid")]
pub(super) fn node_name(number: usize) -> NodeName {
    NodeName::new(name(number)).expect("a valid name")
}

/// The terms of a node: the first one may take only tasks of one side.
pub(super) fn terms(plan: &Plan, number: usize) -> Terms {
    let side = (plan.sides && number == 1).then(|| SIDES[0].to_owned());
    Terms {
        side,
        ..Terms::default()
    }
}

/// Opens the store of a process, until it answers.
pub(super) async fn open(
    shared: &Shared,
    process: usize,
    clock: Arc<WallClock>,
) -> Result<Store, BoxError> {
    if let Some(memory) = &shared.memory {
        return Ok(memory.store(process));
    }
    let mut options = Options::parse("etcd://member-0:2379/simulated")?;
    options.endpoints = (0..super::MEMBERS).map(Network::endpoint).collect();
    options.timeout = shared.plan.timeout;
    let options = options.with_connector(shared.network.connector(process));
    loop {
        match EtcdStore::connect(options.clone(), clock.clone()).await {
            Ok(store) => {
                let (coordinator, registry) = (Arc::new(store.clone()), Arc::new(store));
                return Ok(Store::from_parts(coordinator, registry, clock));
            }
            Err(e) if e.is_retryable() => sleep(Duration::from_millis(200)).await,
            Err(e) => return Err(e.into()),
        }
    }
}

pub(super) async fn main(
    shared: Shared,
    (number, role): (usize, Role),
    journal: Arc<Journal>,
    stop: Arc<Notify>,
    clock: Arc<WallClock>,
) {
    let ended = match role {
        Role::Node => work(&shared, number, &journal, &stop, clock).await,
        Role::Server => remote::serve(&shared, number, &stop, clock).await,
        Role::Worker => remote::work(&shared, number, &journal, &stop).await,
    };
    if let Err(error) = ended {
        tracing::warn!(number, %error, "a node has ended");
        locked(&shared.endings).insert(time::pid(), error.to_string());
    }
}

async fn work(
    shared: &Shared,
    number: usize,
    journal: &Arc<Journal>,
    stop: &Notify,
    clock: Arc<WallClock>,
) -> Result<(), BoxError> {
    let store = open(shared, number, clock).await?;
    let store = Late::store(&store, journal, Path::new("/nowhere"), LATE);
    let (terms, ttl) = (terms(&shared.plan, number), shared.plan.ttl);
    let mut builder = Runner::builder(&store)
        .wait_for_store(Duration::from_secs(60))
        .node(name(number))
        .lease_ttl(ttl)
        .wait_for_name(ttl * 8)
        .park_after(kinds::PARK_AFTER)
        .slots(12)
        .failures_to_stderr(false);
    if let Some(side) = &terms.side {
        builder = builder.select(SIDE, side);
    }
    builder = kinds::add_all(builder, journal, &terms);
    builder = reuse::add_all(builder, journal, &terms);
    let runner = builder.start().await?;
    loop {
        let look = tokio::time::timeout(Duration::from_millis(500), stop.notified());
        if look.await.is_ok() {
            runner.shutdown().await;
            return Ok(());
        }
        if runner.is_stopped() {
            return Err(runner.failure().map_or("it has stopped".into(), Into::into));
        }
    }
}
