//! [`Claiming`]: the claims that are under way.

use std::{mem, time::Duration};

use tokio::time::Instant;
use windlass_statemachine::{Kind, QueuedCommand, TaskId};

use super::reported::Reported;
use crate::hash::{HashMap, HashSet};
use crate::{store::NodeCommandId, telemetry::FirstStart};

/// How many claim calls may be under way.
const CALLS: usize = 4;
/// The pause after the store has failed twice in a row, and the longest pause after more failures.
const FAILED: Duration = Duration::from_millis(200);
const FAILED_FOR_LONG: Duration = Duration::from_secs(5);
/// How often the log repeats that claims fail.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// A task that is being claimed. Events about it are kept until the answer.
#[derive(Debug, Default)]
pub(super) struct PendingClaim {
    /// The kind in whose room the task counts.
    pub(super) kind: Option<Kind>,
    pub(super) latest: Option<Reported>,
    /// Commands, each with the order of the task to which it was sent.
    pub(super) commands: Vec<(u64, QueuedCommand)>,
    /// Whether a list has begun since the claim was sent, and has not named the task so far.
    pub(super) unlisted: bool,
    /// Node commands to stop the task, which may be on this node already.
    pub(super) stop_orders: Vec<NodeCommandId>,
    /// The claim, which counts when its handler starts.
    pub(super) first_start: Option<FirstStart>,
}

/// The claims that are under way: the tasks, and the calls that carry them.
#[derive(Debug, Default)]
pub(super) struct Claiming {
    tasks: HashMap<TaskId, PendingClaim>,
    /// Since when each call is under way.
    calls: HashMap<u64, Instant>,
    next_call: u64,
    /// The approximate duration of the last calls.
    took: Duration,
    failing: Option<Failing>,
    /// Tasks whose last claim has no answer. It may have taken a later task with the same id, and a
    /// watch may leave out the claims of its own lease.
    unanswered: HashSet<TaskId>,
}

/// The state while calls fail, each with every task in it.
#[derive(Debug)]
struct Failing {
    since: Instant,
    warned: Instant,
    /// Until when no claim is made.
    until: Instant,
    wait: Duration,
}

impl Claiming {
    /// Returns whether one more call may be sent. While the store fails, the pauses between calls grow:
    /// otherwise each of thousands of tasks would be tried again within a second.
    pub(super) fn has_room(&self, now: Instant) -> bool {
        self.calls.len() < CALLS && self.pause(now).is_none()
    }

    /// Returns how long no claim will be made.
    pub(super) fn pause(&self, now: Instant) -> Option<Duration> {
        let failing = self.failing.as_ref()?;
        let pause = failing.until.saturating_duration_since(now);
        (!pause.is_zero()).then_some(pause)
    }

    /// Records a call in which each claim has failed. Returns whether to log it.
    pub(super) fn failed(&mut self, now: Instant) -> bool {
        let Some(failing) = &mut self.failing else {
            self.failing = Some(Failing {
                since: now,
                warned: now,
                until: now,
                wait: Duration::ZERO,
            });
            return true;
        };
        // Other calls that were under way fail at the same time.
        if now >= failing.until {
            failing.wait = (failing.wait * 2).clamp(FAILED, FAILED_FOR_LONG);
            failing.until = now + failing.wait;
        }
        let warns = now.saturating_duration_since(failing.warned) >= WARN_EVERY;
        if warns {
            failing.warned = now;
        }
        warns
    }

    /// Records a claim that has not failed. If claims were failing, returns for how long.
    pub(super) fn succeeded(&mut self, now: Instant) -> Option<Duration> {
        let failing = self.failing.take()?;
        Some(now.saturating_duration_since(failing.since))
    }

    /// Records a task that the next call claims.
    pub(super) fn add(&mut self, task: TaskId, kind: Kind) {
        let claim = PendingClaim {
            kind: Some(kind),
            ..PendingClaim::default()
        };
        self.tasks.insert(task, claim);
    }

    /// Records a call, and returns its number.
    pub(super) fn send(&mut self, now: Instant) -> u64 {
        let call = self.next_call;
        self.next_call += 1;
        self.calls.insert(call, now);
        call
    }

    /// Records the answer to a call.
    pub(super) fn answered(&mut self, call: u64, now: Instant) {
        if let Some(since) = self.calls.remove(&call) {
            self.took = (self.took * 3 + now.saturating_duration_since(since)) / 4;
        }
    }

    /// Returns the approximate duration of a claim at present: that of the last calls, or the time
    /// of a call under way that has already taken longer.
    pub(super) fn takes(&self, now: Instant) -> Duration {
        let first = self.calls.values().min();
        let so_far = first.map_or(Duration::ZERO, |since| {
            now.saturating_duration_since(*since)
        });
        self.took.max(so_far)
    }

    /// Takes out a task whose claim was answered. A task that was dropped in the meantime yields an
    /// empty claim.
    pub(super) fn take(&mut self, task: &TaskId) -> PendingClaim {
        self.unanswered.remove(task);
        self.tasks.remove(task).unwrap_or_default()
    }

    pub(super) fn get_mut(&mut self, task: &TaskId) -> Option<&mut PendingClaim> {
        self.tasks.get_mut(task)
    }

    /// Records that the claim of a task has no answer.
    pub(super) fn without_answer(&mut self, task: TaskId) {
        self.unanswered.insert(task);
    }

    /// Returns whether the last claim of a task has no answer: only the answer of the next one shows
    /// whether this node has a task with the id.
    pub(super) fn is_unanswered(&self, task: &TaskId) -> bool {
        self.unanswered.contains(task)
    }

    /// Returns the tasks whose last claim has no answer, in no order.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = &TaskId> {
        self.unanswered.iter()
    }

    /// Records that a list begins, which names the claims of this node.
    pub(super) fn list_begins(&mut self) {
        self.unanswered.clear();
        for pending in self.tasks.values_mut() {
            pending.unlisted = true;
        }
    }

    /// Drops every task, because the node ends.
    pub(super) fn clear(&mut self) {
        self.tasks.clear();
        self.unanswered.clear();
    }

    /// Returns how many tasks are being claimed.
    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }
}

impl PendingClaim {
    /// Keeps an event about the task until the claim is answered. Only the last event counts, because
    /// events are level-triggered.
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
        assert!(!claiming.has_room(now));
        claiming.answered(calls[1], now);
        assert!(claiming.has_room(now));
    }

    /// On a full disk, each of thousands of tasks was tried again within a second, with a log line for
    /// each.
    #[test]
    fn claims_that_fail_one_after_the_other_pause_for_longer_and_longer() {
        let (mut claiming, start) = (Claiming::default(), Instant::now());
        let mut now = start;
        assert!(claiming.failed(now), "the first is reported");
        assert!(claiming.has_room(now), "and may be of one task alone");
        let mut pauses = Vec::new();
        for _ in 0..7 {
            assert!(!claiming.failed(now), "the others are not");
            assert!(!claiming.failed(now), "those under way do not count");
            assert!(!claiming.has_room(now));
            let pause = claiming.pause(now).unwrap();
            pauses.push(pause.as_millis());
            now += pause;
            assert!(claiming.has_room(now));
        }
        assert_eq!(pauses, [200, 400, 800, 1600, 3200, 5000, 5000]);
        assert!(claiming.failed(start + WARN_EVERY), "but for one a minute");
        assert_eq!(claiming.succeeded(start + WARN_EVERY), Some(WARN_EVERY));
        assert_eq!(claiming.succeeded(start + WARN_EVERY), None);
        assert!(claiming.has_room(start));
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
