//! Guards of transactions: what must hold before anything is applied.

use windlass_statemachine::{Fence, StateKind};

use super::{
    Harness,
    kit::{Kit, fresh, id, of_kind, task},
};
use crate::store::{Lease, Part, Reason, Require, Transaction};

/// A guard on a task, and the reason of its refusal; `None` when it holds.
pub(super) type Guarded = (&'static str, Require, Option<Reason>);

/// Prepares the tasks `free`, of the kind `k`, and `busy`, and returns guards of every kind, one that holds
/// and one that does not.
pub(super) async fn guarded(kit: &Kit, node: &Lease) -> Vec<Guarded> {
    kit.submit_task(of_kind("free", "k")).await;
    let busy = kit.claimed(node, "busy").await;
    let order = kit.get("busy").await.order;
    let (version, fence) = (kit.state("busy").await.version, busy.claim.fence);
    assert_eq!(kit.get("busy").await.fence, fence);
    let (k, other) = ("k".parse().unwrap(), "other".parse().unwrap());
    vec![
        ("free", Require::Exists, None),
        ("nil", Require::Exists, Some(Reason::Missing)),
        ("nil", Require::Absent, None),
        ("free", Require::Absent, Some(Reason::exists())),
        ("free", Require::State(StateKind::Runnable), None),
        (
            "nil",
            Require::State(StateKind::Runnable),
            Some(Reason::Missing),
        ),
        (
            "free",
            Require::State(StateKind::Failed),
            Some(Reason::State {
                is: StateKind::Runnable,
                required: vec![StateKind::Failed],
            }),
        ),
        ("busy", Require::Version(version), None),
        (
            "busy",
            Require::Version(version + 1),
            Some(Reason::Version {
                is: version,
                required: version + 1,
            }),
        ),
        ("busy", Require::Fence(fence), None),
        ("free", Require::Fence(Fence(0)), None),
        (
            "busy",
            Require::Fence(Fence(fence.0 + 1)),
            Some(Reason::Fence {
                is: fence,
                required: Fence(fence.0 + 1),
            }),
        ),
        ("busy", Require::Order(order), None),
        (
            "busy",
            Require::Order(order + 1),
            Some(Reason::Order {
                is: order,
                required: order + 1,
            }),
        ),
        ("free", Require::Kind("k".parse().unwrap()), None),
        (
            "free",
            Require::Kind("other".parse().unwrap()),
            Some(Reason::Kind {
                is: k,
                required: other,
            }),
        ),
        ("free", Require::Unclaimed, None),
        ("busy", Require::Unclaimed, Some(Reason::Claimed)),
    ]
}

/// Each guard lets a transaction pass when it holds, and refuses it with its reason when it does not.
pub async fn guards_hold_or_refuse(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    for (name, require, reason) in guarded(&kit, &node).await {
        let text = format!("{name} {require:?}");
        let transaction = Transaction::new()
            .require(id(name), require)
            .submit(fresh(task("new")));
        match reason {
            Some(reason) => {
                kit.assert_refused(&transaction, Part::Guard(0), reason)
                    .await;
                assert!(!kit.is_there("new").await, "{text}");
            }
            None => {
                kit.apply(&transaction).await;
                assert!(kit.is_there("new").await, "{text}");
                kit.delete("new").await;
            }
        }
    }
}

/// A guard sees the store as it is before the operations of its transaction, even on a task that an
/// operation changes.
pub async fn guards_see_the_state_before_the_operations(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    kit.submit("old").await;
    let swap = Transaction::new()
        .require(id("old"), Require::Exists)
        .require(id("new"), Require::Absent)
        .delete(id("old"))
        .submit(fresh(task("new")));
    kit.apply(&swap).await;
    assert!(!kit.is_there("old").await && kit.is_there("new").await);
}

/// A guard on the submit order does not hold for another task with the id, which was submitted after the first was
/// deleted.
pub async fn an_order_names_one_task_of_an_id(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let refused = async |first: u64| {
        let is = kit.get("a").await.order;
        let guarded = Transaction::new()
            .require(id("a"), Require::Order(first))
            .delete(id("a"));
        let reason = Reason::Order {
            is,
            required: first,
        };
        kit.assert_refused(&guarded, Part::Guard(0), reason).await;
        is
    };
    kit.submit("a").await;
    let first = kit.get("a").await.order;
    kit.delete("a").await;
    kit.submit("a").await;
    let second = refused(first).await;
    assert!(second > first, "{second} {first}");
    let right = Transaction::new()
        .require(id("a"), Require::Order(second))
        .delete(id("a"));
    kit.apply(&right).await;
    assert!(!kit.is_there("a").await);
}
