//! Lists page by page, in each order and both directions.

use std::collections::BTreeSet;

use windlass_statemachine::{Command, Json, Message, StateKind};

use super::{
    Capability, Harness,
    capability::need,
    kit::{Kit, fresh, id, of_kind, one, task, with_data},
};
use crate::{
    Client,
    store::{Filter, Order, Purge, Query, TaskPage, TimeRange},
};

/// Reads all pages of a query, and returns the ids, in order.
async fn ids(client: &Client, query: &Query) -> Vec<String> {
    let mut listed = Vec::new();
    let mut page: TaskPage = client.page(query, None).await.expect("the first page");
    assert_eq!(page.previous, None);
    loop {
        assert!(page.tasks.len() <= query.limit as usize);
        let back = page.previous;
        let tasks = page.tasks.iter();
        let here: Vec<String> = tasks.map(|record| record.task.id.to_string()).collect();
        if let Some(back) = back {
            let before = client.page(query, Some(&back)).await.expect("a page");
            let before = before.tasks.iter().map(|record| record.task.id.to_string());
            let before: Vec<String> = before.collect();
            assert!(listed.ends_with(&before), "{before:?} before {here:?}");
            assert!(!before.is_empty(), "there is one before {here:?}");
        }
        listed.extend(here);
        let Some(next) = page.next else {
            return listed;
        };
        // A cursor is passed on as text.
        let next = next.to_string().parse().expect("a cursor");
        page = client.page(query, Some(&next)).await.expect("a page");
    }
}

/// Asserts that the lists of all page sizes are the same, and the reverse of those in the other
/// direction.
pub(super) async fn assert_lists(kit: &Kit, query: Query, expected: &[&str]) {
    let client = Client::new(&kit.store);
    for limit in [1, 2, 3, 100] {
        let query = query.clone().limit(limit);
        assert_eq!(ids(&client, &query).await, expected, "{query:?}");
        let mut reversed = expected.to_vec();
        reversed.reverse();
        let mut other = query;
        other.ascending = !other.ascending;
        assert_eq!(ids(&client, &other).await, reversed, "{other:?}");
    }
}

/// The newest submit comes first, and every task is listed exactly once, with any page size.
pub async fn the_newest_submits_come_first(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    for name in ["c", "a", "e", "b", "d"] {
        kit.submit(name).await;
    }
    let query = Query::new(Filter::default());
    assert_lists(&kit, query, &["d", "b", "e", "a", "c"]).await;
    let filter = Filter {
        id_prefix: Some("b".to_owned()),
        ..Filter::default()
    };
    assert_lists(&kit, Query::new(filter), &["b"]).await;
    let none = Filter {
        states: vec![StateKind::Failed],
        ..Filter::default()
    };
    assert_lists(&kit, Query::new(none), &[]).await;
}

/// Tasks that are added or deleted between two pages shift no other task, even when the task of the
/// cursor is deleted.
pub async fn pages_are_stable_while_tasks_come_and_go(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    for n in 1..=6 {
        kit.submit(&format!("t{n}")).await;
    }
    let client = Client::new(&kit.store);
    let query = Query::new(Filter::default()).limit(2);
    let first = client.page(&query, None).await.expect("a page");
    kit.submit("t7").await;
    kit.delete("t5").await;
    kit.delete("t4").await;
    let second = client.page(&query, first.next.as_ref()).await;
    let second = second.expect("a page");
    let names = |page: &TaskPage| {
        let tasks = page.tasks.iter();
        tasks
            .map(|record| record.task.id.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&second), ["t3", "t2"]);
    let back = client.page(&query, second.previous.as_ref()).await;
    assert_eq!(names(&back.expect("a page")), ["t7", "t6"]);
}

/// A list by due time has the sleeping tasks, claimed or not, the earliest wake-up first when ascending.
pub async fn a_list_by_due_time_has_the_sleeping_tasks(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let at = |minutes: u64| kit.later(std::time::Duration::from_secs(minutes * 60));
    for (name, kind, minutes) in [
        ("late", "demo", 30),
        ("soon", "demo", 10),
        ("other", "other", 20),
        ("later", "demo", 25),
        ("last", "other", 40),
    ] {
        let mut sleeper = of_kind(name, kind);
        sleeper.start_at = Some(at(minutes));
        one(kit.registry().submit(vec![fresh(sleeper)]).await).expect("a submit");
    }
    kit.submit("now").await;
    kit.ended(&node, "ended", &Message::complete()).await;
    let mut paused = kit.claimed(&node, "paused").await;
    kit.commit(&mut paused, &Message::pause()).await;
    let asleep = kit.claimed(&node, "asleep").await;
    // A short sleep keeps its claim.
    let mut write = kit.write(&asleep, &Message::sleep_until(at(15)));
    write.drop_claim = false;
    kit.try_write(&asleep, write).await.expect("a commit");
    let mut version = kit.claimed(&node, "version").await;
    let sleep = Message::sleep_until(at(35));
    kit.commit_version(&mut version, sleep, 2).await;
    let query = Query::new(Filter::default()).order(Order::Due);
    let all = [
        "soon", "asleep", "other", "later", "late", "version", "last",
    ];
    assert_lists(&kit, query, &all).await;
    let others = Filter {
        kind: Some("other".parse().expect("a kind")),
        ..Filter::default()
    };
    let others = Query::new(others).order(Order::Due);
    assert_lists(&kit, others, &["other", "last"]).await;
}

/// A list by end has the ended tasks, the last one first, however they ended.
pub async fn a_list_by_end_has_the_last_end_first(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit("live").await;
    let ends = [
        ("a", Message::complete()),
        ("c", Message::fail("for good")),
        ("b", Message::kill()),
    ];
    for (name, message) in &ends {
        kit.ended(&node, name, message).await;
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    let query = Query::new(Filter::default()).order(Order::Ended);
    assert_lists(&kit, query.clone(), &["b", "c", "a"]).await;
    let query = Query {
        filter: Filter {
            states: vec![StateKind::Completed, StateKind::Killed],
            ..Filter::default()
        },
        ..query
    };
    assert_lists(&kit, query, &["b", "a"]).await;
}

/// A filter by fingerprint selects the tasks whose last error differs only in numbers, ids and paths.
pub async fn a_filter_by_fingerprint_selects_the_same_error(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    for (name, error) in [
        ("a", "order 7: no /in/7.csv"),
        ("b", "order 19: no /in/19.csv"),
        ("c", "order 7: refused"),
    ] {
        kit.ended(&node, name, &Message::fail(error)).await;
    }
    kit.submit("d").await;
    let fingerprint = kit.get("a").await.fingerprint();
    assert!(fingerprint.is_some());
    let same = Filter {
        fingerprint,
        ..Filter::default()
    };
    let query = Query::new(same);
    assert_lists(&kit, query.clone(), &["b", "a"]).await;
    assert_lists(&kit, query.order(Order::Ended), &["b", "a"]).await;
}

/// A list by end has each ended task once, whatever was retried, replaced, deleted or purged before.
pub async fn a_list_by_end_follows_what_becomes_of_ended_tasks(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let pause = || tokio::time::sleep(std::time::Duration::from_millis(2));
    for name in ["purged", "a", "retried", "deleted", "replaced", "b"] {
        kit.ended(&node, name, &Message::complete()).await;
        pause().await;
    }
    let first = kit.state("a").await.since;
    let ends = [StateKind::Completed];
    let purged = kit.registry().purge(&Purge::new(ends, first)).await;
    assert_eq!(purged.expect("a purge"), 1);
    kit.retry("retried").await;
    kit.delete("deleted").await;
    kit.replace("replaced").await;
    let query = Query::new(Filter::default()).order(Order::Ended);
    assert_lists(&kit, query.clone(), &["b", "a"]).await;
    for name in ["replaced", "retried"] {
        let mut claimed = kit.claim(&node, name).await;
        kit.end_by(&mut claimed, &Message::kill()).await;
        pause().await;
    }
    assert_lists(&kit, query.clone(), &["retried", "replaced", "b", "a"]).await;
    let since = Filter {
        ended: TimeRange {
            from: Some(kit.state("b").await.since),
            until: Some(kit.state("retried").await.since),
        },
        ..Filter::default()
    };
    let since = Query::new(since).order(Order::Ended);
    assert_lists(&kit, since, &["replaced", "b"]).await;
}

/// A list by id is in the order of the bytes of the ids, and each task has its owner and its commands, even next to ids
/// that begin with its id.
pub async fn a_list_by_id_is_in_the_order_of_the_ids(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut names: Vec<String> = ["a", "a-b", "a b", "a.c", "ab", "Z", "~", "é", "z", "0"]
        .map(str::to_owned)
        .to_vec();
    names.extend((0..12).map(|n| format!("a-{n}")));
    names.extend((0..40).map(|_| uuid::Uuid::now_v7().to_string()));
    for name in &names {
        kit.submit(name).await;
    }
    let _claimed = kit.claim(&node, "a").await;
    for n in 0..3 {
        kit.send("a", &format!("to-a-{n}"), Command::Pause).await;
        kit.send("a b", &format!("to-a-b-{n}"), Command::Pause)
            .await;
    }
    kit.ended(&node, "a-c", &Message::complete()).await;
    names.push("a-c".to_owned());
    names.sort();
    names.reverse();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let query = Query::new(Filter::default()).order(Order::Id);
    assert_lists(&kit, query.clone(), &all).await;
    let under_a = Filter {
        id_prefix: Some("a-1".to_owned()),
        ..Filter::default()
    };
    let under_a = Query::new(under_a).order(Order::Id);
    assert_lists(&kit, under_a, &["a-11", "a-10", "a-1"]).await;
    let of_state = |code| {
        let filter = Filter {
            states: vec![code],
            ..Filter::default()
        };
        Query::new(filter).order(Order::Id)
    };
    assert_lists(&kit, of_state(StateKind::Completed), &["a-c"]).await;
    let live: Vec<&str> = all.iter().copied().filter(|id| *id != "a-c").collect();
    assert_lists(&kit, of_state(StateKind::Runnable), &live).await;

    let client = Client::new(&kit.store);
    let page = client.page(&query.limit(10_000), None).await;
    for listed in page.expect("a page").tasks {
        let got = kit.get(listed.task.id.as_str()).await;
        let id = &listed.task.id;
        assert_eq!(
            (listed.node, listed.commands, listed.fence),
            (got.node, got.commands, got.fence),
            "{id}"
        );
    }
}

/// Filters by ids, by times and by a value in the props select the matching tasks.
pub async fn filters_by_ids_times_and_props(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    for (name, props) in [
        ("a", r#"{"to":{"country":"de"},"n":1}"#),
        ("b", r#"{"to":{"country":"fr"},"n":1.0}"#),
        ("c", "null"),
    ] {
        let mut with_props = task(name);
        with_props.props = Json::parse("props", props).expect("JSON");
        kit.submit_task(with_props).await;
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    let names = async |filter: Filter| {
        let listed: BTreeSet<String> = kit.list(filter).await.into_iter().collect();
        listed.into_iter().collect::<Vec<_>>().join(",")
    };
    let ids = ["c", "a", "none"].map(|name| name.parse().expect("an id"));
    let by_ids = Filter {
        ids: ids.to_vec(),
        ..Filter::default()
    };
    assert_eq!(names(by_ids).await, "a,c");
    let at = |pointer: &str, value: &str| Filter {
        props: vec![(
            pointer.to_owned(),
            Json::parse("value", value).expect("JSON"),
        )],
        ..Filter::default()
    };
    assert_eq!(names(at("/to/country", "\"de\"")).await, "a");
    assert_eq!(names(at("/n", "1")).await, "a", "1.0 is another value");
    assert_eq!(
        names(at("/to/city", "null")).await,
        "",
        "a missing value is none"
    );
    assert_eq!(names(at("", "null")).await, "c");

    let submitted = kit.get("b").await.submitted_at;
    let of = |range| Filter {
        submitted: range,
        ..Filter::default()
    };
    let from = TimeRange {
        from: Some(submitted),
        until: None,
    };
    assert_eq!(names(of(from)).await, "b,c");
    let until = TimeRange {
        from: None,
        until: Some(submitted),
    };
    assert_eq!(names(of(until)).await, "a");
    let mut claimed = kit.claim(&node, "a").await;
    kit.end_by(&mut claimed, &Message::complete()).await;
    let ended = Filter {
        ended: TimeRange {
            from: Some(submitted),
            until: None,
        },
        ..Filter::default()
    };
    assert_eq!(names(ended).await, "a", "live tasks have no end");
}

/// A task whose state cannot be read is only in the list by submit, and hides no other task from the other
/// lists.
pub async fn an_unreadable_task_ends_no_list(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    for (name, minutes) in [("a", 1), ("bad", 2), ("b", 3), ("c", 4)] {
        let until = kit.later(std::time::Duration::from_secs(minutes * 60));
        // A state store that is separate from its coordinator has only the states of tasks that
        // have run.
        let mut claimed = kit.claimed(&node, name).await;
        let sleep = with_data(Message::sleep_until(until), 1);
        kit.commit(&mut claimed, &sleep).await;
    }
    for name in ["d", "worse", "e", "f"] {
        kit.ended(&node, name, &Message::complete()).await;
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    for name in ["bad", "worse"] {
        let damaged = harness.corrupt_state(&kit.store, &id(name)).await;
        need(Capability::CorruptState, damaged.then_some(()));
    }
    let query = Query::new(Filter::default());
    assert_lists(&kit, query.clone().order(Order::Due), &["a", "b", "c"]).await;
    assert_lists(&kit, query.clone().order(Order::Ended), &["f", "e", "d"]).await;
    let all = ["f", "e", "worse", "d", "c", "b", "bad", "a"];
    assert_lists(&kit, query, &all).await;
}
