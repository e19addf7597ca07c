//! Running and queued tasks, and lists by how late tasks are.

use std::time::Duration;

use jiff::Timestamp;
use windlass_statemachine::{Message, StateKind, waits::Waits};

use super::{
    Harness,
    kit::{Kit, fresh, id, one, task},
    pages::assert_lists,
};
use crate::{
    store::{Filter, Order, Query, Shown, Standing, StateWord},
    wire::RecordForm,
};

/// Returns the sorted ids of the tasks that these words select, as every list of them has them.
async fn selected(kit: &Kit, words: &[&str]) -> Vec<String> {
    let words = words.iter().map(|word| word.parse::<StateWord>());
    let filter = Filter::new().state_words(words.map(|word| word.expect("a word")));
    let mut listed = kit.list(filter.clone()).await;
    listed.sort();
    let names: Vec<&str> = listed.iter().rev().map(String::as_str).collect();
    assert_lists(kit, Query::new(filter).order(Order::Id), &names).await;
    listed
}

/// A runnable task is running while a node has claimed it, and queued otherwise. Filters by the two words select these
/// tasks, together with those in other states.
pub async fn runnable_tasks_are_running_or_queued(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit("a").await;
    let before = kit.now();
    let claimed = kit.claimed(&node, "b").await;
    let mut paused = kit.claimed(&node, "c").await;
    kit.commit(&mut paused, &Message::pause()).await;
    for (words, expected) in [
        (&["queued"][..], &["a"][..]),
        (&["running"], &["b"]),
        (&["running", "paused"], &["b", "c"]),
        (&["queued", "running"], &["a", "b"]),
        (&["runnable"], &["a", "b"]),
    ] {
        assert_eq!(selected(&kit, words).await, expected, "{words:?}");
    }
    let record = kit.get("b").await;
    let standing = Standing::of(&record, kit.now());
    assert_eq!((standing.shown, standing.late), (Shown::Running, None));
    // Stores keep microseconds or more.
    let since = standing.since.expect("the time of its claim");
    assert!(
        since.as_microsecond() >= before.as_microsecond(),
        "{since} and {before}"
    );
    let mut released = claimed;
    kit.commit(&mut released, &Message::release()).await;
    let record = kit.get("b").await;
    let after = Standing::of(&record, kit.now());
    assert_eq!(after.shown, Shown::Queued);
    assert!(after.since >= Some(since), "it waits since the release");
    assert_eq!(selected(&kit, &["queued"]).await, ["a", "b"]);
}

/// A task whose node leaves waits since then, as after a release, and not since its run began. So does the task of a lost
/// node, in a store that writes the loss before the next claim.
pub async fn a_task_waits_since_its_claim_has_ended(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.claimed(&node, "left").await;
    let before = kit.state("left").await;
    tokio::time::sleep(Duration::from_millis(3)).await;
    kit.coordinator().leave(&node).await.expect("a leave");
    let record = kit.get("left").await;
    let standing = Standing::of(&record, kit.now());
    assert_eq!(standing.shown, Shown::Queued);
    assert!(standing.since > before.ready(), "{standing:?}, {before:?}");
    let after = kit.state("left").await;
    assert_eq!(after.version, before.version, "the task has not progressed");
    let other = kit.node("other").await;
    let again = kit.claim(&other, "left").await;
    assert_eq!(again.state.attempts, 0, "a claim that was released");
}

/// How late a released task is counts from its release, in its record, in the counts and for the node that claims it next.
/// How late a task is that has waited for others counts for that node from the last of their ends.
pub async fn a_task_is_late_since_it_could_be_claimed(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let pause = || tokio::time::sleep(Duration::from_millis(3));
    let mut released = kit.claimed(&node, "released").await;
    let mut awaited = kit.claimed(&node, "awaited").await;
    let mut waits = task("waits");
    waits.waits = Some(Box::new(Waits::new("after", ["awaited"]).expect("a wait")));
    one(kit.registry().submit(vec![fresh(waits)]).await).expect("a submit");
    pause().await;
    let before = kit.now();
    pause().await;
    kit.commit(&mut released, &Message::release()).await;
    kit.commit(&mut awaited, &Message::complete()).await;
    pause().await;
    let after = kit.now();
    pause().await;
    let is_since = |what: &str, ready: Option<Timestamp>| {
        let ready = ready.unwrap_or_else(|| panic!("{what}: no time"));
        assert!(
            before <= ready && ready <= after,
            "{what}: {ready}, {before} to {after}"
        );
    };
    let record = kit.get("released").await;
    is_since("due", RecordForm::at(&record, kit.now()).due);
    let client = crate::Client::new(&kit.store);
    let stats = client.stats().await.expect("the counts");
    let kind = stats.kinds.iter().find(|of| of.kind == record.task.kind);
    is_since("oldest_due", kind.expect("its kind").oldest_due);
    for name in ["released", "waits"] {
        let claimed = kit.claim(&node, name).await;
        is_since(name, claimed.ready);
    }
}

/// A list by lateness has the tasks that wait for a node, and the sleeping ones whose time has come, the latest first. It has
/// no task that sleeps until a later time or waits for others. A released task is late since its release.
pub async fn a_list_by_lateness_has_the_latest_first(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    // The times of tasks differ by more than stores round them.
    let pause = || tokio::time::sleep(Duration::from_millis(3));
    let mut released = kit.claimed(&node, "released").await;
    pause().await;
    for (name, minutes) in [("later", 20), ("soon", 10)] {
        let mut sleeper = task(name);
        sleeper.start_at = Some(kit.later(Duration::from_secs(minutes * 60)));
        one(kit.registry().submit(vec![fresh(sleeper)]).await).expect("a submit");
    }
    for name in ["first", "second"] {
        kit.submit(name).await;
        pause().await;
    }
    kit.commit(&mut released, &Message::release()).await;
    kit.claimed(&node, "runs").await;
    kit.ended(&node, "ended", &Message::complete()).await;
    let mut paused = kit.claimed(&node, "paused").await;
    kit.commit(&mut paused, &Message::pause()).await;
    let query = Query::new(Filter::new()).order(Order::Late);
    let mut waits = task("waits");
    waits.waits = Some(Box::new(Waits::new("after", ["paused"]).expect("a wait")));
    one(kit.registry().submit(vec![fresh(waits)]).await).expect("a submit");
    let mut overdue = task("overdue");
    overdue.start_at = Some(kit.later(Duration::from_millis(20)));
    one(kit.registry().submit(vec![fresh(overdue)]).await).expect("a submit");
    while !kit.state("overdue").await.is_due(kit.now()) {
        pause().await;
    }
    let all = ["first", "second", "released", "overdue"];
    assert_lists(&kit, query.clone(), &all).await;
    let of = |words: [&str; 1]| {
        let words = words.map(|word| word.parse::<StateWord>().expect("a word"));
        let mut query = query.clone();
        query.filter = Filter::new().state_words(words);
        query
    };
    assert_lists(&kit, of(["queued"]), &["first", "second", "released"]).await;
    assert_lists(&kit, of(["sleeping"]), &["overdue"]).await;
    let one = Filter::new().ids([id("second"), id("runs")]);
    assert_lists(
        &kit,
        Query {
            filter: one,
            ..query.clone()
        },
        &["second"],
    )
    .await;
    let refused = |filter| async {
        let query = Query {
            filter,
            ..query.clone()
        };
        let refused = crate::Client::new(&kit.store).page(&query, None).await;
        refused.expect_err("a refusal").to_string()
    };
    for filter in [
        Filter::new().states([StateKind::Paused]),
        Filter::new().states([StateKind::Failed]),
        Filter::new().claimed(true),
        Filter::new().state_words([StateWord::Running]),
        Filter::new().quarantined(true),
    ] {
        let text = refused(filter.clone()).await;
        assert!(
            text.starts_with("order: 'late' lists only tasks that wait"),
            "{filter:?}: {text}"
        );
    }
}
