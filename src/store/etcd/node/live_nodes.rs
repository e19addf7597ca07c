//! The live nodes, as the watches of this process know them.

use std::collections::{BTreeMap, HashMap};

use windlass_statemachine::NodeName;

use crate::store::etcd::schema::Reported;

#[derive(Default)]
struct NodeList {
    nodes: BTreeMap<NodeName, Reported>,
    /// The revision of its last change.
    revision: i64,
    /// Whether the watch that updates it is open.
    follows: bool,
}

/// A copy of the registrations for each watch of this process, by the lease of its node.
#[derive(Default)]
pub(crate) struct LiveNodes(HashMap<u64, NodeList>);

impl LiveNodes {
    /// Replaces the copy of a watch by the nodes that were read at this revision.
    pub(crate) fn listed(
        &mut self,
        watch: u64,
        revision: i64,
        nodes: BTreeMap<NodeName, Reported>,
    ) {
        let copy = self.0.entry(watch).or_default();
        copy.nodes = nodes;
        copy.revision = revision;
    }

    /// Updates a registration that was written, or (`None`) deleted, at this revision.
    pub(crate) fn changed(
        &mut self,
        watch: u64,
        revision: i64,
        node: NodeName,
        reported: Option<Reported>,
    ) {
        let copy = self.0.entry(watch).or_default();
        match reported {
            Some(reported) => copy.nodes.insert(node, reported),
            None => copy.nodes.remove(&node),
        };
        copy.revision = revision;
    }

    /// Sets whether the copy of a watch is up to date from now on.
    pub(crate) fn follows(&mut self, watch: u64, follows: bool) {
        if let Some(copy) = self.0.get_mut(&watch) {
            copy.follows = follows;
        }
    }

    /// Returns whether the node with this name is a remote worker, as far as this watch knows.
    pub(crate) fn is_worker(&self, watch: u64, node: &NodeName) -> bool {
        let known = self.0.get(&watch).and_then(|copy| copy.nodes.get(node));
        known.is_some_and(|(_, reported)| reported.remote.is_some())
    }

    /// Drops the copy of a watch that has ended.
    pub(crate) fn forget(&mut self, watch: u64) {
        self.0.remove(&watch);
    }

    /// Returns the nodes, if an open watch knows them. If there are several, uses the copy with the
    /// last change: a node that has received the event of a change finds the change here, even if
    /// other watches lag.
    pub(crate) fn known(&self) -> Option<impl Iterator<Item = &Reported>> {
        let open = self.0.values().filter(|copy| copy.follows);
        let copy = open.max_by_key(|copy| copy.revision)?;
        Some(copy.nodes.values())
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::store::{NodeSpec, NodeStatus, etcd::schema::Registration};

    fn name() -> NodeName {
        "other".parse().unwrap()
    }

    fn other(frozen: bool) -> Reported {
        let status = NodeStatus {
            frozen,
            ..NodeStatus::default()
        };
        let registration = Registration {
            status,
            ..Registration::new(NodeSpec::new(name()), Timestamp::UNIX_EPOCH)
        };
        (1, registration)
    }

    fn frozen(copies: &LiveNodes) -> Option<bool> {
        let mut known = copies.known()?;
        known.next().map(|(_, reported)| reported.status.frozen)
    }

    #[test]
    fn a_change_that_one_watch_has_is_known_whatever_the_others_have() {
        // Whichever of the two comes first in the map.
        for first in [1, 2] {
            let mut copies = LiveNodes::default();
            for watch in [1, 2] {
                copies.listed(watch, 10, BTreeMap::from([(name(), other(false))]));
                copies.follows(watch, true);
            }
            assert_eq!(frozen(&copies), Some(false));
            copies.changed(first, 11, name(), Some(other(true)));
            assert_eq!(frozen(&copies), Some(true));
            copies.changed(3 - first, 11, name(), Some(other(true)));
            copies.changed(3 - first, 12, name(), None);
            assert_eq!(frozen(&copies), None, "it has left");
            copies.follows(3 - first, false);
            assert_eq!(
                frozen(&copies),
                Some(true),
                "as far as the open watch has come"
            );
        }
    }

    #[test]
    fn without_an_open_watch_nothing_is_known() {
        let mut copies = LiveNodes::default();
        copies.listed(1, 10, BTreeMap::from([(name(), other(false))]));
        assert!(copies.known().is_none());
        copies.follows(1, true);
        assert!(copies.known().is_some());
        copies.forget(1);
        assert!(copies.known().is_none());
    }
}
