//! [`NodeFaults`]: the kinds that this node cannot run at present because of a fault of its machine.
//!
//! A handler that returns [`TaskContext::node_fault`](crate::TaskContext::node_fault) releases its
//! task. The node then claims no task of that kind for a while, and after that one task as a trial.
//! A trial that returns anything else, or runs for [`PROVEN`], ends the fault. A trial that meets
//! the fault again doubles the wait.

use std::{collections::HashMap, time::Duration};

use jiff::Timestamp;
use tokio::time::Instant;
use windlass_statemachine::Kind;

use crate::store::NodeFault;

/// The longest wait after the first fault. The node waits for at least half of it.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait after many faults in a row.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How long a claim for a trial may take. After that, another task is tried.
const TRIAL: Duration = Duration::from_secs(5);
/// How long a handler has to run without a fault before the fault counts as over.
const PROVEN: Duration = Duration::from_secs(1);
/// The longest reason in a report, in characters.
const LONGEST_REASON: usize = 500;
/// How often a continuing fault is reported.
const REPORT_EVERY: Duration = Duration::from_secs(600);

/// The kinds that cannot be run at present.
#[derive(Debug, Default)]
pub(crate) struct NodeFaults {
    kinds: HashMap<Kind, Fault>,
    /// The report, by the wall clock, and whether it has to be updated.
    report: Vec<NodeFault>,
    changed: bool,
}

#[derive(Debug)]
struct Fault {
    reason: String,
    /// How often in a row the fault was met.
    times: u32,
    since: Instant,
    reported: Instant,
    /// Until when no task of the kind is claimed.
    until: Instant,
    /// The trial that is under way.
    trial: Option<Trial>,
}

#[derive(Debug)]
enum Trial {
    Claimed,
    Started(Instant),
}

/// The reaction to a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wait {
    /// How long no task of the kind is claimed, from now on.
    pub(crate) wait: Duration,
    /// Whether to report the fault now.
    pub(crate) report: bool,
}

impl NodeFaults {
    /// Returns whether there is no fault.
    pub(crate) fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Returns the kinds that cannot be run, for the node's status. The value stays the same until
    /// a fault is met or ends.
    pub(crate) fn report(&mut self, clock: Timestamp) -> &[NodeFault] {
        if std::mem::take(&mut self.changed) {
            let at = Instant::now();
            let faults = self.kinds.iter().map(|(kind, fault)| NodeFault {
                kind: kind.clone(),
                reason: fault.reason.clone(),
                since: (clock.checked_sub(at - fault.since)).unwrap_or(Timestamp::MIN),
                next_try: (clock.checked_add(fault.until - at)).unwrap_or(Timestamp::MAX),
            });
            self.report = faults.collect();
            self.report.sort_by(|a, b| a.kind.cmp(&b.kind));
        }
        &self.report
    }

    /// Records a fault. `jitter` is from 0 to 1.
    pub(crate) fn met(&mut self, kind: &Kind, reason: &str, now: Instant, jitter: f64) -> Wait {
        let fault = self.kinds.entry(kind.clone()).or_insert(Fault {
            reason: String::new(),
            times: 0,
            since: now,
            reported: now,
            until: now,
            trial: None,
        });
        if fault.trial.is_none() && fault.until > now {
            // Handlers that started together meet the same fault.
            return Wait {
                wait: fault.until - now,
                report: false,
            };
        }
        let doubled = FIRST_WAIT * 2u32.saturating_pow(fault.times.min(16));
        let wait = doubled.min(LONGEST_WAIT).mul_f64(0.5 + jitter / 2.0);
        self.changed = true;
        fault.reason = reason.chars().take(LONGEST_REASON).collect();
        fault.times = fault.times.saturating_add(1);
        fault.until = now + wait;
        fault.trial = None;
        let report = fault.times == 1 || now - fault.reported >= REPORT_EVERY;
        if report {
            fault.reported = now;
        }
        Wait { wait, report }
    }

    /// Returns whether a task of this kind may be claimed now.
    pub(crate) fn may_claim(&self, kind: &Kind, now: Instant) -> bool {
        self.kinds.get(kind).is_none_or(|fault| fault.until <= now)
    }

    /// Records a claim. While a fault lasts the claim is a trial, and the only one.
    pub(crate) fn claims(&mut self, kind: &Kind, now: Instant) {
        if let Some(fault) = self.kinds.get_mut(kind)
            && fault.until <= now
        {
            fault.until = now + TRIAL;
            fault.trial = Some(Trial::Claimed);
        }
    }

    /// Records the start of a handler.
    pub(crate) fn starts(&mut self, kind: &Kind, now: Instant) {
        if let Some(fault) = self.kinds.get_mut(kind)
            && matches!(fault.trial, Some(Trial::Claimed))
        {
            fault.trial = Some(Trial::Started(now));
        }
    }

    /// Records a handler that returned without a fault. If this ends a fault, returns how long the
    /// fault lasted.
    pub(crate) fn ran(&mut self, kind: &Kind, began: Instant, now: Instant) -> Option<Duration> {
        match self.kinds.get(kind)?.trial {
            Some(Trial::Started(at)) if began >= at => {}
            _ => return None,
        }
        let fault = self.kinds.remove(kind)?;
        self.changed = true;
        Some(now - fault.since)
    }

    /// Ends the faults whose trial has run for long enough, and returns how long each lasted.
    pub(crate) fn proven(&mut self, now: Instant) -> Vec<(Kind, Duration)> {
        let proven = |fault: &Fault| match fault.trial {
            Some(Trial::Started(at)) => now - at >= PROVEN,
            _ => false,
        };
        let over = self.kinds.extract_if(|_, fault| proven(fault));
        let over: Vec<_> = over
            .map(|(kind, fault)| (kind, now - fault.since))
            .collect();
        self.changed |= !over.is_empty();
        over
    }

    /// Returns the time until a kind may be claimed again, or until a trial has proven itself.
    pub(crate) fn next_in(&self, now: Instant) -> Option<Duration> {
        let next = self.kinds.values().map(|fault| match fault.trial {
            Some(Trial::Started(at)) => at + PROVEN,
            _ => fault.until,
        });
        next.filter(|at| *at > now).map(|at| at - now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind() -> Kind {
        "k".parse().unwrap()
    }

    fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    /// Meets the fault in several trials, one after the other, and returns the waits.
    fn waits(faults: &mut NodeFaults, times: usize, jitter: f64) -> Vec<Duration> {
        let mut now = Instant::now();
        let mut waits = Vec::new();
        for _ in 0..times {
            faults.claims(&kind(), now);
            faults.starts(&kind(), now);
            let met = faults.met(&kind(), "full", now, jitter);
            assert!(!faults.may_claim(&kind(), now));
            assert_eq!(faults.next_in(now), Some(met.wait));
            now += met.wait;
            assert!(faults.may_claim(&kind(), now));
            waits.push(met.wait);
        }
        waits
    }

    #[test]
    fn the_wait_doubles_up_to_a_minute_and_has_jitter() {
        let longest = waits(&mut NodeFaults::default(), 8, 1.0);
        assert_eq!(longest, [1, 2, 4, 8, 16, 32, 60, 60].map(secs));
        let shortest = waits(&mut NodeFaults::default(), 8, 0.0);
        let half = longest.iter().map(|wait| *wait / 2);
        assert_eq!(shortest, half.collect::<Vec<_>>());
    }

    #[test]
    fn handlers_that_started_together_meet_one_fault() {
        let (mut faults, now) = (NodeFaults::default(), Instant::now());
        let first = faults.met(&kind(), "full", now, 1.0);
        assert!(first.report);
        let second = faults.met(&kind(), "full", now + secs(1) / 4, 1.0);
        let rest = secs(1) * 3 / 4;
        assert_eq!((second.wait, second.report), (rest, false));
        assert!(faults.may_claim(&"other".parse().unwrap(), now));
    }

    #[test]
    fn one_trial_at_a_time() {
        let (mut faults, now) = (NodeFaults::default(), Instant::now());
        let trial = now + faults.met(&kind(), "full", now, 1.0).wait;
        assert!(faults.may_claim(&kind(), trial));
        faults.claims(&kind(), trial);
        assert!(!faults.may_claim(&kind(), trial));
        // The claim has failed: another node has the task.
        assert!(faults.may_claim(&kind(), trial + TRIAL));
    }

    #[test]
    fn a_trial_that_returns_or_runs_ends_the_fault() {
        for returns in [true, false] {
            let (mut faults, now) = (NodeFaults::default(), Instant::now());
            let trial = now + faults.met(&kind(), "full", now, 1.0).wait;
            // A handler that started before the trial proves nothing.
            assert_eq!(faults.ran(&kind(), now, now), None);
            faults.claims(&kind(), trial);
            faults.starts(&kind(), trial);
            assert_eq!(faults.ran(&kind(), now, trial), None);
            assert!(faults.proven(trial + PROVEN / 2).is_empty());
            if returns {
                assert_eq!(faults.ran(&kind(), trial, trial), Some(secs(1)));
            } else {
                let over = faults.proven(trial + PROVEN);
                assert_eq!(over, [(kind(), secs(2))]);
            }
            assert!(faults.may_claim(&kind(), trial));
            assert!(
                faults.met(&kind(), "full", trial, 1.0).report,
                "a new fault"
            );
        }
    }

    #[test]
    fn a_fault_that_lasts_is_reported_now_and_then() {
        let (mut faults, begin) = (NodeFaults::default(), Instant::now());
        let (mut now, mut reports) = (begin, 0);
        while now - begin < secs(3600) {
            faults.claims(&kind(), now);
            let met = faults.met(&kind(), "full", now, 1.0);
            reports += u32::from(met.report);
            now += met.wait;
        }
        assert_eq!(reports, 6);
    }

    #[tokio::test(start_paused = true)]
    async fn a_report_changes_only_when_a_fault_is_met_or_ends() {
        let mut faults = NodeFaults::default();
        let clock: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
        assert!(faults.report(clock).is_empty());
        let begin = Instant::now();
        faults.met(&kind(), &"x".repeat(600), begin, 1.0);
        let first = faults.report(clock).to_vec();
        assert_eq!(first.len(), 1);
        assert_eq!((&first[0].kind, first[0].reason.len()), (&kind(), 500));
        assert_eq!(
            (first[0].since, first[0].next_try),
            (clock, clock + secs(1))
        );
        tokio::time::advance(secs(3)).await;
        assert_eq!(
            faults.report(clock + secs(3)),
            first,
            "nothing has happened"
        );
        let now = Instant::now();
        faults.claims(&kind(), now);
        faults.met(&kind(), "full", now, 1.0);
        let second = faults.report(clock + secs(3)).to_vec();
        assert_eq!(
            (second[0].reason.as_str(), second[0].since),
            ("full", clock)
        );
        assert_eq!(second[0].next_try, clock + secs(5));
        tokio::time::advance(secs(2)).await;
        let now = Instant::now();
        faults.claims(&kind(), now);
        faults.starts(&kind(), now);
        assert!(faults.ran(&kind(), now, now).is_some());
        assert!(faults.report(clock + secs(5)).is_empty());
    }
}
