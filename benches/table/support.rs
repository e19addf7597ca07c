//! What the measurements share: files, other processes, clocks.

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use tempfile::TempDir;
use tokio::{runtime::Runtime, sync::Notify, task::JoinSet, time::MissedTickBehavior};
use windlass::{Message, NewTask, StatefulHandler, TaskContext, store::Store};

use crate::report::{Goal, Report};

/// Returns a handler that completes at once, and what it notifies when it has completed this many tasks.
pub(crate) fn completes(tasks: usize) -> (impl StatefulHandler, Arc<Notify>) {
    let (left, last) = (AtomicUsize::new(tasks), Arc::new(Notify::new()));
    let notified = last.clone();
    let handler = move |_: TaskContext| {
        if left.fetch_sub(1, Ordering::SeqCst) == 1 {
            notified.notify_one();
        }
        async { Message::complete() }
    };
    (handler, last)
}

/// How it is measured.
#[derive(Debug, Default)]
pub(crate) struct Setting {
    pub(crate) quick: bool,
    pub(crate) dir: Option<PathBuf>,
}

impl Setting {
    /// `full`, or `quick` where only a glance is asked for.
    pub(crate) fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    pub(crate) fn place(&self) -> PathBuf {
        let target = || PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        self.dir.clone().unwrap_or_else(target)
    }

    /// A folder that is gone when it is dropped.
    pub(crate) fn folder(&self) -> TempDir {
        tempfile::Builder::new()
            .prefix("windlass-bench-")
            .tempdir_in(self.place())
            .unwrap()
    }

    /// A file system in memory has no sync to wait for: its figures mean nothing.
    pub(crate) fn warn_of_memory_disk(&self) {
        let Ok(place) = self.place().canonicalize() else {
            return;
        };
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
        let mount = mounts
            .lines()
            .filter_map(|line| {
                let mut words = line.split(' ').skip(1);
                Some((words.next()?, words.next()?))
            })
            .filter(|(at, _)| place.starts_with(at))
            .max_by_key(|(at, _)| at.len());
        if let Some((at, "tmpfs" | "ramfs")) = mount {
            eprintln!("warning: {at} is in memory; name a folder on a disk with --dir");
        }
    }
}

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// Opens a file, or what the URL of an etcd names.
pub(crate) async fn open(file: &Path) -> Store {
    let name = file.display().to_string();
    let url = if name.starts_with("etcd://") {
        name
    } else {
        format!("sqlite:{name}")
    };
    Store::open(&url).await.unwrap()
}

/// Opens the namespace of a URL with an index in memory, once the index is current; `None` for a file.
#[cfg(feature = "etcd")]
pub(crate) async fn open_indexed(place: &Path) -> Option<Store> {
    let url = place.to_str().filter(|name| name.starts_with("etcd://"))?;
    let store = Store::open(&format!("{url}?memory-index=true"))
        .await
        .unwrap();
    let client = windlass::Client::new(&store);
    for _ in 0..600 {
        let begun = std::time::Instant::now();
        client.counts().await.unwrap();
        // Without the index the call reads every task.
        if begun.elapsed() < Duration::from_millis(20) {
            return Some(store);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the index was not current within a minute");
}

/// An id of 20 bytes.
pub(crate) fn id(n: usize) -> String {
    format!("task-{n:015}")
}

/// Submits tasks in large batches.
pub(crate) async fn fill(store: &Store, count: usize, task: impl Fn(usize) -> NewTask) {
    const CHUNK: usize = 5000;
    for from in (0..count).step_by(CHUNK) {
        let tasks = (from..count.min(from + CHUNK)).map(|n| task(n).build().unwrap());
        for answer in store.registry().submit(tasks.collect()).await {
            answer.unwrap();
        }
    }
}

/// Nanoseconds of a clock that all processes share and that is never set.
pub(crate) fn monotonic() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
    (now.tv_sec() as u64) * 1_000_000_000 + now.tv_nsec() as u64
}

/// Starts a future at each of its due times, `rate` a second, also when those before it have not ended.
/// Each gets its number and its due time on the clock of [`monotonic`]. Returns how many there were, when all
/// have ended.
pub(crate) async fn paced<F: Future<Output = ()> + Send + 'static>(
    rate: f64,
    seconds: f64,
    one: impl Fn(u64, u64) -> F,
) -> u64 {
    let (begun, mut all) = (monotonic(), JoinSet::new());
    let count = (rate * seconds) as u64;
    let mut next = 0;
    let mut tick = tokio::time::interval(Duration::from_millis(1));
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    while next < count {
        tick.tick().await;
        let due = ((monotonic() - begun) as f64 * rate / 1e9) as u64;
        for n in next..due.min(count) {
            all.spawn(one(n, begun + (n as f64 * 1e9 / rate) as u64));
        }
        next = due.min(count).max(next);
        while all.try_join_next().is_some() {}
    }
    all.join_all().await;
    count
}

/// Times in microseconds, up to a minute.
pub(crate) struct Times(Histogram<u64>);

impl Times {
    pub(crate) fn new() -> Self {
        Self(Histogram::new_with_bounds(1, 60_000_000, 3).unwrap())
    }

    pub(crate) fn add(&mut self, time: Duration) {
        self.0.saturating_record(time.as_micros().max(1) as u64);
    }

    /// A quantile in milliseconds.
    pub(crate) fn ms(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64 / 1000.0
    }

    /// The rows p50 and p99 of `what`.
    pub(crate) fn tell(&self, report: &mut Report, what: &str, p99: Option<Goal>) {
        report.one(format!("{what}: p50"), self.ms(0.5), "ms", None);
        report.one(format!("{what}: p99"), self.ms(0.99), "ms", p99);
    }

    pub(crate) fn max_ms(&self) -> f64 {
        self.0.max() as f64 / 1000.0
    }
}

/// Processor time that a process has used.
pub(crate) fn used(process: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // After the name, which is in brackets: state is field 3, utime 14 and stime 15.
    let fields = stat.rsplit_once(") ").unwrap().1.split(' ');
    let ticks = fields.skip(11).take(2).map(|n| n.parse::<u64>().unwrap());
    // Linux counts in hundredths of a second here, whatever its own clock does.
    Duration::from_millis(ticks.sum::<u64>() * 10)
}

/// Processor time of the threads that a process has now, in nanoseconds: finer than [`used`], for a process whose
/// threads do not end.
pub(crate) fn used_by_threads(process: u32) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let of = |thread: std::io::Result<std::fs::DirEntry>| -> u64 {
        let statistics = thread.unwrap().path().join("schedstat");
        let statistics = std::fs::read_to_string(statistics).unwrap();
        statistics.split(' ').next().unwrap().parse().unwrap()
    };
    Duration::from_nanos(threads.map(of).sum())
}

/// A rate, with the processor time that went into it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    pub(crate) per_second: f64,
    /// Microseconds of processor time for each: less noisy than the rate on a machine that has
    /// other things to do.
    pub(crate) micros: f64,
}

/// Counts what is done in a while.
pub(crate) struct Meter {
    begun: Instant,
    used: Duration,
}

impl Meter {
    pub(crate) fn start() -> Self {
        Self {
            begun: Instant::now(),
            used: used(std::process::id()),
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    pub(crate) fn rate(&self, done: u64) -> Rate {
        let used = used(std::process::id()) - self.used;
        Rate {
            per_second: done as f64 / self.begun.elapsed().as_secs_f64(),
            micros: used.as_secs_f64() * 1e6 / done.max(1) as f64,
        }
    }
}

/// The rows of rates that were taken in turns: as they are, and as shares of the first.
pub(crate) fn tell_rates(
    report: &mut Report,
    rates: &[(String, Vec<Rate>)],
    goal: impl Fn(usize) -> Option<Goal>,
) {
    let of = |rates: &[Rate], read: fn(&Rate) -> f64| rates.iter().map(read).collect::<Vec<_>>();
    let raw = &rates[0].1;
    for (at, (what, its)) in rates.iter().enumerate() {
        report.median(what, &of(its, |r| r.per_second), "/s", None);
        if at > 0 {
            let pairs = its.iter().zip(raw);
            let share = pairs.map(|(ours, raw)| 100.0 * ours.per_second / raw.per_second);
            let share: Vec<f64> = share.collect();
            report.median("  against raw", &share, "%", goal(at));
        }
        report.median("  processor time each", &of(its, |r| r.micros), "us", None);
    }
}

const ROLE: &str = "WINDLASS_BENCH_CHILD";
const FILE: &str = "WINDLASS_BENCH_FILE";

/// The role of this process and the file of its store, if a measurement started it.
pub(crate) fn role() -> Option<(String, PathBuf)> {
    let role = std::env::var(ROLE).ok()?;
    let file = std::env::var_os(FILE)?;
    Some((role, file.into()))
}

/// Prints a line for the process that started this one.
pub(crate) fn say(line: impl std::fmt::Display) {
    println!("{line}");
    std::io::stdout().flush().unwrap();
}

/// Waits until the process that started this one asks for something, or (`false`) needs it no more.
pub(crate) async fn asked() -> bool {
    let read = || std::io::stdin().read_line(&mut String::new());
    tokio::task::spawn_blocking(read)
        .await
        .unwrap()
        .is_ok_and(|n| n > 0)
}

/// This program in another process.
pub(crate) struct Other {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Other {
    pub(crate) fn start(role: &str, file: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env(ROLE, role)
            .env(FILE, file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    pub(crate) fn ask(&mut self) {
        self.input.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    /// The next line that it says.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Asks it to end, and does not wait for that.
    #[cfg(feature = "etcd")]
    pub(crate) fn release(&mut self) {
        drop(self.input.take());
    }

    /// Ends it without a word.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Processor time that it has used.
    pub(crate) fn used(&self) -> Duration {
        used_by_threads(self.child.id())
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It ends when its input is closed.
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
