//! Effects that change other tasks, and guards of a message.

use windlass_statemachine::{Command, Message, StateKind, TaskState};

use super::{
    Capability, Harness,
    capability::need,
    guards::guarded,
    kit::{Kit, assert_matches, field, fresh, id, of_kind, same, task},
};
use crate::store::{Claimed, IfExists, Lease, Reason, Require, Reschedule, Submit};

/// The tasks other than `a`.
const ALL: [&str; 4] = ["gone", "live", "over", "late"];

/// Returns a store that applies effects, with a node and its claimed task `a`, the live tasks
/// `gone`, `live` and
/// `late`, and `over`, which has ended.
async fn prepared(harness: &dyn Harness) -> (Kit, Lease, Claimed) {
    need(Capability::Effects, harness.takes_effects().then_some(()));
    let (kit, node) = Kit::with_node(harness).await;
    let claimed = kit.claimed(&node, "a").await;
    for text in ["gone", "live", "late"] {
        kit.submit(text).await;
    }
    kit.ended(&node, "over", &Message::complete()).await;
    (kit, node, claimed)
}

/// Returns a message with an effect of every kind.
fn of_every_kind(kit: &Kit) -> Message {
    let late = Reschedule::new(id("late"))
        .due(kit.in_an_hour())
        .priority(7);
    Message::complete()
        .and_require("live", Require::State(StateKind::Runnable))
        .and_require("late", Require::Unclaimed)
        .and_submit(task("new"))
        .and_send("live", "pause", Command::Pause)
        .and_delete("gone")
        .and_retry("over")
        .and_reschedule(late)
}

async fn states(kit: &Kit) -> Vec<TaskState> {
    let mut states = Vec::new();
    for text in ALL {
        states.push(kit.state(text).await);
    }
    states
}

/// Whether a reason is the expected one.
type Check = fn(&Reason) -> bool;

/// The message is refused for these reasons, and nothing has changed.
async fn assert_refused(
    kit: &Kit,
    claimed: &Claimed,
    message: &Message,
    expected: &[(&str, Reason)],
) {
    let before = states(kit).await;
    let refused = kit.refused_effects(claimed, message).await;
    let refused: Vec<(&str, &Reason)> = refused.iter().map(|(p, r)| (p.as_str(), r)).collect();
    let expected: Vec<(&str, &Reason)> = expected.iter().map(|(p, r)| (*p, r)).collect();
    assert_eq!(refused, expected, "{message:?}");
    assert_eq!(kit.state("a").await, claimed.state);
    assert_eq!(states(kit).await, before);
    assert!(!kit.is_there("new").await);
}

/// Submit, command, deletion, retry and reschedule are applied in the same step as the transition.
pub async fn every_operation_is_an_effect(harness: &dyn Harness) {
    let (kit, node, mut claimed) = prepared(harness).await;
    let message = of_every_kind(&kit);
    kit.commit(&mut claimed, &message).await;
    assert_eq!(kit.state("a").await.code(), StateKind::Completed);
    assert_eq!(kit.state("new").await.code(), StateKind::Runnable);
    assert_eq!(kit.get("live").await.commands, 1);
    assert!(!kit.is_there("gone").await);
    let over = kit.state("over").await;
    assert_eq!((over.code(), over.incarnation), (StateKind::Runnable, 1));
    let late = kit.get("late").await;
    assert_eq!(late.task.priority, 7);
    assert_eq!(late.state.unwrap().code(), StateKind::Sleeping);
    for text in ["new", "live", "over"] {
        kit.claim(&node, text).await;
    }
}

/// A submit as an effect follows its if-exists rule. A task that replaces an ended one can be commanded in the
/// same message.
pub async fn a_submit_follows_its_if_exists(harness: &dyn Harness) {
    let (kit, node, mut claimed) = prepared(harness).await;
    kit.ended(&node, "old", &Message::complete()).await;
    let fence = kit.get("old").await.fence;
    let submit = |task, if_exists| Submit { task, if_exists };
    let replaced = submit(of_kind("old", "next"), IfExists::ReplaceFinished);
    let message = Message::checkpoint()
        .and_submit(same(task("live")))
        .and_submit(submit(of_kind("over", "another"), IfExists::Skip))
        .and_submit(replaced.clone())
        .and_submit(same(task("new")))
        .and_send("old", "c", Command::Run);
    kit.commit(&mut claimed, &message).await;
    assert_eq!(kit.state("over").await.code(), StateKind::Completed);
    let old = kit.get("old").await;
    assert_eq!(old.task.kind.as_str(), "next");
    assert_eq!(old.commands, 1);
    assert!(kit.claim(&node, "old").await.claim.fence > fence);
    assert_eq!(kit.state("new").await.code(), StateKind::Runnable);
    // By now it is live.
    let message = Message::complete().and_submit(replaced);
    let refused = kit.refused_effects(&claimed, &message).await;
    assert_eq!(
        refused,
        [("effects.submit[0]".to_owned(), Reason::exists())]
    );
}

/// A guard that holds changes nothing. A guard that does not hold refuses the transition and every
/// effect.
pub async fn guards_hold_or_refuse_the_message(harness: &dyn Harness) {
    let (kit, node, mut claimed) = prepared(harness).await;
    for (name, require, reason) in guarded(&kit, &node).await {
        let message = Message::checkpoint()
            .and_require(name, require)
            .and_submit(task("new"));
        match reason {
            Some(reason) => {
                let expected = [("effects.require[0]", reason)];
                assert_refused(&kit, &claimed, &message, &expected).await;
            }
            None => {
                kit.commit(&mut claimed, &message).await;
                assert!(kit.is_there("new").await, "{message:?}");
                kit.delete("new").await;
            }
        }
    }
}

/// A guard sees the tasks as they are before the effects of its message.
pub async fn guards_see_the_tasks_before_the_effects(harness: &dyn Harness) {
    let (kit, _, mut claimed) = prepared(harness).await;
    let message = Message::checkpoint()
        .and_require("gone", Require::Exists)
        .and_require("new", Require::Absent)
        .and_delete("gone")
        .and_submit(task("new"));
    kit.commit(&mut claimed, &message).await;
    assert!(!kit.is_there("gone").await && kit.is_there("new").await);
}

/// The refusal lists every refused guard and effect, with its place and its reason.
pub async fn every_refused_effect_is_listed(harness: &dyn Harness) {
    let (kit, node, claimed) = prepared(harness).await;
    kit.claimed(&node, "busy").await;
    let hour = kit.in_an_hour();
    let message = of_every_kind(&kit)
        .and_require("live", Require::Absent)
        .and_submit(task("late"))
        .and_send("over", "c", Command::Pause)
        .and_delete("unknown")
        .and_retry("live2")
        .and_reschedule(Reschedule::new(id("busy")).due(hour))
        .and_reschedule(Reschedule::new(id("unknown2")).due(hour));
    let twice = |reason: &Reason| matches!(reason, Reason::Invalid(i) if i.field() == "effects");
    let refused = kit.refused_effects(&claimed, &message).await;
    // `late` and `over` have two effects now.
    let expected: [(&str, Check); 9] = [
        ("effects.require[2]", |r| *r == Reason::exists()),
        ("effects.submit[1]", |r| *r == Reason::exists()),
        ("effects.send[1]", |r| *r == Reason::finished()),
        ("effects.delete[1]", |r| *r == Reason::Missing),
        ("effects.retry[0]", twice),
        ("effects.retry[1]", |r| *r == Reason::Missing),
        ("effects.reschedule[0]", twice),
        ("effects.reschedule[1]", |r| *r == Reason::Claimed),
        ("effects.reschedule[2]", |r| *r == Reason::Missing),
    ];
    assert_eq!(refused.len(), expected.len(), "{refused:?}");
    for ((part, reason), (place, is_right)) in refused.iter().zip(expected) {
        assert!(part == place && is_right(reason), "{place}: {refused:?}");
    }
    let before = states(&kit).await;
    assert_eq!(before[1].code(), StateKind::Runnable);
    assert_eq!(kit.get("live").await.commands, 0);
    assert!(!kit.is_there("new").await && kit.is_there("gone").await);
    assert_eq!(kit.state("a").await, claimed.state);
}

/// Only commands may name the task of the message; other effects and guards may not.
pub async fn its_own_task_takes_only_commands(harness: &dyn Harness) {
    let (kit, _, mut claimed) = prepared(harness).await;
    let replace = Submit {
        task: task("a"),
        if_exists: IfExists::ReplaceFinished,
    };
    let message = Message::complete()
        .and_require("a", Require::Exists)
        .and_submit(replace)
        .and_delete("a")
        .and_retry("a")
        .and_reschedule(Reschedule::new(id("a")).priority(1));
    let fields = ["require", "submit", "delete", "retry", "reschedule"];
    let places = fields.map(|field| format!("effects.{field}[0]"));
    let expected: Vec<_> = places.iter().map(|p| (p.as_str(), Reason::Own)).collect();
    assert_refused(&kit, &claimed, &message, &expected).await;
    let commanded = Message::checkpoint().and_send("a", "c", Command::Pause);
    kit.commit(&mut claimed, &commanded).await;
    assert_eq!(kit.get("a").await.commands, 1);
}

/// A task has one of delete, retry and reschedule, and then no submit or command.
pub async fn a_task_has_one_change(harness: &dyn Harness) {
    let (kit, _, claimed) = prepared(harness).await;
    let new = || Message::complete().and_submit(fresh(task("new")));
    let urgent = || Reschedule::new(id("late")).priority(1);
    for message in [
        new().and_delete("over").and_retry("over"),
        new().and_delete("gone").and_delete("gone"),
        new().and_delete("late").and_reschedule(urgent()),
        new()
            .and_send("late", "c", Command::Pause)
            .and_reschedule(urgent()),
        new().and_delete("new"),
    ] {
        let before = states(&kit).await;
        let refused = kit.refused_effects(&claimed, &message).await;
        assert_matches!(&refused[..], [(_, Reason::Invalid(i))] if i.field() == "effects");
        assert_eq!(states(&kit).await, before);
        assert!(!kit.is_there("new").await);
    }
}

/// More effects and guards than the limit are refused, and the error names both numbers.
pub async fn more_than_the_limit_are_refused(harness: &dyn Harness) {
    let (kit, _, mut claimed) = prepared(harness).await;
    let most = kit.registry().limits().max_operations;
    let mut message = Message::checkpoint().and_require("live", Require::Exists);
    for n in 0..most {
        message = message.and_submit(task(&format!("t{n}")));
    }
    let refused = kit.try_commit(&claimed, &message).await.unwrap_err();
    assert_eq!(field(&refused), "effects");
    let text = refused.to_string();
    for number in [most, most + 1] {
        assert!(text.contains(&number.to_string()), "{text}");
    }
    assert!(!kit.is_there("t0").await);
    kit.commit(&mut claimed, &Message::complete()).await;
}

/// A claimed task can be deleted by an effect, which ends the claim of its owner.
pub async fn the_owner_of_a_deleted_task_is_fenced(harness: &dyn Harness) {
    let (kit, node, mut claimed) = prepared(harness).await;
    let gone = kit.claim(&node, "gone").await;
    let message = Message::checkpoint().and_force_delete("gone");
    kit.commit(&mut claimed, &message).await;
    assert!(!kit.is_there("gone").await);
    let late = kit.try_commit(&gone, &Message::complete()).await;
    assert!(late.is_err(), "{late:?}");
    assert!(!kit.is_there("gone").await);
}

/// A write on a stale claim changes no other task.
pub async fn a_stale_owner_changes_no_task(harness: &dyn Harness) {
    let (kit, _, claimed) = prepared(harness).await;
    let other = kit.node("n2").await;
    let write = kit.write(&claimed, &Message::release());
    kit.try_write(&claimed, write).await.unwrap();
    let owner = kit.claim(&other, "a").await;
    let before = states(&kit).await;
    kit.assert_fenced(&claimed, &of_every_kind(&kit)).await;
    // A stale owner does not even get the refusals.
    let refused = of_every_kind(&kit).and_delete("unknown");
    kit.assert_fenced(&claimed, &refused).await;
    assert_eq!(states(&kit).await, before);
    assert_eq!(kit.state("a").await, owner.state);
    assert!(!kit.is_there("new").await);
}

/// A repeated write changes no task a second time, even when the tasks have changed since.
pub async fn a_repeated_commit_changes_each_task_once(harness: &dyn Harness) {
    let (kit, node, claimed) = prepared(harness).await;
    let write = kit.write(&claimed, &of_every_kind(&kit));
    kit.try_write(&claimed, write.clone()).await.unwrap();
    let mut over = kit.claim(&node, "over").await;
    kit.commit(&mut over, &Message::complete()).await;
    kit.submit("gone").await;
    kit.delete("new").await;
    let late = kit.events("late").await;
    kit.try_write(&claimed, write).await.unwrap();
    let over = kit.state("over").await;
    assert_eq!((over.code(), over.incarnation), (StateKind::Completed, 1));
    assert!(kit.is_there("gone").await && !kit.is_there("new").await);
    assert_eq!(kit.get("live").await.commands, 1);
    assert_eq!(kit.events("late").await, late);
}
