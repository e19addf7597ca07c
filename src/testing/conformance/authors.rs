//! Authors: who made each change, and the history of the namespace.

use windlass_statemachine::{Author, Command, Message, StateKind, message::SubmitTask};

use super::{
    Capability, Harness,
    capability::need,
    kit::{Kit, command_of, id, task},
    strangers::{elsewhere, export, import},
};
use crate::{
    Client,
    store::{
        AuditAction, ChangeKind, Error, NodeCommand, Operation, Purge, Reschedule, Transaction,
    },
};

fn named(name: &str) -> Author {
    Author::new(name).expect("a legal name")
}

/// Returns a client of the store whose changes are made by this author.
fn client(kit: &Kit, name: &str) -> Client {
    Client::new(&kit.store).on_behalf_of(named(name))
}

/// Returns the changes of a task with their authors, `-` for none; without claims.
async fn authors(kit: &Kit, name: &str) -> Vec<(&'static str, String)> {
    let history = kit.registry().history(&id(name), u32::MAX).await;
    let history = history.expect("a history").into_iter();
    let what = |what: &ChangeKind| match what {
        ChangeKind::Submitted { .. } => Some("submitted"),
        ChangeKind::Commanded { .. } => Some("commanded"),
        ChangeKind::Moved { .. } => Some("moved"),
        ChangeKind::Retried => Some("retried"),
        ChangeKind::Rescheduled { .. } => Some("rescheduled"),
        _ => None,
    };
    let by = |by: Option<Author>| by.map_or_else(|| "-".to_owned(), String::from);
    history
        .filter_map(|change| Some((what(&change.what)?, by(change.by))))
        .collect()
}

/// Returns the authors in the history of the namespace, with their actions.
async fn audit(kit: &Kit) -> Vec<(String, AuditAction)> {
    let lines = kit.registry().audit(100).await.expect("the history");
    let by = |by: Option<Author>| by.map_or_else(|| "-".to_owned(), String::from);
    let lines = lines.into_iter();
    lines.map(|line| (by(line.by), line.what)).collect()
}

fn deleted(name: &str) -> AuditAction {
    AuditAction::Deleted {
        task: id(name),
        kind: "demo".parse().ok(),
    }
}

/// The history of a task names the author of each change by a client, alone and in a transaction. Changes by nodes,
/// and by clients without an author, have none.
pub async fn each_change_names_its_author(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let ann = client(&kit, "ann");
    let submitted = ann.submit(crate::NewTask::from(task("a"))).await;
    submitted.expect("submitted");
    let later = Reschedule::new(id("a")).due(kit.in_an_hour());
    let change = Transaction::new()
        .reschedule(later)
        .submit(task("b").into())
        .by(named("bob"));
    let applied = kit.registry().apply(vec![change]).await.remove(0);
    applied.expect("applied");
    let paused = client(&kit, "cy").command("a", Command::Run).await;
    let paused = paused.expect("sent");
    let record = kit.registry().command(&paused).await.expect("the command");
    assert_eq!(record.by, Some(named("cy")));
    let mut claimed = kit.claim(&node, "b").await;
    kit.commit(&mut claimed, &Message::complete()).await;
    client(&kit, "dan").retry("b").await.expect("retried");
    kit.submit("c").await;
    let found = authors(&kit, "a").await;
    let pairs: Vec<(&str, &str)> = found.iter().map(|(what, by)| (*what, &**by)).collect();
    let expected = [
        ("submitted", "ann"),
        ("rescheduled", "bob"),
        ("commanded", "cy"),
    ];
    assert_eq!(pairs, expected);
    let found = authors(&kit, "b").await;
    let pairs: Vec<(&str, &str)> = found.iter().map(|(what, by)| (*what, &**by)).collect();
    let expected = [("submitted", "bob"), ("moved", "-"), ("retried", "dan")];
    assert_eq!(pairs, expected);
    assert_eq!(authors(&kit, "c").await, [("submitted", "-".to_owned())]);
}

/// Changes by the effects of a message have the message's task as their author.
pub async fn effects_are_by_their_task(harness: &dyn Harness) {
    need(Capability::Effects, harness.takes_effects().then_some(()));
    let (kit, node) = Kit::with_node(harness).await;
    let mut claimed = kit.claimed(&node, "a").await;
    for name in ["b", "c"] {
        kit.submit(name).await;
    }
    let message = Message::complete()
        .and_submit(SubmitTask::from(task("new")))
        .and_send(id("b"), command_of("c1"), Command::Pause)
        .and_delete(id("c"));
    kit.commit(&mut claimed, &message).await;
    let by = "task a".to_owned();
    assert_eq!(authors(&kit, "new").await, [("submitted", by.clone())]);
    let of_b = authors(&kit, "b").await;
    assert_eq!(of_b.last(), Some(&("commanded", by.clone())));
    let command = kit.registry().command(&command_of("c1")).await;
    assert_eq!(command.expect("sent").by, Some(Author::task(&id("a"))));
    assert_eq!(audit(&kit).await, [(by, deleted("c"))]);
    // The own changes of the task have no author: their fence names the claim.
    let own = authors(&kit, "a").await;
    assert_eq!(own.last(), Some(&("moved", "-".to_owned())));
}

/// The history of the namespace has deletions, purges and commands to nodes, in order. A limit selects the last
/// ones.
pub async fn what_leaves_no_task_is_in_the_history_of_the_namespace(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    for name in ["a", "b", "c"] {
        kit.submit(name).await;
    }
    client(&kit, "ann").delete("a").await.expect("deleted");
    let both = Transaction::new()
        .delete(id("b"))
        .submit(task("d").into())
        .by(named("bob"));
    kit.registry()
        .apply(vec![both])
        .await
        .remove(0)
        .expect("applied");
    let mut claimed = kit.claim(&node, "c").await;
    kit.commit(&mut claimed, &Message::complete()).await;
    let states = vec![StateKind::Completed, StateKind::Killed];
    let before = kit.in_an_hour();
    let purge = Purge::new(states.clone(), before).by(named("cy"));
    assert_eq!(kit.registry().purge(&purge).await.expect("purged"), 1);
    assert_eq!(kit.registry().purge(&purge).await.expect("purged"), 0);
    let dan = client(&kit, "dan");
    let sent = dan.command_node(node.node.clone(), NodeCommand::Freeze);
    sent.await.expect("sent");
    let purged = AuditAction::Purged {
        states,
        before,
        tasks: 1,
    };
    let commanded = AuditAction::NodeCommanded {
        node: node.node.clone(),
        send: NodeCommand::Freeze,
    };
    let expected = [
        ("ann".to_owned(), deleted("a")),
        ("bob".to_owned(), deleted("b")),
        ("cy".to_owned(), purged),
        ("dan".to_owned(), commanded),
    ];
    assert_eq!(audit(&kit).await, expected);
    let last = kit.registry().audit(1).await.expect("the history");
    assert_eq!(last[0].by, Some(named("dan")));
    assert_eq!(last.len(), 1);
}

/// A refused transaction leaves no line in any history.
pub async fn a_refused_transaction_leaves_no_line(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    kit.submit("a").await;
    let both = Transaction::new()
        .delete(id("a"))
        .delete(id("missing"))
        .by(named("ann"));
    let alone = Transaction::from(Operation::Delete(id("missing").into())).by(named("ann"));
    let refused = kit.registry().apply(vec![both, alone]).await;
    assert!(refused.iter().all(Result::is_err), "{refused:?}");
    let ann = client(&kit, "ann");
    let none = ann.command_node("nobody", NodeCommand::Drain);
    assert!(matches!(none.await, Err(Error::NotFound { .. })));
    assert_eq!(audit(&kit).await, []);
    assert_eq!(authors(&kit, "a").await, [("submitted", "-".to_owned())]);
}

/// The authors, and the history of the namespace, are still there when the store is opened again.
pub async fn authors_are_durable(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let ann = client(&kit, "ann");
    for name in ["a", "b"] {
        let submitted = ann.submit(crate::NewTask::from(task(name))).await;
        submitted.expect("submitted");
    }
    let sent = ann.command("a", Command::Pause).await.expect("sent");
    ann.delete("b").await.expect("deleted");
    drop(ann);
    let kit = kit.reopened(harness).await;
    let found = authors(&kit, "a").await;
    assert!(found.iter().all(|(_, by)| by == "ann"), "{found:?}");
    assert_eq!(found.len(), 2);
    let record = kit.registry().command(&sent).await.expect("the command");
    assert_eq!(record.by, Some(named("ann")));
    assert_eq!(audit(&kit).await, [("ann".to_owned(), deleted("b"))]);
}

/// A task that is moved into another store keeps the authors of its changes and commands.
pub async fn a_moved_task_has_its_authors(harness: &dyn Harness) {
    let from = elsewhere().await;
    let ann = client(&from, "ann");
    let submitted = ann.submit(crate::NewTask::from(task("a"))).await;
    submitted.expect("submitted");
    let sent = client(&from, "bob").command("a", Command::Pause).await;
    let kit = Kit::new(harness).await;
    import(&kit, export(&from, &[id("a")]).await).await;
    let found = authors(&kit, "a").await;
    let expected = [
        ("submitted", "ann".to_owned()),
        ("commanded", "bob".to_owned()),
    ];
    assert_eq!(found, expected);
    let record = kit.registry().command(&sent.expect("sent")).await;
    assert_eq!(record.expect("the command").by, Some(named("bob")));
}
