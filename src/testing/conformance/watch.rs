//! The watch of a node: a list, then every change, until the lease has ended.

use std::time::Duration;

use windlass_statemachine::{Command, Message, Outcome, Signal, StateKind};

use super::{
    Harness,
    kit::{Kit, assert_matches, command_of, id, sending, settle, task, with_data},
    wait::Watcher,
};
use crate::store::{Error, Event, NodeCommand, TaskView};

fn names(views: &[TaskView]) -> Vec<&str> {
    let mut names: Vec<_> = views.iter().map(|v| v.id.as_str()).collect();
    names.sort_unstable();
    names
}

/// A watch begins with every live task, and reports the end of the list.
pub async fn a_watch_begins_with_live_tasks(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let (node, other) = (kit.node("n").await, kit.node("other").await);
    assert!(kit.watch(&node).await.listed().await.is_empty());

    let mut full = task("full");
    full.priority = 9;
    full.labels.insert("team".into(), "a".into());
    let start = kit.in_an_hour();
    full.start_at = Some(start);
    kit.submit_task(full.clone()).await;
    kit.submit("plain").await;
    kit.claimed(&other, "claimed").await;
    kit.submit("commanded").await;
    kit.send("commanded", "c", Command::Pause).await;
    let mut paused = kit.claimed(&node, "paused").await;
    kit.commit(&mut paused, &Message::pause()).await;
    kit.ended(&node, "done", &Message::complete()).await;

    let views = kit.watch(&node).await.listed().await;
    assert_eq!(
        names(&views),
        ["claimed", "commanded", "full", "paused", "plain"]
    );
    for view in views {
        let record = kit.get(view.id.as_str()).await;
        let name = view.id.as_str();
        let expected = TaskView {
            id: record.task.id.clone(),
            kind: record.task.kind.clone(),
            labels: (name == "full").then(|| full.labels.clone().into()),
            data_version: 1,
            priority: record.task.priority,
            order: record.order,
            due: view.due,
            deadline: None,
            sleeping: record.state.as_ref().unwrap().code() == StateKind::Sleeping,
            claimed_by: (name == "claimed").then_some(other.id),
            commanded: name == "commanded",
            fair_key: None,
        };
        assert_eq!(view, expected);
        // The index of a store may keep due times less precisely.
        let due = record.state.unwrap().due();
        let apart = due.zip(view.due).map(|(a, b)| a.duration_since(b).abs());
        let as_good_as_same = apart.is_some_and(|d| d < jiff::SignedDuration::from_millis(1));
        assert!(
            as_good_as_same || due == view.due,
            "{due:?} is reported as {view:?}"
        );
        if name == "full" {
            assert_eq!((view.due, view.priority), (Some(start), 9));
        }
    }
}

/// Only tasks of the watched kinds are reported.
pub async fn only_watched_kinds_are_reported(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let kinds = Some(vec!["mine".parse().unwrap(), "also".parse().unwrap()]);
    let of = |name: &str, kind: &str| {
        let mut of_kind = task(name);
        of_kind.kind = kind.parse().unwrap();
        of_kind
    };
    kit.submit_task(of("a", "mine")).await;
    kit.submit_task(of("b", "min")).await;
    let watch = kit.coordinator().watch(&node, kinds).await.unwrap();
    let mut watch = Watcher::new(watch);
    assert_eq!(names(&watch.listed().await), ["a"]);
    kit.submit_task(of("c", "mine2")).await;
    kit.submit_task(of("d", "also")).await;
    watch
        .until("the last task", |event| {
            let Event::Task(view) = event else {
                return None;
            };
            assert_ne!(view.id, id("c"), "is of another kind");
            (view.id == id("d")).then_some(())
        })
        .await;
}

/// A new task is reported.
pub async fn new_tasks_are_reported(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut watch = kit.watch(&node).await;
    watch.listed().await;
    kit.submit("a").await;
    let view = watch.task("a", "a new task", |_| true).await;
    assert_eq!((view.claimed_by, view.commanded), (None, false));
    assert!(view.due.is_some_and(|due| due <= kit.now()));
}

/// Claims, transitions and releases are reported to the owner and to other nodes.
pub async fn claims_and_transitions_are_reported(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let (node, other) = (kit.node("n").await, kit.node("other").await);
    let mut watches = [kit.watch(&node).await, kit.watch(&other).await];
    for watch in &mut watches {
        watch.listed().await;
    }
    kit.submit("a").await;
    let mut claimed = kit.claim(&node, "a").await;
    let is_claimed = |v: &TaskView| v.claimed_by == Some(node.id);
    watches[1].task("a", "another's claim", is_claimed).await;
    let until = kit.in_an_hour();
    kit.commit(&mut claimed, &Message::sleep_until(until)).await;
    for watch in &mut watches {
        let sleeps = |v: &TaskView| v.due == Some(until) && v.claimed_by.is_none();
        watch.task("a", "a sleep", sleeps).await;
    }
    kit.send("a", "c", Command::Pause).await;
    let mut claimed = kit.claim(&other, "a").await;
    kit.commit(&mut claimed, &Message::pause()).await;
    for watch in &mut watches {
        let paused = |v: &TaskView| v.due.is_none() && v.claimed_by.is_none();
        watch.task("a", "a pause", paused).await;
    }
}

/// A command to an unclaimed task is reported to every node; one to a claimed task is reported to its
/// owner, with its content.
pub async fn commands_are_reported(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let (node, other) = (kit.node("n").await, kit.node("other").await);
    let mut watch = kit.watch(&node).await;
    let mut others = kit.watch(&other).await;
    watch.listed().await;
    others.listed().await;
    kit.submit("a").await;
    kit.send("a", "c1", Command::Pause).await;
    for watch in [&mut watch, &mut others] {
        watch.task("a", "a command", |v| v.commanded).await;
    }
    let claimed = kit.claim(&node, "a").await;
    let order = kit.send("a", "c2", Command::Kill).await;
    let mut reported = watch.commands("a").await;
    while reported.iter().all(|command| command.order != order) {
        reported = watch.commands("a").await;
    }
    let last = reported.pop().expect("a command");
    assert_eq!((last.command, last.id), (Command::Kill, command_of("c2")));
    // The next event of the other node is the end of the task, without a command before it.
    kit.try_commit(&claimed, &Message::complete())
        .await
        .unwrap();
    others
        .until("the end", |event| {
            assert!(!matches!(event, Event::Commands { .. }), "{event:?}");
            matches!(event, Event::Gone { id: task, .. } if *task == id("a")).then_some(())
        })
        .await;
}

/// The release of a task while signals or commands wait for it is reported, to the owner too, as a task that can be
/// claimed for them.
pub async fn a_release_reports_what_still_waits(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let (node, other) = (kit.node("n").await, kit.node("other").await);
    let mut watches = [kit.watch(&node).await, kit.watch(&other).await];
    for watch in &mut watches {
        watch.listed().await;
    }
    kit.submit("a").await;
    let signal = |name: &str| Command::Signal(Signal::new(name));
    // The queue is read with the claim, then it grows.
    for (round, later) in [signal("later"), Command::Run].into_iter().enumerate() {
        kit.send("a", &format!("first {round}"), signal("first"))
            .await;
        let claimed = kit.claim(&node, "a").await;
        watches[1]
            .task("a", "a claim", |v| v.claimed_by == Some(node.id))
            .await;
        kit.send("a", &format!("later {round}"), later).await;
        let order = claimed.commands[0].order;
        let mut write = kit.write(&claimed, &Message::release());
        settle(&mut write, order, Outcome::Unanswered);
        kit.try_write(&claimed, write).await.unwrap();
        for watch in &mut watches {
            let free = |v: &TaskView| v.claimed_by.is_none() && v.commanded && v.due.is_some();
            watch.task("a", "a release", free).await;
        }
    }
}

/// A new watch of the owner reports the queued commands of a claimed task.
pub async fn a_new_watch_reports_waiting_commands(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.claimed(&node, "a").await;
    let order = kit.send("a", "c", Command::Pause).await;
    let mut watch = kit.watch(&node).await;
    let reported = watch.commands("a").await.into_iter();
    assert_eq!(reported.map(|c| c.order).collect::<Vec<_>>(), [order]);
}

/// Many changes may be merged into fewer events, but the last state of each task is reported.
pub async fn the_last_state_is_reported(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let (node, other) = (kit.node("n").await, kit.node("other").await);
    let mut watch = kit.watch(&other).await;
    watch.listed().await;
    let names = ["a", "b", "c", "d", "e"];
    for name in names {
        kit.submit(name).await;
        watch.task(name, "a new task", |_| true).await;
    }
    let until = kit.in_an_hour();
    for round in 0..20 {
        for name in names {
            let mut claimed = kit.claim(&node, name).await;
            let last = round == 19;
            let message = if last {
                Message::sleep_until(until)
            } else {
                with_data(Message::release(), round)
            };
            kit.commit(&mut claimed, &message).await;
        }
    }
    // A list shows the same.
    let views = kit.watch(&other).await.listed().await;
    assert!(views.iter().all(|v| v.due == Some(until)), "{views:?}");
    let is_last = |v: &TaskView| v.due == Some(until) && v.claimed_by.is_none();
    let mut open = names.to_vec();
    watch
        .until("the last state of each", |event| {
            if let Event::Task(view) = event {
                open.retain(|name| *name != view.id.as_str() || !is_last(view));
            }
            open.is_empty().then_some(())
        })
        .await;
    // No older state comes after it.
    for event in watch.rest(Duration::from_millis(300)).await {
        let is_stale = matches!(&event, Event::Task(view) if !is_last(view));
        assert!(!is_stale, "{event:?} came last");
    }
}

/// Node commands are reported when they are sent, and queued ones when the watch begins.
pub async fn node_commands_are_reported(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let (node, other) = (kit.node("n").await, kit.node("other").await);
    let first = kit.send_node(&node.node, NodeCommand::Freeze).await;
    let mut watch = kit.watch(&node).await;
    let mut others = kit.watch(&other).await;
    let reported = watch.node_command().await;
    assert_eq!(
        (reported.id, reported.command),
        (first, NodeCommand::Freeze)
    );
    let stop = NodeCommand::StopTask { task: id("a") };
    let second = kit.send_node(&node.node, stop.clone()).await;
    assert!(second > first);
    let mut reported = watch.node_command().await;
    while reported.id == first {
        reported = watch.node_command().await;
    }
    assert_eq!((reported.id, reported.command), (second, stop));
    // The other node receives only its own commands.
    let own = kit.send_node(&other.node, NodeCommand::Balance).await;
    assert_eq!(others.node_command().await.id, own);
}

/// An answered node command is not reported again.
pub async fn an_answered_node_command_is_gone(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let answered = kit.send_node(&node.node, NodeCommand::Freeze).await;
    let acknowledged = kit.coordinator().acknowledge(&node, answered, "frozen");
    acknowledged.await.unwrap();
    let waiting = kit.send_node(&node.node, NodeCommand::Drain).await;
    let mut watch = kit.watch(&node).await;
    assert_eq!(watch.node_command().await.id, waiting);
}

/// The stream ends with the lease, and an ended lease cannot watch.
pub async fn a_watch_ends_with_the_lease(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut watch = kit.watch(&node).await;
    watch.listed().await;
    kit.coordinator().leave(&node).await.unwrap();
    while let Some(event) = watch.next().await {
        assert!(!matches!(event, Event::Reset), "{event:?}");
    }
    let refused = kit.coordinator().watch(&node, None).await.err();
    assert_matches!(refused, Some(Error::Fenced(_)));
}

/// A long list is complete, and changes during the list are not missed.
pub async fn a_long_list_is_whole(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let tasks = (0..2500).map(|n| super::kit::fresh(task(&format!("t{n}"))));
    for answer in kit.registry().submit(tasks.collect()).await {
        answer.unwrap();
    }
    let sends = (0..10).map(|n| sending(&format!("t{n}"), &format!("c{n}"), Command::Pause));
    let mut watch = kit.watch(&node).await;
    for answer in kit.registry().send(sends.collect()).await {
        answer.unwrap();
    }
    kit.submit("late").await;
    let mut seen = std::collections::HashMap::new();
    watch
        .until("every task as it is now", |event| {
            if let Event::Task(view) = event {
                seen.insert(view.id.clone(), view.commanded);
            }
            let commanded = seen.values().filter(|commanded| **commanded).count();
            (seen.len() == 2501 && commanded == 10).then_some(())
        })
        .await;
}

/// A second watch lists tasks that were submitted since the first one.
pub async fn a_second_watch_lists_tasks_submitted_between(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit("before").await;
    let mut first = kit.watch(&node).await;
    assert_eq!(names(&first.listed().await), ["before"]);
    drop(first);
    kit.submit("between").await;
    kit.send("before", "c", Command::Pause).await;
    let mut second = kit.watch(&node).await;
    let listed = second.listed().await;
    assert_eq!(names(&listed), ["before", "between"]);
    assert!(listed.iter().any(|view| view.commanded));
    kit.submit("after").await;
    second.task("after", "a new task", |_| true).await;
}
