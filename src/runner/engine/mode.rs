//! [`NodeMode`]: whether the node works normally, and the status that it reports.

use std::{mem, time::Duration};

use tokio::{sync::oneshot, time::Instant};
use windlass_statemachine::Kind;

use crate::store::{NodeCommandId, NodeFault, NodeStatus};

/// How long an aborted handler may still block its thread before the node continues without it.
pub(super) const STUCK_AFTER: Duration = Duration::from_secs(5);
/// How long an abort waits for the store: slightly longer than for a stuck handler. A stop waits at least
/// as long for a store that accepts no writes.
const ABORT_WITHIN: Duration = STUCK_AFTER.saturating_add(Duration::from_secs(1));

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    Normal,
    /// Claims nothing.
    Frozen,
    /// Releases every task; the node stays.
    Draining,
    /// Releases every task, then leaves.
    Stopping,
}

/// How soon a new status is reported to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Report {
    /// With the next renewal of the lease.
    WithRenewal,
    AtOnce,
}

/// The mode of a node, and the requests that wait for the node to be empty.
#[derive(Debug, Default)]
pub(super) struct NodeMode {
    mode: Mode,
    /// When the stop began.
    stopping_since: Option<Instant>,
    /// When an abort no longer waits for the store.
    abort_by: Option<Instant>,
    /// The numbers of drain commands that wait.
    drains: Vec<NodeCommandId>,
    waiting: Vec<oneshot::Sender<()>>,
    last: NodeStatus,
}

impl NodeMode {
    pub(super) fn current(&self) -> Mode {
        self.mode
    }

    pub(super) fn is_frozen(&self) -> bool {
        self.mode == Mode::Frozen
    }

    /// Returns whether the node releases every task.
    pub(super) fn is_emptying(&self) -> bool {
        matches!(self.mode, Mode::Draining | Mode::Stopping)
    }

    /// Freezes the node. Returns whether that changes anything.
    pub(super) fn freeze(&mut self) -> bool {
        let changes = self.mode == Mode::Normal;
        if changes {
            self.mode = Mode::Frozen;
        }
        changes
    }

    /// Returns to normal. Returns whether the node works again.
    pub(super) fn unfreeze(&mut self) -> bool {
        let changes = matches!(self.mode, Mode::Frozen | Mode::Draining);
        if changes {
            self.mode = Mode::Normal;
        }
        changes
    }

    /// Drains the node, unless it stops. Returns whether it drains.
    pub(super) fn drain(&mut self) -> bool {
        let drains = self.mode != Mode::Stopping;
        if drains {
            self.mode = Mode::Draining;
        }
        drains
    }

    pub(super) fn stop(&mut self, now: Instant) {
        self.mode = Mode::Stopping;
        self.stopping_since.get_or_insert(now);
    }

    /// Stops without a grace. The time limit for the store starts with the first abort.
    pub(super) fn abort(&mut self, now: Instant) {
        self.stop(now);
        self.abort_by.get_or_insert(now + ABORT_WITHIN);
    }

    /// Returns whether an abort has waited for the store for long enough.
    pub(super) fn abort_is_over(&self, now: Instant) -> bool {
        self.abort_by.is_some_and(|by| by <= now)
    }

    /// Returns whether a stop whose handlers have all ended no longer waits for a store that has accepted
    /// no write since `failing`: the grace has ended, and the store had some time.
    pub(super) fn stop_is_over(&self, now: Instant, grace: Duration, failing: Instant) -> bool {
        let waited = |since: Instant, wait| now.saturating_duration_since(since) >= wait;
        (self.stopping_since).is_some_and(|since| waited(since, grace))
            && waited(failing, ABORT_WITHIN)
    }

    /// Records a drain command until the node is empty. Returns whether it is a new one.
    pub(super) fn await_drain(&mut self, order: NodeCommandId) -> bool {
        let is_new = self.mode != Mode::Stopping && !self.drains.contains(&order);
        if is_new {
            self.drains.push(order);
        }
        is_new
    }

    /// Records a caller until the node is empty.
    pub(super) fn await_empty(&mut self, caller: oneshot::Sender<()>) {
        self.waiting.push(caller);
    }

    /// Notifies the waiting callers, and returns the waiting drain commands.
    pub(super) fn take_drains(&mut self) -> Vec<NodeCommandId> {
        for caller in self.waiting.drain(..) {
            let _ = caller.send(());
        }
        mem::take(&mut self.drains)
    }

    /// Returns the status of the node and how soon to report it; `None` when it is unchanged.
    pub(super) fn status<'a>(
        &mut self,
        running: u32,
        full: impl Iterator<Item = &'a Kind> + Clone,
        faults: &[NodeFault],
    ) -> Option<(NodeStatus, Report)> {
        let last = &self.last;
        let is_as_full = full.clone().count() == last.full.len()
            && full.clone().all(|kind| last.full.contains(kind));
        let report = if (self.is_frozen(), self.is_emptying()) != (last.frozen, last.draining)
            || faults != last.faults
        {
            Report::AtOnce
        } else if running != last.running || !is_as_full {
            Report::WithRenewal
        } else {
            return None;
        };
        let status = NodeStatus {
            frozen: self.is_frozen(),
            draining: self.is_emptying(),
            running,
            full: full.cloned().collect(),
            faults: faults.to_vec(),
        };
        self.last.clone_from(&status);
        Some((status, report))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_stops_neither_freezes_nor_drains_nor_works_again() {
        let mut mode = NodeMode::default();
        mode.stop(Instant::now());
        assert!(!mode.freeze() && !mode.unfreeze() && !mode.drain());
        assert!(!mode.await_drain(NodeCommandId(1)));
        assert_eq!(mode.current(), Mode::Stopping);
    }

    #[test]
    fn a_drain_replaces_a_freeze_and_an_unfreeze_ends_both() {
        let mut mode = NodeMode::default();
        assert!(mode.freeze() && mode.is_frozen());
        assert!(mode.drain() && !mode.freeze());
        assert!(mode.is_emptying() && mode.unfreeze());
        assert_eq!(mode.current(), Mode::Normal);
        assert!(!mode.unfreeze());
    }

    #[test]
    fn the_store_learns_of_modes_and_faults_at_once_and_of_a_count_with_a_renewal() {
        let mut mode = NodeMode::default();
        fn full(kinds: &[Kind]) -> std::slice::Iter<'_, Kind> {
            kinds.iter()
        }
        assert_eq!(mode.status(0, full(&[]), &[]), None);
        let report = |status: Option<(NodeStatus, Report)>| status.map(|(_, report)| report);
        assert_eq!(
            report(mode.status(2, full(&[]), &[])),
            Some(Report::WithRenewal)
        );
        mode.freeze();
        let (status, at_once) = mode.status(3, full(&[]), &[]).unwrap();
        assert!(status.frozen && status.running == 3);
        assert_eq!(at_once, Report::AtOnce);
        assert_eq!(mode.status(3, full(&[]), &[]), None);
        let fault = NodeFault {
            kind: "exec".parse().unwrap(),
            reason: "full".into(),
            since: jiff::Timestamp::UNIX_EPOCH,
            next_try: jiff::Timestamp::UNIX_EPOCH,
        };
        assert_eq!(
            report(mode.status(3, full(&[]), &[fault])),
            Some(Report::AtOnce)
        );
        assert_eq!(report(mode.status(3, full(&[]), &[])), Some(Report::AtOnce));
        let kinds: [Kind; 1] = ["exec".parse().unwrap()];
        let (status, later) = mode.status(3, full(&kinds), &[]).unwrap();
        assert_eq!((status.full, later), (kinds.to_vec(), Report::WithRenewal));
        assert_eq!(mode.status(3, full(&kinds), &[]), None);
    }

    #[test]
    fn a_second_abort_waits_no_longer_than_the_first() {
        let (mut mode, now) = (NodeMode::default(), Instant::now());
        mode.abort(now);
        mode.abort(now + ABORT_WITHIN / 2);
        assert!(!mode.abort_is_over(now + ABORT_WITHIN / 2));
        assert!(mode.abort_is_over(now + ABORT_WITHIN));
    }

    #[test]
    fn a_stop_waits_for_the_store_until_the_grace_is_over_and_not_for_less_than_an_abort() {
        let (mut mode, now) = (NodeMode::default(), Instant::now());
        let grace = ABORT_WITHIN * 2;
        assert!(!mode.stop_is_over(now + grace, grace, now));
        mode.stop(now);
        assert!(!mode.stop_is_over(now + grace / 2, grace, now));
        assert!(mode.stop_is_over(now + grace, grace, now));
        let failing = now + grace - ABORT_WITHIN / 2;
        assert!(!mode.stop_is_over(now + grace, grace, failing));
        assert!(mode.stop_is_over(failing + ABORT_WITHIN, grace, failing));
        assert!(!mode.stop_is_over(now + grace, Duration::MAX, now));
    }

    #[test]
    fn every_drain_and_every_caller_is_answered_once() {
        let mut mode = NodeMode::default();
        let (caller, mut answer) = oneshot::channel();
        mode.await_empty(caller);
        assert!(mode.await_drain(NodeCommandId(4)) && !mode.await_drain(NodeCommandId(4)));
        assert_eq!(mode.take_drains(), [NodeCommandId(4)]);
        assert_eq!(answer.try_recv(), Ok(()));
        assert!(mode.take_drains().is_empty());
    }
}
