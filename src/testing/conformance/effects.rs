//! Effects: tasks and commands that are applied together with a transition, or not at all.

use windlass_statemachine::{Command, CommandId, Message, StateKind, message::SubmitTask};

use super::{
    Capability, Harness,
    capability::need,
    kit::{Kit, command_of, field, id, task},
};
use crate::store::{Claimed, Error, IfExists, Reason};

fn pause(message: Message, to: &str, command: &str) -> Message {
    message.and_send(id(to), command_of(command), Command::Pause)
}

/// Returns a store that applies effects, a claimed task `a`, and a live task `b`.
async fn prepared(harness: &dyn Harness) -> (Kit, Claimed) {
    need(Capability::Effects, harness.takes_effects().then_some(()));
    let (kit, node) = Kit::with_node(harness).await;
    let claimed = kit.claimed(&node, "a").await;
    kit.submit("b").await;
    (kit, claimed)
}

impl Kit {
    /// Returns the place and the reason of each effect that is refused.
    pub(super) async fn refused_effects(
        &self,
        claimed: &Claimed,
        message: &Message,
    ) -> Vec<(String, Reason)> {
        match self.try_commit(claimed, message).await {
            Err(Error::Refused(refusals)) => refusals
                .iter()
                .map(|one| (one.part.to_string(), one.reason.clone()))
                .collect(),
            other => panic!("{message:?} is not refused: {other:?}"),
        }
    }
}

async fn assert_nothing_happened(kit: &Kit, claimed: &Claimed) {
    assert_eq!(kit.state("a").await, claimed.state);
    assert_eq!(kit.list(Default::default()).await, ["a", "b"]);
    assert_eq!(kit.get("b").await.commands, 0);
}

/// A store without effects refuses them before it writes anything, and names the field.
pub async fn effects_are_taken_or_refused(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut claimed = kit.claimed(&node, "a").await;
    let message = Message::checkpoint().and_submit(task("new"));
    let answer = kit.try_commit(&claimed, &message).await;
    if harness.takes_effects() {
        answer.unwrap();
        assert_eq!(kit.state("new").await.code(), StateKind::Runnable);
        return;
    }
    let error = answer.unwrap_err();
    assert_eq!(field(&error), "effects");
    assert_eq!(kit.state("a").await, claimed.state);
    assert_eq!(kit.list(Default::default()).await, ["a"]);
    kit.commit(&mut claimed, &Message::complete()).await;
}

/// Tasks are submitted and commands sent in the same step as the transition. An existing task is skipped
/// if its if-exists rule allows that.
pub async fn effects_come_with_the_transition(harness: &dyn Harness) {
    let (kit, mut claimed) = prepared(harness).await;
    let mut later = task("later");
    later.start_at = Some(kit.in_an_hour());
    let mut skipped = SubmitTask::from(task("b"));
    skipped.if_exists = IfExists::Skip;
    let message = Message::complete()
        .and_submit(task("new"))
        .and_submit(later.clone())
        .and_submit(skipped)
        .and_send(id("b"), command_of("c1"), Command::Pause)
        .and_send(id("b"), command_of("c2"), Command::Kill);
    kit.commit(&mut claimed, &message).await;
    assert_eq!(kit.state("a").await.code(), StateKind::Completed);
    assert_eq!(kit.state("new").await.code(), StateKind::Runnable);
    let record = kit.get("later").await;
    assert_eq!(record.task, later);
    assert_eq!(record.state.unwrap().code(), StateKind::Sleeping);
    let sent = kit.registry().commands(&id("b")).await.unwrap();
    let sent: Vec<CommandId> = sent.into_iter().map(|c| c.id).collect();
    assert_eq!(sent, ["c1", "c2"].map(command_of));
}

/// A message can submit a task and command it, and can command its own task.
pub async fn a_new_task_can_be_commanded_at_once(harness: &dyn Harness) {
    let (kit, mut claimed) = prepared(harness).await;
    let message = Message::checkpoint().and_submit(task("new"));
    let message = pause(pause(message, "new", "c1"), "a", "c2");
    kit.commit(&mut claimed, &message).await;
    assert_eq!(kit.get("new").await.commands, 1);
    assert_eq!(kit.get("a").await.commands, 1);
}

/// A refused effect refuses the transition and every other effect; the claim stays.
pub async fn a_refused_effect_refuses_all(harness: &dyn Harness) {
    let (kit, mut claimed) = prepared(harness).await;
    let base = || pause(Message::complete(), "b", "first").and_submit(task("new"));
    let exists = base().and_submit(task("b"));
    let twice = base().and_submit(task("new"));
    let unknown = pause(base(), "nothing", "c");
    let ended = pause(base(), "a", "c");
    let mut bad = task("bad");
    bad.labels.insert(String::new(), String::new());
    let invalid = base().and_submit(bad);
    let other = pause(pause(base(), "b", "c"), "new", "c");
    for (message, is_right) in [
        (
            exists,
            (|reason| *reason == Reason::exists()) as fn(&Reason) -> bool,
        ),
        (twice, |reason| *reason == Reason::exists()),
        (unknown, |reason| *reason == Reason::Missing),
        (ended, |reason| *reason == Reason::finished()),
        (invalid, |reason| matches!(reason, Reason::Invalid(_))),
        (other, |reason| matches!(reason, Reason::Invalid(_))),
    ] {
        let refused = kit.refused_effects(&claimed, &message).await;
        assert!(refused.len() == 1 && is_right(&refused[0].1), "{refused:?}");
        assert_nothing_happened(&kit, &claimed).await;
    }
    kit.commit(&mut claimed, &Message::complete()).await;
}

/// A write on a stale claim has no effects.
pub async fn a_stale_owner_has_no_effects(harness: &dyn Harness) {
    let (kit, claimed) = prepared(harness).await;
    let node = kit.node("n2").await;
    let write = kit.write(&claimed, &Message::release());
    kit.try_write(&claimed, write).await.unwrap();
    let owner = kit.claim(&node, "a").await;
    let message = pause(Message::complete(), "b", "c").and_submit(task("new"));
    kit.assert_fenced(&claimed, &message).await;
    assert_nothing_happened(&kit, &owner).await;
}

/// A repeated write does not repeat its effects.
pub async fn a_repeated_commit_has_its_effects_once(harness: &dyn Harness) {
    let (kit, claimed) = prepared(harness).await;
    let message = pause(Message::complete(), "b", "c").and_submit(task("new"));
    let write = kit.write(&claimed, &message);
    kit.try_write(&claimed, write.clone()).await.unwrap();
    let order = kit.get("new").await.order;
    kit.try_write(&claimed, write).await.unwrap();
    assert_eq!(kit.get("new").await.order, order);
    assert_eq!(kit.get("b").await.commands, 1);
}
