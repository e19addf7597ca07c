//! Unreadable records: quarantined with the reason, without affecting other tasks.

use windlass_statemachine::{Command, Message, StateKind};

use super::{
    Capability, Harness,
    capability::need,
    kit::{Kit, assert_matches, fresh, id, same, task, with_data},
};
use crate::store::{ChangeKind, Error, Filter, IfExists, Purge, Submit};

/// Opens a store with two tasks. The state of `bad` cannot be read.
async fn damaged(harness: &dyn Harness) -> Kit {
    let kit = sound(harness).await;
    damage(harness, &kit).await;
    kit
}

/// Opens a store with two tasks. The envelope of `bad` cannot be read.
async fn with_damaged_envelope(harness: &dyn Harness) -> Kit {
    let kit = sound(harness).await;
    let damaged = harness.corrupt_envelope(&kit.store, &id("bad")).await;
    need(Capability::CorruptEnvelope, damaged.then_some(()));
    kit
}

/// Damages the state of `bad`.
async fn damage(harness: &dyn Harness, kit: &Kit) {
    let damaged = harness.corrupt_state(&kit.store, &id("bad")).await;
    need(Capability::CorruptState, damaged.then_some(()));
}

/// Opens a store with two tasks, `bad` and `good`, that both can be read.
async fn sound(harness: &dyn Harness) -> Kit {
    let kit = Kit::new(harness).await;
    let node = kit.node("first").await;
    for name in ["bad", "good"] {
        let mut claimed = kit.claimed(&node, name).await;
        kit.commit(&mut claimed, &with_data(Message::release(), 1))
            .await;
    }
    kit
}

async fn quarantine(kit: &Kit) {
    let node = kit.node("second").await;
    let refused = kit.try_claim(&node, "bad").await;
    assert_matches!(refused, Err(Error::Corrupt { .. }));
}

/// The counts have a quarantined task without a state.
pub async fn counts_include_it(harness: &dyn Harness) {
    let kit = damaged(harness).await;
    quarantine(&kit).await;
    let counts = kit.registry().counts().await.unwrap();
    let (good, bad): (Vec<_>, Vec<_>) = (counts.iter().map(|c| (c.state, c.tasks)))
        .partition(|(state, _)| *state == Some(StateKind::Runnable));
    assert_eq!(good, [(Some(StateKind::Runnable), 1)]);
    // A separate state store fails the task instead.
    assert!(
        bad == [(None, 1)] || bad == [(Some(StateKind::Failed), 1)],
        "{bad:?}"
    );
}

/// The claim of an unreadable task returns the error once; the other tasks of the call are claimed.
pub async fn it_does_not_stop_the_others(harness: &dyn Harness) {
    let kit = damaged(harness).await;
    let node = kit.node("n").await;
    let ids = ["bad", "good"].map(id).to_vec();
    let mut answers = kit.coordinator().claim(&node, ids).await;
    let error = answers.remove(0).unwrap_err();
    assert_matches!(error, Error::Corrupt { .. });
    assert!(!error.is_retryable());
    assert!(error.to_string().contains("bad"), "names the task: {error}");
    let mut good = answers.remove(0).unwrap().expect("the other task");
    kit.commit(&mut good, &Message::complete()).await;
    assert!(kit.try_claim(&node, "bad").await.unwrap().is_none());
    assert_eq!(kit.get("bad").await.node, None);
    let nodes = kit.registry().nodes().await.unwrap();
    let claims: Vec<_> = nodes.iter().map(|n| n.claims).collect();
    assert_eq!(claims, [0, 0], "{nodes:?}");
}

/// An unreadable task is listed with the reason, before and after its quarantine.
pub async fn it_stays_listed_with_the_reason(harness: &dyn Harness) {
    let kit = damaged(harness).await;
    for round in 0..2 {
        let error = kit.get("bad").await.state.unwrap_err();
        assert_matches!(error, Error::Corrupt { .. });
        assert_eq!(
            kit.get("bad").await.task.id,
            id("bad"),
            "the rest is reported"
        );
        assert_eq!(kit.list(Filter::default()).await, ["bad", "good"]);
        if round == 0 {
            quarantine(&kit).await;
        }
    }
    let quarantined = Filter {
        quarantined: true,
        ..Filter::default()
    };
    assert_eq!(kit.list(quarantined.clone()).await, ["bad"]);
    let other_kind = Filter {
        kind: Some("other".parse().unwrap()),
        ..quarantined
    };
    assert_eq!(kit.list(other_kind).await, [""; 0]);
}

/// A watch that has listed the task as readable reports its end when a claim finds it damaged, and
/// later lists omit it.
pub async fn watches_report_a_quarantine(harness: &dyn Harness) {
    let kit = sound(harness).await;
    let (node, other) = (kit.node("n").await, kit.node("other").await);
    let mut watch = kit.watch(&node).await;
    let mut listed = watch.listed().await;
    listed.sort_by(|a, b| a.id.cmp(&b.id));
    let names: Vec<_> = listed.iter().map(|v| v.id.as_str()).collect();
    assert_eq!(names, ["bad", "good"]);
    damage(harness, &kit).await;
    let claimed = kit.try_claim(&other, "bad").await;
    assert_matches!(claimed, Err(Error::Corrupt { .. }));
    watch.gone("bad").await;
    let listed = kit.watch(&other).await.listed().await;
    let names: Vec<_> = listed.iter().map(|v| v.id.as_str()).collect();
    assert_eq!(names, ["good"]);
}

/// A retry starts the task from its props, and its error log has the reason.
pub async fn a_retry_starts_it_from_its_props(harness: &dyn Harness) {
    let kit = damaged(harness).await;
    quarantine(&kit).await;
    let fence = kit.get("bad").await.fence;
    kit.retry("bad").await;
    let state = kit.state("bad").await;
    assert_eq!(state.code(), StateKind::Runnable);
    let kept = &state.errors.last().expect("the reason").error;
    assert!(
        kept.contains("read"),
        "it says that it could not be read: {kept}"
    );
    let node = kit.node("n").await;
    let mut claimed = kit.claim(&node, "bad").await;
    assert!(claimed.claim.fence > fence);
    assert_eq!(claimed.state.data, None);
    kit.checkpoint(&mut claimed, 2).await;
    kit.commit(&mut claimed, &Message::complete()).await;
    let state = kit.state("bad").await;
    assert_eq!(state.code(), StateKind::Completed);
    assert_eq!(state.data.unwrap().as_str(), r#"{"n":2}"#);
}

/// A quarantined task can be deleted; its id is then free.
pub async fn it_can_be_deleted(harness: &dyn Harness) {
    let kit = damaged(harness).await;
    quarantine(&kit).await;
    kit.delete("bad").await;
    assert_eq!(kit.list(Filter::default()).await, ["good"]);
    kit.submit("bad").await;
    let node = kit.node("n").await;
    assert_eq!(kit.claim(&node, "bad").await.state.claims, 1);
}

/// A task whose envelope cannot be read is quarantined like one whose state cannot be read.
pub async fn an_unreadable_envelope_is_quarantined(harness: &dyn Harness) {
    let kit = with_damaged_envelope(harness).await;
    let (node, other) = (kit.node("n").await, kit.node("other").await);
    let mut watch = kit.watch(&other).await;
    let was_listed = watch.listed().await.iter().any(|v| v.id == id("bad"));
    let ids = ["bad", "good"].map(id).to_vec();
    let mut answers = kit.coordinator().claim(&node, ids).await;
    let refused = answers.remove(0);
    if was_listed {
        assert_matches!(refused, Err(Error::Corrupt { .. }));
        watch.gone("bad").await;
    } else {
        // The list of the watch has quarantined it.
        assert!(!matches!(refused, Ok(Some(_))), "{refused:?}");
    }
    let mut good = answers.remove(0).unwrap().expect("the other task");
    kit.commit(&mut good, &Message::complete()).await;
    assert!(kit.try_claim(&node, "bad").await.unwrap().is_none());

    let record = kit.get("bad").await;
    assert_eq!((record.task.id, record.node), (id("bad"), None));
    assert_matches!(record.state.unwrap_err(), Error::Corrupt { .. });
    assert_eq!(kit.list(Filter::default()).await, ["bad", "good"]);
    let quarantined = Filter {
        quarantined: true,
        ..Filter::default()
    };
    assert_eq!(kit.list(quarantined).await, ["bad"]);
    if let Some(transfer) = kit.registry().transfer() {
        assert_eq!(transfer.ids().await.unwrap(), ["bad", "good"].map(id));
    }
    kit.delete("bad").await;
    kit.submit("bad").await;
    assert_eq!(kit.claim(&node, "bad").await.state.claims, 1);
}

/// A retry of a task whose envelope cannot be read is refused and changes nothing: the text stays, so
/// that it can be repaired.
pub async fn a_retry_of_an_unreadable_envelope_is_refused(harness: &dyn Harness) {
    let kit = with_damaged_envelope(harness).await;
    let node = kit.node("n").await;
    let refused = kit.try_claim(&node, "bad").await;
    assert_matches!(refused, Err(Error::Corrupt { .. }));
    let history = kit.history("bad").await;
    let mut refused = kit.registry().retry(vec![id("bad")]).await;
    assert_matches!(refused.remove(0), Err(Error::Corrupt { .. }));
    assert_matches!(kit.get("bad").await.state, Err(Error::Corrupt { .. }));
    assert_eq!(kit.history("bad").await, history);
    assert!(kit.try_claim(&node, "bad").await.unwrap().is_none());
}

/// A retry of a task that a node has claimed is refused, even when its state cannot be read: the node
/// would continue without its claim.
pub async fn a_claimed_task_is_not_retried(harness: &dyn Harness) {
    let kit = sound(harness).await;
    let node = kit.node("n").await;
    let _claimed = kit.claim(&node, "bad").await;
    damage(harness, &kit).await;
    let mut refused = kit.registry().retry(vec![id("bad")]).await;
    assert_matches!(refused.remove(0), Err(Error::Invalid(_)));
    assert_eq!(kit.get("bad").await.node.as_ref(), Some(&node.node));
}

/// A submit of the same task returns the error of the unreadable record, before and after the
/// quarantine: no node runs the task.
pub async fn the_same_submit_reports_it(harness: &dyn Harness) {
    let kit = damaged(harness).await;
    for round in 0..2 {
        let submit = same(task("bad"));
        let refused = kit.try_submit(submit).await;
        let is_reported =
            matches!(&refused, Err(Error::Corrupt { what, .. }) if what.contains("bad"));
        assert!(is_reported, "{refused:?}");
        for if_exists in [IfExists::Refuse, IfExists::ReplaceFinished] {
            let task = task("bad");
            let refused = kit.try_submit(Submit { task, if_exists }).await;
            // A separate state store fails the task instead, so it can be replaced.
            let is_taken = matches!(
                &refused,
                Err(Error::AlreadyExists { .. } | Error::AlreadyFinished { .. })
            );
            assert!(is_taken || (round == 1 && refused.is_ok()), "{refused:?}");
        }
        if round == 0 {
            quarantine(&kit).await;
        }
    }
}

/// A retry of a task whose state cannot be read starts a new incarnation. Version and fence continue
/// from those of the last write, and later writes do not replace earlier history.
pub async fn a_retry_goes_on_counting(harness: &dyn Harness) {
    let kit = sound(harness).await;
    let before = kit.state("bad").await;
    let history = kit.history("bad").await;
    damage(harness, &kit).await;
    quarantine(&kit).await;
    kit.retry("bad").await;
    let state = kit.state("bad").await;
    assert!(
        state.incarnation > before.incarnation,
        "{} after {}",
        state.incarnation,
        before.incarnation
    );
    assert!(
        state.version > before.version,
        "{} after {}",
        state.version,
        before.version
    );
    assert!(
        state.fence >= before.fence,
        "{} after {}",
        state.fence,
        before.fence
    );
    let node = kit.node("n").await;
    for _ in 0..3 {
        let mut claimed = kit.claim(&node, "bad").await;
        kit.commit(&mut claimed, &with_data(Message::release(), 2))
            .await;
    }
    let later = kit.history("bad").await;
    assert_eq!(later[..history.len()], history, "earlier history stays");
}

/// A retry of a quarantined task whose record can be read again continues with that record: with its
/// data, in its incarnation, with the next version.
pub async fn one_that_can_be_read_again_goes_on(harness: &dyn Harness) {
    let kit = sound(harness).await;
    let before = kit.state("bad").await;
    damage(harness, &kit).await;
    quarantine(&kit).await;
    let repaired = harness.repair_state(&kit.store, &id("bad")).await;
    need(Capability::RepairState, repaired.then_some(()));
    kit.retry("bad").await;
    let state = kit.state("bad").await;
    assert_eq!(state.data, before.data);
    assert_eq!(state.incarnation, before.incarnation);
    assert_eq!(state.version, before.version + 1);
    let node = kit.node("n").await;
    kit.claim(&node, "bad").await;
}

/// An ended task stays ended when its state cannot be read: it accepts no command and no claim, its id
/// is free only for a replacement, and a purge deletes it.
pub async fn an_ended_task_stays_ended(harness: &dyn Harness) {
    let kit = sound(harness).await;
    let node = kit.node("n").await;
    let mut claimed = kit.claim(&node, "bad").await;
    kit.commit(&mut claimed, &Message::complete()).await;
    damage(harness, &kit).await;
    assert!(kit.try_claim(&node, "bad").await.unwrap().is_none());
    let refused = kit.try_send("bad", "c", Command::Run).await;
    assert_matches!(refused, Err(Error::AlreadyFinished { .. }));
    let refused = kit.try_submit(fresh(task("bad"))).await;
    assert_matches!(refused, Err(Error::AlreadyFinished { .. }));
    kit.replace("bad").await;
    let mut claimed = kit.claim(&node, "bad").await;
    kit.commit(&mut claimed, &Message::complete()).await;
    damage(harness, &kit).await;
    let purge = Purge::new([StateKind::Completed], kit.in_an_hour());
    assert_eq!(kit.registry().purge(&purge).await.unwrap(), 1);
}

/// Each quarantine of a task is in its history.
pub async fn each_quarantine_is_in_the_history(harness: &dyn Harness) {
    let kit = damaged(harness).await;
    let node = kit.node("n").await;
    for _ in 0..2 {
        let refused = kit.try_claim(&node, "bad").await;
        assert_matches!(refused, Err(Error::Corrupt { .. }));
        kit.retry("bad").await;
        let mut claimed = kit.claim(&node, "bad").await;
        kit.commit(&mut claimed, &with_data(Message::release(), 1))
            .await;
        damage(harness, &kit).await;
    }
    let events = kit.events("bad").await;
    let is_end = |what: &&ChangeKind| match what {
        ChangeKind::Quarantined => true,
        // A separate state store fails the task instead.
        ChangeKind::Moved { to, .. } => *to == StateKind::Failed,
        _ => false,
    };
    assert_eq!(events.iter().filter(is_end).count(), 2, "{events:?}");
}
