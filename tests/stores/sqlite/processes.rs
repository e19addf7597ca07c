//! Two open stores on one file do not know each other, like two processes.

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures::StreamExt;
use windlass::{
    Command, Message, StateKind,
    store::{
        Change, ChangeKind, Coordinator, Delete, Error, Event, NodeCommand, Operation, Registry,
        SendCommand,
    },
};

use super::support::*;

#[tokio::test]
async fn each_sees_what_the_other_does() {
    let file = file();
    let (a, b) = (file.open().await, file.open().await);
    let lease = join(&a, "a").await;
    let mut watch = a.watch(&lease, None).await.unwrap();
    until(&mut watch, |e| matches!(e, Event::Listed)).await;

    submit(&b, "t").await;
    until(&mut watch, |e| is_task(e, "t")).await;
    let claimed = claim(&a, &lease, "t").await;
    assert_eq!(b.get(&id("t")).await.unwrap().node.unwrap().as_str(), "a");

    let send = SendCommand::new(id("t"), "c".parse().unwrap(), Command::Pause);
    let order = b.send(vec![send]).await.remove(0).unwrap();
    let reported = until(&mut watch, |e| matches!(e, Event::Commands { .. })).await;
    let commands = reported.iter().find_map(|e| match e {
        Event::Commands { id, commands, .. } if id.as_str() == "t" => Some(commands),
        _ => None,
    });
    assert_eq!(commands.unwrap()[0].order, order);

    let node = lease.node.clone();
    let order = b.send_node(&node, NodeCommand::Freeze, None).await.unwrap();
    let reported = until(&mut watch, |e| matches!(e, Event::Node(_))).await;
    assert!(
        reported
            .iter()
            .any(|e| matches!(e, Event::Node(c) if c.id == order))
    );
    assert_eq!(b.node_outcome(order).await.unwrap(), None);
    a.acknowledge(&lease, order, "frozen").await.unwrap();
    assert_eq!(
        b.node_outcome(order).await.unwrap().as_deref(),
        Some("frozen")
    );

    let forced = Operation::Delete(Delete::new(id("t")).forced());
    b.apply(vec![forced.into()]).await.remove(0).unwrap();
    until(
        &mut watch,
        |e| matches!(e, Event::Gone { id, .. } if id.as_str() == "t"),
    )
    .await;
    let late = commit(&a, &claimed, Message::complete()).await;
    assert!(matches!(late, Err(Error::Fenced(_))), "{late:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_task_has_one_owner() {
    let file = file();
    let stores = [file.open().await, file.open().await];
    for n in 0..200 {
        submit(&stores[0], &format!("t{n}")).await;
    }
    let mut racers = Vec::new();
    for (n, store) in stores.iter().cloned().enumerate() {
        let lease = join(&store, &format!("n{n}")).await;
        racers.push(tokio::spawn(async move {
            let mut mine = Vec::new();
            for n in 0..200 {
                if let Some(claimed) = try_claim(&store, &lease, &format!("t{n}")).await.unwrap() {
                    mine.push(claimed.claim);
                }
            }
            mine
        }));
    }
    let mut all = Vec::new();
    for racer in racers {
        all.extend(racer.await.unwrap());
    }
    assert_eq!(all.len(), 200, "a task was claimed twice, or not at all");
    let tasks: HashSet<_> = all.iter().map(|claim| &claim.task).collect();
    assert_eq!(tasks.len(), 200);
    let mut fences: Vec<_> = all.iter().map(|claim| claim.fence).collect();
    fences.sort();
    fences.dedup();
    assert_eq!(fences.len(), 200, "every claim has a fence of its own");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_writers_of_both_lose_nothing_and_the_feed_has_no_gap() {
    let file = file();
    let (a, b) = (Arc::new(file.open().await), Arc::new(file.open().await));
    let mut feed = a.changes(None).await.unwrap();
    let mut writers = Vec::new();
    for n in 0..200 {
        let store = if n % 2 == 0 { a.clone() } else { b.clone() };
        writers.push(tokio::spawn(async move {
            submit(&store, &format!("t{n}")).await;
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let mut seen: Vec<Change> = Vec::new();
    while seen.len() < 200 {
        let next = tokio::time::timeout(Duration::from_secs(20), feed.next()).await;
        seen.extend(next.unwrap().unwrap().unwrap());
    }
    assert!(seen.windows(2).all(|w| w[0].seq + 1 == w[1].seq));
    let submitted = ChangeKind::Submitted {
        state: StateKind::Runnable,
    };
    assert!(seen.iter().all(|change| change.what == submitted));
}

#[tokio::test]
async fn a_replaced_task_is_reported_as_it_is_now() {
    let file = file();
    let (a, b) = (file.open().await, file.open().await);
    let lease = join(&a, "a").await;
    submit(&a, "t").await;
    let claimed = claim(&a, &lease, "t").await;
    commit(&a, &claimed, Message::complete()).await.unwrap();
    let mut watch = a.watch(&lease, None).await.unwrap();
    until(&mut watch, |e| matches!(e, Event::Listed)).await;
    let replace = windlass::store::Submit {
        task: task("t"),
        if_exists: windlass::store::IfExists::ReplaceFinished,
    };
    b.submit(vec![replace]).await.remove(0).unwrap();
    let reported = until(&mut watch, |e| is_task(e, "t")).await;
    assert!(
        !reported.iter().any(|e| matches!(e, Event::Gone { .. })),
        "{reported:?}"
    );
    let late = commit(&a, &claimed, Message::complete()).await;
    assert!(matches!(late, Err(Error::Fenced(_))), "{late:?}");
    assert!(claim(&a, &lease, "t").await.claim.fence > claimed.claim.fence);
}

/// A process remembers the newest change of the tasks that it moves, and other processes change them too.
#[tokio::test]
async fn changes_of_another_process_between_two_transitions_stay_in_the_history() {
    let file = file();
    let (a, b) = (file.open().await, file.open().await);
    let lease = join(&a, "a").await;
    submit(&a, "t").await;
    let mut claimed = claim(&a, &lease, "t").await;
    for command in [None, Some("c"), None, Some("d"), None] {
        if let Some(command) = command {
            let send = SendCommand::new(id("t"), command.parse().unwrap(), Command::Pause);
            b.send(vec![send]).await.remove(0).unwrap();
        }
        let commit = commit_of(&claimed, Message::checkpoint().with_data(&command));
        let state = commit.write.state.clone();
        // The second one is a repetition.
        for _ in 0..2 {
            a.commit(vec![commit.clone()]).await.remove(0).unwrap();
        }
        claimed.state = state;
    }
    let mut large = claimed.clone();
    let too_large = "x".repeat(2 << 20);
    let refused = commit(&a, &large, Message::checkpoint().with_data(&too_large)).await;
    assert!(
        matches!(refused, Err(Error::TooLarge { .. })),
        "{refused:?}"
    );
    large.claim.lease += 1;
    let refused = commit(&a, &large, Message::checkpoint()).await;
    assert!(matches!(refused, Err(Error::Fenced(_))), "{refused:?}");
    commit(&a, &claimed, Message::complete()).await.unwrap();
    let history = b.history(&id("t"), 100).await.unwrap();
    let names = |change: &Change| match change.what {
        ChangeKind::Submitted { .. } => "submitted",
        ChangeKind::Claimed { .. } => "claimed",
        ChangeKind::Moved { .. } => "moved",
        ChangeKind::Commanded { .. } => "commanded",
        _ => "other",
    };
    let names: Vec<_> = history.iter().map(names).collect();
    let whole = "submitted claimed moved commanded moved moved commanded moved moved moved";
    assert_eq!(names.join(" "), whole);
}
