//! Leases and nodes: live nodes, and the tasks of lost ones.

use std::time::Duration;

use tokio::time::Instant;
use windlass_statemachine::{Delete, Message, StateKind};

use super::{
    Harness,
    kit::{Kit, LONG, assert_matches, id, one, with_data},
    wait::eventually,
};
use crate::store::{
    ChangeKind, Error, NodeCommand, NodeCommandId, NodeStatus, Operation, Reason, TaskView,
    Transaction,
};

/// A name belongs to one live node.
pub async fn two_nodes_with_one_name_are_refused(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let first = kit.node("n").await;
    let spec = Kit::spec("n");
    let refused = kit.coordinator().join(&spec, LONG).await;
    let Err(Error::AlreadyExists { what, name, .. }) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!((what, name.as_str()), ("node", "n"));
    kit.renew(&first).await.unwrap();
    kit.coordinator().leave(&first).await.unwrap();
    let second = kit.node("n").await;
    assert_ne!(
        second.id, first.id,
        "the number of a lease is never used twice"
    );
    assert_matches!(kit.renew(&first).await, Err(Error::Fenced(_)));
}

/// A name is free again when its node is lost.
pub async fn the_name_of_a_lost_node_is_free(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let lost = kit.node_for("n", harness.short_lease()).await;
    let spec = Kit::spec("n");
    let next = eventually("a lost node's name", async || {
        kit.coordinator().join(&spec, LONG).await.ok()
    })
    .await;
    assert_ne!(next.id, lost.id);
    assert_eq!(next.node, lost.node);
    assert_eq!(next.ttl, LONG);
    // Leaving with the lost lease must not end the lease of the node that now has the name.
    kit.coordinator().leave(&lost).await.unwrap();
    kit.renew(&next).await.unwrap();
}

/// Nodes are listed with their description and their last status.
pub async fn nodes_are_listed(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    assert_eq!(kit.registry().nodes().await.unwrap(), []);
    let before = kit.now();
    let node = kit.node("n").await;
    kit.claimed(&node, "a").await;
    kit.claimed(&node, "b").await;
    let status = NodeStatus {
        full: vec!["mail".parse().unwrap()],
        faults: Vec::new(),
        frozen: true,
        draining: true,
        running: 2,
    };
    kit.coordinator().renew(&node, &status).await.unwrap();
    let other = kit.node("other").await;
    let mut nodes = kit.registry().nodes().await.unwrap();
    nodes.sort_by_key(|n| n.spec.name.clone());
    assert_eq!(nodes.len(), 2);
    let record = &nodes[0];
    assert_eq!(record.spec, Kit::spec("n"));
    assert_eq!(record.status, status);
    assert_eq!((record.lease, record.claims), (node.id, 2));
    let left = Duration::from_millis(record.lease_left_ms);
    assert!(left <= LONG && left > LONG / 2, "{left:?}");
    let second = jiff::SignedDuration::from_secs(1);
    assert!(record.joined_at >= before - second && record.joined_at <= kit.now() + second);
    assert_eq!(nodes[1].status, NodeStatus::default());
    kit.coordinator().leave(&other).await.unwrap();
    assert_eq!(kit.registry().nodes().await.unwrap().len(), 1);
}

/// A live node can replace the description with which it joined.
pub async fn a_node_is_described_again(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let (node, other) = (kit.node("n").await, kit.node("other").await);
    kit.claimed(&node, "a").await;
    let status = NodeStatus {
        running: 1,
        ..NodeStatus::default()
    };
    kit.coordinator().renew(&node, &status).await.unwrap();
    let mut spec = Kit::spec("n");
    spec.slots = 3;
    spec.slots_of.insert("k".parse().unwrap(), 0);
    spec.kinds = Some(vec!["k".parse().unwrap(), "l".parse().unwrap()]);
    spec.labels.insert("team".into(), "b".into());
    spec.data_versions.set("l".parse().unwrap(), 9);
    for _ in 0..2 {
        // Repeating a description changes nothing.
        kit.coordinator().describe(&node, &spec).await.unwrap();
    }
    // A store may write the status after it has answered the renewal.
    let record = eventually("the status beside the description", async || {
        let nodes = kit.registry().nodes().await.unwrap();
        let record = nodes.into_iter().find(|n| n.spec.name == node.node);
        record.filter(|record| record.status == status)
    })
    .await;
    assert_eq!(record.spec, spec);
    assert_eq!((record.lease, record.claims), (node.id, 1));
    kit.renew(&node).await.unwrap();
    let nodes = kit.registry().nodes().await.unwrap();
    let spec_of = |lease: u64| nodes.iter().find(|n| n.lease == lease).map(|n| &n.spec);
    assert_eq!(spec_of(node.id), Some(&spec), "a renewal leaves it");
    assert_eq!(spec_of(other.id), Some(&Kit::spec("other")));
    let foreign = kit.coordinator().describe(&other, &spec).await;
    assert_matches!(foreign, Err(Error::Invalid(_)));
}

/// The lease of a node that has left cannot change a description, not even that of the next node
/// with the name.
pub async fn an_ended_lease_is_not_described(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let gone = kit.node("n").await;
    kit.coordinator().leave(&gone).await.unwrap();
    let mut spec = Kit::spec("n");
    spec.slots = 3;
    let refused = kit.coordinator().describe(&gone, &spec).await;
    assert_matches!(refused, Err(Error::Fenced(_)));
    kit.node("n").await;
    let refused = kit.coordinator().describe(&gone, &spec).await;
    assert_matches!(refused, Err(Error::Fenced(_)));
    let nodes = kit.registry().nodes().await.unwrap();
    assert_eq!(nodes[0].spec, Kit::spec("n"));
}

/// A lease that is renewed in time does not end.
pub async fn renewing_keeps_the_lease(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    // Long enough for a busy machine to renew it in time. It is renewed for twice its time.
    let ttl = Duration::from_millis(1500);
    let node = kit.node_for("n", ttl).await;
    let mut claimed = kit.claimed(&node, "a").await;
    let started = Instant::now();
    while started.elapsed() < ttl * 2 {
        kit.renew(&node).await.unwrap();
        tokio::time::sleep(ttl / 10).await;
    }
    assert_eq!(kit.registry().nodes().await.unwrap().len(), 1);
    kit.checkpoint(&mut claimed, 1).await;
}

/// An ended lease is not renewed, and every other call with it is refused.
pub async fn an_ended_lease_is_gone(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    kit.submit("a").await;
    kit.submit("b").await;
    let node = kit.node_for("n", harness.short_lease()).await;
    let claimed = kit.claim(&node, "a").await;
    eventually("the end of a lease", async || {
        let nodes = kit.registry().nodes().await.unwrap();
        nodes.is_empty().then_some(())
    })
    .await;
    assert_matches!(kit.renew(&node).await, Err(Error::Fenced(_)));
    assert_matches!(kit.try_claim(&node, "b").await, Err(Error::Fenced(_)));
    kit.assert_fenced(&claimed, &Message::complete()).await;
    let refused = kit.coordinator().watch(&node, None).await.err();
    assert_matches!(refused, Some(Error::Fenced(_)));
    let record = kit.get("a").await;
    assert_eq!(
        (record.node, record.state.unwrap().code()),
        (None, StateKind::Runnable)
    );
    kit.coordinator().leave(&node).await.unwrap();
}

/// The watches report the tasks of a lost node within a second. The next claim counts the abandoned one.
pub async fn a_lost_node_abandons_its_tasks(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let survivor = kit.node("survivor").await;
    let mut watch = kit.watch(&survivor).await;
    watch.listed().await;
    kit.submit("a").await;
    let lost = kit.node_for("lost", harness.short_lease()).await;
    let mut claimed = kit.claim(&lost, "a").await;
    kit.checkpoint(&mut claimed, 1).await;
    let is_claimed = |v: &TaskView| v.claimed_by == Some(lost.id);
    watch.task("a", "the claim", is_claimed).await;
    let claimed_at = Instant::now();
    watch
        .task("a", "the lost claim", |v| v.claimed_by.is_none())
        .await;
    // The lease itself, the second that the duty allows, and another one for a busy machine.
    let waited = claimed_at.elapsed();
    assert!(
        waited < harness.short_lease() + Duration::from_secs(2),
        "reported after {waited:?}"
    );

    let next = kit.claim(&survivor, "a").await;
    assert!(next.abandoned);
    assert!(next.claim.fence > claimed.claim.fence);
    assert_eq!(next.state.attempts, 1);
    let error = &next.state.errors.last().unwrap().error;
    assert!(error.contains("lost"), "names the node: {error}");
    assert_eq!(next.state.data.clone().unwrap().as_str(), r#"{"n":1}"#);
    let fence = claimed.claim.fence;
    let reported = kit.events("a").await;
    let place = |what: &ChangeKind| reported.iter().position(|w| w == what);
    let lost = place(&ChangeKind::Lost { fence });
    let again = place(&ChangeKind::Claimed {
        node: "survivor".parse().unwrap(),
        fence: next.claim.fence,
        abandoned: true,
    });
    assert!(lost.is_some() && lost < again, "{reported:?}");
    kit.assert_fenced(&claimed, &Message::complete()).await;
}

/// A task whose node was lost is deleted by force only: its handler may still run. A released task needs no force.
pub async fn a_task_of_a_lost_node_is_deleted_by_force_only(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let survivor = kit.node("survivor").await;
    let mut watch = kit.watch(&survivor).await;
    watch.listed().await;
    let lost = kit.node_for("lost", harness.short_lease()).await;
    let mut released = kit.claimed(&survivor, "released").await;
    kit.commit(&mut released, &Message::release()).await;
    kit.claimed(&lost, "a").await;
    let is_claimed = |v: &TaskView| v.claimed_by == Some(lost.id);
    watch.task("a", "the claim", is_claimed).await;
    watch
        .task("a", "the lost claim", |v| v.claimed_by.is_none())
        .await;
    let refused = one(kit.registry().delete(vec![id("a")]).await);
    assert_matches!(refused, Err(Error::Claimed(task)) if *task == id("a"));
    let transaction = Transaction::new().delete(id("a"));
    let refused = kit.refusals(&transaction).await;
    assert_matches!(&refused[..], [(_, _, Reason::Claimed)]);
    kit.delete("released").await;
    let forced = Transaction::new().with(Operation::Delete(Delete::new(id("a")).forced()));
    kit.apply(&forced).await;
    assert!(!kit.is_there("a").await);
}

/// One abandoned claim is counted once.
pub async fn an_abandoned_claim_counts_once(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let survivor = kit.node("survivor").await;
    kit.submit("a").await;
    let lost = kit.node_for("lost", harness.short_lease()).await;
    kit.claim(&lost, "a").await;
    let mut next = eventually("an abandoned task", async || {
        kit.try_claim(&survivor, "a").await.unwrap()
    })
    .await;
    assert!(next.abandoned);
    kit.commit(&mut next, &Message::release()).await;
    let again = kit.claim(&survivor, "a").await;
    assert!(!again.abandoned);
    assert_eq!(again.state.attempts, 1);
    assert_eq!(again.state.errors.total(), 1);
}

/// A node that leaves releases its tasks: they are not abandoned.
pub async fn leaving_releases_the_tasks(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let (first, second) = (kit.node("n1").await, kit.node("n2").await);
    let mut watch = kit.watch(&second).await;
    watch.listed().await;
    let claimed = kit.claimed(&first, "a").await;
    kit.coordinator().leave(&first).await.unwrap();
    kit.coordinator().leave(&first).await.unwrap();
    watch.task("a", "a task", |v| v.claimed_by.is_none()).await;
    let fence = claimed.claim.fence;
    assert_eq!(
        kit.events("a").await.last(),
        Some(&ChangeKind::Dropped { fence })
    );
    let next = kit.claim(&second, "a").await;
    assert!(!next.abandoned);
    assert_eq!((next.state.attempts, next.state.errors.total()), (0, 0));
}

/// A node can end a lease that it considers lost before its time. Its claims are abandoned, and the name of the
/// node is free.
pub async fn an_abandoned_lease_ends_at_once(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let (first, second) = (kit.node("n1").await, kit.node("n2").await);
    let mut watch = kit.watch(&second).await;
    watch.listed().await;
    let claimed = kit.claimed(&first, "a").await;
    kit.coordinator().abandon(&first).await.unwrap();
    assert_matches!(kit.renew(&first).await, Err(Error::Fenced(_)));
    watch.task("a", "a task", |v| v.claimed_by.is_none()).await;
    let again = kit.node("n1").await;
    // Ending the old lease again does not end the one that the node has now.
    kit.coordinator().abandon(&first).await.unwrap();
    kit.renew(&again).await.unwrap();
    let data = with_data(Message::checkpoint(), 1);
    assert_matches!(kit.try_commit(&claimed, &data).await, Err(Error::Fenced(_)));
    let next = kit.claim(&again, "a").await;
    assert!(next.abandoned);
    assert_eq!(next.state.attempts, 1);
    let error = &next.state.errors.last().unwrap().error;
    assert!(error.contains("n1"), "names the node: {error}");
}

/// The sender of a node command can read the answer of the node; the first answer stays.
pub async fn node_commands_are_answered(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let registry = kit.registry();
    let order = kit.send_node(&node.node, NodeCommand::Drain).await;
    assert_eq!(registry.node_outcome(order).await.unwrap(), None);
    for outcome in ["drained", "drained again"] {
        let answer = kit.coordinator().acknowledge(&node, order, outcome).await;
        // A store may also refuse to answer twice.
        assert!(outcome != "drained" || answer.is_ok(), "{answer:?}");
    }
    let outcome = registry.node_outcome(order).await.unwrap();
    assert_eq!(outcome.as_deref(), Some("drained"));
    let unknown = registry.node_outcome(NodeCommandId(order.0 + 1000)).await;
    assert_matches!(unknown, Err(Error::NotFound { .. }));
}

/// A node command is answered only with the lease of its node. With another lease the answer is
/// refused, changes nothing, and the command stays in the node's queue.
pub async fn a_foreign_lease_answers_no_command(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let (node, other) = (kit.node("n").await, kit.node("other").await);
    let gone = kit.node("gone").await;
    kit.coordinator().leave(&gone).await.unwrap();
    let registry = kit.registry();
    let order = kit.send_node(&node.node, NodeCommand::Drain).await;
    let foreign = kit.coordinator().acknowledge(&other, order, "no").await;
    assert_matches!(foreign, Err(Error::NotFound { .. }));
    let ended = kit.coordinator().acknowledge(&gone, order, "no").await;
    assert_matches!(ended, Err(Error::Fenced(_)));
    assert_eq!(registry.node_outcome(order).await.unwrap(), None);
    let mut watch = kit.watch(&node).await;
    assert_eq!(watch.node_command().await.id, order);
    let own = kit.coordinator().acknowledge(&node, order, "drained").await;
    own.unwrap();
    // A store may find the answer before it compares the lease.
    let _ = kit.coordinator().acknowledge(&other, order, "no").await;
    let outcome = registry.node_outcome(order).await.unwrap();
    assert_eq!(outcome.as_deref(), Some("drained"));
}

/// A command to a dead node is refused, and a queued one is removed with its node.
pub async fn a_dead_node_takes_no_commands(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let name = "n".parse().unwrap();
    let registry = kit.registry();
    let refused = registry.send_node(&name, NodeCommand::Freeze, None).await;
    let is_right = matches!(&refused, Err(Error::NotFound { what: "node", name }) if name == "n");
    assert!(is_right, "{refused:?}");
    let node = kit.node("n").await;
    let order = kit.send_node(&name, NodeCommand::Freeze).await;
    kit.coordinator().leave(&node).await.unwrap();
    let gone = registry.node_outcome(order).await;
    assert_matches!(gone, Err(Error::NotFound { .. }));
    // A later node with the name does not get the command.
    let later = kit.node("n").await;
    let own = kit.send_node(&name, NodeCommand::Unfreeze).await;
    let mut watch = kit.watch(&later).await;
    assert_eq!(watch.node_command().await.id, own);
}

/// The peers are live nodes with their last status, without nodes that have left. A store may know no
/// peers.
pub async fn peers_are_live_nodes(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let (node, other) = (kit.node("n").await, kit.node("other").await);
    let mut watch = kit.watch(&node).await;
    watch.listed().await;
    let names = async || -> Vec<String> {
        let peers = kit.coordinator().peers().await.unwrap();
        assert!(peers.iter().all(|peer| peer.spec.slots == 7), "{peers:?}");
        peers.iter().map(|p| p.spec.name.to_string()).collect()
    };
    for name in names().await {
        assert!(["n", "other"].contains(&name.as_str()), "{name}");
    }
    kit.coordinator().leave(&other).await.unwrap();
    eventually("a peer that has left", async || {
        let left = names().await;
        (!left.contains(&"other".to_owned())).then_some(())
    })
    .await;
    assert!(names().await.len() <= 1);
}
