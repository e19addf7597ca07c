//! [`Resource`]: takes no more tasks than the machine can run.
//!
//! The two probes read one small file each. The crate `sysinfo` would do the same on Linux, but would become a
//! dependency of every program that uses windlass. A custom probe may use it.

use std::{fmt::Debug, sync::Mutex, time::Duration};

use tokio::time::Instant;

use windlass_statemachine::{Invalid, TaskId};

use super::{Balancer, Cluster, Decision};
use crate::store::TaskView;

/// Measures how much of a resource is used, in percent.
pub trait Probe: Send + Sync + Debug {
    /// Returns the present use, in percent (may exceed 100); `None` when it is not known, which
    /// counts as no use.
    fn percent(&self) -> Option<f64>;
}

/// The use of the machine's memory, from `/proc/meminfo` (Linux; unknown elsewhere).
#[derive(Debug, Clone, Copy, Default)]
pub struct Memory;

impl Probe for Memory {
    fn percent(&self) -> Option<f64> {
        let text = std::fs::read_to_string("/proc/meminfo").ok()?;
        used_memory(&text)
    }
}

fn used_memory(meminfo: &str) -> Option<f64> {
    let field = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':')
            .split_whitespace()
            .next()?
            .parse::<f64>()
            .ok()
    };
    let (total, available) = (field("MemTotal")?, field("MemAvailable")?);
    (total > 0.0).then(|| 100.0 * (1.0 - available / total))
}

/// The load of the last minute for each core, from `/proc/loadavg` (Linux; unknown elsewhere): 100
/// when as many threads want to run as there are cores.
#[derive(Debug, Clone, Copy, Default)]
pub struct Load;

impl Probe for Load {
    fn percent(&self) -> Option<f64> {
        let text = std::fs::read_to_string("/proc/loadavg").ok()?;
        let cores = std::thread::available_parallelism().ok()?.get();
        used_cores(&text, cores)
    }
}

fn used_cores(loadavg: &str, cores: usize) -> Option<f64> {
    let load: f64 = loadavg.split_whitespace().next()?.parse().ok()?;
    Some(100.0 * load / cores as f64)
}

/// Takes no task while a probe is above the claim limit. Releases one task at a time while it is
/// above the release limit and another node has room.
///
/// # Example
///
/// ```
/// use windlass::balancer::{Memory, Resource};
///
/// let balancer = Resource::new(Memory, 70.0, 85.0)?;
/// # Ok::<(), windlass::Invalid>(())
/// ```
#[derive(Debug)]
pub struct Resource<P> {
    probe: P,
    claim_limit: f64,
    release_limit: f64,
    last: Mutex<Option<Reading>>,
}

/// The last reading of the probe. It serves a burst of claims.
#[derive(Debug, Clone, Copy)]
struct Reading {
    percent: f64,
    at: Instant,
    /// For how many more calls the reading is used.
    questions: u32,
}

/// For how many calls a reading is used, and for how long. The tasks that were claimed by then soon use the resource.
const QUESTIONS: u32 = 64;
const FRESH: Duration = Duration::from_millis(100);

impl<P: Probe> Resource<P> {
    /// Sets the limits, in percent. Above the first the node claims no task; above the second it releases
    /// one task at a time.
    ///
    /// # Errors
    ///
    /// [`Invalid`] when a limit is not above 0, or when the release limit is below the claim limit
    /// (the node would release tasks that it has just claimed).
    pub fn new(probe: P, claim_limit: f64, release_limit: f64) -> Result<Self, Invalid> {
        if claim_limit.is_nan() || claim_limit <= 0.0 {
            let reason = format!("{claim_limit} is not above 0 percent");
            return Err(Invalid::new("claim_limit", reason));
        }
        if release_limit.is_nan() || release_limit < claim_limit {
            let reason = format!("{release_limit} is below the claim limit of {claim_limit}");
            return Err(Invalid::new("release_limit", reason));
        }
        Ok(Self {
            probe,
            claim_limit,
            release_limit,
            last: Mutex::new(None),
        })
    }

    fn read(&self, again: bool) -> f64 {
        let mut last = self
            .last
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let now = Instant::now();
        let serves =
            |last: &Reading| !again && last.questions > 0 && now.duration_since(last.at) < FRESH;
        let mut reading = last.filter(serves).unwrap_or_else(|| Reading {
            percent: self.probe.percent().unwrap_or(0.0),
            at: now,
            questions: QUESTIONS,
        });
        reading.questions -= 1;
        *last = Some(reading);
        reading.percent
    }
}

impl<P: Probe> Balancer for Resource<P> {
    fn takes(&self, _cluster: &Cluster<'_>, _task: &TaskView) -> Decision {
        (self.read(false) < self.claim_limit).into()
    }

    fn releases(&self, cluster: &Cluster<'_>, mine: &[TaskId], _jitter: f64) -> Vec<TaskId> {
        let over = self.read(true) > self.release_limit;
        if !over || !cluster.others.iter().any(|other| other.has_room()) {
            return Vec::new();
        }
        // One at a time, because the released resource shows only after a while.
        mine.last().cloned().into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Peer, tests::task},
        *,
    };

    #[derive(Debug)]
    struct Fixed(f64);

    impl Probe for Fixed {
        fn percent(&self) -> Option<f64> {
            Some(self.0)
        }
    }

    fn peer(name: &str, claims: u64) -> Peer {
        Peer {
            slots: 10,
            claims,
            ..Peer::new(name.parse().unwrap())
        }
    }

    #[test]
    fn it_takes_below_one_limit_and_releases_above_the_other() {
        let task = task();
        let (me, others) = (peer("me", 3), [peer("b", 0)]);
        let cluster = Cluster::new(&me, &others);
        let mine: Vec<TaskId> = ["a", "b", "c"].map(|t| t.parse().unwrap()).into();
        for (used, takes, back) in [(50.0, true, 0), (80.0, false, 0), (95.0, false, 1)] {
            let balancer = Resource::new(Fixed(used), 70.0, 90.0).unwrap();
            assert_eq!(balancer.takes(&cluster, &task), takes.into(), "{used}");
            assert_eq!(
                balancer.releases(&cluster, &mine, 0.5).len(),
                back,
                "{used}"
            );
        }
        let full = Resource::new(Fixed(95.0), 70.0, 90.0).unwrap();
        let full_ones = [peer("b", 10)];
        let alone = Cluster::new(&me, &full_ones);
        assert!(
            full.releases(&alone, &mine, 0.5).is_empty(),
            "no node has room"
        );
    }

    #[test]
    fn use_at_a_limit_is_neither_below_nor_above_it() {
        let (me, others) = (peer("me", 3), [peer("b", 0)]);
        let cluster = Cluster::new(&me, &others);
        let mine = ["a".parse().unwrap()];
        let back = |used| {
            let balancer = Resource::new(Fixed(used), 70.0, 90.0).unwrap();
            balancer.releases(&cluster, &mine, 0.5).len()
        };
        assert_eq!((back(90.0), back(90.1)), (0, 1));
        let takes = |used| {
            let balancer = Resource::new(Fixed(used), 70.0, 90.0).unwrap();
            balancer.takes(&cluster, &task())
        };
        assert_eq!(takes(69.9), Decision::Take);
        assert_eq!(takes(70.0), Decision::NotNow);
    }

    /// Returns the number of the reading.
    #[derive(Debug, Default)]
    struct Counting(std::sync::atomic::AtomicU32);

    impl Probe for Counting {
        fn percent(&self) -> Option<f64> {
            let before = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Some(f64::from(before + 1))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_is_read_once_for_64_questions() {
        let balancer = Resource::new(Counting::default(), 70.0, 90.0).unwrap();
        for reading in 1..4 {
            for _ in 0..64 {
                assert_eq!(balancer.read(false), f64::from(reading));
            }
        }
        assert_eq!(balancer.read(true), 4.0, "read again on request");
    }

    #[tokio::test(start_paused = true)]
    async fn no_claim_is_decided_by_a_reading_of_an_earlier_moment() {
        let balancer = Resource::new(Counting::default(), 70.0, 90.0).unwrap();
        let moment = Duration::from_millis(1);
        assert_eq!(balancer.read(false), 1.0);
        tokio::time::advance(FRESH - moment).await;
        assert_eq!(balancer.read(false), 1.0);
        tokio::time::advance(moment).await;
        assert_eq!(balancer.read(false), 2.0);
        // Nor does a call postpone the next reading.
        for _ in 0..4 {
            tokio::time::advance(FRESH / 4).await;
            balancer.read(false);
        }
        assert_eq!(balancer.read(false), 3.0);
    }

    #[test]
    fn absurd_limits_are_named() {
        let field = |claim, release| {
            Resource::new(Fixed(0.0), claim, release)
                .unwrap_err()
                .field()
                .to_owned()
        };
        assert_eq!(field(0.0, 50.0), "claim_limit");
        assert_eq!(field(f64::NAN, 50.0), "claim_limit");
        assert_eq!(field(80.0, 70.0), "release_limit");
    }

    #[test]
    fn meminfo_is_read() {
        let text = "MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    250 kB\n";
        assert_eq!(used_memory(text), Some(75.0));
        assert_eq!(used_memory("nonsense"), None);
        assert_eq!(used_memory("MemTotal: 0 kB\nMemAvailable: 0 kB\n"), None);
    }

    #[test]
    fn the_load_of_the_last_minute_is_shared_by_the_cores() {
        assert_eq!(used_cores("3.00 2.00 1.00 1/100 4711\n", 4), Some(75.0));
        assert_eq!(used_cores("", 4), None);
    }
}
