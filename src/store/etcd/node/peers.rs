//! The live nodes, as the watches of this process know them: without a call.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use windlass_statemachine::NodeName;

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

#[derive(Default)]
struct Copy {
    nodes: BTreeMap<NodeName, Reported>,
    /// The watch that updates it is open.
    follows: bool,
}

/// The nodes of the namespace: read, or as the watches of this process know them. Clones share
/// their state.
#[derive(Clone)]
pub(crate) struct Peers {
    reader: Reader,
    /// One copy for each watch of this process, by the lease of its node.
    copies: Arc<Mutex<HashMap<u64, Copy>>>,
}

impl Peers {
    pub(crate) fn new(reader: Reader) -> Self {
        let copies = Arc::default();
        Self { reader, copies }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Copy>> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the copy of a watch by the nodes that were read.
    pub(crate) fn listed(&self, watch: u64, nodes: BTreeMap<NodeName, Reported>) {
        self.lock().entry(watch).or_default().nodes = nodes;
    }

    /// Updates a registration that was written, or (`None`) deleted.
    pub(crate) fn changed(&self, watch: u64, node: NodeName, reported: Option<Reported>) {
        let mut copies = self.lock();
        let nodes = &mut copies.entry(watch).or_default().nodes;
        match reported {
            Some(reported) => nodes.insert(node, reported),
            None => nodes.remove(&node),
        };
    }

    /// Sets whether the copy of a watch is up to date from now on.
    pub(crate) fn follows(&self, watch: u64, follows: bool) {
        if let Some(copy) = self.lock().get_mut(&watch) {
            copy.follows = follows;
        }
    }

    /// Drops the copy of a watch that has ended.
    pub(crate) fn forget(&self, watch: u64) {
        self.lock().remove(&watch);
    }

    /// Returns the nodes, if an open watch knows them.
    fn known(&self) -> Option<Vec<Reported>> {
        let copies = self.lock();
        let copy = copies.values().find(|copy| copy.follows)?;
        Some(copy.nodes.values().cloned().collect())
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

    /// Returns the nodes without a call where a watch is open. The claims are those that each node
    /// reported last; the time left of the leases is unknown. Leaves out nodes of Metafora: they
    /// report neither claims nor slots and claim every free task, so all work that is released for
    /// them would end up there.
    pub(crate) async fn peers(&self) -> Result<Vec<NodeRecord>, Error> {
        let all = match self.known() {
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

    /// Returns the time left of a lease in seconds, and how many claims are attached to it; `None`
    /// when it has expired.
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
