//! What a transition, a wake-up with its claim and its end, and a submit cost with 10,000 and with a million
//! tasks in the namespace, in turns.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use tokio::{runtime::Runtime, sync::Notify, time::sleep};
use windlass::{Message, NewTask, TaskContext, store::Store};

use crate::{
    parked,
    report::{Goal, Report},
    support::{self, Meter, Rate, Setting},
    transitions::{CHECKPOINT, IN_FLIGHT, Node},
};

/// How many tasks become due at once, and how many are submitted for that.
const DUE: usize = 20_000;
/// How long after their submit they become due at the earliest.
const LATER: SignedDuration = SignedDuration::from_secs(10);

/// What is measured, and the greatest ratio between the costs at both sizes.
const WHAT: [&str; 3] = [
    "transitions, 1,000 in flight",
    "submits, 5,000 a call",
    "wake-ups, each with its claim and its end",
];
const GOAL: Goal = Goal::Most(1.3);

pub(crate) fn run(setting: &Setting, report: &mut Report) {
    let folder = setting.folder();
    measure(setting, report, |size| {
        folder.path().join(format!("{size}.db"))
    });
}

#[cfg(feature = "etcd")]
pub(crate) fn on_etcd(setting: &Setting, report: &mut Report) {
    // A server for each: that of a million is not the neighbour of that of 10,000.
    let clusters = std::cell::RefCell::new(Vec::new());
    measure(setting, report, |_| {
        let cluster = crate::cluster::Cluster::start(setting, 1);
        let url = cluster.url("size");
        clusters.borrow_mut().push(cluster);
        url.into()
    });
}

fn measure(setting: &Setting, report: &mut Report, place: impl Fn(usize) -> PathBuf) {
    let sizes = setting.pick([10_000, 1_000_000], [2_000, 50_000]);
    let runtime = support::runtime();
    let mut all = sizes.map(|size| runtime.block_on(Sized::start(&place(size), size)));
    let mut rates = [const { Vec::new() }; 2];
    for round in 0..setting.pick(5, 2) {
        for (sized, rates) in all.iter_mut().zip(&mut rates) {
            rates.push(sized.turn(&runtime, setting, round));
        }
    }
    for sized in all {
        runtime.block_on(sized.node.runner.shutdown());
    }
    for (at, what) in WHAT.iter().enumerate() {
        let of = |rates: &[[Rate; 3]], read: fn(&Rate) -> f64| -> Vec<f64> {
            rates.iter().map(|turn| read(&turn[at])).collect()
        };
        for (size, rates) in sizes.iter().zip(&rates) {
            let what = format!("{what}, beside {size} tasks");
            report.median(what, &of(rates, |r| r.per_second), "/s", None);
            report.median(
                "  processor time each",
                &of(rates, |r| r.micros),
                "us",
                None,
            );
        }
        let [few, many] = [0, 1].map(|size| of(&rates[size], |r| r.micros));
        let ratio: Vec<f64> = few
            .iter()
            .zip(&many)
            .map(|(few, many)| many / few)
            .collect();
        let what = "  ratio of the processor times";
        report.median(what, &ratio, "times", Some(GOAL));
    }
}

/// A store with this many tasks, of which [`IN_FLIGHT`] run and the others sleep, and its node.
struct Sized {
    store: Store,
    node: Node,
    /// How many of those that become due have not run yet.
    left: Arc<AtomicUsize>,
    last: Arc<Notify>,
}

impl Sized {
    async fn start(place: &Path, size: usize) -> Self {
        let store = support::open(place).await;
        let every = size / IN_FLIGHT;
        // Those that run are spread among those that sleep.
        support::fill(&store, size, |n| match n.is_multiple_of(every) {
            true => NewTask::new("hot").id(support::id(n)).props(&n),
            false => parked::sleeper(n),
        })
        .await;
        let (left, last) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let (counted, notified) = (left.clone(), last.clone());
        let due = move |_: TaskContext| {
            if counted.fetch_sub(1, Ordering::SeqCst) == 1 {
                notified.notify_one();
            }
            async { Message::complete() }
        };
        let node = Node::start_on(&store, IN_FLIGHT, |builder| {
            let slots = 2 * IN_FLIGHT as u32;
            let parked = |_: TaskContext| async { Message::complete() };
            builder
                .slots(slots)
                .handler("due", due)
                .handler("parked", parked)
        });
        Self {
            node: node.await,
            store,
            left,
            last,
        }
    }

    fn turn(&mut self, runtime: &Runtime, setting: &Setting, round: usize) -> [Rate; 3] {
        let time = setting.pick(Duration::from_secs(3), Duration::from_millis(700));
        let transitions = runtime.block_on(self.node.rate(time, CHECKPOINT));
        let [submits, wakes] = runtime.block_on(self.due_at_once(setting.pick(DUE, 1_000), round));
        [transitions, submits, wakes]
    }

    /// Submits tasks that become due at once, and waits for their ends.
    async fn due_at_once(&self, count: usize, round: usize) -> [Rate; 2] {
        self.left.store(count, Ordering::SeqCst);
        let at = Timestamp::now() + LATER;
        let meter = Meter::start();
        support::fill(&self.store, count, |n| {
            NewTask::new("due")
                .id(format!("due-{round}-{n}"))
                .start_at(at)
        })
        .await;
        let submits = meter.rate(count as u64);
        let wait = at.duration_since(Timestamp::now());
        assert!(wait.is_positive(), "the submits took longer than {LATER}");
        sleep(
            wait.unsigned_abs()
                .saturating_sub(Duration::from_millis(100)),
        )
        .await;
        // The rate has up to a tenth of a second in it in which none was due. The processor time has not.
        let meter = Meter::start();
        self.last.notified().await;
        // The last writes of their ends follow.
        sleep(Duration::from_millis(100)).await;
        [submits, meter.rate(count as u64)]
    }
}
