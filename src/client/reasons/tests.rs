//! The reasons in lists, counts and views.

use std::collections::BTreeMap;

use super::*;
use crate::{
    Command, Limit, Message, NewTask, Runner, Signal, TaskContext,
    store::{NodeSpec, NodeStatus, Store, WaitKind},
};

/// Regression: after a signal to a task without a node the counts said that it waits for the signal, and the list that no
/// node handles its kind.
#[tokio::test]
async fn a_task_whose_signal_was_sent_has_one_reason_in_lists_and_counts() {
    let store = Store::open("memory:").await.unwrap();
    let client = Client::new(&store);
    let asks = async |_: TaskContext| Message::wait_for_signal("go");
    let runner = Runner::builder(&store)
        .handler("k", asks)
        .start()
        .await
        .unwrap();
    for id in ["sent", "waits"] {
        client.submit(NewTask::new("k").id(id)).await.unwrap();
        let asks = async {
            let read = async || client.get(id).await.unwrap().state.unwrap();
            while read().await.awaits_signal().is_none() {
                tokio::task::yield_now().await;
            }
        };
        let bound = std::time::Duration::from_secs(30);
        tokio::time::timeout(bound, asks)
            .await
            .expect("the task asks for its signal");
    }
    runner.shutdown().await;
    client
        .command("sent", Command::Signal(Signal::new("go")))
        .await
        .unwrap();
    let stats = client.stats().await.unwrap();
    let held = stats.kinds[0].held_back.iter();
    let held: Vec<_> = held.map(|h| (h.reason.kind().as_str(), h.tasks)).collect();
    assert_eq!(held, [("no_node", 1), ("signal", 1)]);
    for (reason, id) in [(WaitKind::NoNode, "sent"), (WaitKind::Signal, "waits")] {
        let query = Query::new(Filter::default()).waits(reason);
        let page = client.page(&query, None).await.unwrap();
        let ids: Vec<_> = page.tasks.iter().map(|one| one.task.id.as_str()).collect();
        assert_eq!(ids, [id]);
    }
}

/// Regression: a list showed `tasks`, a view `no_node`.
#[tokio::test]
async fn a_wait_that_is_over_has_one_reason_in_lists_counts_and_views() {
    let client = Client::new(&Store::open("memory:").await.unwrap());
    for (id, after) in [
        ("a", &[][..]),
        ("b", &[]),
        ("over", &["a"]),
        ("waits", &["a", "b"]),
        ("gone", &["never"]),
    ] {
        let task = NewTask::new("k").id(id).after(after.iter().copied());
        client.submit(task).await.unwrap();
    }
    client.command("a", Command::Kill).await.unwrap();
    client.delete("a").await.unwrap();
    let mut listed = BTreeMap::new();
    for reason in crate::store::WaitKind::ALL {
        let query = Query::new(Filter::default()).waits(reason);
        for record in client.page(&query, None).await.unwrap().tasks {
            listed.insert(record.task.id.to_string(), reason.as_str());
        }
    }
    let expected = [
        ("b", "no_node"),
        ("gone", "no_node"),
        ("over", "no_node"),
        ("waits", "tasks"),
    ];
    let expected = expected.map(|(id, reason)| (id.to_owned(), reason));
    assert_eq!(listed, BTreeMap::from(expected));
    for (id, reason) in &listed {
        let record = client.get(id.as_str()).await.unwrap();
        let reasons = client.wait_reasons(&[record], &[]).await.unwrap();
        assert_eq!(reasons[0].as_ref().unwrap().kind().as_str(), *reason);
    }
    let stats = client.stats().await.unwrap();
    let held = stats.kinds[0].held_back.iter();
    let held: Vec<_> = held.map(|h| (h.reason.kind().as_str(), h.tasks)).collect();
    assert_eq!(held, [("no_node", 3), ("tasks", 1)]);
}

/// Regression: the counts said that the task waits for tasks, and a view that it sleeps until the year 9999.
#[tokio::test]
async fn a_wait_that_is_over_is_available_to_a_node_with_room() {
    let client = Client::new(&Store::open("memory:").await.unwrap());
    for (id, after) in [("over", "gone"), ("waits", "over")] {
        let task = NewTask::new("k").id(id).after([after]);
        client.submit(task).await.unwrap();
    }
    let mut spec = crate::store::NodeSpec::new("n".parse().unwrap());
    spec.kinds = Some(vec!["k".parse().unwrap()]);
    spec.slots = 1;
    let room = NodeRecord {
        spec,
        status: crate::store::NodeStatus::default(),
        lease: 1,
        joined_at: Timestamp::UNIX_EPOCH,
        lease_left_ms: 1,
        claims: 0,
    };
    let nodes = [room];
    let over = client.get("over").await.unwrap();
    let reasons = client
        .wait_reasons(std::slice::from_ref(&over), &nodes)
        .await
        .unwrap();
    assert_eq!(reasons, [None]);
    let form = crate::wire::TaskWhyForm::new(&over, None, client.now(), (true, true));
    let text = form.text.unwrap();
    assert_eq!(
        text,
        "the tasks that it waits for have ended, and a node will claim it"
    );
    let mut kinds = client.stats().await.unwrap().kinds;
    let of = kinds.remove(0);
    assert_eq!((of.available, of.waiting), (1, 1));
    // As the counts of the store have it.
    let tasks = HeldBack {
        reason: WaitReason::Tasks(Vec::new()),
        tasks: 2,
        at_least: false,
    };
    let of = KindStats {
        available: 0,
        waiting: 2,
        held_back: vec![tasks],
        ..of
    };
    let mut kinds = [(of, false)];
    client
        .read_waits(&mut kinds, &nodes, Timestamp::UNIX_EPOCH)
        .await
        .unwrap();
    let of = &kinds[0].0;
    assert_eq!((of.available, of.waiting), (1, 1));
    let held = of.held_back.iter();
    let held: Vec<_> = held.map(|h| (h.reason.kind().as_str(), h.tasks)).collect();
    assert_eq!(held, [("tasks", 1)]);
}

/// Regression: while no node has a free slot, no node tries to claim the task, so only the missing slot was named, and the
/// advice was to add slots.
#[tokio::test]
async fn a_task_without_a_free_slot_whose_limit_is_full_names_both() {
    let store = Store::open("memory:").await.unwrap();
    let (client, coordinator) = (Client::new(&store), store.coordinator());
    let mut spec = NodeSpec::new("n".parse().unwrap());
    (spec.kinds, spec.slots) = (Some(vec!["k".parse().unwrap()]), 1);
    let ttl = std::time::Duration::from_secs(15);
    let lease = coordinator.join(&spec, ttl).await.unwrap();
    for id in ["runs", "b", "c"] {
        let limit = Limit::at_once("api", 1).unwrap();
        let task = NewTask::new("k").id(id).limit(limit);
        client.submit(task).await.unwrap();
    }
    client.submit(NewTask::new("k").id("free")).await.unwrap();
    coordinator
        .claim(&lease, vec!["runs".parse().unwrap()])
        .await;
    let status = NodeStatus {
        running: 1,
        ..NodeStatus::default()
    };
    coordinator.renew(&lease, &status).await.unwrap();
    let stats = client.stats().await.unwrap();
    let held = stats.kinds[0].held_back.iter();
    let held: Vec<_> = held.map(|h| (h.reason.kind().as_str(), h.tasks)).collect();
    assert_eq!(
        (held, stats.kinds[0].limited),
        (vec![("limit", 2), ("full", 1)], 2)
    );
    let (record, nodes) = (
        client.get("b").await.unwrap(),
        client.nodes().await.unwrap(),
    );
    let reasons = client.wait_reasons(&[record], &nodes).await.unwrap();
    let text = "it waits for the limit 'api' (1 at once), and the nodes of its kind have no free slot: n; more slots alone would not help";
    assert_eq!(reasons[0].as_ref().unwrap().to_string(), text);
    assert_eq!(stats.kinds[0].held_back[0].reason.to_string(), text);
    for (reason, ids) in [
        (WaitKind::Limit, vec!["c", "b"]),
        (WaitKind::Full, vec!["free"]),
    ] {
        let query = Query::new(Filter::default()).waits(reason);
        let page = client.page(&query, None).await.unwrap();
        let listed: Vec<_> = page.tasks.iter().map(|one| one.task.id.as_str()).collect();
        assert_eq!(listed, ids);
    }
}

/// Regression: each wait whose deadline had passed was counted twice among the available tasks, and another task that still
/// waited was counted no more.
#[tokio::test]
async fn a_wait_whose_deadline_has_passed_is_counted_once() {
    let hour = std::time::Duration::from_secs(3600);
    let clock = std::sync::Arc::new(crate::testing::ManualClock::new(Timestamp::UNIX_EPOCH));
    let store = Store::in_memory(clock.clone());
    let client = Client::new(&store);
    let asks = async |task: TaskContext| match task.id().as_str() {
        "asks-for-ever" => Message::wait_for_signal("go"),
        _ => Message::wait_for_signal("go").within(std::time::Duration::from_secs(3600)),
    };
    let runner = Runner::builder(&store).handler("asks", asks);
    let runner = runner.start().await.unwrap();
    for id in ["asks", "asks-for-ever"] {
        client.submit(NewTask::new("asks").id(id)).await.unwrap();
        let asked = async {
            let read = async || client.get(id).await.unwrap();
            while read().await.node.is_some()
                || read().await.state.unwrap().awaits_signal().is_none()
            {
                tokio::task::yield_now().await;
            }
        };
        let bound = std::time::Duration::from_secs(30);
        let asked = tokio::time::timeout(bound, asked).await;
        asked.expect("the task asks for its signal");
    }
    runner.shutdown().await;
    let after = |id| NewTask::new("waits").id(id).after(["live"]);
    client
        .submit(NewTask::new("waits").id("live"))
        .await
        .unwrap();
    client
        .submit(after("hour").after_within(hour))
        .await
        .unwrap();
    client.submit(after("for-ever")).await.unwrap();
    clock.advance(2 * hour);
    let stats = client.stats().await.unwrap();
    let counts = stats.kinds.iter().map(|of| {
        let waits = of.awaiting_signal + of.waiting;
        let held = of
            .held_back
            .iter()
            .map(|held| (held.reason.kind().as_str(), held.tasks));
        (of.kind.as_str(), of.available, waits, held.collect())
    });
    let expected: [(_, _, _, Vec<_>); 2] = [
        ("asks", 1, 1, vec![("no_node", 1), ("signal", 1)]),
        ("waits", 2, 1, vec![("no_node", 2), ("tasks", 1)]),
    ];
    assert_eq!(counts.collect::<Vec<_>>(), expected);
}
