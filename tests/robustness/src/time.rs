//! The time and the process of what is recorded: those of the machine, or those of a simulation.

use std::cell::Cell;

use jiff::Timestamp;
use nix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

/// The process of a simulation that runs on this thread now.
#[derive(Debug, Clone, Copy)]
pub struct Simulated {
    /// A moment of the runtime of the process.
    pub base: Instant,
    /// The monotonic clock of all processes at that moment, in microseconds.
    pub monotonic: u64,
    /// The wall clock at that moment.
    pub wall: Timestamp,
    /// The id of the process.
    pub pid: u32,
}

thread_local! {
    static SIMULATED: Cell<Option<Simulated>> = const { Cell::new(None) };
}

/// Makes what this thread records that of a simulated process, or of the machine again.
pub fn simulate(process: Option<Simulated>) {
    SIMULATED.set(process);
}

impl Simulated {
    fn elapsed(&self) -> u64 {
        u64::try_from(self.base.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// Returns the monotonic time, in microseconds.
pub fn now() -> u64 {
    match SIMULATED.get() {
        Some(process) => process.monotonic + process.elapsed(),
        None => read_clock(ClockId::CLOCK_MONOTONIC),
    }
}

/// Returns the time of the wall clock.
pub fn wall() -> Timestamp {
    match SIMULATED.get() {
        Some(process) => process.wall + process.base.elapsed(),
        None => Timestamp::now(),
    }
}

/// Returns the id of the process.
pub fn pid() -> u32 {
    match SIMULATED.get() {
        Some(process) => process.pid,
        None => std::process::id(),
    }
}

/// For how long the machine was suspended since its start, in microseconds: the monotonic clock does
/// not count that.
pub fn suspended() -> u64 {
    read_clock(ClockId::CLOCK_BOOTTIME).saturating_sub(read_clock(ClockId::CLOCK_MONOTONIC))
}

fn read_clock(clock: ClockId) -> u64 {
    clock_gettime(clock).map_or(0, |t| {
        (t.tv_sec() as u64) * 1_000_000 + (t.tv_nsec() as u64) / 1000
    })
}
