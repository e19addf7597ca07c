//! Failed attempts: what a waiting client reports, what is retried and when.

use std::sync::{Arc, Mutex};

use windlass::{
    BoxError, Client, KindConfig, Message, NewTask, PropsError, Retry, StateKind, TaskContext,
    client::Waiting,
};

use super::support::{World, secs};

/// Submits a task and waits for its end; returns the reports and the state.
pub(crate) async fn waited(client: &Client, task: NewTask) -> (Vec<String>, windlass::TaskState) {
    let id = client.submit(task).await.unwrap().into_id();
    let mut reports = Vec::new();
    let report = |waiting: Waiting| reports.push(waiting.to_string());
    let done = client.wait_with(&id, report).await.unwrap();
    (reports, done.state)
}

/// The part of a report before the wait, which is random.
fn before_the_wait(report: &str) -> (&str, &str) {
    let (before, after) = report.split_once("; next in ").unwrap();
    (before, after.split_once(" s ").unwrap().1)
}

#[tokio::test(start_paused = true)]
async fn by_default_a_task_that_fails_fails_for_good_within_minutes() {
    let world = World::new().await;
    let _node = world
        .node("n")
        .handler("fails", |_: TaskContext| async {
            Message::error("disk full")
        })
        .start()
        .await
        .unwrap();
    let begun = world.now();
    let (reports, state) = waited(&world.client, NewTask::new("fails")).await;
    assert_eq!((state.code(), state.attempts), (StateKind::Failed, 8));
    let took = world.now().duration_since(begun);
    // The bounds of the waits are 1 s, 2 s, 4 s … 64 s.
    assert!(took < jiff::SignedDuration::from_secs(150), "{took}");
    assert_eq!(reports.len(), 8, "{reports:?}");
    for (n, report) in (1..8).zip(&reports) {
        let failed = format!("attempt {n} failed: disk full");
        let left = format!("({} left)", 8 - n);
        assert_eq!(before_the_wait(report), (failed.as_str(), left.as_str()));
    }
    assert_eq!(
        reports[7],
        "attempt 8 failed: disk full; not retried, the task has failed"
    );
}

#[tokio::test(start_paused = true)]
async fn strikes_sleeps_ten_minutes_after_each_error() {
    let world = World::new().await;
    let strikes = KindConfig::default().retry(Retry::strikes());
    let _node = world
        .node("n")
        .handler_with("flaky", strikes, |task: TaskContext| async move {
            match task.attempt() {
                1 => Message::error("timed out"),
                _ => Message::complete(),
            }
        })
        .start()
        .await
        .unwrap();
    let (reports, state) = waited(&world.client, NewTask::new("flaky")).await;
    assert_eq!(state.code(), StateKind::Completed);
    assert_eq!(
        reports,
        ["attempt 1 failed: timed out; next in 10 min (7 left)"]
    );
}

/// An error that holds the one about the props.
#[derive(Debug)]
struct Reading(PropsError);

impl std::fmt::Display for Reading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "reading the order: {}", self.0)
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_that_no_retry_fixes_is_not_retried() {
    let world = World::new().await;
    let _node = world
        .node("n")
        .handler("fail", |_: TaskContext| async {
            Message::fail("no such address")
        })
        .handler("props", |task: TaskContext| async move {
            let n: u32 = task.props()?;
            Ok::<_, BoxError>(Message::complete_with(n))
        })
        .handler("wrapped", |task: TaskContext| async move {
            let n: Result<u32, _> = task.props();
            n.map(|_| Message::complete()).map_err(Reading)
        })
        .handler("unwrapped", |task: TaskContext| async move {
            let _n: u32 = task.props().unwrap();
            Message::complete()
        })
        .handler("large", |_: TaskContext| async {
            Message::complete_with("x".repeat(2 << 20))
        })
        .start()
        .await
        .unwrap();
    for (kind, error) in [
        ("fail", "no such address"),
        ("props", "props: is "),
        ("wrapped", "reading the order: props: is "),
        ("unwrapped", "the handler panicked at "),
        ("large", "result: has 20971"),
    ] {
        let (reports, state) = waited(&world.client, NewTask::new(kind).props("text")).await;
        assert_eq!(
            (state.code(), state.attempts),
            (StateKind::Failed, 1),
            "{kind}"
        );
        let [report] = reports.as_slice() else {
            panic!("{kind}: {reports:?}")
        };
        let begins = format!("attempt 1 failed: {error}");
        assert!(report.starts_with(&begins), "{report}");
        assert!(report.ends_with("; not retried, the task has failed"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_of_a_handler_that_goes_on_without_its_props_is_retried() {
    let world = World::new().await;
    let _node = world
        .node("n")
        .handler("lenient", |task: TaskContext| async move {
            let n: u32 = task.props().unwrap_or_default();
            match task.attempt() {
                1 => Err("timed out"),
                _ => Ok(Message::complete_with(n)),
            }
        })
        .handler("second", |task: TaskContext| async move {
            let older = task.props::<u32>().unwrap_err().to_string();
            let _text: String = task.props().unwrap();
            match task.attempt() {
                1 => Err(format!("not that: {older}")),
                _ => Ok(Message::complete()),
            }
        })
        .handler("panics", |task: TaskContext| async move {
            let n: u32 = task.props().unwrap_or_default();
            assert_ne!(task.attempt(), 1);
            Message::complete_with(n)
        })
        .start()
        .await
        .unwrap();
    for kind in ["lenient", "second", "panics"] {
        let (reports, state) = waited(&world.client, NewTask::new(kind).props("text")).await;
        assert_eq!(state.code(), StateKind::Completed, "{reports:?}");
        assert_eq!(reports.len(), 1, "{reports:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_and_an_id_that_is_taken_are_reported_and_retried() {
    let world = World::new().await;
    let taken = NewTask::new("other").id("taken");
    world.client.submit(taken.clone()).await.unwrap();
    let _node = world
        .node("n")
        .handler("panics", |_: TaskContext| async {
            panic!("no more fuel");
            #[allow(unreachable_code, reason = "it gives the handler its type")]
            Message::complete()
        })
        .handler("submits", move |_: TaskContext| {
            let child = taken.clone();
            async move { Ok::<_, BoxError>(Message::complete().and_submit(child)) }
        })
        .start()
        .await
        .unwrap();
    for (kind, says) in [
        ("panics", "no more fuel"),
        ("submits", "task 'taken' exists already"),
    ] {
        let (reports, _) = waited(&world.client, NewTask::new(kind)).await;
        assert_eq!(reports.len(), 8, "{reports:?}");
        assert!(reports[0].starts_with("attempt 1 failed: "), "{reports:?}");
        assert!(reports.iter().all(|r| r.contains(says)), "{reports:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_reports_why_no_node_runs_the_task() {
    let world = World::new().await;
    let id = world
        .client
        .submit(NewTask::new("late"))
        .await
        .unwrap()
        .into_id();
    let reports = Arc::new(Mutex::new(Vec::new()));
    let seen = reports.clone();
    let client = world.client.clone();
    let wait = tokio::spawn(async move {
        let report = |waiting: Waiting| seen.lock().unwrap().push(waiting.to_string());
        client.wait_with(&id, report).await.unwrap()
    });
    let reported = || async { !reports.lock().unwrap().is_empty() };
    world.until("the wait reports", reported).await;
    // It looks again, and has nothing new to report.
    tokio::time::sleep(secs(30)).await;
    let node = world.node("n");
    let complete = |_: TaskContext| async { Message::complete() };
    let _node = node.handler("late", complete).start().await.unwrap();
    assert!(wait.await.unwrap().is_completed());
    assert_eq!(
        *reports.lock().unwrap(),
        ["waits: no live node handles its kind: start one that does"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_wait_reports_no_failure_from_before_the_task_made_progress() {
    let world = World::new().await;
    let _node = world
        .node("n")
        .handler("poll", |task: TaskContext| async move {
            match (task.data::<u32>().unwrap(), task.attempt()) {
                (None, 1) => Message::error("timed out"),
                (None, _) => Message::sleep_for(secs(600)).with_data(&1),
                _ => Message::complete(),
            }
        })
        .start()
        .await
        .unwrap();
    let id = world
        .client
        .submit(NewTask::new("poll"))
        .await
        .unwrap()
        .into_id();
    world.rest(&id, StateKind::Sleeping).await;
    let mut reports = Vec::new();
    let report = |waiting: Waiting| reports.push(waiting);
    let done = world.client.wait_with(&id, report).await.unwrap();
    assert_eq!(done.state.errors.total(), 1);
    assert_eq!(reports, []);
}

#[tokio::test(start_paused = true)]
async fn an_error_names_its_node_and_its_data_version_if_that_is_not_the_first() {
    let world = World::new().await;
    let fails = async |_: TaskContext| Message::error("timed out");
    let start = async |node: &str, version: u32| {
        let config = KindConfig::default().data_version(version);
        let node = world.node(node).handler_with("poll", config, fails);
        node.start().await.unwrap()
    };
    let one = start("one", 1).await;
    let id = world.client.submit(NewTask::new("poll")).await.unwrap();
    let id = id.into_id();
    // It keeps its claim in short sleeps.
    let has_failed = || async {
        let state = world.client.get(&id).await.unwrap().state.unwrap();
        state.errors.last().is_some()
    };
    world.until("an attempt has failed", has_failed).await;
    one.shutdown().await;
    let _two = start("two", 2).await;
    world.rest(&id, StateKind::Failed).await;
    let state = world.client.get(&id).await.unwrap().state.unwrap();
    let named = state.errors.entries().iter();
    let named: Vec<_> = named
        .map(|entry| (entry.node.as_ref().unwrap().as_str(), entry.data_version))
        .collect();
    let (first, last) = (named.first(), named.last());
    assert_eq!(
        (first, last),
        (Some(&("one", None)), Some(&("two", Some(2))))
    );
}
