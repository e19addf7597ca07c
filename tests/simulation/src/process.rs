//! [`Process`]: a process of the simulation: a runtime of its own with paused time, which is killed by dropping it, and stands
//! still when it is not run.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinHandle,
    time::{Instant, advance, sleep_until},
};
use windlass::clock::Clock;
use windlass_robustness::time::{Simulated, simulate};

/// The wall clock at the start of each run: 2030-01-01T00:00:00Z.
pub const START: Timestamp = Timestamp::constant(1_893_456_000, 0);

/// A running process.
#[derive(Debug)]
pub struct Process {
    /// Its name.
    pub name: String,
    /// Its id: each start has another one.
    pub pid: u32,
    runtime: Runtime,
    main: JoinHandle<()>,
    base: Instant,
    /// The time of the simulation at `base`.
    started: Duration,
    /// The time until which it has run.
    at: Duration,
}

/// The wall clock of a process. It may be wrong, and may be set.
#[derive(Debug)]
pub struct WallClock {
    base: Instant,
    started: Duration,
    /// By how much it is ahead, in milliseconds.
    ahead: Arc<AtomicI64>,
}

impl WallClock {
    /// Returns a clock that is ahead of the right time by this many milliseconds.
    pub fn ahead_by(&self, millis: i64) -> Self {
        Self {
            base: self.base,
            started: self.started,
            ahead: Arc::new(AtomicI64::new(millis)),
        }
    }
}

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        let ahead = SignedDuration::from_millis(self.ahead.load(Ordering::Relaxed));
        START + self.started + self.base.elapsed() + ahead
    }

    fn monotonic(&self) -> Duration {
        self.base.elapsed()
    }
}

impl Process {
    /// Starts a process at this time of the simulation. `main` gets its clock, which is `ahead`, in milliseconds.
    ///
    /// # Errors
    ///
    /// When there is no runtime.
    pub fn start<F>(
        name: impl Into<String>,
        pid: u32,
        now: Duration,
        ahead: Arc<AtomicI64>,
        main: impl FnOnce(Arc<WallClock>) -> F,
    ) -> io::Result<Self>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()?;
        let base = runtime.block_on(async { Instant::now() });
        let clock = Arc::new(WallClock {
            base,
            started: now,
            ahead,
        });
        let main = runtime.spawn(main(clock));
        Ok(Self {
            name: name.into(),
            pid,
            runtime,
            main,
            base,
            started: now,
            at: now,
        })
    }

    /// Makes what is recorded that of this process.
    fn enter(&self) {
        simulate(Some(Simulated {
            base: self.base,
            monotonic: crate::micros(self.started),
            wall: START + self.started,
            pid: self.pid,
        }));
    }

    /// Runs the process until this time of the simulation.
    pub fn run_to(&mut self, now: Duration) {
        self.enter();
        let until = self.base + now.saturating_sub(self.started);
        self.runtime
            .block_on(async move { sleep_until(until).await });
        self.at = now;
        simulate(None);
    }

    /// Lets the process continue after it stood still: its timers find that the time has passed.
    pub fn wake(&mut self, now: Duration) {
        self.enter();
        let gap = now.saturating_sub(self.at);
        self.runtime.block_on(async move { advance(gap).await });
        self.at = now;
        simulate(None);
    }

    /// Returns whether its main task has ended.
    pub fn is_over(&self) -> bool {
        self.main.is_finished()
    }

    /// Kills the process: nothing of it runs any more.
    pub fn kill(self) {
        self.enter();
        drop(self.runtime);
        simulate(None);
    }
}
