//! The reason why a task waits, in each situation.

use windlass_statemachine::{Fence, Task};

use super::*;
use crate::store::{NodeFault, NodeSpec, NodeStatus};

fn node(name: &str) -> NodeRecord {
    let mut spec = NodeSpec::new(name.parse().unwrap());
    spec.kinds = Some(vec!["k".parse().unwrap()]);
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

fn record() -> TaskRecord {
    let task = crate::NewTask::new("k").id("t").label("team", "a");
    let task: Task = task.build().unwrap().task;
    TaskRecord {
        state: Ok(TaskState::new(Timestamp::UNIX_EPOCH)),
        task,
        order: 1,
        submitted_at: Timestamp::UNIX_EPOCH,
        node: None,
        fence: Fence::default(),
        commands: 0,
        limited_by: None,
    }
}

fn why(record: &TaskRecord, nodes: &[NodeRecord]) -> Option<WaitReason> {
    WaitReason::of(record, nodes, Timestamp::UNIX_EPOCH)
}

#[test]
fn every_reason_is_returned_and_none_when_there_is_room() {
    let task = record();
    assert_eq!(why(&task, &[]), Some(WaitReason::NoNode));
    let mut other_kind = node("o");
    other_kind.spec.kinds = Some(vec!["other".parse().unwrap()]);
    assert_eq!(why(&task, &[other_kind.clone()]), Some(WaitReason::NoNode));

    let mut other_team = node("b");
    other_team.spec.labels.insert("team".into(), "b".into());
    let named = |name: &str| vec![name.parse().unwrap()];
    let nodes = [other_kind, other_team];
    let reason = why(&task, &nodes).unwrap();
    assert!(
        matches!(&reason, WaitReason::Labels(all) if all[0].node == named("b")[0]),
        "{reason:?}"
    );
    assert_eq!(
        reason.to_string(),
        "no live node of its kind takes tasks with its labels: start one that does (b takes team=b)"
    );

    let mut newer = record();
    newer.state.as_mut().unwrap().data_version = 3;
    let mut older = node("v2");
    older.spec.data_versions.set("k".parse().unwrap(), 2);
    let reason = why(&newer, &[older.clone(), nodes[1].clone()]).unwrap();
    assert_eq!(
        reason.to_string(),
        "no live node reads data v3 of its kind: start one that does (v2, b read older data)"
    );
    let mut reads = node("v3");
    reads.spec.data_versions.set("k".parse().unwrap(), 3);
    assert_eq!(why(&newer, &[older, reads]), None);

    let mut frozen = node("f");
    frozen.status.frozen = true;
    let nodes = [nodes[1].clone(), frozen];
    assert_eq!(
        why(&task, &nodes),
        Some(WaitReason::NotClaiming(named("f")))
    );

    let mut faulty = node("d");
    faulty.status.faults.push(NodeFault {
        kind: "k".parse().unwrap(),
        reason: "the disk is full".into(),
        since: Timestamp::UNIX_EPOCH,
        next_try: Timestamp::UNIX_EPOCH,
    });
    let reason = why(&task, &[nodes[1].clone(), faulty.clone()]).unwrap();
    assert_eq!(
        reason.to_string(),
        "a fault of their machines stops the nodes of its kind (d): the disk is full; they try again"
    );
    assert_eq!(why(&task, &[faulty.clone(), node("well")]), None);
    faulty.status.faults[0].kind = "other".parse().unwrap();
    assert_eq!(why(&task, &[faulty]), None, "the fault is of another kind");

    let mut full = node("full");
    (full.status.running, full.claims) = (2, 2);
    let nodes = [nodes[1].clone(), full];
    assert_eq!(why(&task, &nodes), Some(WaitReason::Full(named("full"))));
    // Only the slots of the kind are in use.
    let mut of_kind = node("full");
    of_kind.status.full = vec![task.task.kind.clone()];
    let nodes_of_kind = [of_kind];
    assert_eq!(
        why(&task, &nodes_of_kind),
        Some(WaitReason::Full(named("full")))
    );
    // The store counts the node's claims before the node reports that they run.
    let mut claimed = node("full");
    claimed.claims = 2;
    let claimed = [claimed];
    assert_eq!(why(&task, &claimed), None, "both may sleep");
    let later = Timestamp::UNIX_EPOCH + CLAIMED_WITHIN;
    let reason = WaitReason::of(&task, &claimed, later);
    assert_eq!(reason, Some(WaitReason::Full(named("full"))));
    let mut schedule = record();
    schedule.task.kind = "schedule".parse().unwrap();
    let mut every_kind = claimed[0].clone();
    every_kind.spec.kinds = None;
    let reason = WaitReason::of(&schedule, &[every_kind], later);
    assert_eq!(reason, None, "it needs no slot");
    assert_eq!(why(&task, &[nodes[1].clone(), node("free")]), None);
}

#[test]
fn a_runnable_task_from_a_clock_ahead_has_a_reason_and_a_sleeper_has_none() {
    let ahead = Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_hours(1);
    let mut task = record();
    task.state = Ok(TaskState::new(ahead));
    assert_eq!(why(&task, &[]), Some(WaitReason::NoNode));
    assert_eq!(why(&task, &[node("n")]), None, "it is taken at once");
    task.state.as_mut().unwrap().status = TaskStatus::Sleeping { until: ahead };
    assert_eq!(why(&task, &[]), None, "its wake-up is the reason");
}

#[test]
fn a_parked_task_waits_only_when_it_is_commanded() {
    let mut task = record();
    task.state.as_mut().unwrap().status = TaskStatus::Paused;
    assert_eq!(why(&task, &[]), None);
    task.commands = 1;
    assert_eq!(why(&task, &[]), Some(WaitReason::NoNode));
}

#[test]
fn a_full_limit_is_named() {
    use windlass_statemachine::Limit;

    let mut task = record();
    let mut text = |limit, until| {
        task.limited_by = Some(LimitedBy {
            until,
            ..LimitedBy::new(limit)
        });
        why(&task, &[node("n")]).unwrap().to_string()
    };
    let limit = Limit::at_once("customer=acme", 3).unwrap();
    let at_once = "it waits for the limit 'customer=acme' (3 at once)";
    assert_eq!(text(limit, None), at_once);
    let limit = Limit::starts("api", 100, std::time::Duration::from_secs(60)).unwrap();
    let starts = "it waits for the limit 'api' (100 starts in 60s), next at 1970-01-01T00:00:00Z";
    assert_eq!(text(limit, Some(Timestamp::UNIX_EPOCH)), starts);
    assert_eq!(
        why(&task, &[]),
        Some(WaitReason::NoNode),
        "the first reason"
    );
    let mut full = node("full");
    (full.status.running, full.claims) = (2, 2);
    let reason = why(&task, &[full]).unwrap();
    assert!(
        matches!(reason, WaitReason::Limit(_)),
        "a free slot would not help: {reason:?}"
    );
    let both = "it waits for the limit 'api' (100 starts in 60s), next at 1970-01-01T00:00:00Z, and the nodes of its \
        kind have no free slot: full; more slots alone would not help";
    assert_eq!(reason.to_string(), both);
}

/// A node was called full for up to a renewal of its lease after a task had ended.
#[test]
fn a_task_that_has_ended_frees_its_slot_before_its_node_reports_it() {
    let mut ended = node("n");
    (ended.status.running, ended.claims) = (2, 1);
    assert_eq!(why(&record(), &[ended]), None);
}

#[test]
fn a_dead_owner_is_reported() {
    let mut task = record();
    task.node = Some("n".parse().unwrap());
    assert_eq!(why(&task, &[node("n")]), None);
    let lost = WaitReason::Lost("n".parse().unwrap());
    assert_eq!(why(&task, &[node("m")]), Some(lost));
}
