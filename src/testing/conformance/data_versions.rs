//! Data versions: a state keeps the version of its data, and watches report it before a claim.

use jiff::SignedDuration;
use windlass_statemachine::{Message, TaskId};

use super::{
    Harness,
    kit::{Kit, id, one, task, with_data},
    strangers::{elsewhere, export, import},
    wait::Watcher,
};
use crate::store::{Claimed, IfExists, Submit, TaskView};

const SECOND: SignedDuration = SignedDuration::from_secs(1);

impl Kit {
    /// Commits a message with data of this version.
    pub(super) async fn commit_version(
        &self,
        claimed: &mut Claimed,
        message: Message,
        version: u32,
    ) {
        let mut write = self.write(claimed, &with_data(message, 1));
        write.state.data_version = version;
        claimed.state = write.state.clone();
        self.try_write(claimed, write).await.expect("a commit");
    }
}

async fn reports(watch: &mut Watcher, text: &str, version: u32) {
    let what = format!("data of version {version}, unclaimed");
    let is_so = |view: &TaskView| view.claimed_by.is_none() && view.data_version == version;
    watch.task(text, &what, is_so).await;
}

/// A record and a claim have the version that was written, also after a write without data.
pub async fn they_survive(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let node = kit.node("n").await;
    let mut claimed = kit.claimed(&node, "a").await;
    assert_eq!(claimed.state.data_version, 1, "a task without data");
    for version in [3, 3, 2, u32::MAX] {
        kit.commit_version(&mut claimed, Message::checkpoint(), version)
            .await;
        assert_eq!(kit.state("a").await.data_version, version);
    }
    kit.commit(&mut claimed, &Message::release()).await;
    assert_eq!(kit.state("a").await.data_version, u32::MAX);
    assert_eq!(kit.claim(&node, "a").await.state.data_version, u32::MAX);
}

/// Watches report the version of each task: an open watch, and one that lists later.
pub async fn watches_report_them(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let (node, other) = (kit.node("n").await, kit.node("other").await);
    let mut watch = kit.watch(&other).await;
    watch.listed().await;
    let mut claimed = kit.claimed(&node, "a").await;
    for (message, version) in [
        (Message::release(), 3),
        (Message::sleep_until(kit.now() - SECOND), 2),
        (Message::release(), 1),
        (Message::pause(), 4),
    ] {
        kit.commit_version(&mut claimed, message.clone(), version)
            .await;
        reports(&mut watch, "a", version).await;
        let listed = kit.watch(&node).await.listed().await;
        assert_eq!(listed[0].data_version, version, "{message:?}");
        if version != 4 {
            claimed = kit.claim(&node, "a").await;
        }
    }
    kit.submit("plain").await;
    reports(&mut watch, "plain", 1).await;
}

/// A version that a checkpoint wrote is reported even when the claim ends without another write,
/// with the lease of the node.
pub async fn a_lost_claim_leaves_them(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let (node, other) = (kit.node("n").await, kit.node("other").await);
    let mut claimed = kit.claimed(&node, "a").await;
    kit.commit_version(&mut claimed, Message::checkpoint(), 3)
        .await;
    kit.coordinator().leave(&node).await.expect("left");
    let mut watch = kit.watch(&other).await;
    reports(&mut watch, "a", 3).await;
    assert_eq!(kit.claim(&other, "a").await.state.data_version, 3);
}

/// A task that has ended keeps its data and the version, and a retry returns both.
pub async fn a_retry_keeps_them(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let (node, other) = (kit.node("n").await, kit.node("other").await);
    let mut claimed = kit.claimed(&node, "a").await;
    kit.commit_version(&mut claimed, Message::kill(), 3).await;
    let mut watch = kit.watch(&other).await;
    watch.listed().await;
    one(kit.registry().retry(vec![id("a")]).await).expect("retried");
    reports(&mut watch, "a", 3).await;
    let state = kit.claim(&node, "a").await.state;
    assert!(state.data.is_some());
    assert_eq!(state.data_version, 3);
}

/// A task that replaces an ended one has no data, and version 1.
pub async fn a_replacement_begins_with_the_first(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let (node, other) = (kit.node("n").await, kit.node("other").await);
    let mut claimed = kit.claimed(&node, "a").await;
    kit.commit_version(&mut claimed, Message::kill(), 3).await;
    let mut watch = kit.watch(&other).await;
    watch.listed().await;
    let replacement = Submit {
        task: task("a"),
        if_exists: IfExists::ReplaceFinished,
    };
    one(kit.registry().submit(vec![replacement]).await).expect("a new task");
    reports(&mut watch, "a", 1).await;
    assert_eq!(kit.claim(&node, "a").await.state.data_version, 1);
}

/// A task keeps its data version when it is moved to another store and back.
pub async fn a_move_keeps_them(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let from = elsewhere().await;
    let node = from.node("n").await;
    for (name, message) in [("released", Message::release()), ("ended", Message::kill())] {
        let mut claimed = from.claimed(&node, name).await;
        from.commit_version(&mut claimed, message, 3).await;
    }
    from.coordinator().leave(&node).await.expect("left");
    let ids: Vec<TaskId> = from.transfer().ids().await.expect("the ids");
    import(&kit, export(&from, &ids).await).await;
    let here = kit.node("here").await;
    let mut watch = kit.watch(&here).await;
    reports(&mut watch, "released", 3).await;
    one(kit.registry().retry(vec![id("ended")]).await).expect("retried");
    reports(&mut watch, "ended", 3).await;
    let back = export(&kit, &ids).await;
    assert!(back.iter().all(|task| task.state.data_version == 3));
}
