//! [`NodeHistory`]: which nodes joined again or went, while this server has run. A store keeps no record of a node that is gone.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use windlass::{Client, NodeName, store::NodeRecord};

/// How often the server looks at the nodes. A node that joins twice between two looks counts once.
const EVERY: Duration = Duration::from_secs(5);
/// For how long a join, and a node that is gone, are kept.
const KEPT: SignedDuration = SignedDuration::from_hours(1);
/// The most joins of a node, and the most nodes, that are kept.
const MOST_JOINS: usize = 100;
const MOST_NODES: usize = 1000;

/// The nodes that this server has seen within the last hour.
#[derive(Default)]
pub(crate) struct NodeHistory(Mutex<BTreeMap<NodeName, Seen>>);

struct Seen {
    /// When it joined by its own clock: another time is another join.
    joined_at: Timestamp,
    /// When this server saw that it had joined: the clock of a node may be wrong.
    joins: VecDeque<Timestamp>,
    gone_at: Option<Timestamp>,
}

/// A node that joined more than once within the last hour, or that is gone.
#[derive(Debug, Serialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Recent {
    /// Its name.
    pub(crate) node: NodeName,
    /// How often it joined within the last hour, as far as this server has seen it; at most 100. The first time that the server
    /// saw a node counts.
    joins: usize,
    /// When it joined last, by its own clock.
    joined_at: Timestamp,
    /// Since when it is gone: it left, or its lease ended; `null` while it is live.
    gone_at: Option<Timestamp>,
}

impl NodeHistory {
    /// Looks at the nodes until the server stops.
    pub(crate) async fn follow(self: Arc<Self>, client: Client, stop: CancellationToken) {
        loop {
            // A store that does not answer says nothing about its nodes.
            if let Ok(nodes) = client.nodes().await {
                self.look(&nodes, client.now());
            }
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(EVERY) => {}
            }
        }
    }

    /// Notes which nodes are live now.
    pub(crate) fn look(&self, nodes: &[NodeRecord], now: Timestamp) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for node in nodes {
            let joined = || Seen {
                joined_at: node.joined_at,
                joins: VecDeque::from([now]),
                gone_at: None,
            };
            let seen = kept.entry(node.spec.name.clone()).or_insert_with(joined);
            if seen.joined_at != node.joined_at {
                seen.joined_at = node.joined_at;
                seen.joins.push_back(now);
            }
            seen.gone_at = None;
        }
        let is_old = |at: Timestamp| now.duration_since(at) > KEPT;
        let live: BTreeSet<_> = nodes.iter().map(|node| &node.spec.name).collect();
        kept.retain(|name, seen| {
            if !live.contains(name) {
                seen.gone_at.get_or_insert(now);
            }
            while seen.joins.len() > MOST_JOINS || seen.joins.len() > 1 && is_old(seen.joins[0]) {
                seen.joins.pop_front();
            }
            !seen.gone_at.is_some_and(is_old)
        });
        while kept.len() > nodes.len().max(MOST_NODES) {
            let gone = kept.iter().filter(|(_, seen)| seen.gone_at.is_some());
            let oldest = gone.min_by_key(|(_, seen)| seen.gone_at);
            let Some(oldest) = oldest.map(|(name, _)| name.clone()) else {
                break;
            };
            kept.remove(&oldest);
        }
    }

    /// Returns the nodes that joined more than once, then those that are gone, each the last change first.
    pub(crate) fn recent(&self) -> Vec<Recent> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = kept.iter().filter_map(|(name, seen)| {
            let last = seen.gone_at.or(seen.joins.back().copied())?;
            let recent = Recent {
                node: name.clone(),
                joins: seen.joins.len(),
                joined_at: seen.joined_at,
                gone_at: seen.gone_at,
            };
            (recent.joins > 1 || seen.gone_at.is_some()).then_some((last, recent))
        });
        let mut recent: Vec<_> = recent.collect();
        // A node that has left in order, as each short program does, is of less interest than one that comes and goes.
        recent.sort_by_key(|(last, one)| std::cmp::Reverse((one.joins > 1, *last)));
        recent.into_iter().map(|(_, one)| one).collect()
    }
}

#[cfg(test)]
mod tests {
    use windlass::store::NodeSpec;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
    }

    fn node(name: &str, joined: i64) -> NodeRecord {
        NodeRecord::new(NodeSpec::new(name.parse().unwrap()), 1, at(joined))
    }

    /// Returns the name, the joins and the time of the end of each.
    fn recent(history: &NodeHistory) -> Vec<(String, usize, Option<Timestamp>)> {
        let recent = history.recent().into_iter();
        recent
            .map(|one| (one.node.to_string(), one.joins, one.gone_at))
            .collect()
    }

    #[test]
    fn a_node_that_joins_again_or_goes_is_kept_for_an_hour() {
        let history = NodeHistory::default();
        history.look(&[node("a", 1), node("b", 2), node("c", 3)], at(10));
        history.look(&[node("a", 1), node("b", 12)], at(15));
        assert_eq!(
            recent(&history),
            [("b".into(), 2, None), ("c".into(), 1, Some(at(15)))]
        );
        // It is gone since the first look that missed it, and comes back.
        history.look(&[node("a", 1), node("b", 12)], at(20));
        assert_eq!(recent(&history)[1], ("c".into(), 1, Some(at(15))));
        history.look(&[node("a", 1), node("b", 12), node("c", 21)], at(25));
        assert_eq!(
            recent(&history),
            [("c".into(), 2, None), ("b".into(), 2, None)]
        );
        // The joins of more than an hour ago do not count; the last one stays.
        history.look(&[node("b", 12), node("c", 21)], at(3_700));
        assert_eq!(recent(&history), [("a".into(), 1, Some(at(3_700)))]);
        history.look(&[node("b", 12)], at(3_701 + 3_600));
        assert_eq!(recent(&history), [("c".into(), 1, Some(at(7_301)))]);
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        let history = NodeHistory::default();
        for second in 0..300 {
            let names = (0..20).map(|n| node(&format!("n{}", second * 20 + n), second));
            let mut nodes: Vec<_> = names.collect();
            nodes.push(node("flaps", second));
            history.look(&nodes, at(second));
        }
        let recent = history.recent();
        assert!(recent.len() <= MOST_NODES, "{}", recent.len());
        let flaps = recent.iter().find(|one| one.node.as_str() == "flaps");
        assert_eq!(flaps.unwrap().joins, MOST_JOINS);
        // Those that went last are kept.
        assert!(recent.iter().any(|one| one.node.as_str() == "n5960"));
    }
}
