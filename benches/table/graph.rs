//! Tasks that wait for each other, compared with as many that wait for none; and what the end of a task for
//! which many wait costs the other tasks.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;
use windlass::{Client, Message, NewTask, Runner, TaskContext};

use crate::{
    report::{Goal, Report},
    support::{self, Meter, Rate, Setting, Times},
};

/// The tasks of a layer.
const WIDE: usize = 100;

/// The slots of the node.
const SLOTS: u32 = 1000;

/// Which tasks of the layer before it a task waits for.
#[derive(Debug, Clone, Copy)]
enum Waits {
    None,
    /// The one in the same place.
    One,
    All,
}

pub(crate) fn run(setting: &Setting, report: &mut Report) {
    let folder = setting.folder();
    let place = |name: &str| folder.path().join(format!("{name}.db"));
    layers(setting, report, place);
    fans(setting, report, place);
}

#[cfg(feature = "etcd")]
pub(crate) fn on_etcd(setting: &Setting, report: &mut Report) {
    let cluster = crate::cluster::Cluster::start(setting, 1);
    let place = |name: &str| PathBuf::from(cluster.url(name));
    layers(setting, report, place);
    fans(setting, report, place);
}

fn layers(setting: &Setting, report: &mut Report, place: impl Fn(&str) -> PathBuf) {
    let layers = setting.pick(100, 10);
    let rounds = setting.pick(3, 1);
    let kinds = [
        (Waits::None, SLOTS, "tasks that wait for none"),
        // As many at once as a graph has at most.
        (Waits::None, WIDE as u32, "the same, 100 slots"),
        (
            Waits::One,
            SLOTS,
            "each waits for one of the layer before it",
        ),
        (
            Waits::All,
            SLOTS,
            "each waits for all 100 of the layer before it",
        ),
    ];
    let mut rates = kinds.map(|(waits, slots, what)| (waits, slots, what, Vec::new()));
    for round in 0..rounds {
        for (at, (waits, slots, _, rates)) in rates.iter_mut().enumerate() {
            let store = place(&format!("{at}-{round}"));
            rates.push(support::runtime().block_on(rate(&store, layers, (*waits, *slots))));
        }
    }
    let per_second = |rates: &[Rate]| rates.iter().map(|rate| rate.per_second).collect::<Vec<_>>();
    let [alone, narrow] = [0, 1].map(|at| per_second(&rates[at].3));
    for (waits, _, what, rates) in &rates {
        report.median(*what, &per_second(rates), "/s", None);
        let beside = |others: &[f64]| -> Vec<f64> {
            let pairs = rates.iter().zip(others);
            pairs
                .map(|(ours, other)| 100.0 * ours.per_second / other)
                .collect()
        };
        let goal = match waits {
            Waits::None => None,
            Waits::One => Some(Goal::Least(50.0)),
            Waits::All => None,
        };
        if !matches!(waits, Waits::None) {
            report.median("  beside the first", &beside(&alone), "%", goal);
            report.median("  beside 100 slots", &beside(&narrow), "%", None);
        }
        let micros: Vec<f64> = rates.iter().map(|rate| rate.micros).collect();
        report.median("  processor time each", &micros, "us", None);
    }
}

fn id(layer: usize, place: usize) -> String {
    format!("layer-{layer:03}-{place:03}")
}

fn task(n: usize, waits: Waits) -> NewTask {
    let (layer, place) = (n / WIDE, n % WIDE);
    let task = NewTask::new("step").id(id(layer, place));
    let Some(before) = layer.checked_sub(1) else {
        return task;
    };
    match waits {
        Waits::None => task,
        Waits::One => task.after([id(before, place)]),
        Waits::All => task.after((0..WIDE).map(|place| id(before, place))),
    }
}

/// From the start of a node to the end of the last task of a graph that is there.
async fn rate(place: &Path, layers: usize, (waits, slots): (Waits, u32)) -> Rate {
    let store = support::open(place).await;
    let tasks = layers * WIDE;
    support::fill(&store, tasks, |n| task(n, waits)).await;
    let (handler, last) = support::completes(tasks);
    let meter = Meter::start();
    let runner = Runner::builder(&store)
        .slots(slots)
        .handler("step", handler)
        .start()
        .await
        .unwrap();
    last.notified().await;
    runner.drain().await;
    let rate = meter.rate(tasks as u64);
    runner.shutdown().await;
    rate
}

fn fans(setting: &Setting, report: &mut Report, place: impl Fn(&str) -> PathBuf) {
    let out = setting.pick(10_000, 500);
    let fan = Fan {
        name: "out",
        first: vec!["one".into()],
        last: (0..out).map(support::id).collect(),
    };
    let what = format!("{out} wait for one");
    fan.tell(report, &what, setting, &place);
    let fan = Fan {
        name: "in",
        first: (0..1000).map(support::id).collect(),
        last: vec!["all".into()],
    };
    fan.tell(report, "one waits for 1000", setting, &place);
}

/// Each of the last tasks waits for all of the first ones.
struct Fan {
    name: &'static str,
    first: Vec<String>,
    last: Vec<String>,
}

/// What a node does with a fan.
struct Ran {
    /// From the end of the first tasks to the start of each last one.
    until: Mutex<Times>,
    /// The lateness of tasks of another kind in the meantime.
    others: Mutex<Times>,
    began: Mutex<Option<Instant>>,
    left: AtomicUsize,
    done: Notify,
}

impl Fan {
    fn tell(
        &self,
        report: &mut Report,
        what: &str,
        setting: &Setting,
        place: &impl Fn(&str) -> PathBuf,
    ) {
        // The tasks are submitted in the meantime.
        let ahead = Duration::from_secs(setting.pick(15, 3));
        let ran = support::runtime().block_on(self.run(&place(self.name), ahead));
        let until = ran.until.lock().unwrap();
        until.tell(report, &format!("{what}: until they start"), None);
        let others = ran.others.lock().unwrap();
        others.tell(report, &format!("{what}: lateness of others"), None);
        let longest = format!("{what}: lateness of others, longest");
        report.one(longest, others.max_ms(), "ms", None);
    }

    /// The first tasks are due half a second after the other tasks begin, which are due every two milliseconds for
    /// two seconds.
    async fn run(&self, place: &Path, ahead: Duration) -> Arc<Ran> {
        const OTHERS: usize = 1000;
        let store = support::open(place).await;
        let start = Timestamp::now() + SignedDuration::try_from(ahead).unwrap();
        let after = |ms: usize| start + SignedDuration::from_millis(ms as i64);
        support::fill(&store, self.first.len(), |n| {
            NewTask::new("first")
                .id(self.first[n].clone())
                .start_at(after(500))
        })
        .await;
        support::fill(&store, self.last.len(), |n| {
            NewTask::new("last")
                .id(self.last[n].clone())
                .after(self.first.iter().cloned())
        })
        .await;
        support::fill(&store, OTHERS, |n| {
            NewTask::new("other")
                .id(format!("other-{n}"))
                .start_at(after(2 * n))
        })
        .await;
        assert!(
            Timestamp::now() < start,
            "the tasks were submitted too late; give --dir another disk"
        );
        let ran = Arc::new(Ran {
            until: Mutex::new(Times::new()),
            others: Mutex::new(Times::new()),
            began: Mutex::new(None),
            left: AtomicUsize::new(self.last.len()),
            done: Notify::new(),
        });
        let (first, last, other) = (ran.clone(), ran.clone(), ran.clone());
        let runner = Runner::builder(&store)
            .slots(1000)
            .handler("first", move |_: TaskContext| {
                *first.began.lock().unwrap() = Some(Instant::now());
                async { Message::complete() }
            })
            .handler("last", move |_: TaskContext| {
                if let Some(began) = *last.began.lock().unwrap() {
                    last.until.lock().unwrap().add(began.elapsed());
                }
                if last.left.fetch_sub(1, Ordering::SeqCst) == 1 {
                    last.done.notify_one();
                }
                async { Message::complete() }
            })
            .handler("other", move |task: TaskContext| {
                let late = Timestamp::now().duration_since(task.task().start_at.unwrap());
                other.others.lock().unwrap().add(late.unsigned_abs());
                async { Message::complete() }
            })
            .start()
            .await
            .unwrap();
        ran.done.notified().await;
        let client = Client::new(&store);
        client.wait(format!("other-{}", OTHERS - 1)).await.unwrap();
        runner.drain().await;
        runner.shutdown().await;
        ran
    }
}
