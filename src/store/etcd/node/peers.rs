//! The nodes that live, as the watches of this process know them: nobody has to be asked.

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
    /// The watch that keeps it in step is open.
    follows: bool,
}

/// The nodes of the namespace: read, or as the watches of this process know them. Clones are the same.
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

    /// All of them were read.
    pub(crate) fn listed(&self, watch: u64, nodes: BTreeMap<NodeName, Reported>) {
        self.lock().entry(watch).or_default().nodes = nodes;
    }

    /// A registration was written, or (`None`) is gone.
    pub(crate) fn changed(&self, watch: u64, node: NodeName, reported: Option<Reported>) {
        let mut copies = self.lock();
        let nodes = &mut copies.entry(watch).or_default().nodes;
        match reported {
            Some(reported) => nodes.insert(node, reported),
            None => nodes.remove(&node),
        };
    }

    /// Whether the copy of a watch can be relied on from now.
    pub(crate) fn follows(&self, watch: u64, follows: bool) {
        if let Some(copy) = self.lock().get_mut(&watch) {
            copy.follows = follows;
        }
    }

    /// The watch has ended.
    pub(crate) fn forget(&self, watch: u64) {
        self.lock().remove(&watch);
    }

    /// The nodes, if a watch that is open knows them.
    fn known(&self) -> Option<Vec<Reported>> {
        let copies = self.lock();
        let copy = copies.values().find(|copy| copy.follows)?;
        Some(copy.nodes.values().cloned().collect())
    }

    pub(crate) async fn nodes(&self) -> Result<Vec<NodeRecord>, Error> {
        let mut nodes = Vec::new();
        for (lease, reported) in self.registrations().await? {
            let look = self.look_at_lease(lease).await;
            let look = look.map_err(|fault| fault.into_error(OPERATION))?;
            let Some((left, mut claims)) = look else {
                continue;
            };
            for lease in &reported.leases {
                let more = self.look_at_lease(*lease).await;
                let more = more.map_err(|fault| fault.into_error(OPERATION))?;
                claims += more.map_or(0, |(_, claims)| claims);
            }
            nodes.push(record(lease, reported, left * 1000, claims));
        }
        Ok(nodes)
    }

    /// The same without asking anybody, where a watch is open: the claims are what the nodes reported
    /// last, and how long their leases hold is not known. Nodes of Metafora are left out: they tell
    /// neither how much they have nor how much they could take, and take whatever is free, so that
    /// work released for their sake would all end up there.
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

    /// What the nodes reported of themselves, with their leases.
    async fn registrations(&self) -> Result<Vec<Reported>, Error> {
        let all = self.reader.link.get_all(&self.reader.keys.nodes()).await;
        let (all, _) = all.map_err(|fault| fault.into_error(OPERATION))?;
        let nodes = all
            .iter()
            .filter_map(|kv| registrations::read(&self.reader.keys, kv));
        Ok(nodes.map(|(_, reported)| reported).collect())
    }

    /// How long a lease still holds, in seconds, and how many claims hang on it; `None` when it is over.
    async fn look_at_lease(&self, lease: i64) -> Result<Option<(u64, u64)>, Fault> {
        let Some(reported) = self.reader.link.lease(lease).await? else {
            return Ok(None);
        };
        let is_claim =
            |key: &&Vec<u8>| matches!(self.reader.keys.split(key), Some((_, Part::Owner)));
        let claims = reported.keys().iter().filter(is_claim).count() as u64;
        Ok(Some((reported.ttl().unsigned_abs(), claims)))
    }
}
