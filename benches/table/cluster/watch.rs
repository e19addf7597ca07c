//! How soon a handler starts after a submit and has a command, compared with how soon a watch of the
//! same etcd delivers a put, in turns.

use std::{path::Path, time::Duration};

use etcd_client::WatchOptions;
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::sleep,
};
use windlass::{Client, Command, Message, NewTask, Runner, TaskContext, TaskId};

use super::server::Cluster;
use crate::{
    report::{Goal, Report},
    support::{self, Setting, Times, id, monotonic},
};

/// How long to wait between two measures that are spread.
const SPREAD: Duration = Duration::from_millis(10);
/// How many tasks run, when many do.
const MANY: usize = 1000;
/// How many are submitted a second in the stream, and which part of them is released once.
const STREAM: f64 = 1500.0;
const RELEASED: u64 = 10;

/// What a handler or a watch has reported: when, on the clock of [`monotonic`].
type Reports = UnboundedReceiver<u64>;

async fn since(begun: u64, reports: &mut Reports) -> Duration {
    Duration::from_nanos(reports.recv().await.unwrap() - begun)
}

pub(crate) fn watch(setting: &Setting, report: &mut Report) {
    let cluster = Cluster::start(setting, 1);
    support::runtime().block_on(async {
        let mut raw = Raw::new(&cluster).await;
        for running in [1, MANY] {
            let mut node = Node::start(&cluster.url(&format!("n{running}")), running).await;
            for (pace, gap) in [("back to back", Duration::ZERO), ("spread", SPREAD)] {
                // 1,000 pauses of different tasks, or of the same one.
                let each = setting.pick(200, 50);
                let mut sides = [Times::new(), Times::new(), Times::new()];
                let mut between = Times::new();
                for _ in 0..setting.pick(5, 2) {
                    raw.puts(&mut sides[0], each, gap).await;
                    node.pauses(&mut sides[1], (&mut raw, &mut between), each, gap)
                        .await;
                    node.submits(&mut sides[2], each, gap).await;
                }
                let beside = format!("{running} running, {pace}");
                tell(report, &sides, &beside, 1.5);
                // These puts meet the same stalls of etcd as the pauses: the writes of 1,000 pauses are around them.
                let what = format!("put to watch between the pauses, {beside}");
                between.tell(report, &what, None);
                let ratio = sides[1].ms(0.99) / between.ms(0.99);
                report.one("  p99 of the pause against it", ratio, "times", None);
            }
            node.runner.shutdown().await;
        }
        let mut sides = [Times::new(), Times::new()];
        let mut among = Times::new();
        let seconds = setting.pick(5.0, 1.0);
        let (stream, runner) = Stream::start(&cluster.url("stream")).await;
        let mut stream = stream;
        for _ in 0..setting.pick(3, 1) {
            raw.stream(&mut sides[0], seconds).await;
            // These meet the same load and the same stalls of etcd.
            let puts = (seconds / SPREAD.as_secs_f64()) as usize;
            let puts = raw.puts(&mut among, puts, SPREAD);
            tokio::join!(stream.submits(&mut sides[1], seconds), puts);
        }
        runner.shutdown().await;
        let what = "in a stream of 1,500 a second";
        sides[0].tell(report, &format!("put to watch, {what}"), None);
        let what = format!("submit to start, {what}, a tenth released once");
        sides[1].tell(report, &what, None);
        let ratio = sides[1].ms(0.99) / sides[0].ms(0.99);
        report.one("  p99 against raw", ratio, "times", Some(Goal::Most(3.0)));
        among.tell(report, "put to watch among the submits of the stream", None);
        let ratio = sides[1].ms(0.99) / among.ms(0.99);
        report.one("  p99 of the submits against it", ratio, "times", None);
    });
}

fn tell(report: &mut Report, sides: &[Times; 3], beside: &str, most: f64) {
    let whats = ["put to watch", "pause to handler", "submit to start"];
    for (at, (what, times)) in whats.into_iter().zip(sides).enumerate() {
        times.tell(report, &format!("{what}, {beside}"), None);
        if at == 0 {
            continue;
        }
        for (name, quantile) in [("p50", 0.5), ("p99", 0.99)] {
            let ratio = times.ms(quantile) / sides[0].ms(quantile);
            let goal = (at == 1).then_some(Goal::Most(most));
            report.one(format!("  {name} against raw"), ratio, "times", goal);
        }
    }
}

/// Etcd without windlass: a put by one connection, and a watch of another.
struct Raw {
    client: etcd_client::Client,
    reports: UnboundedReceiver<(u64, u64)>,
}

impl Raw {
    async fn new(cluster: &Cluster) -> Self {
        let (reports, received) = unbounded_channel();
        let mut other = cluster.raw().await;
        let options = WatchOptions::new().with_prefix();
        let mut watch = other.watch("/raw/", Some(options)).await.unwrap();
        tokio::spawn(async move {
            while let Ok(Some(message)) = watch.message().await {
                let now = monotonic();
                for kv in message.events().iter().filter_map(|event| event.kv()) {
                    let put = kv.value_str().unwrap().trim_end().parse().unwrap();
                    if reports.send((put, now)).is_err() {
                        return;
                    }
                }
            }
        });
        Self {
            client: cluster.raw().await,
            reports: received,
        }
    }

    /// The time of the put, as long as the state of a task.
    fn value(begun: u64) -> String {
        format!("{begun:<300}")
    }

    async fn times(&mut self, times: &mut Times, count: u64) {
        for _ in 0..count {
            let (put, seen) = self.reports.recv().await.unwrap();
            times.add(Duration::from_nanos(seen - put));
        }
    }

    async fn puts(&mut self, times: &mut Times, count: usize, gap: Duration) {
        for n in 0..count {
            sleep(gap).await;
            let (key, value) = (format!("/raw/{n}"), Self::value(monotonic()));
            let put = self.client.put(key, value, None);
            put.await.unwrap();
            self.times(times, 1).await;
        }
    }

    async fn stream(&mut self, times: &mut Times, seconds: f64) {
        let client = self.client.clone();
        let count = support::paced(STREAM, seconds, |n, due| {
            let mut kv = client.kv_client();
            async move {
                let (key, value) = (format!("/raw/{n}"), Self::value(due));
                kv.put(key, value, None).await.unwrap();
            }
        });
        let count = count.await;
        self.times(times, count).await;
    }
}

/// A node whose handlers report their start and then each command.
struct Node {
    runner: Runner,
    client: Client,
    running: Vec<TaskId>,
    next: usize,
    submitted: usize,
    starts: Reports,
    commands: Reports,
}

impl Node {
    async fn start(url: &str, running: usize) -> Self {
        let store = support::open(Path::new(url)).await;
        let (starts, started) = unbounded_channel();
        let (commands, commanded) = unbounded_channel();
        let handler = move |task: TaskContext| reports(task, starts.clone(), commands.clone());
        let runner = Runner::builder(&store)
            .slots(100_000)
            .handler("waits", handler);
        let runner = runner.start().await.unwrap();
        support::fill(&store, running, |n| NewTask::new("waits").id(id(n))).await;
        let mut node = Self {
            runner,
            client: Client::new(&store),
            running: (0..running).map(|n| id(n).parse().unwrap()).collect(),
            next: 0,
            submitted: running,
            starts: started,
            commands: commanded,
        };
        for _ in 0..running {
            node.starts.recv().await.unwrap();
        }
        node
    }

    /// Pauses tasks that run, and lets each run again before the next. Puts a key between two pauses.
    async fn pauses(
        &mut self,
        times: &mut Times,
        (raw, between): (&mut Raw, &mut Times),
        count: usize,
        gap: Duration,
    ) {
        for _ in 0..count {
            sleep(gap).await;
            let task = &self.running[self.next % self.running.len()];
            self.next += 1;
            let begun = monotonic();
            let pause = self.client.command(task, Command::Pause).await.unwrap();
            times.add(since(begun, &mut self.commands).await);
            self.client.wait_outcome(&pause).await.unwrap();
            self.client.command(task, Command::Run).await.unwrap();
            self.starts.recv().await.unwrap();
            raw.puts(between, 1, gap).await;
        }
    }

    /// Submits tasks, one after the start of the other, and kills them at the end.
    async fn submits(&mut self, times: &mut Times, count: usize, gap: Duration) {
        let from = self.submitted;
        self.submitted += count;
        for n in from..self.submitted {
            sleep(gap).await;
            let begun = monotonic();
            let task = NewTask::new("waits").id(id(n));
            self.client.submit(task).await.unwrap();
            times.add(since(begun, &mut self.starts).await);
        }
        for n in from..self.submitted {
            let task = id(n).parse().unwrap();
            crate::commands::command(&self.client, &task, Command::Kill).await;
            self.commands.recv().await.unwrap();
        }
    }
}

async fn reports(
    task: TaskContext,
    starts: UnboundedSender<u64>,
    commands: UnboundedSender<u64>,
) -> Message {
    let _ = starts.send(monotonic());
    let stop = task.stop_requested().await;
    let _ = commands.send(monotonic());
    stop.message()
}

/// A node whose tasks end at once, but for those that it releases first.
struct Stream {
    client: Client,
    first_starts: Reports,
}

impl Stream {
    async fn start(url: &str) -> (Self, Runner) {
        let store = support::open(Path::new(url)).await;
        let (starts, first_starts) = unbounded_channel();
        let handler = move |task: TaskContext| {
            let now = monotonic();
            let (n, due): (u64, u64) = task.props().unwrap();
            let is_first = task.data::<bool>().unwrap().is_none();
            if is_first {
                let _ = starts.send(now - due);
            }
            async move {
                match is_first && n.is_multiple_of(RELEASED) {
                    true => Message::release().with_data(&true),
                    false => Message::complete(),
                }
            }
        };
        let runner = Runner::builder(&store).slots(1000);
        let runner = runner.handler("passes", handler).start().await.unwrap();
        let client = Client::new(&store);
        let stream = Self {
            client,
            first_starts,
        };
        (stream, runner)
    }

    async fn submits(&mut self, times: &mut Times, seconds: f64) {
        let client = self.client.clone();
        let count = support::paced(STREAM, seconds, |n, due| {
            let client = client.clone();
            async move {
                let task = NewTask::new("passes").props(&(n, due));
                client.submit(task).await.unwrap();
            }
        });
        for _ in 0..count.await {
            times.add(Duration::from_nanos(
                self.first_starts.recv().await.unwrap(),
            ));
        }
    }
}
