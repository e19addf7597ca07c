//! Tests of behaviour that all balancers share, and of which tasks they take.

use windlass_statemachine::task::Labels;

use super::{Balancer, Cluster, Decision, Fair, Greedy, Peer, Requirements};
use crate::store::{NodeRecord, NodeSpec, NodeStatus, TaskView};

fn peer(name: &str, claims: u64) -> Peer {
    Peer {
        slots: 10,
        claims,
        ..Peer::new(name.parse().unwrap())
    }
}

/// A task that any node can take.
pub(super) fn task() -> TaskView {
    TaskView {
        id: "t".parse().unwrap(),
        kind: "k".parse().unwrap(),
        labels: None,
        data_version: 1,
        priority: 0,
        order: 1,
        due: None,
        deadline: None,
        sleeping: false,
        claimed_by: None,
        commanded: false,
        fair_key: None,
    }
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    let owned = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
    pairs.iter().map(owned).collect()
}

#[test]
fn a_frozen_or_draining_node_claims_nothing() {
    for (frozen, draining, claiming) in [
        (false, false, true),
        (true, false, false),
        (false, true, false),
        (true, true, false),
    ] {
        let record = NodeRecord {
            spec: NodeSpec::new("b".parse().unwrap()),
            status: NodeStatus {
                frozen,
                draining,
                ..NodeStatus::default()
            },
            lease: 1,
            claims: 3,
            joined_at: jiff::Timestamp::UNIX_EPOCH,
            lease_left_ms: 1000,
        };
        let node = Peer::from(record);
        assert_eq!(node.claiming, claiming, "{frozen} {draining}");
        assert_eq!(node.has_room(), claiming);
    }
}

#[test]
fn a_node_has_room_below_its_slots() {
    assert!(peer("b", 9).has_room());
    assert!(!peer("b", 10).has_room());
}

#[test]
fn a_task_fits_a_node_of_its_kind_whose_labels_it_has() {
    let kind = "k".parse().unwrap();
    let has = labels(&[("region", "eu"), ("team", "a")]);
    for (kinds, wants, fits) in [
        (None, labels(&[]), true),
        (Some("k"), labels(&[]), true),
        (Some("other"), labels(&[]), false),
        (None, labels(&[("region", "eu")]), true),
        (None, labels(&[("region", "us")]), false),
        (None, labels(&[("zone", "1")]), false),
        (None, labels(&[("region", "eu"), ("team", "b")]), false),
        (Some("other"), labels(&[("region", "eu")]), false),
        (Some("k"), labels(&[("region", "eu"), ("team", "a")]), true),
    ] {
        let mut node = peer("b", 0);
        node.kinds = kinds.map(|kind| vec![kind.parse().unwrap()]);
        node.labels = wants;
        let mut task = Requirements {
            kind: &kind,
            labels: Some(&has),
            data_version: 1,
        };
        assert_eq!(node.fits(task), fits, "{node:?}");
        task.labels = None;
        let wants_none = node.labels.is_empty();
        assert_eq!(node.fits(task), fits && wants_none, "{node:?}");
    }
}

#[test]
fn a_node_that_selects_labels_fires_schedules_without_them() {
    let mut node = peer("b", 0);
    node.labels = labels(&[("site", "berlin")]);
    for (kind, fits) in [("schedule", true), ("k", false)] {
        let kind = kind.parse().unwrap();
        let task = Requirements {
            kind: &kind,
            labels: None,
            data_version: 1,
        };
        assert_eq!(node.fits(task), fits, "{kind}");
    }
}

#[test]
fn a_task_fits_a_node_that_reads_its_data() {
    let mut node = peer("b", 0);
    node.data_versions.set("k".parse().unwrap(), 2);
    for (kind, data_version, fits) in [
        ("k", 1, true),
        ("k", 2, true),
        ("k", 3, false),
        ("other", 1, true),
        ("other", 2, false),
    ] {
        let task = TaskView {
            kind: kind.parse().unwrap(),
            data_version,
            ..task()
        };
        assert_eq!(node.fits((&task).into()), fits, "{kind} v{data_version}");
    }
}

#[test]
fn by_default_a_balancer_takes_all_and_gives_nothing_back() {
    let (me, others) = (peer("me", 9), [peer("b", 0)]);
    let cluster = Cluster::new(&me, &others);
    assert_eq!(Greedy.takes(&cluster, &task()), Decision::Take);
    let mine = [task().id];
    assert!(Greedy.releases(&cluster, &mine, 1.0).is_empty());
}

#[test]
fn a_fair_node_takes_up_to_the_threshold_while_another_could_take_the_task() {
    // With the task, the average of two nodes is half of all claims plus one.
    for (mine, theirs, takes) in [
        (0, 0, true),
        (5, 3, true),
        (6, 3, false),
        (5, 5, true),
        (9, 0, false),
    ] {
        let (me, other) = (peer("me", mine), peer("b", theirs));
        let takes_beside = |other: Peer| {
            let others = [other];
            let cluster = Cluster::new(&me, &others);
            Fair::default().takes(&cluster, &task()) == Decision::Take
        };
        assert_eq!(takes_beside(other.clone()), takes, "{mine} {theirs}");
        let mut full = other.clone();
        full.slots = u32::try_from(theirs).unwrap();
        assert!(takes_beside(full), "the other has no room");
        let mut of_another_kind = other.clone();
        of_another_kind.kinds = Some(vec!["other".parse().unwrap()]);
        assert!(takes_beside(of_another_kind), "only this node fits");
    }
}
