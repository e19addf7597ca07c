//! Counts: they agree with a list of all tasks, whatever changed them.

use std::{collections::BTreeMap, time::Duration};

use jiff::SignedDuration;
use windlass_statemachine::{Command, Kind, Message, StateKind, Task, operation::Reschedule};

use super::{
    Harness,
    kit::{Kit, fresh, id, of_kind, task, with_data},
    limits::at_once,
};
use crate::store::{
    Availability, Filter, IfExists, Page, Purge, Submit, TaskRecord, Transaction,
    rules::stats::{Facts, Wait, availability},
};

type ByState = BTreeMap<(Kind, Option<StateKind>), (u64, u64)>;
type ByGroup = BTreeMap<(Kind, Option<StateKind>, Availability), u64>;

impl Kit {
    async fn all(&self) -> Vec<TaskRecord> {
        let mut page = Page::default();
        let mut all = Vec::new();
        loop {
            let records = self.registry().list(&Filter::default(), page).await;
            let records = records.expect("a page");
            let Some(last) = records.last() else {
                return all;
            };
            page.after = last.order;
            all.extend(records);
        }
    }

    /// Asserts that the counts are those of a list.
    pub(super) async fn assert_counted(&self, after: &str) {
        let (mut states, mut groups) = (ByState::new(), ByGroup::new());
        let mut oldest = BTreeMap::<Kind, i64>::new();
        for record in self.all().await {
            let state = record.state.as_ref().ok();
            let (kind, code) = (record.task.kind.clone(), state.map(|state| state.code()));
            let (tasks, claimed) = states.entry((kind.clone(), code)).or_default();
            *tasks += 1;
            *claimed += u64::from(record.node.is_some());
            let facts = Facts {
                state: code,
                is_claimed: record.node.is_some(),
                waits: state.map_or(Wait::Nothing, Wait::of),
                is_due: state.is_some_and(|state| state.is_due(self.now())),
            };
            let standing = availability(facts);
            *groups.entry((kind.clone(), code, standing)).or_default() += 1;
            if let (Availability::Available, Some(due)) = (standing, state.and_then(|s| s.ready()))
            {
                let first = oldest.entry(kind).or_insert(i64::MAX);
                *first = (*first).min(due.as_millisecond());
            }
        }
        let counts = self.registry().counts().await.expect("counts");
        let counts = counts.into_iter();
        let counted = counts.map(|c| ((c.kind, c.state), (c.tasks, c.claimed)));
        assert_eq!(counted.collect::<ByState>(), states, "after {after}");
        let stats = self.registry().stats().await.expect("counts");
        let (mut kept, mut first) = (ByGroup::new(), BTreeMap::<Kind, i64>::new());
        for group in stats.groups {
            if let Some(due) = group.oldest_due {
                let of = first.entry(group.kind.clone()).or_insert(i64::MAX);
                *of = (*of).min(due.as_millisecond());
            }
            let key = (group.kind, group.state, group.availability);
            *kept.entry(key).or_default() += group.tasks;
        }
        assert_eq!(kept, groups, "after {after}");
        assert_eq!(first, oldest, "after {after}");
    }
}

/// Counts agree with a list after every kind of change.
pub async fn every_change_is_counted(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    kit.assert_counted("nothing").await;
    let node = kit.node("n").await;
    for name in ["a", "b", "c", "d", "e"] {
        kit.submit(name).await;
    }
    kit.submit_task(of_kind("o", "other")).await;
    let start_at = Some(kit.in_an_hour());
    let late = Task {
        start_at,
        ..task("late")
    };
    kit.submit_task(late.clone()).await;
    kit.assert_counted("submits").await;
    let mut a = kit.claim(&node, "a").await;
    let mut b = kit.claim(&node, "b").await;
    kit.assert_counted("claims").await;
    kit.checkpoint(&mut a, 1).await;
    let sleeps = Message::sleep_until(kit.in_an_hour());
    kit.commit(&mut a, &with_data(sleeps, 2)).await;
    kit.commit(&mut b, &Message::release()).await;
    kit.assert_counted("a sleep and a release").await;
    let mut b = kit.claim(&node, "b").await;
    kit.commit(&mut b, &Message::pause()).await;
    kit.ended(&node, "done", &Message::complete()).await;
    kit.ended(&node, "failed", &Message::error("x")).await;
    kit.ended(&node, "killed", &Message::kill()).await;
    kit.assert_counted("a pause and ends").await;
    kit.send("b", "wake", Command::Run).await;
    kit.send("c", "pause", Command::Pause).await;
    kit.retry("failed").await;
    kit.replace("killed").await;
    kit.delete("done").await;
    kit.delete("d").await;
    kit.assert_counted("commands, a retry, a replacement and deletions")
        .await;
    let change = Reschedule::new(id("late")).due(kit.now());
    let two = Transaction::new().reschedule(change);
    kit.apply(&two.submit(fresh(task("f")))).await;
    let refused = Transaction::new()
        .submit(fresh(task("new")))
        .delete(id("e"))
        .delete(id("unknown"));
    kit.try_apply(&refused)
        .await
        .expect_err("a task is unknown");
    kit.apply(
        &Transaction::new()
            .submit(fresh(of_kind("p", "third")))
            .delete(id("e")),
    )
    .await;
    kit.assert_counted("transactions").await;
    kit.ended(&node, "old", &Message::complete()).await;
    let purge = Purge::new([StateKind::Completed], kit.in_an_hour());
    let purged = kit.registry().purge(&purge).await;
    assert_eq!(purged.expect("a purge"), 1);
    let again = Submit {
        task: task("c"),
        if_exists: IfExists::Skip,
    };
    kit.try_submit(again).await.expect("it is skipped");
    kit.assert_counted("a purge and a skipped submit").await;
    kit.claim(&node, "c").await;
    kit.claim(&node, "failed").await;
    kit.coordinator().leave(&node).await.expect("it leaves");
    kit.assert_counted("a node that leaves").await;
    let lost = kit.node("lost").await;
    kit.claim(&lost, "c").await;
    kit.coordinator()
        .abandon(&lost)
        .await
        .expect("it is abandoned");
    kit.assert_counted("a lost lease").await;
}

/// The counts show what a node can claim: due tasks are separate from tasks that sleep, wait or are
/// claimed.
pub async fn what_is_available_is_counted(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit("ready").await;
    let mut waits = kit.claimed(&node, "waits").await;
    kit.commit(&mut waits, &Message::wait_for(["ready"])).await;
    for (name, wait) in [("soon", 0), ("later", 3600)] {
        let mut claimed = kit.claimed(&node, name).await;
        let until = kit.later(Duration::from_secs(wait));
        kit.commit(&mut claimed, &Message::sleep_until(until)).await;
    }
    kit.limited(&["slot", "held"], &[at_once("k", 1)]).await;
    kit.admitted(&node, "slot").await;
    kit.refused(&node, "held").await;
    let past = kit.now() + SignedDuration::from_millis(20);
    while kit.now() < past {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    kit.assert_counted("a wait, sleeps and a limit").await;
    let stats = kit.registry().stats().await.expect("counts");
    let held: Vec<_> = stats.held.iter().map(|h| (&*h.key, h.tasks)).collect();
    assert_eq!((held, stats.held_is_complete), (vec![("k", 1)], true));
    let mut ready = kit.claim(&node, "ready").await;
    kit.commit(&mut ready, &Message::complete()).await;
    kit.claim(&node, "waits").await;
    kit.assert_counted("the end of a wait").await;
}
