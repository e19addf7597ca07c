//! Copies into another store: the history of waiting tasks, and the mark that a copy leaves.

use windlass_statemachine::{Command, Message, StateKind, TaskId, Waits};

use super::{
    Harness,
    kit::{Kit, id, task},
    strangers::{elsewhere, export, import},
};
use crate::store::{
    ChangeKind, Error, IfExists, NodeCommand, NodeSpec, Submit,
    copy::{Copied, Copier},
};

/// Submits a task that waits, one that has waited and ended, and the tasks that they wait for.
async fn fill_with_waits(kit: &Kit) -> Vec<TaskId> {
    let node = kit.node("n").await;
    kit.submit("open").await;
    kit.ended(&node, "done", &Message::complete()).await;
    for (name, after) in [("waits", "open"), ("waited", "done")] {
        let mut waiting = task(name);
        waiting.waits = Some(Box::new(Waits::new("after", [after]).unwrap()));
        kit.submit_task(waiting).await;
    }
    let mut waited = kit.claim(&node, "waited").await;
    kit.end_by(&mut waited, &Message::complete()).await;
    kit.coordinator().leave(&node).await.expect("left");
    kit.transfer().ids().await.expect("the ids")
}

async fn keep_their_history(from: &Kit, to: &Kit) {
    let ids = fill_with_waits(from).await;
    let sent = export(from, &ids).await;
    import(to, sent.clone()).await;
    let came = export(to, &ids).await;
    for (sent, came) in sent.iter().zip(&came) {
        let id = &sent.task.id;
        assert!(
            came.has_history_of(sent),
            "{id}: {:#?} became {:#?}",
            sent.history,
            came.history
        );
    }
    for (name, state) in [
        ("open", StateKind::Runnable),
        ("waits", StateKind::Sleeping),
        ("waited", StateKind::Sleeping),
    ] {
        for kit in [from, to] {
            let first = kit.events(name).await.remove(0);
            assert_eq!(first, ChangeKind::Submitted { state }, "{name}");
        }
    }
}

/// An import from another store keeps the history of tasks that wait, or waited, for others.
pub async fn a_waiting_task_from_another_store_keeps_its_history(harness: &dyn Harness) {
    keep_their_history(&elsewhere().await, &Kit::new(harness).await).await;
}

/// An import into another store keeps it too.
pub async fn a_waiting_task_for_another_store_keeps_its_history(harness: &dyn Harness) {
    keep_their_history(&Kit::new(harness).await, &elsewhere().await).await;
}

/// A copied store refuses submits, commands, retries, imports and nodes until the mark is removed. Reads,
/// exports and deletes still work.
pub async fn a_copied_store_takes_no_tasks_and_no_nodes(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    kit.submit("a").await;
    kit.submit("b").await;
    let source = kit.transfer();
    assert_eq!(source.copied().await.unwrap(), None);
    kit.node("drained").await;
    let at = jiff::Timestamp::from_second(2_000_000_000).unwrap();
    let mark = Copied::new("sqlite:/it's.db", at);
    source.set_copied(Some(mark.clone())).await.unwrap();
    assert_eq!(source.copied().await.unwrap().as_ref(), Some(&mark));
    let refused = |what: &str, result: Result<(), Error>| match result {
        Err(Error::Copied(found)) => assert_eq!(found, mark, "{what}"),
        other => panic!("{what}: {other:?}"),
    };
    let submit = || Submit {
        task: task("c"),
        if_exists: IfExists::Refuse,
    };
    refused("submit", kit.try_submit(submit()).await.map(drop));
    let sent = kit.try_send("a", "kill", Command::Kill).await;
    refused("command", sent.map(drop));
    let spec = NodeSpec::new("n".parse().unwrap());
    let ttl = std::time::Duration::from_secs(60);
    refused("node", kit.coordinator().join(&spec, ttl).await.map(drop));
    // A node that has stayed.
    let to_node = async |command| {
        let registry = kit.registry();
        let drained = "drained".parse().unwrap();
        let sent = registry.send_node(&drained, command, None);
        sent.await.map(drop)
    };
    refused("unfreeze", to_node(NodeCommand::Unfreeze).await);
    to_node(NodeCommand::Drain).await.unwrap();
    let may_join = kit.registry().no_node_may_join().await.unwrap();
    refused(
        "the question whether nodes may join",
        may_join.map_or(Ok(()), Err),
    );
    let from = elsewhere().await;
    from.submit("d").await;
    let sent = export(&from, &[id("d")]).await;
    let mut imported = source.import(sent.clone()).await;
    refused("import", imported.remove(0));
    assert_eq!(kit.list(Default::default()).await, ["a", "b"]);
    assert_eq!(export(&kit, &[id("a")]).await.len(), 1);
    kit.delete("b").await;
    source.set_copied(None).await.unwrap();
    assert_eq!(source.copied().await.unwrap(), None);
    kit.try_submit(submit()).await.unwrap();
    import(&kit, sent).await;
    let may_join = kit.registry().no_node_may_join().await.unwrap();
    assert!(may_join.is_none(), "{may_join:?}");
    let node = kit.node("n").await;
    kit.claim(&node, "a").await;
}

/// A command that is sent after the comparison and before the mark is in neither store otherwise: the copy reports the task and
/// leaves no mark. The next copy has it.
pub async fn what_changes_before_the_mark_is_reported(harness: &dyn Harness) {
    let (kit, to) = (Kit::new(harness).await, elsewhere().await);
    for name in ["a", "b"] {
        kit.submit(name).await;
    }
    let copier = Copier::new(&kit.store, &to.store).replace(true);
    for (sent, whole) in [(true, false), (false, true)] {
        let mut report = copier.run(|_| ()).await.expect("copied");
        copier.verify(&mut report, |_| ()).await.expect("compared");
        assert!(report.is_whole(), "{report:?}");
        if sent {
            kit.send("a", "late", Command::Pause).await;
        }
        copier
            .finish(&mut report, "elsewhere")
            .await
            .expect("finished");
        assert_eq!(report.is_whole(), whole, "{report:?}");
        let named = report.wrong.iter().map(|one| one.id.as_str());
        assert_eq!(
            named.collect::<Vec<_>>(),
            if sent { vec!["a"] } else { Vec::new() }
        );
        let mark = kit.transfer().copied().await.expect("the mark");
        assert_eq!(mark.is_some(), whole);
    }
    assert_eq!(to.get("a").await.commands, 1);
}
