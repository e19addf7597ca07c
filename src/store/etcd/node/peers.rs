//! The live nodes, as the watches of this process know them, without a call.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_statemachine::NodeName;

use super::live_nodes::LiveNodes;
use crate::store::{
    Error, NodeRecord,
    etcd::{
        client::Fault,
        read::Reader,
        schema::{
            Part, Reported,
            registrations::{self, METAFORA, record},
        },
    },
};

const OPERATION: &str = "list the nodes";

/// The nodes of the namespace, either read or known from the watches of this process. Clones share
/// their state.
#[derive(Clone)]
pub(crate) struct Peers {
    reader: Reader,
    copies: Arc<Mutex<LiveNodes>>,
}

impl Peers {
    pub(crate) fn new(reader: Reader) -> Self {
        let copies = Arc::default();
        Self { reader, copies }
    }

    /// Lets a watch of this process update its copy.
    pub(crate) fn update(&self, write: impl FnOnce(&mut LiveNodes)) {
        write(&mut self.lock());
    }

    /// Returns whether the node with this name is a remote worker, as far as a watch of this process knows.
    pub(crate) fn is_worker(&self, watch: u64, node: &NodeName) -> bool {
        self.lock().is_worker(watch, node)
    }

    fn lock(&self) -> MutexGuard<'_, LiveNodes> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn nodes(&self) -> Result<Vec<NodeRecord>, Error> {
        let mut nodes = Vec::new();
        for (lease, reported) in self.registrations().await? {
            let live = self.lease_left(lease).await;
            let live = live.map_err(|fault| fault.into_error(OPERATION))?;
            let Some((left, mut claims)) = live else {
                continue;
            };
            for lease in &reported.leases {
                let more = self.lease_left(*lease).await;
                let more = more.map_err(|fault| fault.into_error(OPERATION))?;
                claims += more.map_or(0, |(_, claims)| claims);
            }
            nodes.push(record(lease, reported, left * 1000, claims));
        }
        Ok(nodes)
    }

    /// Returns the nodes without a call if a watch is open. The claims are those that each node
    /// last reported; the remaining time of leases is unknown. Leaves out nodes of Metafora: they
    /// report neither claims nor slots and claim every free task, so that all released tasks would
    /// end up there.
    pub(crate) async fn peers(&self) -> Result<Vec<NodeRecord>, Error> {
        let known = self.lock().known().map(|nodes| nodes.cloned().collect());
        let all = match known {
            Some(known) => known,
            None => self.registrations().await?,
        };
        let ours = |(_, reported): &Reported| reported.spec.version != METAFORA;
        let peers = all.into_iter().filter(ours).map(|(lease, reported)| {
            let claims = u64::from(reported.status.running);
            record(lease, reported, 0, claims)
        });
        Ok(peers.collect())
    }

    /// Reads the registrations, with their leases.
    async fn registrations(&self) -> Result<Vec<Reported>, Error> {
        let all = self
            .reader
            .all(&self.reader.keys.nodes(), OPERATION)
            .await?;
        let nodes = all
            .iter()
            .filter_map(|kv| registrations::read(&self.reader.keys, kv));
        Ok(nodes.map(|(_, reported)| reported).collect())
    }

    /// Returns the remaining time of a lease in seconds, and how many claims are attached to it;
    /// `None` when it has expired.
    async fn lease_left(&self, lease: i64) -> Result<Option<(u64, u64)>, Fault> {
        let Some(reported) = self.reader.link.lease(lease).await? else {
            return Ok(None);
        };
        let is_claim =
            |key: &&Vec<u8>| matches!(self.reader.keys.split(key), Some((_, Part::Owner)));
        let claims = reported.keys().iter().filter(is_claim).count() as u64;
        Ok(Some((reported.ttl().unsigned_abs(), claims)))
    }
}
