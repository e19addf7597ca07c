//! Tasks that wait for a signal that their handler has declared: lists and counts know them.

use std::time::Duration;

use windlass_statemachine::{
    AwaitedSignal, Command, Json, Message, StateKind, operation::Reschedule,
};

use super::{
    Harness,
    kit::{Kit, id, task},
    strangers::{elsewhere, export, import},
};
use crate::store::{Filter, Order, Page, Span, Transaction};

impl Kit {
    /// Returns the listed tasks that wait for a signal.
    async fn awaiting(&self) -> Vec<String> {
        let filter = Filter {
            awaits_signal: true,
            ..Filter::default()
        };
        let mut listed = self.list(filter.clone()).await;
        for order in [Order::Submitted, Order::Id] {
            let span = Span {
                order,
                ascending: true,
                after: None,
                limit: 100,
                without_props: true,
                only_waiting: false,
            };
            let found = match self.registry().span(&filter, span).await {
                Ok(found) => found,
                // A store without this order.
                Err(_) => continue,
            };
            let mut names: Vec<_> = found.iter().map(|one| one.task.id.to_string()).collect();
            names.sort();
            listed.sort();
            assert_eq!(names, listed, "{order:?}");
        }
        listed
    }
}

fn asked() -> AwaitedSignal {
    let schema = Json::parse("schema", r#"{"type":"boolean"}"#).expect("JSON");
    AwaitedSignal::new("approve")
        .with_text("Deploy?")
        .with_schema(schema)
}

/// The state keeps what its handler has declared, until the wait is over and the handler has returned again. Lists and
/// counts follow each change.
pub async fn a_task_waits_for_a_signal(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit("other").await;
    let mut paused = kit.claimed(&node, "paused").await;
    kit.commit(&mut paused, &Message::wait_for_signal(asked()))
        .await;
    let mut asleep = kit.claimed(&node, "asleep").await;
    let until = kit.in_an_hour();
    kit.commit(&mut asleep, &Message::wait_for_signal("go").deadline(until))
        .await;
    let state = kit.state("paused").await;
    assert_eq!(state.code(), StateKind::Paused);
    assert_eq!(state.awaits_signal(), Some(&asked()));
    let state = kit.state("asleep").await;
    assert_eq!(state.code(), StateKind::Sleeping);
    assert_eq!(
        state.awaits_signal().and_then(AwaitedSignal::until),
        Some(until)
    );
    assert_eq!(kit.awaiting().await, ["asleep", "paused"]);
    kit.assert_counted("two waits for a signal").await;

    // A claim for a queued signal does not end the wait, the run does.
    kit.send("paused", "s", Command::Run).await;
    let mut paused = kit.claim(&node, "paused").await;
    assert_eq!(kit.awaiting().await, ["asleep", "paused"]);
    kit.assert_counted("a claim").await;
    kit.commit(&mut paused, &Message::run()).await;
    assert_eq!(kit.awaiting().await, ["asleep"]);
    assert!(kit.state("paused").await.awaits_signal().is_none());
    kit.assert_counted("a run").await;
    kit.commit(&mut paused, &Message::wait_for_signal("again"))
        .await;
    assert_eq!(kit.awaiting().await, ["asleep", "paused"]);
    kit.assert_counted("another wait").await;

    kit.delete("paused").await;
    assert_eq!(kit.awaiting().await, ["asleep"]);
    kit.assert_counted("a deletion").await;
}

/// The deadline of a wait ends it with the claim; a reschedule moves the deadline, or ends the wait, which has not expired.
pub async fn the_deadline_ends_a_wait_for_a_signal(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut soon = kit.claimed(&node, "soon").await;
    let until = kit.later(Duration::from_millis(20));
    kit.commit(
        &mut soon,
        &Message::wait_for_signal(asked()).deadline(until),
    )
    .await;
    let mut later = kit.claimed(&node, "later").await;
    let until = kit.in_an_hour();
    kit.commit(
        &mut later,
        &Message::wait_for_signal(asked()).deadline(until),
    )
    .await;
    while kit.now() <= kit.state("soon").await.due().expect("a deadline") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let claimed = kit.claim(&node, "soon").await;
    assert_eq!(claimed.state.code(), StateKind::Runnable);
    let signal = claimed
        .state
        .awaited_signal
        .as_ref()
        .expect("what it has waited for");
    assert!(signal.expired() && claimed.state.awaits_signal().is_none());
    assert!(claimed.state.wait_expired());
    assert_eq!(kit.awaiting().await, ["later"]);
    kit.assert_counted("a deadline").await;

    let until = kit.later(Duration::from_secs(7200));
    let change = Reschedule::new(id("later")).due(until);
    kit.apply(&Transaction::new().reschedule(change)).await;
    let state = kit.state("later").await;
    let moved = state.awaits_signal().and_then(AwaitedSignal::until);
    assert_eq!(
        moved.map(|at| at.as_millisecond()),
        Some(until.as_millisecond())
    );
    assert_eq!(kit.awaiting().await, ["later"]);
    kit.assert_counted("another deadline").await;
    let change = Reschedule::new(id("later")).due(kit.now());
    kit.apply(&Transaction::new().reschedule(change)).await;
    assert!(kit.awaiting().await.is_empty());
    assert!(!kit.state("later").await.wait_expired(), "it was cut short");
    kit.assert_counted("a deadline that has passed").await;
}

/// Ended tasks wait for no signal, nor do retried ones; a copy waits as its original does.
pub async fn ends_and_copies_of_waits_for_a_signal(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    for name in ["killed", "copied"] {
        let mut claimed = kit.claimed(&node, name).await;
        kit.commit(&mut claimed, &Message::wait_for_signal(asked()))
            .await;
    }
    kit.send("killed", "k", Command::Kill).await;
    let mut killed = kit.claim(&node, "killed").await;
    kit.commit(&mut killed, &Message::kill()).await;
    assert_eq!(kit.awaiting().await, ["copied"]);
    kit.retry("killed").await;
    assert_eq!(kit.state("killed").await.awaited_signal, None);
    assert_eq!(kit.awaiting().await, ["copied"]);
    kit.assert_counted("an end and a retry").await;

    let to = elsewhere().await;
    let from = elsewhere().await;
    let there = from.node("n").await;
    from.submit_task(task("mine")).await;
    let mut claimed = from.claim(&there, "mine").await;
    from.commit(&mut claimed, &Message::wait_for_signal(asked()))
        .await;
    import(&to, export(&kit, &[id("copied")]).await).await;
    assert_eq!(to.awaiting().await, ["copied"]);
    import(&kit, export(&from, &[id("mine")]).await).await;
    assert_eq!(kit.awaiting().await, ["copied", "mine"]);
    kit.assert_counted("a copy").await;
    let page = Page::new(1);
    let filter = Filter {
        awaits_signal: true,
        ..Filter::default()
    };
    assert_eq!(
        kit.registry()
            .list(&filter, page)
            .await
            .expect("a page")
            .len(),
        1
    );
}
