//! Parked tasks: what they cost a node in memory, at its start, while nothing happens, and when
//! some of them become due.

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use windlass::{Message, NewTask, Runner, TaskContext};

use crate::{
    report::{Goal, Report},
    support::{self, Other, Setting, Times},
};

pub(crate) fn later(wait: Duration) -> Timestamp {
    Timestamp::now() + SignedDuration::try_from(wait).unwrap()
}

/// A task that sleeps for longer than anything is measured.
pub(crate) fn sleeper(n: usize) -> NewTask {
    let days = 30 + n as u64 % 300;
    NewTask::new("parked")
        .id(support::id(n))
        .start_at(later(Duration::from_secs(days * 24 * 3600)))
}

fn file_of(
    setting: &Setting,
    name: &str,
    sleepers: usize,
) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = setting.folder();
    let file = folder.path().join(name);
    support::runtime().block_on(async {
        let store = support::open(&file).await;
        support::fill(&store, sleepers, sleeper).await;
    });
    (folder, file)
}

/// What a node says of itself.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Facts {
    pub(crate) parked: usize,
    /// Seconds from opening the file to the end of the list.
    pub(crate) listed: f64,
    /// Bytes that are resident.
    pub(crate) resident: u64,
}

/// The other process: a node that holds parked tasks and reports its memory.
pub(crate) async fn holds(file: &Path) {
    let begun = Instant::now();
    let store = support::open(file).await;
    let runner = Runner::builder(&store)
        .default_handler(Default::default(), |_: TaskContext| async {
            Message::complete()
        })
        .start()
        .await
        .unwrap();
    let parked = loop {
        let snapshot = runner.snapshot().await.unwrap();
        if snapshot.listed {
            break snapshot.parked;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let listed = begun.elapsed().as_secs_f64();
    while support::asked().await {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let resident = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok())
            .unwrap();
        let facts = Facts {
            parked,
            listed,
            resident: resident * 1024,
        };
        support::say(serde_json::to_string(&facts).unwrap());
    }
    runner.shutdown().await;
}

/// Starts a node in its own process, and asks it when it has come to rest.
pub(crate) fn facts(file: &Path) -> (Facts, Other) {
    let mut other = Other::start("holds", file);
    let mut ask = || {
        other.ask();
        serde_json::from_str::<Facts>(&other.line()).unwrap()
    };
    ask();
    std::thread::sleep(Duration::from_secs(2));
    (ask(), other)
}

pub(crate) fn memory(setting: &Setting, report: &mut Report) {
    let count = setting.pick(1_000_000, 50_000);
    let (_folder, full) = file_of(setting, "full.db", count);
    let (_empty_folder, empty) = file_of(setting, "empty.db", 0);
    let (mut bytes, mut listed) = (Vec::new(), Vec::new());
    for _ in 0..setting.pick(3, 1) {
        let with = facts(&full).0;
        assert_eq!(with.parked, count);
        let without = facts(&empty).0;
        bytes.push((with.resident - without.resident) as f64 / count as f64);
        listed.push(with.listed);
    }
    let of = |what: &str| format!("{what}, {count} parked tasks");
    let (most, soon) = (Goal::Most(256.0), Goal::Most(5.0));
    report.median(of("resident memory of each"), &bytes, "B", Some(most));
    report.median(of("start-up until listed"), &listed, "s", Some(soon));
}

pub(crate) fn idle(setting: &Setting, report: &mut Report) {
    let count = setting.pick(100_000, 10_000);
    let (_folder, full) = file_of(setting, "full.db", count);
    let (_, node) = facts(&full);
    let time = setting.pick(Duration::from_secs(15), Duration::from_secs(2));
    let mut shares = Vec::new();
    for _ in 0..setting.pick(3, 1) {
        let (begun, before) = (Instant::now(), node.used());
        std::thread::sleep(time);
        let used = node.used() - before;
        shares.push(100.0 * used.as_secs_f64() / begun.elapsed().as_secs_f64());
    }
    let what = format!("an idle node with {count} parked tasks");
    report.median(what, &shares, "% of a core", Some(Goal::Most(0.1)));
}

pub(crate) fn lateness(setting: &Setting, report: &mut Report) {
    let parked = setting.pick(100_000, 10_000);
    let due = setting.pick(4000, 400);
    let spread = setting.pick(Duration::from_secs(20), Duration::from_secs(2));
    let (_folder, file) = file_of(setting, "due.db", parked);
    let times = Arc::new(Mutex::new(Times::new()));
    support::runtime().block_on(async {
        let store = support::open(&file).await;
        let handler = {
            let times = times.clone();
            move |task: TaskContext| {
                let late = Timestamp::now().duration_since(task.task().start_at.unwrap());
                assert!(!late.is_negative(), "it ran early by {late}");
                times.lock().unwrap().add(late.unsigned_abs());
                async { Message::complete() }
            }
        };
        let runner = Runner::builder(&store)
            .handler("due", handler)
            .handler("parked", |_: TaskContext| async { Message::complete() })
            .start()
            .await
            .unwrap();
        // Steps that have nothing in common with those of any timer.
        let step = spread / due as u32;
        let begin = later(Duration::from_secs(3));
        support::fill(&store, due, |n| {
            let at = begin + SignedDuration::try_from(step * n as u32).unwrap();
            NewTask::new("due").id(format!("due-{n}")).start_at(at)
        })
        .await;
        let client = windlass::Client::new(&store);
        let last = format!("due-{}", due - 1);
        client.wait(&last).await.unwrap();
        runner.drain().await;
        runner.shutdown().await;
    });
    let times = times.lock().unwrap();
    let what = format!(
        "due to running, {} a second due, {parked} parked",
        due as u64 / spread.as_secs()
    );
    times.tell(report, &what, None);
    report.one(format!("{what}: max"), times.max_ms(), "ms", None);
}
