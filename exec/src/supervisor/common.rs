//! What both processes share: the variable, the signals and the clock.

use std::io;

use nix::sys::signal::{SigSet, Signal};

/// The variable that marks a worker: the supervisor's process id, and the numbers of the pipes from
/// and to the supervisor.
pub(super) const MARK: &str = "WINDLASS_SUPERVISOR";

/// The signals that the supervisor passes on.
const PASSED: [Signal; 4] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
];

/// Returns the signals that the supervisor blocks and reads.
pub(super) fn mask() -> SigSet {
    let mut mask = SigSet::empty();
    PASSED.iter().for_each(|signal| mask.add(*signal));
    mask.add(Signal::SIGCHLD);
    mask
}

/// Returns the time on the clock that both processes share, in milliseconds.
pub(super) fn now() -> io::Result<i64> {
    use nix::time::{ClockId, clock_gettime};
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC)?;
    Ok(time.tv_sec() * 1000 + time.tv_nsec() / 1_000_000)
}
