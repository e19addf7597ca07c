//! [`Stops`]: which signals count when the worker and its supervisor both receive them.
//!
//! ctrl-c on a terminal, systemd's `KillMode=control-group` and `kill -- -GROUP` reach both processes;
//! `kill PID` reaches only one. The supervisor passes on each signal that it receives, so only the signals
//! that were passed on show whether the user sent one or two. A signal that the worker receives directly asks
//! it to stop, but never to abort, while it has a supervisor.

/// A request to stop that the worker receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Received {
    /// It received this signal.
    Signal(&'static str),
    /// Its supervisor received this signal.
    Passed(&'static str),
    /// Its supervisor has ended.
    Gone,
}

/// The requests that were received so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stops {
    /// The worker was asked to stop.
    asked: bool,
    /// The supervisor has passed on a signal.
    passed: bool,
    /// There is no supervisor.
    alone: bool,
}

impl Stops {
    /// Returns the state of a worker with or without a supervisor.
    pub(super) fn new(supervised: bool) -> Self {
        Self {
            alone: !supervised,
            ..Self::default()
        }
    }

    /// Returns the reason to stop, or to abort if there was an earlier one.
    pub(super) fn receive(&mut self, received: Received) -> Option<&'static str> {
        let first = !std::mem::replace(&mut self.asked, true);
        match received {
            Received::Signal(name) => (first || self.alone).then_some(name),
            Received::Passed(name) => {
                let first_passed = !std::mem::replace(&mut self.passed, true);
                (first || !first_passed).then_some(name)
            }
            Received::Gone => {
                self.alone = true;
                first.then_some("the end of the supervisor")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Received::*, *};

    fn reasons(supervised: bool, received: &[Received]) -> usize {
        let mut stops = Stops::new(supervised);
        received.iter().filter_map(|h| stops.receive(*h)).count()
    }

    #[test]
    fn a_signal_to_both_processes_counts_once() {
        let (own, passed) = (Signal("SIGINT"), Passed("SIGINT"));
        for once in [&[own, passed][..], &[passed, own], &[own], &[passed]] {
            assert_eq!(reasons(true, once), 1, "{once:?}");
            let twice = [once, once].concat();
            let expected = if once.contains(&passed) { 2 } else { 1 };
            assert_eq!(reasons(true, &twice), expected, "{twice:?}");
        }
    }

    #[test]
    fn a_worker_whose_supervisor_is_gone_counts_for_itself() {
        assert_eq!(reasons(true, &[Gone]), 1);
        assert_eq!(reasons(true, &[Signal("SIGTERM"), Gone]), 1);
        assert_eq!(reasons(true, &[Gone, Signal("SIGTERM")]), 2);
        assert_eq!(reasons(false, &[Signal("SIGTERM"), Signal("SIGINT")]), 2);
    }
}
