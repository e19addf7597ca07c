//! The watch of a node: a list, then every change, until the lease is gone.

use std::time::Duration;

use windlass_statemachine::{Command, Message, StateKind};

use super::{
    Harness,
    kit::{Kit, command_of, id, one, task, with_data},
    wait::Watcher,
};
use crate::store::{Error, Event, NodeCommand, NodeCommandId, SendCommand, TaskView};

fn names(views: &[TaskView]) -> Vec<&str> {
    let mut names: Vec<_> = views.iter().map(|v| v.id.as_str()).collect();
    names.sort_unstable();
    names
}

/// A watch begins with every live task, and says when the list is complete.
pub async fn it_lists_what_lives(harness: &dyn Harness) {
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
            sleeping: record.state.as_ref().unwrap().code() == StateKind::Sleeping,
            claimed_by: (name == "claimed").then_some(other.id),
            commanded: name == "commanded",
        };
        assert_eq!(view, expected);
        // A store may keep less than nanoseconds of it in its index.
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

/// Only the kinds that were asked for are reported.
pub async fn it_tells_only_its_kinds(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let node = kit.node("n").await;
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
pub async fn it_tells_of_new_tasks(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let node = kit.node("n").await;
    let mut watch = kit.watch(&node).await;
    watch.listed().await;
    kit.submit("a").await;
    let view = watch.task("a", "a new task", |_| true).await;
    assert_eq!((view.claimed_by, view.commanded), (None, false));
    assert!(view.due.is_some_and(|due| due <= kit.now()));
}

/// Claims, transitions and releases are reported, to their owner and to others.
pub async fn it_tells_of_claims_and_transitions(harness: &dyn Harness) {
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

/// A task that has ended or was deleted is reported as gone; a retry reports it again.
pub async fn it_tells_of_the_end(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let (node, other) = (kit.node("n").await, kit.node("other").await);
    let mut watch = kit.watch(&other).await;
    watch.listed().await;
    let mut claimed = kit.claimed(&node, "a").await;
    kit.commit(&mut claimed, &Message::kill()).await;
    watch.gone("a").await;
    one(kit.registry().retry(vec![id("a")]).await).unwrap();
    watch
        .task("a", "a retry", |v| {
            v.claimed_by.is_none() && v.due.is_some()
        })
        .await;
    one(kit.registry().delete(vec![id("a")]).await).unwrap();
    watch.gone("a").await;
}

/// The owner of a deleted task is notified.
pub async fn it_tells_the_owner_of_a_deletion(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let node = kit.node("n").await;
    let mut watch = kit.watch(&node).await;
    watch.listed().await;
    kit.claimed(&node, "a").await;
    one(kit.registry().delete(vec![id("a")]).await).unwrap();
    watch.gone("a").await;
}

/// A task that is deleted and submitted again at once is two tasks: the owner of the first hears of
/// its end, and of the second as another one, with its own claims and commands.
pub async fn a_deleted_task_and_the_next_of_its_id_are_two(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let node = kit.node("n").await;
    let mut watch = kit.watch(&node).await;
    watch.listed().await;
    for _ in 0..5 {
        let first = kit.claimed(&node, "a").await;
        one(kit.registry().delete(vec![id("a")]).await).unwrap();
        kit.submit("a").await;
        let (mut gone, mut second) = (false, None);
        watch
            .until("the end of the first, and the second", |event| {
                match event {
                    Event::Gone {
                        id: task, order, ..
                    } if *task == id("a") => {
                        gone |= *order == first.order;
                    }
                    Event::Task(view) if view.order > first.order => {
                        assert!(gone, "the first comes first: {view:?}");
                        second = Some(view.order);
                    }
                    _ => {}
                }
                (gone && second.is_some()).then_some(())
            })
            .await;
        let claimed = kit.claim(&node, "a").await;
        assert_eq!(Some(claimed.order), second);
        let command = format!("c{}", claimed.order);
        kit.send("a", &command, Command::Pause).await;
        watch
            .until("the command", |event| match event {
                Event::Commands { order, .. } => {
                    assert_eq!(*order, claimed.order);
                    Some(())
                }
                Event::Gone { order, fence, .. } => {
                    let is_over = *order == claimed.order
                        && fence.is_none_or(|fence| claimed.claim.fence <= fence);
                    assert!(!is_over, "the claim stands: {event:?}");
                    None
                }
                _ => None,
            })
            .await;
        one(kit.registry().delete(vec![id("a")]).await).unwrap();
    }
}

/// The owner of a deleted task hears of its end also when the next task with its id is of a kind
/// that the owner does not watch.
pub async fn an_owner_is_told_though_another_kind_has_the_id(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let node = kit.node("n").await;
    let kinds = Some(vec![task("a").kind]);
    let watch = kit.coordinator().watch(&node, kinds).await.unwrap();
    let mut watch = Watcher::new(watch);
    watch.listed().await;
    let mut other = task("a");
    other.kind = "other".parse().unwrap();
    for _ in 0..5 {
        let first = kit.claimed(&node, "a").await;
        one(kit.registry().delete(vec![id("a")]).await).unwrap();
        kit.submit_task(other.clone()).await;
        watch
            .until("the end of the first", |event| match event {
                Event::Gone {
                    id: task, order, ..
                } if *task == id("a") => (*order == first.order).then_some(()),
                _ => None,
            })
            .await;
        one(kit.registry().delete(vec![id("a")]).await).unwrap();
    }
}

/// What is reported of the end of a task does not end the claim after a retry.
pub async fn an_end_names_the_claims_that_are_over(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let (node, other) = (kit.node("n").await, kit.node("other").await);
    let mut watch = kit.watch(&other).await;
    watch.listed().await;
    let mut first = kit.claimed(&node, "a").await;
    kit.commit(&mut first, &Message::complete()).await;
    one(kit.registry().retry(vec![id("a")]).await).unwrap();
    let second = kit.claim(&node, "a").await;
    kit.submit("last").await;
    assert_eq!(first.order, second.order);
    watch
        .until("what comes last", |event| match event {
            Event::Gone { order, fence, .. } => {
                assert_eq!(*order, first.order);
                let fence = fence.expect("it was not deleted");
                assert!(fence >= first.claim.fence && fence < second.claim.fence);
                None
            }
            Event::Task(view) => (view.id == id("last")).then_some(()),
            _ => None,
        })
        .await;
}

/// A command for an unclaimed task is reported to all, one for a claimed task to its owner, with what
/// it says.
pub async fn it_tells_of_commands(harness: &dyn Harness) {
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
    let reported = watch
        .until("a command for the owner", |event| match event {
            Event::Commands {
                id: task, commands, ..
            } if *task == id("a") => commands.iter().find(|c| c.order == order).cloned(),
            _ => None,
        })
        .await;
    assert_eq!(
        (reported.command, reported.id),
        (Command::Kill, command_of("c2"))
    );
    // The next event of the others is this task's end: no command before it was theirs.
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

/// Commands that wait for a claimed task are delivered to an owner that begins to watch now.
pub async fn a_new_watch_tells_waiting_commands(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let node = kit.node("n").await;
    kit.claimed(&node, "a").await;
    let order = kit.send("a", "c", Command::Pause).await;
    let mut watch = kit.watch(&node).await;
    let reported = watch
        .until("a waiting command", |event| match event {
            Event::Commands {
                id: task, commands, ..
            } if *task == id("a") => Some(commands.clone()),
            _ => None,
        })
        .await;
    assert_eq!(
        reported.iter().map(|c| c.order).collect::<Vec<_>>(),
        [order]
    );
}

/// A thousand changes may be merged into fewer events, but the last of each task arrives.
pub async fn the_last_state_is_told(harness: &dyn Harness) {
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
    // Nothing older comes behind it.
    for event in watch.rest(Duration::from_millis(300)).await {
        let is_stale = matches!(&event, Event::Task(view) if !is_last(view));
        assert!(!is_stale, "{event:?} came last");
    }
}

/// Node commands are reported once they are sent, and those that wait when the watch begins.
pub async fn it_tells_of_node_commands(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let (node, other) = (kit.node("n").await, kit.node("other").await);
    let name = &node.node;
    let registry = kit.registry();
    let first = registry.send_node(name, NodeCommand::Freeze).await.unwrap();
    let mut watch = kit.watch(&node).await;
    let mut others = kit.watch(&other).await;
    let reported = async |watch: &mut Watcher, order: NodeCommandId| {
        watch
            .until("a node command", |event| match event {
                Event::Node(queued) if queued.id == order => Some(queued.command.clone()),
                _ => None,
            })
            .await
    };
    assert_eq!(reported(&mut watch, first).await, NodeCommand::Freeze);
    let stop = NodeCommand::StopTask { task: id("a") };
    let second = registry.send_node(name, stop.clone()).await.unwrap();
    assert!(second > first);
    assert_eq!(reported(&mut watch, second).await, stop);
    // The other node receives its own commands only.
    let own = registry
        .send_node(&other.node, NodeCommand::Balance)
        .await
        .unwrap();
    others
        .until("its own command", |event| match event {
            Event::Node(queued) => {
                assert_eq!(queued.id, own, "another node's command");
                Some(())
            }
            _ => None,
        })
        .await;
}

/// A node command that was answered is not reported again.
pub async fn an_answered_node_command_is_gone(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let node = kit.node("n").await;
    let registry = kit.registry();
    let answered = registry
        .send_node(&node.node, NodeCommand::Freeze)
        .await
        .unwrap();
    kit.coordinator()
        .acknowledge(&node, answered, "frozen")
        .await
        .unwrap();
    let waiting = registry
        .send_node(&node.node, NodeCommand::Drain)
        .await
        .unwrap();
    let mut watch = kit.watch(&node).await;
    watch
        .until("the command that waits", |event| match event {
            Event::Node(queued) => {
                assert_eq!(queued.id, waiting);
                Some(())
            }
            _ => None,
        })
        .await;
}

/// The stream ends when the lease does, and a lease that has ended is not watched.
pub async fn it_ends_with_the_lease(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let node = kit.node("n").await;
    let mut watch = kit.watch(&node).await;
    watch.listed().await;
    kit.coordinator().leave(&node).await.unwrap();
    while let Some(event) = watch.next().await {
        assert!(!matches!(event, Event::Reset), "{event:?}");
    }
    let refused = kit.coordinator().watch(&node, None).await.err();
    assert!(matches!(refused, Some(Error::Fenced(_))), "{refused:?}");
}

/// A long list is reported whole, and what comes meanwhile is not missed.
pub async fn a_long_list_is_whole(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let node = kit.node("n").await;
    let tasks = (0..2500).map(|n| super::kit::fresh(task(&format!("t{n}"))));
    for answer in kit.registry().submit(tasks.collect()).await {
        answer.unwrap();
    }
    let sends = (0..10).map(|n| SendCommand {
        task: id(&format!("t{n}")),
        id: command_of(&format!("c{n}")),
        command: Command::Pause,
    });
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

/// A watch that is opened again lists what was submitted since the first one.
pub async fn a_second_watch_lists_what_came_between(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let node = kit.node("n").await;
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
