//! [`Claiming`]: the claims that are under way.

use std::{mem, time::Duration};

use hashbrown::HashMap;
use tokio::time::Instant;
use windlass_statemachine::{Kind, QueuedCommand, TaskId};

use super::reported::Reported;
use crate::store::NodeCommandId;

/// How many claim calls are under way at a time.
const CALLS: usize = 4;

/// A task that is being claimed. Events about it wait for the answer.
#[derive(Debug, Default)]
pub(super) struct PendingClaim {
    /// The kind whose room it takes.
    pub(super) kind: Option<Kind>,
    pub(super) latest: Option<Reported>,
    /// Commands, with the order of the task that each was sent to.
    pub(super) commands: Vec<(u64, QueuedCommand)>,
    /// A list has begun since the claim was sent, and has not named the task so far.
    pub(super) unlisted: bool,
    /// Node commands to stop the task, which may be on this node already.
    pub(super) stop_orders: Vec<NodeCommandId>,
}

/// The claims that are under way: the tasks, and the calls that carry them.
#[derive(Debug, Default)]
pub(super) struct Claiming {
    tasks: HashMap<TaskId, PendingClaim>,
    /// Since when each call is under way.
    calls: HashMap<u64, Instant>,
    next_call: u64,
    /// How long the last calls took, about.
    took: Duration,
}

impl Claiming {
    /// Returns whether one more call may be sent.
    pub(super) fn has_room(&self) -> bool {
        self.calls.len() < CALLS
    }

    /// Takes note of a task that the next call claims.
    pub(super) fn add(&mut self, task: TaskId, kind: Kind) {
        let claim = PendingClaim {
            kind: Some(kind),
            ..PendingClaim::default()
        };
        self.tasks.insert(task, claim);
    }

    /// Takes note of a call, and returns its number.
    pub(super) fn send(&mut self, now: Instant) -> u64 {
        let call = self.next_call;
        self.next_call += 1;
        self.calls.insert(call, now);
        call
    }

    /// Takes note of the answer to a call.
    pub(super) fn answered(&mut self, call: u64, now: Instant) {
        if let Some(since) = self.calls.remove(&call) {
            self.took = (self.took * 3 + now.saturating_duration_since(since)) / 4;
        }
    }

    /// Returns how long a claim takes at present, about: the last calls, or one under way that has
    /// taken longer already.
    pub(super) fn takes(&self, now: Instant) -> Duration {
        let first = self.calls.values().min();
        let so_far = first.map_or(Duration::ZERO, |since| {
            now.saturating_duration_since(*since)
        });
        self.took.max(so_far)
    }

    /// Takes out a task whose claim is answered. A task that was forgotten meanwhile is an empty claim.
    pub(super) fn take(&mut self, task: &TaskId) -> PendingClaim {
        self.tasks.remove(task).unwrap_or_default()
    }

    pub(super) fn get_mut(&mut self, task: &TaskId) -> Option<&mut PendingClaim> {
        self.tasks.get_mut(task)
    }

    /// Takes note of a list that begins.
    pub(super) fn list_begins(&mut self) {
        for pending in self.tasks.values_mut() {
            pending.unlisted = true;
        }
    }

    /// Forgets every task: the node ends.
    pub(super) fn clear(&mut self) {
        self.tasks.clear();
    }

    /// Returns how many tasks are being claimed.
    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }
}

impl PendingClaim {
    /// Keeps an event about the task until the claim is answered. Only the last one counts: events are
    /// level-triggered.
    pub(super) fn report(&mut self, event: Reported) {
        self.unlisted = false;
        self.latest = Some(event);
    }

    /// Takes out the node commands that stop the task.
    pub(super) fn take_stop_orders(&mut self) -> Vec<NodeCommandId> {
        mem::take(&mut self.stop_orders)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> TaskId {
        name.parse().unwrap()
    }

    #[test]
    fn only_so_many_calls_are_under_way() {
        let (mut claiming, now) = (Claiming::default(), Instant::now());
        let calls: Vec<u64> = (0..CALLS).map(|_| claiming.send(now)).collect();
        assert!(!claiming.has_room());
        claiming.answered(calls[1], now);
        assert!(claiming.has_room());
    }

    #[test]
    fn a_call_that_lasts_counts_before_it_is_answered() {
        let (mut claiming, now) = (Claiming::default(), Instant::now());
        let second = Duration::from_secs(1);
        let call = claiming.send(now);
        assert_eq!(claiming.takes(now + second), second);
        claiming.answered(call, now + second);
        assert_eq!(claiming.takes(now + second), second / 4, "one call of four");
        claiming.answered(call, now + second * 9);
        assert_eq!(claiming.takes(now + second), second / 4, "answered once");
    }

    #[test]
    fn an_event_waits_for_the_answer_of_the_claim() {
        let mut claiming = Claiming::default();
        let gone = Reported::Gone {
            order: 1,
            fence: None,
        };
        assert!(claiming.get_mut(&id("a")).is_none());
        claiming.add(id("a"), "k".parse().unwrap());
        claiming.list_begins();
        claiming.get_mut(&id("a")).unwrap().report(gone);
        let pending = claiming.take(&id("a"));
        assert!(pending.latest.is_some() && !pending.unlisted);
        assert_eq!(claiming.len(), 0);
    }

    #[test]
    fn a_task_that_was_forgotten_holds_no_room() {
        let mut claiming = Claiming::default();
        claiming.add(id("a"), "k".parse().unwrap());
        claiming.clear();
        assert!(claiming.take(&id("a")).kind.is_none());
    }
}
