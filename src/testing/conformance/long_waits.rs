//! Waiting for many tasks: a store need not keep an entry for each of them while one of them is live.

use std::collections::BTreeSet;

use windlass_statemachine::{Message, TaskId};

use super::{
    Harness,
    kit::{Kit, fresh, id, of_kind},
    wait::Watcher,
    waits::{after, blocked, is_ready, ready},
};
use crate::store::{Event, Filter, Lease, Order, Query};

const ALL: [&str; 9] = ["a", "b", "c", "d", "e", "f", "g", "h", "never"];

impl Kit {
    async fn end_all(&self, node: &Lease, ids: &[&str]) {
        for text in ids {
            self.end(node, text).await;
        }
    }
}

/// Waits until each of these tasks is reported as claimable, in any order.
async fn all_ready(watch: &mut Watcher, names: impl IntoIterator<Item = &String>) {
    let mut missing: BTreeSet<TaskId> = names.into_iter().map(|name| id(name)).collect();
    watch
        .until("every waiting task can be claimed", |event| {
            if let Event::Task(view) = event
                && is_ready(view)
            {
                missing.remove(&view.id);
            }
            missing.is_empty().then_some(())
        })
        .await;
}

/// A task that waits for many is reported when the last of them is no longer live, in whatever order they end,
/// and not before.
pub async fn any_order_of_ends(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut watch = kit.watch(&node).await;
    watch.listed().await;
    for order in ["abcdefgh", "hgfedcba", "dhaebgcf", "habcdefg"] {
        let before = format!("{order}-");
        let name = |letter: char| format!("{before}{letter}");
        let all: Vec<String> = order.chars().map(name).collect();
        let mut sorted: Vec<&str> = all.iter().map(String::as_str).collect();
        for text in &sorted {
            kit.submit(text).await;
        }
        sorted.sort_unstable();
        let (w, v) = (format!("{order}-w"), format!("{order}-v"));
        kit.submit_task(after(&w, &sorted)).await;
        let more: Vec<&str> = sorted.iter().copied().chain(["never"]).collect();
        kit.submit_task(after(&v, &more)).await;
        blocked(&mut watch, &v).await;
        let (last, first) = all.split_last().expect("eight");
        for (n, text) in first.iter().enumerate() {
            match n % 3 {
                0 => kit.end(&node, text).await,
                1 => kit.delete(text).await,
                _ => {
                    let mut killed = kit.claim(&node, text).await;
                    kit.commit(&mut killed, &Message::kill()).await;
                }
            }
            // This task is live again, and waited for again.
            if n == 3 {
                kit.retry(&all[0]).await;
            }
            kit.assert_blocked(&node, &w).await;
        }
        kit.end(&node, last).await;
        kit.assert_blocked(&node, &w).await;
        kit.end(&node, &all[0]).await;
        all_ready(&mut watch, [&w, &v]).await;
        kit.claim(&node, &w).await;
        kit.claim(&node, &v).await;
    }
}

/// A task that waits for many is blocked again when one of them becomes live again before the claim: by a retry,
/// by a submit of an id that did not exist or was deleted, and by a replacement.
pub async fn any_of_them_blocks_again(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut watch = kit.watch(&node).await;
    watch.listed().await;
    for text in &ALL[..8] {
        kit.submit(text).await;
    }
    kit.submit_task(after("w", &ALL)).await;
    blocked(&mut watch, "w").await;
    kit.end_all(&node, &ALL[..8]).await;
    ready(&mut watch, "w").await;
    kit.submit("never").await;
    blocked(&mut watch, "w").await;
    kit.assert_blocked(&node, "w").await;
    kit.end(&node, "never").await;
    ready(&mut watch, "w").await;
    kit.delete("d").await;
    kit.submit("d").await;
    blocked(&mut watch, "w").await;
    // Two of them: the end of one does not end the wait.
    kit.retry("b").await;
    kit.end(&node, "d").await;
    kit.assert_blocked(&node, "w").await;
    kit.end(&node, "b").await;
    ready(&mut watch, "w").await;
    kit.replace("f").await;
    blocked(&mut watch, "w").await;
    kit.end(&node, "f").await;
    ready(&mut watch, "w").await;
    kit.retry("h").await;
    blocked(&mut watch, "w").await;
    kit.assert_blocked(&node, "w").await;
    kit.end(&node, "h").await;
    ready(&mut watch, "w").await;
    kit.claim(&node, "w").await;
}

/// Tasks that wait for the same ones: claiming or deleting one of them does not affect the others.
pub async fn many_wait_for_many(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut watch = kit.watch(&node).await;
    watch.listed().await;
    for text in &ALL[..8] {
        kit.submit(text).await;
    }
    let names: Vec<String> = (0..20).map(|n| format!("w{n}")).collect();
    for name in &names {
        kit.submit_task(after(name, &ALL)).await;
    }
    kit.delete("w0").await;
    kit.end_all(&node, &ALL[1..8]).await;
    for name in &names[1..] {
        kit.assert_blocked(&node, name).await;
    }
    kit.end(&node, "a").await;
    all_ready(&mut watch, &names[1..]).await;
    kit.claim(&node, "w1").await;
    kit.retry("c").await;
    for name in &names[2..] {
        kit.assert_blocked(&node, name).await;
    }
    kit.end(&node, "c").await;
    for name in &names[2..] {
        kit.claim(&node, name).await;
    }
}

/// A span by due time that asks for it has only the sleeping tasks that wait for others, of each kind.
pub async fn lists_may_have_only_waiting_tasks(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    kit.submit("live").await;
    for (name, kind) in [("a", "demo"), ("b", "other"), ("c", "demo")] {
        let mut sleeper = of_kind(&format!("s{name}"), kind);
        sleeper.start_at = Some(kit.later(std::time::Duration::from_secs(600)));
        let mut waiter = of_kind(name, kind);
        waiter.waits = after("w", &["live"]).waits;
        let both = vec![fresh(sleeper), fresh(waiter)];
        kit.registry()
            .submit(both)
            .await
            .into_iter()
            .for_each(|one| drop(one.expect("a submit")));
    }
    let query = Query::new(Filter::default()).order(Order::Due);
    let mut span = crate::store::rules::list::span(&query, None).expect("a span");
    span.only_waiting = true;
    for (ascending, expected) in [(true, ["a", "b", "c"]), (false, ["c", "b", "a"])] {
        span.ascending = ascending;
        let found = kit
            .registry()
            .span(&query.filter, span.clone())
            .await
            .expect("tasks");
        let found: Vec<&str> = found.iter().map(|one| one.task.id.as_str()).collect();
        assert_eq!(found, expected);
    }
}
