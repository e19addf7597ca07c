//! Imports that replace a task: the store has either the whole old task or the whole new one.
//!
//! Beyond the duties: `a_copy_that_is_refused_leaves_the_target`.

use windlass_statemachine::{Command, Message, Outcome, StateKind};

use super::{
    Harness,
    kit::{Kit, assert_matches, command_of, field, id, one, settle, with_data},
    strangers::{elsewhere, export, import, stranger},
};
use crate::store::{Error, Exported, copy::Copier};

/// A copy that replaces tasks leaves a task of the target unchanged when its import is refused.
pub async fn a_copy_that_is_refused_leaves_the_target(harness: &dyn Harness) {
    let (kit, from) = (Kit::new(harness).await, elsewhere().await);
    for (name, command) in [("a", "taken"), ("b", "free")] {
        from.submit(name).await;
        from.send(name, command, Command::Pause).await;
    }
    let node = kit.node("n").await;
    for name in ["a", "b"] {
        kit.ended(&node, name, &with_data(Message::complete(), 1))
            .await;
    }
    kit.coordinator().leave(&node).await.expect("left");
    kit.submit("other").await;
    kit.send("other", "taken", Command::Pause).await;
    let before = export(&kit, &[id("a")]).await;
    let copy = Copier::new(&from.store, &kit.store).replace(true);
    let report = copy.run(|_| ()).await.expect("a report");
    assert_eq!(report.left.len(), 1, "{report:?}");
    assert_eq!((report.copied, report.replaced), (1, 1), "{report:?}");
    assert_eq!(before, export(&kit, &[id("a")]).await);
    assert_eq!(kit.state("b").await.code(), StateKind::Runnable);
}

/// Exports a task.
async fn whole(kit: &Kit, name: &str) -> Exported {
    export(kit, &[id(name)]).await.remove(0)
}

/// Makes a released task with settled and waiting commands and a long history.
async fn busy(kit: &Kit, prefix: &str, data: u64) {
    let node = kit.node(&format!("{prefix}node")).await;
    let mut claimed = kit.claimed(&node, "a").await;
    for n in 0..70 {
        kit.checkpoint(&mut claimed, n).await;
    }
    for n in 0..10 {
        let order = kit
            .send("a", &format!("{prefix}{n}"), Command::Checkpoint)
            .await;
        let mut write = kit.write(&claimed, &with_data(Message::checkpoint(), data));
        let (from, to) = (StateKind::Runnable, StateKind::Runnable);
        settle(&mut write, order, Outcome::Applied { from, to });
        claimed.state = write.state.clone();
        kit.try_write(&claimed, write).await.expect("settled");
    }
    kit.commit(&mut claimed, &Message::pause()).await;
    for n in 0..10 {
        kit.send("a", &format!("{prefix}waits-{n}"), Command::Run)
            .await;
    }
    kit.coordinator().leave(&node).await.expect("left");
}

/// An imported task that replaces another one has all of its own data and nothing of the other one.
pub async fn an_import_takes_the_place_of_the_task_it_names(harness: &dyn Harness) {
    let (kit, from) = (Kit::new(harness).await, elsewhere().await);
    busy(&from, "new-", 2).await;
    busy(&kit, "old-", 1).await;
    kit.submit("b").await;
    let sent = whole(&from, "a").await;
    let before = whole(&kit, "a").await;
    let mut replacing = sent.clone();
    replacing.replaces = Some(before.order);
    import(&kit, vec![replacing]).await;
    let came = whole(&kit, "a").await;
    assert_eq!(sent.difference(&came), None);
    assert!(came.order > kit.get("b").await.order, "it goes to the end");
    assert!(came.history.iter().all(|change| change.seq >= came.order));
    assert!(came.history.len() >= 60, "{}", came.history.len());
    for gone in ["old-0", "old-waits-0"] {
        let none = kit.registry().command(&command_of(gone)).await;
        assert_matches!(none, Err(Error::NotFound { .. }));
    }
    kit.send("b", "old-1", Command::Pause).await;
    let node = kit.node("here").await;
    let claimed = kit.claim(&node, "a").await;
    assert!(claimed.claim.fence > sent.fence.max(before.fence));
    assert_eq!(claimed.commands.len(), 10);
    assert_eq!(claimed.state.data.unwrap().as_str(), r#"{"n":2}"#);

    // A live task replaces an ended one, and the reverse.
    kit.coordinator().leave(&node).await.expect("left");
    let node = kit.node("again").await;
    kit.ended(&node, "over", &with_data(Message::complete(), 1))
        .await;
    let mut live = stranger("over", |_| ()).await;
    live.replaces = Some(kit.get("over").await.order);
    import(&kit, vec![live]).await;
    assert_eq!(kit.state("over").await.code(), StateKind::Runnable);
    let ends = |e: &mut Exported| {
        e.state.status = windlass_statemachine::TaskStatus::Killed;
        (e.state.version, e.state.claims) = (2, 1);
    };
    let mut ended = stranger("over", ends).await;
    ended.replaces = Some(kit.get("over").await.order);
    import(&kit, vec![ended]).await;
    assert_eq!(kit.state("over").await.code(), StateKind::Killed);
    assert!(kit.try_claim(&node, "over").await.unwrap().is_none());
}

/// A refused import leaves the task that it was to replace unchanged.
pub async fn a_refused_import_leaves_the_old_task(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    busy(&kit, "old-", 1).await;
    kit.submit("other").await;
    kit.send("other", "taken", Command::Pause).await;
    let before = whole(&kit, "a").await;
    let limit = kit.registry().limits().max_bytes;
    let large = |e: &mut Exported| {
        e.state.data = Some(serde_json::Value::from("x".repeat(limit)).into());
        (e.state.version, e.state.claims) = (2, 1);
    };
    let mut large = stranger("a", large).await;
    large.replaces = Some(before.order);
    let from = elsewhere().await;
    from.submit("a").await;
    from.send("a", "free", Command::Pause).await;
    from.send("a", "taken", Command::Pause).await;
    let mut known = whole(&from, "a").await;
    known.replaces = Some(before.order);
    let mut another = stranger("a", |_| ()).await;
    another.replaces = Some(before.order + 1);
    let unnamed = stranger("a", |_| ()).await;
    for (refused, field_of) in [(large, "data"), (known, "command id")] {
        let answer = one(kit.transfer().import(vec![refused]).await);
        assert_eq!(field(&answer.unwrap_err()), field_of);
        assert_eq!(whole(&kit, "a").await, before);
    }
    for refused in [another, unnamed.clone()] {
        let answer = one(kit.transfer().import(vec![refused]).await);
        let exists = matches!(answer, Err(Error::AlreadyExists { .. }));
        assert!(exists, "{answer:?}");
        assert_eq!(whole(&kit, "a").await, before);
    }

    let node = kit.node("owner").await;
    let mut claimed = kit.claim(&node, "a").await;
    let mut refused = unnamed;
    refused.replaces = Some(before.order);
    let answer = one(kit.transfer().import(vec![refused]).await);
    assert_eq!(field(&answer.unwrap_err()), "task");
    // The owner of the old task can write.
    kit.commit(&mut claimed, &Message::complete()).await;
    assert_eq!(kit.get("a").await.order, before.order);
}
