//! Latency at half of the highest load, without coordinated omission: each submit has a time at which it is
//! due, and its latency counts from that time, also when the submits before it were late. Beside the load:
//! commands to running tasks, and tasks of one kind behind a flood of another.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{sync::mpsc, task::JoinSet, time::MissedTickBehavior};
use windlass::{Client, Command, Message, NewTask, Runner, TaskContext, store::Store};

use crate::{
    report::{Goal, Report},
    support::{self, Setting, Times},
};

/// How many submit at once when the highest load is measured.
const CALLERS: usize = 256;
/// How often commands are sent during the load, and tasks of the quiet kind submitted.
const EVERY: Duration = Duration::from_millis(10);

pub(crate) fn run(setting: &Setting, report: &mut Report) {
    let folder = setting.folder();
    let flood = setting.pick(100_000, 10_000);
    measure(setting, report, &folder.path().join("half.db"), flood);
}

#[cfg(feature = "etcd")]
pub(crate) fn on_etcd(setting: &Setting, report: &mut Report) {
    let cluster = crate::cluster::Cluster::start(setting, 1);
    let store = cluster.url("half");
    measure(
        setting,
        report,
        Path::new(&store),
        setting.pick(20_000, 3_000),
    );
}

fn measure(setting: &Setting, report: &mut Report, store: &Path, flood: usize) {
    let time = setting.pick(Duration::from_secs(10), Duration::from_secs(2));
    support::runtime().block_on(async {
        let store = support::open(store).await;
        let (mut node, runner) = Node::start(&store).await;
        let highest = node.highest(time / 4).await;
        report.one("submitted and completed, highest load", highest, "/s", None);
        let latency = node.paced(highest / 2.0, time).await;
        let what = "due submit to start of the handler, half of that load";
        latency.starts.tell(report, what, None);
        report.one(
            format!("{what}: p99.9"),
            latency.starts.ms(0.999),
            "ms",
            None,
        );
        let what = "pause command to outcome, half of that load";
        latency.commands.tell(report, what, None);
        let behind = node.behind_a_flood(flood).await;
        let what = format!("submit to start of another kind behind {flood} tasks that run");
        behind.tell(report, &what, Some(Goal::Most(1000.0)));
        runner.shutdown().await;
    });
}

struct Node {
    client: Client,
    /// The latency of each task that has started.
    started: mpsc::UnboundedReceiver<Duration>,
    ended: Arc<AtomicU64>,
    /// How many tasks of the flood have run.
    flooded: Arc<AtomicU64>,
}

struct Latency {
    starts: Times,
    commands: Times,
}

impl Node {
    async fn start(store: &Store) -> (Self, Runner) {
        let (starts, started) = mpsc::unbounded_channel();
        let ended = Arc::new(AtomicU64::new(0));
        let counted = ended.clone();
        // Their props are the time at which they were due.
        let stamps = move |task: TaskContext| {
            let due: u64 = task.props().unwrap();
            let _ = starts.send(Duration::from_nanos(support::monotonic() - due));
            counted.fetch_add(1, Ordering::Relaxed);
            async { Message::complete() }
        };
        let flooded = Arc::new(AtomicU64::new(0));
        let ran = flooded.clone();
        let floods = move |_: TaskContext| {
            ran.fetch_add(1, Ordering::Relaxed);
            async { Message::complete() }
        };
        let runner = Runner::builder(store)
            .slots(64)
            .handler("stamps", stamps)
            .handler("floods", floods)
            .handler("obeys", crate::commands::obey)
            .start()
            .await
            .unwrap();
        let client = Client::new(store);
        let node = Self {
            client,
            started,
            ended,
            flooded,
        };
        (node, runner)
    }

    /// Returns how many tasks a second are submitted, one a call, and completed by the node, at most.
    async fn highest(&mut self, time: Duration) -> f64 {
        let begun = Instant::now();
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            let client = self.client.clone();
            callers.spawn(async move {
                let mut done = 0;
                while begun.elapsed() < time {
                    let task = NewTask::new("stamps").props(&support::monotonic());
                    client.submit(task).await.unwrap();
                    done += 1;
                }
                done
            });
        }
        let submitted: u64 = callers.join_all().await.into_iter().sum();
        self.all_ended(submitted).await;
        submitted as f64 / begun.elapsed().as_secs_f64()
    }

    /// Waits until this many tasks have started, and forgets them.
    async fn all_ended(&mut self, count: u64) {
        while self.ended.load(Ordering::Relaxed) < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.ended.fetch_sub(count, Ordering::Relaxed);
        while self.started.try_recv().is_ok() {}
    }

    /// Submits at this rate, and sends commands at the same time.
    async fn paced(&mut self, rate: f64, time: Duration) -> Latency {
        let commands = tokio::spawn(commands(self.client.clone(), time));
        let client = self.client.clone();
        let count = support::paced(rate, time.as_secs_f64(), |_, due| {
            let client = client.clone();
            async move {
                let task = NewTask::new("stamps").props(&due);
                client.submit(task).await.unwrap();
            }
        });
        let count = count.await;
        let mut starts = Times::new();
        for _ in 0..count {
            starts.add(self.started.recv().await.unwrap());
        }
        self.all_ended(count).await;
        let commands = commands.await.unwrap();
        Latency { starts, commands }
    }

    /// Submits tasks of another kind while the node works through a flood.
    async fn behind_a_flood(&mut self, count: usize) -> Times {
        let tasks = (0..count).map(|_| NewTask::new("floods").build().unwrap());
        for result in self.client.submit_many(tasks).await {
            result.unwrap();
        }
        let (mut times, mut tick) = (Times::new(), tokio::time::interval(EVERY));
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut submitted = 0;
        while self.flooded.load(Ordering::Relaxed) < count as u64 {
            tick.tick().await;
            let task = NewTask::new("stamps").props(&support::monotonic());
            self.client.submit(task).await.unwrap();
            submitted += 1;
        }
        for _ in 0..submitted {
            times.add(self.started.recv().await.unwrap());
        }
        times
    }
}

/// Pauses a running task again and again.
async fn commands(client: Client, time: Duration) -> Times {
    let task = client.submit(NewTask::new("obeys")).await.unwrap();
    let task = task.into_id();
    let (begun, mut times) = (Instant::now(), Times::new());
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while begun.elapsed() < time {
        tick.tick().await;
        times.add(crate::commands::command(&client, &task, Command::Pause).await);
        crate::commands::command(&client, &task, Command::Run).await;
    }
    crate::commands::command(&client, &task, Command::Kill).await;
    times
}
