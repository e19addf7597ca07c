//! [`Fair`]: about the same number of tasks on every node.

use std::time::Duration;

use tokio::time::Instant;
use windlass_statemachine::TaskId;

use super::{Balancer, Cluster, Decision, Peer};
use crate::store::TaskView;

/// Releases tasks beyond a threshold of the average, and takes no more than that while other nodes
/// have room. The average is over the nodes that claim, have room, and fit the kind and labels of
/// the task.
///
/// The balancer does not oscillate. A release brings the node down to the threshold, not to the
/// average, so that taking the tasks does not bring another node above the threshold. Only a random
/// part of the excess, between half and all of it, is released at a time, so that nodes with the
/// same view do not all release too much. Tasks that no other node could take stay, however many
/// there are.
///
/// A node takes nothing in its first second, so that the first of several nodes that start together
/// does not take all tasks. Nodes that start later get their share by releases of the others: each moved
/// task stops its handler once.
#[derive(Debug, Clone, Copy)]
pub struct Fair {
    threshold: f64,
}

/// How long a node that has just started takes nothing. Shortly before that it has read the other nodes
/// for the second time.
const SETTLES: Duration = Duration::from_secs(1);

impl Default for Fair {
    /// Returns the balancer with a threshold of 120 % of the average.
    fn default() -> Self {
        Self { threshold: 1.2 }
    }
}

impl Fair {
    /// Returns the balancer with this threshold, as a multiple of the average: at least 1.
    pub fn new(threshold: f64) -> Self {
        Self {
            threshold: if threshold.is_finite() {
                threshold.max(1.0)
            } else {
                1.2
            },
        }
    }

    /// Returns the most tasks that this node should have, from the average over itself and
    /// `others`.
    fn most<'a>(&self, me: u64, extra: u64, others: impl Iterator<Item = &'a Peer>) -> u64 {
        let (mut nodes, mut claims) = (1, me + extra);
        for other in others {
            nodes += 1;
            claims += other.claims;
        }
        let average = claims as f64 / f64::from(nodes);
        (average * self.threshold).ceil() as u64
    }
}

impl Balancer for Fair {
    fn takes(&self, cluster: &Cluster<'_>, task: &TaskView) -> Decision {
        let settles = SETTLES.saturating_sub(cluster.known_for);
        if !settles.is_zero() {
            return Decision::NotBefore(Instant::now() + settles);
        }
        // A node that cannot take the task does not count in the average. Of those that can, the one
        // with the fewest claims always takes it.
        let able = |o: &&Peer| o.has_room() && o.fits(task.into());
        let others = || cluster.others.iter().filter(able);
        let me = cluster.me.claims;
        let extra = 1 + cluster.passed_on;
        (others().next().is_none() || me < self.most(me, extra, others())).into()
    }

    fn releases(&self, cluster: &Cluster<'_>, mine: &[TaskId], jitter: f64) -> Vec<TaskId> {
        let others = || cluster.others.iter().filter(|other| other.has_room());
        if others().next().is_none() {
            return Vec::new();
        }
        let me = cluster.me.claims;
        let over = me.saturating_sub(self.most(me, cluster.passed_on, others()));
        let part = (over as f64 * (0.5 + jitter.clamp(0.0, 1.0) / 2.0)).ceil() as usize;
        // The youngest claims come last, and have done the least work.
        mine.iter().rev().take(part).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::tests::task, *};

    fn peer(name: &str, claims: u64) -> Peer {
        Peer {
            slots: 1000,
            claims,
            ..Peer::new(name.parse().unwrap())
        }
    }

    fn ids(n: u64) -> Vec<TaskId> {
        (0..n).map(|n| format!("t{n}").parse().unwrap()).collect()
    }

    fn given(me: u64, others: &[Peer], jitter: f64) -> usize {
        let node = peer("me", me);
        let cluster = Cluster::new(&node, others);
        Fair::default().releases(&cluster, &ids(me), jitter).len()
    }

    #[test]
    fn what_is_over_the_threshold_goes_to_an_idle_node() {
        // The average is 5, the threshold 6.
        assert_eq!(given(10, &[peer("b", 0)], 1.0), 4);
        assert_eq!(given(6, &[peer("b", 4)], 1.0), 0, "within the threshold");
        assert_eq!(
            given(2, &[peer("b", 8)], 1.0),
            0,
            "one that has too little keeps it"
        );
    }

    #[test]
    fn nodes_that_do_not_claim_do_not_count() {
        let mut gone = peer("b", 0);
        gone.claiming = false;
        assert_eq!(given(10, &[gone.clone()], 1.0), 0);
        // With a third node that does claim, the frozen one is not part of the average.
        assert_eq!(given(10, &[gone, peer("c", 10)], 1.0), 0);
    }

    #[test]
    fn nothing_goes_where_there_is_no_room() {
        let mut full = peer("b", 2);
        full.slots = 2;
        assert_eq!(given(10, &[full], 1.0), 0);
    }

    #[test]
    fn the_youngest_are_released() {
        let node = peer("me", 4);
        let others = [peer("b", 0)];
        let cluster = Cluster::new(&node, &others);
        let given = Fair::default().releases(&cluster, &ids(4), 1.0);
        assert_eq!(given, ["t3".parse().unwrap()]);
    }

    fn takes(me: u64, others: &[Peer]) -> bool {
        let node = peer("me", me);
        let cluster = Cluster::new(&node, others);
        Fair::default().takes(&cluster, &task()) == Decision::Take
    }

    #[test]
    fn idle_nodes_that_cannot_take_the_task_do_not_keep_it_from_the_others() {
        let mut unable = peer("c", 0);
        unable.kinds = Some(vec!["other".parse().unwrap()]);
        assert!(takes(20, &[peer("b", 20), unable.clone()]));
        assert!(!takes(40, &[peer("b", 20), unable]), "the other has fewer");
    }

    #[test]
    fn a_node_that_has_just_started_takes_nothing() {
        let (node, others) = (peer("me", 0), [peer("b", 0)]);
        let decides = |known_ms| {
            let cluster = Cluster {
                known_for: Duration::from_millis(known_ms),
                ..Cluster::new(&node, &others)
            };
            Fair::default().takes(&cluster, &task())
        };
        assert!(matches!(decides(0), Decision::NotBefore(_)));
        assert!(matches!(decides(999), Decision::NotBefore(_)));
        assert_eq!(decides(1000), Decision::Take);
    }

    #[test]
    fn tasks_that_move_count_as_those_of_others() {
        let (node, others) = (peer("me", 72), [peer("b", 0)]);
        let passed_on = |passed_on| Cluster {
            passed_on,
            ..Cluster::new(&node, &others)
        };
        let given = |cluster| Fair::default().releases(&cluster, &ids(72), 1.0).len();
        assert_eq!(
            given(passed_on(48)),
            0,
            "the other node is about to claim its share"
        );
        assert_eq!(given(passed_on(0)), 28);
        let (node, task) = (peer("me", 20), task());
        let takes = |passed_on| Cluster {
            passed_on,
            ..Cluster::new(&node, &others)
        };
        assert_eq!(Fair::default().takes(&takes(0), &task), Decision::NotNow);
        assert_eq!(Fair::default().takes(&takes(20), &task), Decision::Take);
    }

    #[test]
    fn full_nodes_do_not_keep_a_task_from_the_others() {
        let mut full = peer("c", 2);
        full.slots = 2;
        assert!(takes(30, &[peer("b", 30), full.clone()]));
        assert_eq!(given(30, &[peer("b", 30), full], 1.0), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// In any distribution, a few rounds bring every node to the threshold. Then nothing moves
        /// any more. No node ever releases so many tasks that it falls below the average.
        #[test]
        fn it_comes_to_rest(
            mut claims in proptest::collection::vec(0u64..200, 2..8),
            jitters in proptest::collection::vec(0.0f64..1.0, 64),
        ) {
            let total: u64 = claims.iter().sum();
            let average = total as f64 / claims.len() as f64;
            let mut rested = 0;
            for jitter in jitters {
                let mut moved = 0;
                for at in 0..claims.len() {
                    let peers: Vec<Peer> = claims
                        .iter()
                        .enumerate()
                        .map(|(n, c)| peer(&format!("n{n}"), *c))
                        .collect();
                    let mut others = peers.clone();
                    let me = others.remove(at);
                    let cluster = Cluster::new(&me, &others);
                    let back = Fair::default().releases(&cluster, &ids(me.claims), jitter).len();
                    claims[at] -= back as u64;
                    prop_assert!(back == 0 || claims[at] as f64 >= average);
                    moved += back;
                    // The node with the fewest tasks takes a free one.
                    for _ in 0..back {
                        let least = (0..claims.len()).min_by_key(|n| claims[*n]).unwrap();
                        claims[least] += 1;
                    }
                }
                rested = if moved == 0 { rested + 1 } else { 0 };
            }
            prop_assert!(rested > 32, "it still moves tasks: {claims:?}");
            prop_assert_eq!(claims.iter().sum::<u64>(), total);
        }
    }
}
