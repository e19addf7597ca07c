//! [`rank`]: each node ranks itself for a task, and all nodes compute the same order.

use std::hash::Hasher;

use fnv::FnvHasher;
use windlass_statemachine::{NodeName, TaskId};

use super::{Cluster, Requirements};

/// Returns the rank of this node for a task among the nodes that could take it: the number of nodes
/// that go first.
///
/// This is rendezvous hashing: every node computes a number for every task, and the node with the
/// greatest goes first. So the work spreads evenly, and a node that joins or leaves does not change the
/// order of the others. Nodes that are full, frozen, or may not take the task (its kind, its labels, the
/// version of its data) do not count.
///
/// # Example
///
/// ```
/// use windlass::balancer::{Cluster, Peer, Requirements, rank};
///
/// let (a, b) = (Peer::new("a".parse()?), Peer::new("b".parse()?));
/// let (task, kind) = ("t".parse()?, "k".parse()?);
/// let requires = Requirements::of_kind(&kind);
/// let of_a = rank(&Cluster::new(&a, &[b.clone()]), &task, requires);
/// let of_b = rank(&Cluster::new(&b, &[a]), &task, requires);
/// assert_eq!(of_a + of_b, 1, "one of them is the first, and both know which");
/// # Ok::<(), windlass::Invalid>(())
/// ```
pub fn rank(cluster: &Cluster<'_>, task: &TaskId, requires: Requirements<'_>) -> usize {
    let mine = (weight(task, &cluster.me.name), &cluster.me.name);
    cluster
        .others
        .iter()
        .filter(|other| other.could_take(requires))
        .filter(|other| (weight(task, &other.name), &other.name) > mine)
        .count()
}

/// FNV-1a over both names, then the finisher of MurmurHash3: names that differ in one digit must
/// not give numbers in their order. All nodes have to compute the same number, so the function
/// never changes.
fn weight(task: &TaskId, node: &NodeName) -> u64 {
    let mut hasher = FnvHasher::default();
    for bytes in [task.as_str().as_bytes(), &[0], node.as_str().as_bytes()] {
        hasher.write(bytes);
    }
    let mut hash = hasher.finish();
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::{super::Peer, *};

    fn peers(n: usize) -> Vec<Peer> {
        (0..n)
            .map(|n| Peer {
                slots: 10,
                ..Peer::new(format!("node-{n}").parse().unwrap())
            })
            .collect()
    }

    fn ranks(nodes: &[Peer], task: &str) -> Vec<usize> {
        let (task, kind) = (task.parse().unwrap(), "k".parse().unwrap());
        (0..nodes.len())
            .map(|me| {
                let mut others = nodes.to_vec();
                let me = others.remove(me);
                rank(
                    &Cluster::new(&me, &others),
                    &task,
                    Requirements {
                        kind: &kind,
                        labels: None,
                        data_version: 1,
                    },
                )
            })
            .collect()
    }

    #[test]
    fn every_rank_is_taken_once_and_the_first_ones_are_spread_evenly() {
        let nodes = peers(8);
        let mut first = [0; 8];
        for n in 0..8000 {
            let ranks = ranks(&nodes, &format!("task-{n}"));
            let mut sorted = ranks.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4, 5, 6, 7]);
            first[ranks.iter().position(|r| *r == 0).unwrap()] += 1;
        }
        assert!(first.iter().all(|n| (850..1150).contains(n)), "{first:?}");
    }

    #[test]
    fn a_node_that_goes_moves_only_its_own_tasks() {
        let nodes = peers(8);
        for n in 0..500 {
            let task = format!("task-{n}");
            let first = ranks(&nodes, &task).iter().position(|r| *r == 0).unwrap();
            let fewer = ranks(&nodes[..7], &task)
                .iter()
                .position(|r| *r == 0)
                .unwrap();
            assert!(first == 7 || first == fewer, "{task}");
        }
    }

    /// Nodes of two versions have to compute the same numbers.
    #[test]
    fn weights_never_change() {
        for (task, node, number) in [
            ("t", "a", 0x4e68_bd69_0402_8914),
            ("t", "b", 0xef5a_86c4_758d_919d),
            ("report-2026-11", "node-7", 0xd241_3212_4ab8_0ade),
        ] {
            let found = weight(&task.parse().unwrap(), &node.parse().unwrap());
            assert_eq!(found, number, "{task} {node} {found:#018x}");
        }
    }

    #[test]
    fn the_greatest_weight_goes_first() {
        let nodes = peers(3);
        for n in 0..50 {
            let task: TaskId = format!("task-{n}").parse().unwrap();
            let ranks = ranks(&nodes, task.as_str());
            let mut by_rank: Vec<_> = nodes.iter().zip(ranks).collect();
            by_rank.sort_by_key(|(_, rank)| *rank);
            let weights = by_rank.iter().map(|(node, _)| weight(&task, &node.name));
            assert!(weights.is_sorted_by(|a, b| a > b), "{task}");
        }
    }

    #[test]
    fn only_a_node_with_room_that_fits_the_task_goes_before_another() {
        let mut nodes = peers(3);
        nodes[0].claims = 10;
        nodes[1].kinds = Some(vec!["other".parse().unwrap()]);
        for n in 0..50 {
            assert_eq!(ranks(&nodes, &format!("task-{n}"))[2], 0);
        }
    }

    #[test]
    fn who_cannot_take_it_does_not_count() {
        let mut nodes = peers(4);
        nodes[0].claims = 10;
        nodes[1].claiming = false;
        nodes[2].kinds = Some(vec!["other".parse().unwrap()]);
        assert_eq!(ranks(&nodes, "t")[3], 0);
        nodes[0].claims = 0;
        nodes[0].labels.insert("region".into(), "eu".into());
        assert_eq!(ranks(&nodes, "t")[3], 0);
        nodes[0].labels.clear();
        nodes[0].data_versions.set_others(0);
        assert_eq!(ranks(&nodes, "t")[3], 0);
    }
}
