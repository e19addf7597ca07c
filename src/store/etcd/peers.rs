//! The nodes that live, as the watches of this process know them: nobody has to be asked.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use etcd_client::KeyValue;
use windlass_statemachine::NodeName;

use super::{
    keys::Keys,
    records::{self, Registration},
};
use crate::store::{NodeSpec, NodeStatus};

/// What is told as the version of a node of Metafora, which tells none.
pub(super) const METAFORA: &str = "metafora";

/// What a node told of itself, and the lease that this hangs on.
pub(super) type Told = (i64, Registration);

/// The node that a key below `/NS/nodes/` belongs to, and the rest of the key.
pub(super) fn split<'a>(keys: &Keys, key: &'a [u8]) -> Option<(NodeName, &'a str)> {
    let (name, rest) = keys.strip(key, "nodes/")?.split_once('/')?;
    Some((NodeName::new(name).ok()?, rest))
}

/// Reads a registration; `None` for another key.
pub(super) fn read(keys: &Keys, kv: &KeyValue) -> Option<(NodeName, Told)> {
    let (name, rest) = split(keys, kv.key())?;
    if rest != "_metafora" {
        return None;
    }
    // A node of Metafora tells nothing of itself.
    let told: Registration = records::parse(kv).unwrap_or_else(|_| Registration {
        spec: NodeSpec {
            name: name.clone(),
            kinds: None,
            labels: Default::default(),
            slots: 0,
            pid: 0,
            version: METAFORA.to_owned(),
        },
        status: NodeStatus::default(),
        joined_at: jiff::Timestamp::UNIX_EPOCH,
        leases: Vec::new(),
    });
    Some((name, (kv.lease(), told)))
}

#[derive(Default)]
struct Copy {
    nodes: BTreeMap<NodeName, Told>,
    /// The watch that keeps it in step is open.
    follows: bool,
}

/// One copy for each watch of this process, by the lease of its node.
#[derive(Default)]
pub(super) struct Peers(Mutex<HashMap<u64, Copy>>);

impl Peers {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Copy>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of them were read.
    pub(super) fn listed(&self, watch: u64, nodes: BTreeMap<NodeName, Told>) {
        self.lock().entry(watch).or_default().nodes = nodes;
    }

    /// A registration was written, or (`None`) is gone.
    pub(super) fn changed(&self, watch: u64, node: NodeName, told: Option<Told>) {
        let mut copies = self.lock();
        let nodes = &mut copies.entry(watch).or_default().nodes;
        match told {
            Some(told) => nodes.insert(node, told),
            None => nodes.remove(&node),
        };
    }

    /// Whether the copy of a watch can be relied on from now.
    pub(super) fn follows(&self, watch: u64, follows: bool) {
        if let Some(copy) = self.lock().get_mut(&watch) {
            copy.follows = follows;
        }
    }

    /// The watch has ended.
    pub(super) fn forget(&self, watch: u64) {
        self.lock().remove(&watch);
    }

    /// The nodes, if a watch that is open knows them.
    pub(super) fn known(&self) -> Option<Vec<Told>> {
        let copies = self.lock();
        let copy = copies.values().find(|copy| copy.follows)?;
        Some(copy.nodes.values().cloned().collect())
    }
}
