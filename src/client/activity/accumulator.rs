//! [`Accumulator`]: counts changes. Pure: times are arguments, and the caller reads the tasks.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use jiff::Timestamp;
use windlass_statemachine::{Kind, StateKind, TaskId, TaskStatus};

mod starts;

use super::{
    ring::{Counts, Ring, Slot},
    summary::{KindActivity, Lateness, PerSecond, Summary, Window},
    tasks::{Claim, Due, Known, Outcome, Tasks},
};
use crate::{
    store::{Change, ChangeKind, TaskRecord},
    telemetry::MOST_KINDS,
};

/// The longest time that is counted.
pub(super) const LONGEST: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);
/// The windows of a summary: the length of their slots, and how many.
const WINDOWS: [(&str, Duration, usize); 4] = [
    ("10s", SECOND, 10),
    ("1m", SECOND, 60),
    ("10m", MINUTE, 10),
    ("1h", MINUTE, 60),
];

/// Counts changes in windows of up to an hour. Every `at` is the time since the accumulator was made.
#[derive(Debug)]
pub(super) struct Accumulator {
    since: Timestamp,
    seconds: Ring,
    minutes: Ring,
    /// The kinds that are counted by themselves, each with the time of its last count.
    kinds: BTreeMap<Kind, Duration>,
    tasks: Tasks,
    /// The claims that may only carry out a command, by the times at which they were reported.
    unsure: VecDeque<(Duration, TaskId)>,
    /// Whether a task was claimed that had not changed before.
    has_backlog: bool,
}

impl Outcome {
    fn counts(self) -> Counts {
        let mut counts = Counts::default();
        match self {
            Self::Started => counts.started = 1,
            Self::Completed => counts.completed = 1,
            Self::FailedAttempt => counts.failed_attempts = 1,
            Self::Failed => counts.failed = 1,
            Self::Lost => counts.lost = 1,
        }
        counts
    }
}

impl Accumulator {
    /// Returns one that counts from now on; `since` is the present time.
    pub(super) fn new(since: Timestamp) -> Self {
        Self {
            since,
            seconds: Ring::new(SECOND, 60),
            minutes: Ring::new(MINUTE, 60),
            kinds: BTreeMap::new(),
            tasks: Tasks::default(),
            unsure: VecDeque::new(),
            has_backlog: true,
        }
    }

    /// Counts changes that were just reported.
    pub(super) fn take(&mut self, at: Duration, changes: &[Change]) {
        self.settle(at);
        for change in changes {
            self.decide(change);
            self.take_one(at, change);
        }
    }

    fn take_one(&mut self, at: Duration, change: &Change) {
        let id = &change.task;
        match &change.what {
            ChangeKind::Submitted { state } => {
                // Another task may have had the id.
                self.tasks.forget(id);
                self.enters(id, *state, change.at);
            }
            ChangeKind::Claimed { fence, .. } => {
                let claim = Claim {
                    fence: *fence,
                    claimed: change.at,
                    at,
                };
                self.claimed(id, claim);
            }
            ChangeKind::Moved { to, .. } => {
                match to {
                    StateKind::Completed => self.count(at, id, Outcome::Completed),
                    StateKind::Fault => self.count(at, id, Outcome::FailedAttempt),
                    StateKind::Failed => self.count(at, id, Outcome::Failed),
                    _ => {}
                }
                self.enters(id, *to, change.at);
            }
            ChangeKind::Dropped { .. } => self.is_free(id, change.at),
            ChangeKind::Lost { .. } => {
                self.count(at, id, Outcome::Lost);
                self.is_free(id, change.at);
            }
            ChangeKind::Retried => self.enters(id, StateKind::Runnable, change.at),
            ChangeKind::Rescheduled { from, to, kind } => {
                if let Some(kind) = kind {
                    self.tasks.entry(id).kind = Some(kind.clone());
                }
                if from != to || *to == StateKind::Sleeping {
                    self.enters(id, *to, change.at);
                }
            }
            ChangeKind::Quarantined | ChangeKind::Deleted => self.tasks.forget(id),
            ChangeKind::Commanded { .. } => {
                let known = self.tasks.entry(id);
                known.is_commanded |= !known.is_owned;
            }
            ChangeKind::Checkpointed { .. } | ChangeKind::MalformedCommand { .. } => {}
        }
    }

    /// Notes the state that a task has from now on.
    fn enters(&mut self, id: &TaskId, state: StateKind, now: Timestamp) {
        let known = self.tasks.entry(id);
        known.has_ended = state.is_terminal();
        known.is_owned &= !known.has_ended;
        known.due = match state {
            StateKind::Runnable | StateKind::Fault => Due::Since(now),
            StateKind::Sleeping => Due::Asleep,
            _ => Due::Never,
        };
        if known.has_ended && known.outcomes.is_empty() {
            self.tasks.forget(id);
        } else if state == StateKind::Sleeping {
            self.tasks.want(id, false);
        }
    }

    /// Notes that a task has no owner any more.
    fn is_free(&mut self, id: &TaskId, now: Timestamp) {
        if let Some(known) = self.tasks.get_mut(id)
            && let Due::Since(_) = known.due
        {
            known.due = Due::Since(now);
        }
        if let Some(known) = self.tasks.get_mut(id) {
            known.is_owned = false;
        }
    }

    /// Counts an outcome, and adds it to the kind of the task, now or when the task is read.
    fn count(&mut self, at: Duration, id: &TaskId, outcome: Outcome) {
        for ring in [&mut self.seconds, &mut self.minutes] {
            if let Some(slot) = ring.slot(at) {
                slot.all.add(&outcome.counts());
            }
        }
        let known = self.tasks.entry(id);
        match known.kind.clone() {
            Some(kind) => self.count_kind(at, &kind, outcome),
            None => {
                known.keep(at, outcome);
                let is_urgent = matches!(outcome, Outcome::FailedAttempt | Outcome::Failed);
                self.tasks.want(id, is_urgent);
            }
        }
    }

    fn count_kind(&mut self, at: Duration, kind: &Kind, outcome: Outcome) {
        if !self.has_place(at, kind) {
            return;
        }
        for ring in [&mut self.seconds, &mut self.minutes] {
            if let Some(slot) = ring.slot(at) {
                let counts = slot.by_kind.entry(kind.clone()).or_default();
                counts.add(&outcome.counts());
            }
        }
    }

    /// Returns whether a kind is counted by itself.
    fn has_place(&mut self, at: Duration, kind: &Kind) -> bool {
        if self.kinds.len() >= MOST_KINDS && !self.kinds.contains_key(kind) {
            self.kinds.retain(|_, last| *last + LONGEST >= at);
            if self.kinds.len() >= MOST_KINDS {
                return false;
            }
        }
        let last = self.kinds.entry(kind.clone()).or_default();
        *last = at.max(*last);
        true
    }

    /// Counts how late a claim was. Clocks of two machines may differ.
    fn late(&mut self, at: Duration, due: Timestamp, claimed: Timestamp) {
        let late = claimed.duration_since(due).max(jiff::SignedDuration::ZERO);
        for ring in [&mut self.seconds, &mut self.minutes] {
            if let Some(slot) = ring.slot(at) {
                slot.late(late.unsigned_abs());
            }
        }
    }

    /// Returns whether tasks are to be read.
    pub(super) fn wants(&self) -> bool {
        self.tasks.wants()
    }

    /// Takes the ids of at most this many tasks that are to be read now.
    pub(super) fn wanted(&mut self, most: usize) -> Vec<TaskId> {
        self.tasks.take_wanted(most)
    }

    /// Returns whether the tasks that are claimed next are to be read: after the start, and after a claim of a task that had not
    /// changed before.
    pub(super) fn takes_backlog(&mut self) -> bool {
        std::mem::take(&mut self.has_backlog)
    }

    /// Takes the tasks that are claimed next.
    pub(super) fn backlog(&mut self, records: &[TaskRecord]) {
        for record in records.iter().filter(|record| record.node.is_none()) {
            let Ok(state) = &record.state else {
                continue;
            };
            let known = self.tasks.entry(&record.task.id);
            if known.due != Due::Unknown || known.claim.is_some() || known.has_ended {
                continue;
            }
            known.kind = Some(record.task.kind.clone());
            known.due = match (&state.status, state.ready()) {
                (TaskStatus::Sleeping { until }, _) => Due::From(*until),
                (_, Some(since)) => Due::Since(since),
                (_, None) => Due::Never,
            };
        }
    }

    /// Takes tasks that were read. Every change that was reported after the read is taken after this.
    pub(super) fn learn(&mut self, records: &[TaskRecord]) {
        for record in records {
            let id = &record.task.id;
            let Some(known) = self.tasks.get_mut(id) else {
                continue;
            };
            known.kind = Some(record.task.kind.clone());
            let outcomes = std::mem::take(&mut known.outcomes);
            let found = wake_up(known, record);
            if known.has_ended {
                self.tasks.forget(id);
            }
            for (at, outcome) in outcomes {
                self.count_kind(at, &record.task.kind, outcome);
            }
            if let Some((at, due, claimed)) = found {
                self.late(at, due, claimed);
            }
        }
    }

    /// Returns the number of the tasks that are remembered.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.tasks.len().0
    }

    /// Returns the counts at a time, `now` by the clock.
    pub(super) fn summary(&self, at: Duration, now: Timestamp) -> Summary {
        let windows = WINDOWS.map(|(name, step, slots)| {
            let ring = match step {
                SECOND => &self.seconds,
                _ => &self.minutes,
            };
            let (slot, covered) = ring.last(slots, at);
            window(name, &slot, covered)
        });
        Summary {
            since: self.since,
            at: now,
            windows: windows.into(),
        }
    }
}

/// Notes the due time of a task that was read. Returns the lateness of its claim, if that is known now: when it was reported, the
/// due time and the time of the claim.
fn wake_up(known: &mut Known, record: &TaskRecord) -> Option<(Duration, Timestamp, Timestamp)> {
    let Ok(state) = &record.state else {
        return None;
    };
    let claim = known.claim.take();
    if let TaskStatus::Sleeping { until } = state.status
        && known.due == Due::Asleep
    {
        known.due = Due::From(until);
    }
    // The state is still the one that was claimed.
    let (due, claim) = (state.due()?, claim?);
    let Claim { fence, claimed, at } = claim;
    let is_same = record.node.is_some() && record.fence == fence && state.since <= claimed;
    (is_same && due <= claimed).then_some((at, due, claimed))
}

fn window(name: &str, slot: &Slot, covered: Duration) -> Window {
    // A rate of the first moment would say little.
    let seconds = covered.max(SECOND).as_secs_f64();
    let rate = |count: u64| count as f64 / seconds;
    let mut others = slot.all;
    let mut kinds: Vec<KindActivity> = Vec::new();
    for (kind, counts) in &slot.by_kind {
        others = others.without(counts);
        kinds.push(KindActivity::new(Some(kind.clone()), counts));
    }
    if others != Counts::default() {
        kinds.push(KindActivity::new(None, &others));
    }
    kinds.sort_by(|one, other| one.place().cmp(&other.place()));
    let late = slot.lateness.as_ref();
    let all = &slot.all;
    Window {
        name: name.to_owned(),
        seconds,
        started: all.started,
        completed: all.completed,
        failed_attempts: all.failed_attempts,
        failed: all.failed,
        lost: all.lost,
        per_second: PerSecond {
            started: rate(all.started),
            completed: rate(all.completed),
            failed_attempts: rate(all.failed_attempts),
        },
        lateness: Lateness {
            measured: late.map_or(0, |late| late.values()),
            p50_seconds: late.and_then(|late| late.quantile(0.5)),
            p99_seconds: late.and_then(|late| late.quantile(0.99)),
        },
        kinds,
    }
}

#[cfg(test)]
#[path = "accumulator_tests.rs"]
mod tests;
