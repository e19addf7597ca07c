//! Reads of clients: one task, lists, counts, errors.

use windlass_statemachine::{Command, Json, Message, StateKind, Task};

use super::{
    Harness,
    kit::{Kit, LONG, assert_matches, command_of, field, fresh, id, of_kind, one, task},
};
use crate::store::{Error, Filter, NodeCommand, NodeCommandId, Page, TaskCount};

/// A task that does not exist is not found, with its name.
pub async fn unknown_tasks_are_not_found(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    kit.submit("ab").await;
    for name in ["a", "abc", "AB"] {
        let error = kit.registry().get(&id(name)).await.unwrap_err();
        let is_right = matches!(
            &error,
            Error::NotFound { what: "task", name: reported } if reported == name
        );
        assert!(is_right, "{error:?}");
        let history = kit.registry().history(&id(name), 10).await;
        assert_matches!(history, Err(Error::NotFound { .. }));
    }
}

/// The pages of a list have every task once, in submit order.
pub async fn pages_are_in_submit_order(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let names: Vec<String> = (0..25).rev().map(|n| format!("t{n}")).collect();
    let tasks = names.iter().map(|name| fresh(task(name)));
    for answer in kit.registry().submit(tasks.collect()).await {
        answer.unwrap();
    }
    let (mut listed, mut after) = (Vec::new(), 0);
    loop {
        let page = Page { after, limit: 10 };
        let records = kit.registry().list(&Filter::default(), page).await.unwrap();
        assert!(records.len() <= 10);
        let Some(last) = records.last() else { break };
        after = last.order;
        listed.extend(records.into_iter().map(|r| r.task.id.to_string()));
    }
    assert_eq!(listed, names);
}

/// A page of a filter is full while enough tasks match.
pub async fn pages_of_a_filter_are_full(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    for n in 0..20 {
        let mut of_kind = task(&format!("t{n}"));
        let kind = if n % 4 == 0 { "rare" } else { "usual" };
        of_kind.kind = kind.parse().unwrap();
        kit.submit_task(of_kind).await;
    }
    let filter = Filter {
        kind: Some("rare".parse().unwrap()),
        ..Filter::default()
    };
    let page = Page { after: 0, limit: 3 };
    let first = kit.registry().list(&filter, page).await.unwrap();
    let names: Vec<_> = first.iter().map(|r| r.task.id.to_string()).collect();
    assert_eq!(names, ["t0", "t4", "t8"]);
    let after = first[2].order;
    let page = Page { after, limit: 3 };
    let second = kit.registry().list(&filter, page).await.unwrap();
    let names: Vec<_> = second.iter().map(|r| r.task.id.to_string()).collect();
    assert_eq!(names, ["t12", "t16"]);
}

/// A page of size zero is refused.
pub async fn a_page_of_no_size_is_refused(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    kit.submit("a").await;
    for filter in [
        Filter::default(),
        Filter {
            quarantined: true,
            ..Filter::default()
        },
    ] {
        let page = Page { after: 0, limit: 0 };
        let error = kit.registry().list(&filter, page).await.unwrap_err();
        assert_eq!(field(&error), "limit");
    }
}

/// A filter selects the tasks that meet every condition.
pub async fn filters_select_matching_tasks(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit_task(of_kind("other-kind", "other")).await;
    for (name, team) in [("red-1", "red"), ("red-2", "red"), ("blue", "blue")] {
        let mut labelled = task(name);
        labelled.labels.insert("team".into(), team.into());
        kit.submit_task(labelled).await;
    }
    kit.ended(&node, "failed", &Message::error("Disk FULL on sda"))
        .await;
    kit.ended(&node, "done", &Message::complete()).await;
    kit.claim(&node, "red-2").await;

    let states = |states: &[StateKind]| Filter {
        states: states.to_vec(),
        ..Filter::default()
    };
    let labels = |name: &str, value: Option<&str>| Filter {
        labels: vec![(name.to_owned(), value.map(str::to_owned))],
        ..Filter::default()
    };
    let error = |text: &str| Filter {
        error: Some(text.to_owned()),
        ..Filter::default()
    };
    let of_node = |name: &str| Filter {
        node: Some(name.parse().unwrap()),
        ..Filter::default()
    };
    let of_kind = Filter {
        kind: Some("other".parse().unwrap()),
        ..Filter::default()
    };
    let claimed = Filter {
        claimed: true,
        ..Filter::default()
    };
    let none: &[&str] = &[];
    for (filter, expected) in [
        (states(&[StateKind::Failed]), &["failed"][..]),
        (
            states(&[StateKind::Failed, StateKind::Completed]),
            &["failed", "done"],
        ),
        (states(&[StateKind::Killed]), none),
        (of_kind, &["other-kind"]),
        (labels("team", Some("red")), &["red-1", "red-2"]),
        (labels("team", None), &["red-1", "red-2", "blue"]),
        (labels("tea", None), none),
        (labels("team", Some("re")), none),
        (of_node("n"), &["red-2"]),
        (claimed, &["red-2"]),
        (of_node("other"), none),
        (error("disk full"), &["failed"]),
        (error("sdb"), none),
    ] {
        assert_eq!(kit.list(filter.clone()).await, expected, "{filter:?}");
    }
    let all_of_it = Filter {
        states: vec![StateKind::Runnable],
        kind: Some("demo".parse().unwrap()),
        labels: vec![("team".into(), Some("red".into()))],
        id_prefix: Some("red".into()),
        node: Some("n".parse().unwrap()),
        ..Filter::default()
    };
    assert_eq!(kit.list(all_of_it.clone()).await, ["red-2"]);
    let but_one = Filter {
        id_prefix: Some("blue".into()),
        ..all_of_it
    };
    assert_eq!(kit.list(but_one).await, none);
}

/// A prefix is text, not a pattern, and case matters.
pub async fn a_prefix_is_no_pattern(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    for name in ["a", "ab", "aB", "a%c", "a_d", "a*e", "ä", "b"] {
        kit.submit(name).await;
    }
    for (prefix, expected) in [
        ("a", &["a", "ab", "aB", "a%c", "a_d", "a*e"][..]),
        ("ab", &["ab"]),
        ("a%", &["a%c"]),
        ("a_", &["a_d"]),
        ("a*", &["a*e"]),
        ("ä", &["ä"]),
        ("A", &[]),
        ("", &["a", "ab", "aB", "a%c", "a_d", "a*e", "ä", "b"]),
    ] {
        let id_prefix = Some(prefix.to_owned());
        let filter = Filter {
            id_prefix,
            ..Filter::default()
        };
        assert_eq!(kit.list(filter).await, expected, "{prefix:?}");
    }
}

/// Counts are by kind and state, with the number of claimed tasks.
pub async fn counts_are_by_kind_and_state(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    assert_eq!(kit.registry().counts().await.unwrap(), []);
    let node = kit.node("n").await;
    for n in 0..3 {
        kit.submit(&format!("r{n}")).await;
    }
    kit.claim(&node, "r0").await;
    kit.submit_task(of_kind("o", "other")).await;
    kit.ended(&node, "done", &Message::complete()).await;
    let mut counts = kit.registry().counts().await.unwrap();
    counts.sort_by_key(|c| (c.kind.clone(), c.state));
    let count = |kind: &str, state: StateKind, tasks: u64, claimed: u64| TaskCount {
        kind: kind.parse().unwrap(),
        state: Some(state),
        tasks,
        claimed,
    };
    assert_eq!(
        counts,
        [
            count("demo", StateKind::Runnable, 3, 1),
            count("demo", StateKind::Completed, 1, 0),
            count("other", StateKind::Runnable, 1, 0),
        ]
    );
}

/// A record shows the owner of the task and the number of queued commands.
pub async fn a_record_shows_owner_and_queue(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let claimed = kit.claimed(&node, "a").await;
    kit.send("a", "c1", Command::Run).await;
    kit.send("a", "c2", Command::Run).await;
    let page = Page::default();
    let listed = kit.registry().list(&Filter::default(), page).await.unwrap();
    let got = kit.get("a").await;
    for record in [&listed[0], &got] {
        assert_eq!(record.node, Some("n".parse().unwrap()));
        assert_eq!(record.fence, claimed.claim.fence);
        assert_eq!(record.commands, 2);
        assert_eq!(record.state.as_ref().unwrap(), &claimed.state);
        let second = jiff::SignedDuration::from_secs(60);
        assert!(record.submitted_at <= kit.now() && record.submitted_at > kit.now() - second);
    }
}

/// Both halves of a store have the same limits.
pub async fn limits_are_the_same(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let limits = kit.registry().limits();
    assert_eq!(limits, kit.coordinator().limits());
    assert!(limits.max_bytes >= 1024, "{limits:?}");
}

/// A namespace has one identity, which stays the same and differs from that of every other
/// namespace.
pub async fn a_namespace_has_one_identity_of_its_own(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    // The first call may create it.
    let (first, second) = futures::join!(kit.registry().identity(), kit.registry().identity());
    let first = first.unwrap();
    assert_eq!(second.unwrap(), first);
    assert!((16..=64).contains(&first.len()), "{first}");
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    assert!(first.chars().all(plain), "{first}");
    kit.submit("a").await;
    assert_eq!(kit.registry().identity().await.unwrap(), first);
    let other = harness.store().await;
    assert_ne!(other.registry().identity().await.unwrap(), first);
}

/// The identity of a namespace is the same when the store is opened again.
pub async fn the_identity_is_durable(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let first = kit.registry().identity().await.unwrap();
    let kit = kit.reopened(harness).await;
    assert_eq!(kit.registry().identity().await.unwrap(), first);
}

/// A task that is submitted again after a delete, or replaces an ended one, has another order.
pub async fn a_task_submitted_again_has_another_order(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let first = kit.claimed(&node, "a").await;
    assert_eq!(first.order, kit.get("a").await.order);
    kit.delete("a").await;
    kit.submit("a").await;
    let mut second = kit.claim(&node, "a").await;
    assert_eq!(second.order, kit.get("a").await.order);
    assert!(
        second.order > first.order,
        "{} {}",
        first.order,
        second.order
    );
    kit.commit(&mut second, &Message::complete()).await;
    kit.replace("a").await;
    let third = kit.claim(&node, "a").await;
    assert_eq!(third.order, kit.get("a").await.order);
    assert!(
        third.order > second.order,
        "{} {}",
        second.order,
        third.order
    );
}

/// Every store returns the same error texts.
pub async fn errors_read_the_same(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit("live").await;
    kit.ended(&node, "over", &Message::complete()).await;
    kit.send("live", "c", Command::Pause).await;
    let registry = kit.registry();
    let page = Page { after: 0, limit: 0 };
    let newest = kit.history("over").await.last().expect("a change").seq;
    let beyond = newest + (1 << 40);
    let unknown = NodeCommandId(beyond);
    let large = Json::new("result", &"x".repeat(registry.limits().max_bytes)).unwrap();
    let large_bytes = large.len() + 4;
    let result = Some(large);
    let no_name = "nowhere".parse().expect("a legal name");
    let command = NodeCommand::Freeze;
    let refusals: [(Error, String); 13] = [
        (
            kit.try_submit(fresh(task("live"))).await.unwrap_err(),
            "task 'live' exists already".into(),
        ),
        (
            kit.try_submit(fresh(task("over"))).await.unwrap_err(),
            "task 'over' has ended already; retry it to start it again, or let a submit replace it to use its id \
             again"
                .into(),
        ),
        (
            kit.try_send("none", "d", Command::Run).await.unwrap_err(),
            "task 'none' does not exist".into(),
        ),
        (
            kit.try_send("over", "c", Command::Run).await.unwrap_err(),
            "command id: 'c' was sent to task 'live' before; give a new id".into(),
        ),
        (
            kit.try_send("live", "e", Command::Complete { result })
                .await
                .unwrap_err(),
            format!(
                "result has {large_bytes} bytes; the store takes at most {}",
                registry.limits().max_bytes
            ),
        ),
        (
            registry.list(&Filter::default(), page).await.unwrap_err(),
            "limit: is 0; give 1 to 10000".into(),
        ),
        (
            one(registry.retry(vec![id("live")]).await).unwrap_err(),
            "state: is runnable; retry starts only tasks that have ended or are quarantined".into(),
        ),
        (
            one(registry.delete(vec![id("none")]).await).unwrap_err(),
            "task 'none' does not exist".into(),
        ),
        (
            registry.command(&command_of("none")).await.unwrap_err(),
            "command 'none' does not exist".into(),
        ),
        (
            registry.send_node(&no_name, command, None).await.unwrap_err(),
            "node 'nowhere' does not exist".into(),
        ),
        (
            registry.node_outcome(unknown).await.unwrap_err(),
            format!("node command '{beyond}' does not exist"),
        ),
        (
            kit.coordinator()
                .join(&Kit::spec("n"), LONG)
                .await
                .unwrap_err(),
            "node 'n' exists already".into(),
        ),
        (
            kit.try_submit(fresh(with_label("bad"))).await.unwrap_err(),
            "labels: the name \"a=b\" is not 1 to 128 bytes of printable text without '=' and ','"
                .into(),
        ),
    ];
    for (error, text) in refusals {
        assert_eq!(error.to_string(), text);
    }
    let Err(error) = registry.changes(Some(beyond)).await else {
        panic!("a cursor beyond the end is refused");
    };
    let text = error.to_string();
    let begins = format!("after: is {beyond}, but the newest change is ");
    assert!(text.starts_with(&begins), "{text}");
}

fn with_label(name: &str) -> Task {
    let mut task = task(name);
    task.labels.insert("a=b".into(), "c".into());
    task
}
