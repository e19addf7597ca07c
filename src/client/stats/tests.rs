//! The reasons of groups.

use windlass_statemachine::Limit;

use super::*;
use crate::store::{HeldGroup, LimitForm, NodeSpec, NodeStatus, TaskGroup};

fn kind() -> Kind {
    "k".parse().unwrap()
}

fn node() -> NodeRecord {
    let mut spec = NodeSpec::new("n".parse().unwrap());
    spec.kinds = Some(vec![kind()]);
    spec.slots = 2;
    NodeRecord {
        spec,
        status: NodeStatus::default(),
        lease: 1,
        joined_at: Timestamp::UNIX_EPOCH,
        lease_left_ms: 1,
        claims: 0,
    }
}

fn group(data_version: u32, availability: Availability, tasks: u64) -> TaskGroup {
    let is_available = availability == Availability::Available;
    TaskGroup {
        kind: kind(),
        state: Some(StateKind::Runnable),
        data_version,
        availability,
        tasks,
        oldest_due: is_available.then_some(Timestamp::UNIX_EPOCH),
    }
}

/// Eleven tasks are available, four of them with newer data; a limit holds back five.
fn counted() -> TaskStats {
    TaskStats {
        at: Timestamp::from_second(60).unwrap(),
        groups: vec![
            group(1, Availability::Available, 7),
            group(2, Availability::Available, 4),
            group(1, Availability::Waiting, 3),
            group(1, Availability::Claimed, 2),
        ],
        held: vec![HeldGroup {
            kind: kind(),
            key: "api".into(),
            form: LimitForm::AtOnce,
            tasks: 5,
        }],
        held_is_complete: true,
        oldest_is_complete: true,
    }
}

fn limits() -> [LimitUse; 1] {
    [LimitUse {
        key: "api".into(),
        form: LimitForm::AtOnce,
        within: None,
        limit: Some(Limit::at_once("api", 1).unwrap()),
        taken: 1,
        waiting: 5,
        next: None,
    }]
}

/// Returns the name of each reason, with its tasks, and whether labels have to be read.
fn reasons(counted: &TaskStats, nodes: &[NodeRecord]) -> (Vec<(&'static str, u64)>, bool) {
    let [(of, by_labels)] = kinds(counted, nodes, &limits()).try_into().unwrap();
    let held = of.held_back.iter();
    let reasons = held.map(|held| (held.reason.kind().as_str(), held.tasks));
    (reasons.collect(), by_labels)
}

#[test]
fn a_task_counts_for_one_reason() {
    let mut counted = counted();
    let [(of, _)] = kinds(&counted, &[node()], &limits()).try_into().unwrap();
    assert_eq!((of.available, of.waiting, of.claimed), (11, 3, 2));
    assert_eq!(of.oldest_due, Some(Timestamp::UNIX_EPOCH));
    let with_room = [("limit", 5), ("data_version", 4), ("tasks", 3)];
    assert_eq!(reasons(&counted, &[node()]).0, with_room);
    // No node can read the data of the tasks that the limit holds back.
    let none = [("no_node", 11), ("tasks", 3)];
    assert_eq!(reasons(&counted, &[]).0, none);
    // An autoscaler that starts the first node has to know of the limit.
    for (free, limited) in [(0, 5), (2, 3), (9, 0)] {
        let mut limits = limits();
        limits[0].limit = Some(Limit::at_once("api", 1 + free).unwrap());
        let [(of, _)] = kinds(&counted, &[], &limits).try_into().unwrap();
        assert_eq!(of.limited, limited, "{free} free");
    }
    let mut full = node();
    full.claims = 2;
    let of_full = [("limit", 5), ("data_version", 4), ("tasks", 3), ("full", 2)];
    assert_eq!(reasons(&counted, &[full.clone()]).0, of_full);
    counted.held[0].tasks = 9;
    let all = [("limit", 7), ("data_version", 4), ("tasks", 3)];
    assert_eq!(
        reasons(&counted, &[full]).0,
        all,
        "a limit holds back no more than there are"
    );
}

#[test]
fn labels_are_read_when_every_node_selects_some() {
    let counted = counted();
    let mut selects = node();
    selects.spec.labels.insert("team".into(), "b".into());
    let nodes = [selects.clone()];
    assert!(reasons(&counted, &nodes).1);
    assert!(!reasons(&counted, &[selects.clone(), node()]).1);
    assert!(!reasons(&counted, &[]).1);
    selects.claims = 2;
    let [(mut of, _)] = kinds(&counted, &[selects], &[]).try_into().unwrap();
    let labels = HeldBack {
        reason: WaitReason::Labels(Vec::new()),
        tasks: 3,
        at_least: true,
    };
    of.labels_hold(vec![labels]);
    let held = of
        .held_back
        .iter()
        .map(|held| (held.reason.kind().as_str(), held.tasks));
    let expected = [
        ("data_version", 4),
        ("full", 4),
        ("labels", 3),
        ("tasks", 3),
    ];
    assert_eq!(held.collect::<Vec<_>>(), expected);
}

/// `scale` said that no slot was wanted for tasks whose waits were over while no node lived.
#[tokio::test]
async fn a_task_whose_waits_are_over_is_available_though_no_node_lives() {
    let store = crate::Store::open("memory:").await.unwrap();
    let client = Client::new(&store);
    for task in [
        crate::NewTask::new("first").id("a"),
        crate::NewTask::new("k").after(["a"]),
        crate::NewTask::new("k").after(["a"]),
    ] {
        client.submit(task).await.unwrap();
    }
    let numbers = async || {
        let stats = client.stats().await.unwrap();
        let of = stats.kinds.iter().find(|of| of.kind == kind()).unwrap();
        let held = of.held_back.iter();
        let held: Vec<_> = held.map(|h| (h.reason.kind().as_str(), h.tasks)).collect();
        (of.available, of.waiting, held)
    };
    assert_eq!(numbers().await, (0, 2, vec![("tasks", 2)]));
    client.delete("a").await.unwrap();
    assert_eq!(numbers().await, (2, 0, vec![("no_node", 2)]));
}

/// `stats` said nothing of tasks that only a full node takes when another node, which selects labels, had room.
#[tokio::test]
async fn a_full_node_holds_back_what_the_node_with_room_does_not_take() {
    let store = crate::Store::open("memory:").await.unwrap();
    let client = Client::new(&store);
    let (mut open, mut selective) = (node().spec, node().spec);
    open.slots = 1;
    selective.name = "selective".parse().unwrap();
    selective.labels.insert("team".into(), "b".into());
    let ttl = std::time::Duration::from_secs(60);
    let coordinator = store.coordinator();
    let lease = coordinator.join(&open, ttl).await.unwrap();
    coordinator.join(&selective, ttl).await.unwrap();
    for id in ["first", "second", "third"] {
        client
            .submit(crate::NewTask::new("k").id(id))
            .await
            .unwrap();
    }
    let of_b = crate::NewTask::new("k").id("of b").label("team", "b");
    client.submit(of_b).await.unwrap();
    let claims = coordinator
        .claim(&lease, vec!["first".parse().unwrap()])
        .await;
    assert!(matches!(claims[..], [Ok(Some(_))]));
    let status = NodeStatus {
        running: 1,
        ..NodeStatus::default()
    };
    coordinator.renew(&lease, &status).await.unwrap();
    let stats = client.stats().await.unwrap();
    let held = stats.kinds[0].held_back.iter();
    let held: Vec<_> = held
        .map(|held| (held.reason.kind().as_str(), held.tasks))
        .collect();
    assert_eq!(held, [("full", 2)]);
}

#[tokio::test]
async fn a_claim_of_a_dead_node_counts_as_lost() {
    let store = crate::store::Store::open("memory:").await.unwrap();
    let client = Client::new(&store);
    let coordinator = store.coordinator();
    for id in ["a", "b"] {
        client
            .submit(crate::NewTask::new("k").id(id))
            .await
            .unwrap();
    }
    let hour = std::time::Duration::from_secs(3600);
    let lease = coordinator.join(&node().spec, hour).await.unwrap();
    let claimed = coordinator.claim(&lease, vec!["a".parse().unwrap()]).await;
    assert!(claimed[0].as_ref().is_ok_and(Option::is_some));
    let lives = client.stats().await.unwrap();
    assert!(lives.kinds[0].held_back.is_empty(), "{lives:?}");
    let mut kinds = [(lives.kinds[0].clone(), false)];
    client.read_lost(&mut kinds, &[], lives.at).await.unwrap();
    let held = kinds[0].0.held_back.iter();
    let held: Vec<_> = held.map(|h| (h.reason.kind().as_str(), h.tasks)).collect();
    assert_eq!(held, [("lost", 1)]);
}
