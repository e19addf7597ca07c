//! History: of one task, and the stream of all changes.

use std::{collections::VecDeque, time::Duration};

use futures::StreamExt;
use windlass_statemachine::{ActionKind, Command, Message, StateKind};

use super::{
    Harness,
    kit::{Kit, field, fresh, id, settle, task},
    wait::{DEADLINE, eventually},
};
use crate::store::{Change, ChangeKind, ChangeStream, Transaction};

/// Changes that are read one by one.
struct Reader {
    stream: ChangeStream,
    ready: VecDeque<Change>,
}

impl Reader {
    async fn new(kit: &Kit, after: Option<u64>) -> Self {
        let stream = kit.registry().changes(after).await.expect("the changes");
        let ready = VecDeque::new();
        Self { stream, ready }
    }

    async fn next(&mut self) -> Change {
        loop {
            if let Some(change) = self.ready.pop_front() {
                return change;
            }
            let batch = tokio::time::timeout(DEADLINE, self.stream.next()).await;
            let batch = batch
                .expect("a change in time")
                .expect("the stream continues");
            self.ready.extend(batch.expect("nothing was pruned"));
        }
    }
}

/// The history of a task has every change of the task, in order.
pub async fn the_history_of_a_task(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let before = kit.now();
    let mut claimed = kit.claimed(&node, "a").await;
    let command = kit.send("a", "c", Command::Pause).await;
    let fence = claimed.claim.fence;
    let mut write = kit.write(&claimed, &Message::pause());
    write.steps[0].command = Some(command);
    let (from, to) = (StateKind::Runnable, StateKind::Paused);
    let applied = windlass_statemachine::Outcome::Applied { from, to };
    settle(&mut write, command, applied);
    claimed.state = write.state.clone();
    kit.try_write(&claimed, write).await.unwrap();
    kit.submit("noise").await;

    let history = kit.history("a").await;
    let expected = [
        ChangeKind::Submitted {
            state: StateKind::Runnable,
        },
        ChangeKind::Claimed {
            node: "n".parse().unwrap(),
            fence,
            abandoned: false,
        },
        ChangeKind::Commanded { command },
        ChangeKind::Moved {
            message: ActionKind::Pause,
            from,
            to,
            fence,
            command: Some(command),
        },
        ChangeKind::Dropped { fence },
    ];
    assert_eq!(kit.events("a").await, expected);
    assert!(history.is_sorted_by(|a, b| a.seq < b.seq && a.at <= b.at));
    assert!(history.iter().all(|c| c.task == id("a")));
    let second = jiff::SignedDuration::from_secs(1);
    let in_time = |c: &Change| c.at >= before - second && c.at <= kit.now() + second;
    assert!(history.iter().all(in_time), "{history:?}");
}

/// A limit means the last changes, reported oldest first.
pub async fn a_limit_means_the_last(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut claimed = kit.claimed(&node, "a").await;
    for _ in 0..5 {
        kit.commit(&mut claimed, &Message::run()).await;
    }
    let all = kit.history("a").await;
    let last = kit.registry().history(&id("a"), 3).await.unwrap();
    assert_eq!(last, all[all.len() - 3..]);
}

/// The stream of changes has every later change of every task.
pub async fn changes_from_now_on(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit("before").await;
    let mut changes = Reader::new(&kit, None).await;
    kit.submit("a").await;
    kit.ended(&node, "b", &Message::complete()).await;
    kit.retry("b").await;
    kit.delete("a").await;
    let (mut seen, mut last) = (Vec::new(), 0);
    loop {
        let change = changes.next().await;
        assert!(change.seq > last, "{change:?} comes after {last}");
        assert_ne!(change.task, id("before"), "{change:?}");
        last = change.seq;
        let is_last = change.what == ChangeKind::Deleted;
        seen.push((change.task.to_string(), change.what));
        if is_last {
            break;
        }
    }
    let state = StateKind::Runnable;
    assert_eq!(seen[0], ("a".into(), ChangeKind::Submitted { state }));
    assert_eq!(seen.last(), Some(&("a".into(), ChangeKind::Deleted)));
    assert!(
        seen.contains(&("b".into(), ChangeKind::Retried)),
        "{seen:?}"
    );
    let moved = |what: &ChangeKind| matches!(what, ChangeKind::Moved { to, .. } if *to == StateKind::Completed);
    assert!(seen.iter().any(|(_, what)| moved(what)), "{seen:?}");
}

/// A reader that continues after a change misses none and sees none twice, also between the changes of one transaction.
pub async fn changes_go_on_after_one(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let mut all = Reader::new(&kit, None).await;
    for n in 0..10 {
        kit.submit(&format!("t{n}")).await;
    }
    let mut together = Transaction::new();
    for n in 0..5 {
        let submit = fresh(task(&format!("new{n}")));
        together = together.submit(submit).delete(id(&format!("t{n}")));
    }
    kit.apply(&together).await;
    let mut reported = Vec::new();
    for _ in 0..20 {
        reported.push(all.next().await);
    }
    assert!(reported.is_sorted_by(|a, b| a.seq < b.seq), "{reported:#?}");
    // A store need not keep the time of a delete.
    let known = |change: &Change| (change.seq, change.task.clone(), change.what.clone());
    for (n, change) in reported.iter().enumerate() {
        let mut rest = Reader::new(&kit, Some(change.seq)).await;
        for expected in &reported[n + 1..] {
            assert_eq!(known(&rest.next().await), known(expected));
        }
    }
    // The history of a task is made of the same changes.
    assert_eq!(kit.history("t7").await, reported[7..8]);
}

/// A reader that starts after 0 receives everything from the beginning.
pub async fn changes_from_the_beginning(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    for n in 0..3 {
        kit.submit(&format!("t{n}")).await;
    }
    let mut changes = Reader::new(&kit, Some(0)).await;
    for n in 0..3 {
        assert_eq!(changes.next().await.task, id(&format!("t{n}")));
    }
}

/// Each of several readers sees all changes.
pub async fn followers_do_not_take_from_each_other(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let mut first = Reader::new(&kit, None).await;
    let mut second = Reader::new(&kit, None).await;
    for n in 0..5 {
        kit.submit(&format!("t{n}")).await;
    }
    for _ in 0..5 {
        assert_eq!(first.next().await, second.next().await);
    }
}

/// A cursor whose history was pruned is refused with the field `after`.
pub async fn pruned_history_is_refused(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut changes = Reader::new(&kit, None).await;
    kit.ended(&node, "a", &Message::complete()).await;
    let first = changes.next().await;
    let second = changes.next().await;
    assert!(first.seq < second.seq);
    let millisecond = Some(Duration::from_millis(1));
    let error = eventually("pruned history", async || {
        kit.coordinator().maintain(millisecond).await.unwrap();
        kit.registry().changes(Some(first.seq)).await.err()
    })
    .await;
    assert_eq!(field(&error), "after", "{error}");
    // Later changes are still reported.
    let mut changes = Reader::new(&kit, None).await;
    kit.submit("b").await;
    assert_eq!(changes.next().await.task, id("b"));
}

/// A cursor beyond the newest change is refused with the field `after`. A cursor at the newest change, and the position that
/// the store returns as the newest, continue with the next one.
pub async fn a_cursor_beyond_the_end_is_refused(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let mut changes = Reader::new(&kit, None).await;
    kit.submit("a").await;
    let last = changes.next().await.seq;
    // A store may number changes in steps.
    for beyond in [last + (1 << 32), u64::MAX >> 1, u64::MAX] {
        let error = kit.registry().changes(Some(beyond)).await.err();
        let error = error.unwrap_or_else(|| panic!("{beyond} is accepted; {last} is the last"));
        assert_eq!(field(&error), "after", "{error}");
    }
    let newest = kit.registry().newest_change().await.unwrap();
    assert!(newest >= last, "{newest} is before {last}");
    let mut after = Reader::new(&kit, Some(last)).await;
    let mut after_newest = Reader::new(&kit, Some(newest)).await;
    kit.submit("b").await;
    assert_eq!(after.next().await.task, id("b"));
    assert_eq!(after_newest.next().await.task, id("b"));
}
