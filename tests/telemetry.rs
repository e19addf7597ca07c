//! Each metric of the table is recorded, and `docs/reference/metrics.md` is the table.
#![cfg(feature = "testing")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use windlass::{
    Client, Command, KindConfig, Message, NewTask, Retry, Runner, StateKind, TaskContext,
    schedule::Schedule,
    store::Store,
    telemetry::{self, METRICS, MetricKind},
    testing::{Fault, FaultyStore, Operation, TokioClock},
};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference/metrics.md");

#[test]
fn the_page_of_metrics_is_the_table() {
    let page = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(
        page == telemetry::page(),
        "docs/reference/metrics.md is stale; write it again: \
         cargo test --all-features --test telemetry -- --ignored write_the_page"
    );
}

#[test]
#[ignore = "writes docs/reference/metrics.md"]
fn write_the_page() {
    std::fs::write(PAGE, telemetry::page()).unwrap();
}

/// The recorded metrics by name: the labels of each series, with its value.
type Recorded = BTreeMap<String, Vec<(BTreeMap<String, String>, DebugValue)>>;

fn recorded(snapshotter: &Snapshotter) -> Recorded {
    let mut recorded = Recorded::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let labels = key.key().labels();
        let labels = labels.map(|l| (l.key().to_owned(), l.value().to_owned()));
        let series = recorded.entry(key.key().name().to_owned()).or_default();
        series.push((labels.collect(), value));
    }
    recorded
}

fn is_set(value: &DebugValue) -> bool {
    match value {
        DebugValue::Counter(n) => *n > 0,
        DebugValue::Gauge(_) => true,
        DebugValue::Histogram(values) => !values.is_empty(),
    }
}

fn labels(of: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    of.iter().map(owned).collect()
}

/// Returns the value of a gauge with these labels.
fn gauge(recorded: &Recorded, name: &str, of: &[(&str, &str)]) -> f64 {
    let of = labels(of);
    let found = recorded[name].iter().find(|(labels, _)| *labels == of);
    match found.unwrap_or_else(|| panic!("{name} has no {of:?}")).1 {
        DebugValue::Gauge(value) => value.0,
        ref other => panic!("{name}: {other:?}"),
    }
}

/// Returns the sum of a counter over the series with this label.
fn count(recorded: &Recorded, name: &str, (label, is): (&str, &str)) -> u64 {
    let series = recorded.get(name).into_iter().flatten();
    let series = series.filter(|(labels, _)| labels.get(label).is_some_and(|l| l == is));
    series
        .map(|(_, value)| match value {
            DebugValue::Counter(n) => *n,
            _ => panic!("{name} is no counter"),
        })
        .sum()
}

/// One node completes a task, fails one, loses a claim, and meets a store that does not answer.
#[tokio::test(start_paused = true)]
async fn every_metric_is_recorded_with_its_labels() {
    let before = jiff::Timestamp::now();
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _guard = metrics::set_default_local_recorder(&recorder);
    telemetry::describe();

    let at = "2030-01-01T00:00:00Z".parse().unwrap();
    let clock = Arc::new(TokioClock::new(at));
    let faults = FaultyStore::new(&Store::open_with_clock("memory:", clock).await.unwrap());
    let store = faults.store();
    let client = Client::new(&store);
    let node = Runner::builder(&store)
        .handler("good", |_: TaskContext| async { Message::complete() })
        .handler_with(
            "bad",
            KindConfig::default().retry(Retry::Never),
            |_: TaskContext| async { Message::error("no") },
        )
        .handler("long", |task: TaskContext| async move {
            if task.attempt() == 1 {
                std::future::pending::<()>().await;
            }
            Message::complete()
        })
        .handler_with(
            "endless",
            KindConfig::default().stop_grace(Duration::from_millis(50)),
            |_: TaskContext| std::future::pending::<Message>(),
        )
        .gauges_every(Duration::from_secs(1))
        .start()
        .await
        .unwrap();
    let good = client.submit(NewTask::new("good")).await.unwrap().into_id();
    client.wait(&good).await.unwrap();
    let bad = client.submit(NewTask::new("bad")).await.unwrap().into_id();
    client.wait(&bad).await.unwrap();

    for (operation, task) in [(Operation::Commit, "good"), (Operation::Claim, "good")] {
        faults.fail(operation, Fault::Before, 1);
        let id = client.submit(NewTask::new(task)).await.unwrap().into_id();
        client.wait(&id).await.unwrap();
    }
    // The task is deleted before its end is written.
    faults.fail(Operation::Commit, Fault::Before, 1);
    let calls = faults.calls(Operation::Commit);
    let gone = client.submit(NewTask::new("good")).await.unwrap().into_id();
    while faults.calls(Operation::Commit) == calls {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    client.force_delete(&gone).await.unwrap();
    faults.fail(Operation::Renew, Fault::Before, 1);
    tokio::time::sleep(Duration::from_secs(20)).await;

    // The claim is lost in the store, and the handler of the next one completes the task.
    let long = client.submit(NewTask::new("long")).await.unwrap().into_id();
    while client.get(&long).await.unwrap().node.is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let lease = client.nodes().await.unwrap()[0].lease;
    faults.lose_lease(lease);
    client.wait(&long).await.unwrap();

    let endless = client
        .submit(NewTask::new("endless"))
        .await
        .unwrap()
        .into_id();
    while client.get(&endless).await.unwrap().node.is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let kill = client.command(&endless, Command::Kill).await.unwrap();
    client.wait_outcome(&kill).await.unwrap();

    let hourly = Schedule::new(NewTask::new("good")).every(Duration::from_secs(3600), None);
    client.schedules().create("hourly", hourly).await.unwrap();
    // No node has a handler for it.
    client.submit(NewTask::new("nobody")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2 * 3600 + 5)).await;
    node.shutdown().await;

    let recorded = recorded(&snapshotter);
    // Those of the server are recorded by a test of the program that serves.
    let of_nodes = METRICS
        .iter()
        .filter(|metric| !metric.name.contains("_http_"));
    let missing: BTreeSet<&str> = of_nodes
        .clone()
        .filter(|metric| {
            let mut series = recorded.get(metric.name).into_iter().flatten();
            !series.any(|(labels, value)| {
                let names: BTreeSet<&str> = labels.keys().map(String::as_str).collect();
                names == metric.labels.iter().copied().collect() && is_set(value)
            })
        })
        .map(|metric| metric.name)
        .collect();
    assert!(missing.is_empty(), "not recorded: {missing:?}");
    let known: BTreeSet<&str> = of_nodes.map(|metric| metric.name).collect();
    let recorded_names: BTreeSet<&str> = recorded.keys().map(String::as_str).collect();
    assert_eq!(recorded_names, known, "the table has every metric");

    let fired = count(
        &recorded,
        "windlass_schedule_times_total",
        ("outcome", "fired"),
    );
    assert!(fired >= 1, "{fired}");

    let to = |state| count(&recorded, "windlass_transitions_total", ("to", state));
    let ran = |outcome| count(&recorded, "windlass_attempts_total", ("outcome", outcome));
    // A schedule runs at each of its times, and so does the task that it submits.
    assert_eq!(to("completed"), 4 + fired);
    assert_eq!((to("failed"), ran("failed"), ran("aborted")), (1, 1, 2));
    let tasks = |state| {
        gauge(
            &recorded,
            "windlass_tasks",
            &[("kind", "endless"), ("state", state)],
        )
    };
    assert_eq!(
        (tasks("runnable"), tasks("killed")),
        (0.0, 1.0),
        "gone series are 0"
    );
    let nobody = [("kind", "nobody")];
    assert!(gauge(&recorded, "windlass_oldest_due_age_seconds", &nobody) > 7000.0);
    let reason = [("kind", "nobody"), ("reason", "no_node")];
    assert_eq!(gauge(&recorded, "windlass_waiting_tasks", &reason), 1.0);
    let workers = [("kind", "good"), ("sdk", "rust")];
    assert_eq!(gauge(&recorded, "windlass_workers", &workers), 1.0);
    assert_eq!(gauge(&recorded, "windlass_clock_skew_seconds", &[]), 0.0);
    let joined = gauge(&recorded, "windlass_node_joined_timestamp_seconds", &[]);
    assert!(
        (before.as_second() as f64..=jiff::Timestamp::now().as_second() as f64 + 1.0)
            .contains(&joined),
        "{joined}"
    );
    let running = &recorded["windlass_handlers_running"];
    let idle = running
        .iter()
        .all(|(_, value)| *value == DebugValue::Gauge(0.0.into()));
    assert!(idle, "{running:?}");
}

/// `increase()` does not see a series that begins with its first event.
#[tokio::test(start_paused = true)]
async fn counters_begin_with_0_for_every_kind_and_label_that_is_known() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let store = Store::open("memory:").await.unwrap();
    let node = Runner::builder(&store)
        .handler("good", |_: TaskContext| async { Message::complete() })
        .start()
        .await
        .unwrap();
    let server = windlass::workers::Workers::new(&store, Vec::new);
    let form = serde_json::json!({"name": "w", "secret": "a secret of sixteen characters",
        "kinds": {"remote": {"slots": 1}}});
    server
        .register(serde_json::from_value(form).unwrap())
        .await
        .unwrap();
    let recorded = recorded(&snapshotter);
    let counters = METRICS
        .iter()
        .filter(|metric| metric.kind == MetricKind::Counter && !metric.name.contains("_http_"));
    for metric in counters {
        let series = recorded.get(metric.name).map_or(0, Vec::len);
        let kinds = if metric.labels.contains(&"kind") {
            2
        } else {
            1
        };
        let others = match metric.name {
            "windlass_attempts_total" => 3,
            "windlass_transitions_total" => StateKind::ALL.len(),
            "windlass_lease_renewals_total" => 2,
            "windlass_schedule_times_total" => 5,
            "windlass_store_errors_total" => 28,
            _ => 1,
        };
        // The kinds that a node runs by itself come on top.
        assert!(
            series >= kinds * others,
            "{} has {series} series",
            metric.name
        );
        for kind in ["good", "remote"].iter().filter(|_| kinds == 2) {
            let of =
                |labels: &BTreeMap<String, String>| labels.get("kind").is_some_and(|of| of == kind);
            let all = recorded[metric.name].iter();
            let own = all.filter(|(labels, _)| of(labels)).count();
            assert_eq!(own, others, "{} of {kind}", metric.name);
        }
    }
    node.shutdown().await;
}

/// After a pause of 201 tasks that waited for 85 s, 201 starts with a lateness of 85 s were counted.
#[tokio::test(start_paused = true)]
async fn a_claim_for_a_command_or_a_missed_deadline_is_no_start() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let at = "2030-01-01T00:00:00Z".parse().unwrap();
    let clock = Arc::new(TokioClock::new(at));
    let store = Store::open_with_clock("memory:", clock).await.unwrap();
    let client = Client::new(&store);
    let soon = at + Duration::from_secs(30);
    let late = client
        .submit(NewTask::new("k").end_by(soon))
        .await
        .unwrap()
        .into_id();
    let paused = client.submit(NewTask::new("k")).await.unwrap().into_id();
    let pause = client.command(&paused, Command::Pause).await.unwrap();
    tokio::time::sleep(Duration::from_secs(85)).await;
    let node = Runner::builder(&store)
        .handler("k", |_: TaskContext| async { Message::complete() })
        .start()
        .await
        .unwrap();
    client.wait_outcome(&pause).await.unwrap();
    let late = client.wait(&late).await.unwrap().state.code();
    assert_eq!(late, StateKind::Failed, "it has missed its deadline");
    let of = |recorded: &Recorded| {
        let late = recorded.get("windlass_start_lateness_seconds");
        let late = late
            .into_iter()
            .flatten()
            .filter(|(_, value)| is_set(value))
            .count();
        (
            count(recorded, "windlass_claims_total", ("kind", "k")),
            late,
        )
    };
    assert_eq!(of(&recorded(&snapshotter)), (0, 0));
    client.command(&paused, Command::Run).await.unwrap();
    client.wait(&paused).await.unwrap();
    node.shutdown().await;
    // Nobody waited for a start of the paused task before the command.
    assert_eq!(of(&recorded(&snapshotter)), (1, 0));
}
