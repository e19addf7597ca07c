//! The events that a mirror reports.

use std::collections::{BTreeMap, HashMap, HashSet};

use jiff::Timestamp;
use tokio::time::Instant;
use windlass_statemachine::TaskId;

use super::{
    super::entries::{Entry, Mark},
    Mirror,
};
use crate::store::{
    Event, TaskView,
    etcd::schema::{Stored, commands::has_order, reported},
    rules::{
        dependencies::Waiter,
        limits::{lines::Place, reserve::Reserver},
    },
};

impl Mirror {
    /// Returns when [`take`](Self::take) returns events even without a new key.
    pub(crate) fn next(&self) -> Option<Instant> {
        let (release, line) = (self.releases.next(), self.limited.next());
        release.into_iter().chain(line).min()
    }

    /// Returns the task for which slots of limits are kept.
    pub(crate) fn reserver(&self) -> Option<Reserver> {
        self.limited.reserver()
    }

    /// Takes the tasks that have changed since the last call, with their present views. Keeps the
    /// tasks whose mark may still arrive.
    pub(crate) fn take(&mut self, now: Instant) -> Vec<Event> {
        self.releases.expire(now);
        let mut changed = std::mem::take(&mut self.changed);
        self.in_changed.clear();
        if !self.releases.is_empty() {
            let (held, free) = changed
                .into_iter()
                .partition(|(id, _)| self.releases.holds(id));
            (self.changed, changed) = (held, free);
            self.in_changed.extend(self.changed.iter().cloned());
        }
        self.report_lines(&mut changed, now);
        let mut deleted = std::mem::take(&mut self.deleted);
        let mut events = Vec::with_capacity(changed.len());
        for task in changed {
            let at = deleted.remove(&task);
            self.add(task, at, &mut events);
        }
        // Deletions that are not reported yet.
        self.deleted = deleted;
        events
    }

    /// Adds the events of a task. `deleted` is the revision that last deleted its key. A task that
    /// was retried after its end exists again, with the same order.
    fn add(&self, (id, order): (TaskId, u64), deleted: Option<i64>, events: &mut Vec<Event>) {
        let gone = |at: i64| Event::Gone {
            id: id.clone(),
            order,
            fence: Some(self.fences.of(at)),
        };
        events.extend(deleted.map(gone));
        let entry = self.tasks.get(&id).filter(|entry| entry.order == order);
        let Some(entry) = entry else { return };
        if entry.mark == Mark::Quarantined {
            return events.push(gone(entry.marked));
        }
        let waiting = self.waiting.get(&id);
        let mut view = self.view(&id, &entry);
        if let Some(report) = self.limited.report(&id) {
            let queue = waiting.into_iter().flat_map(BTreeMap::values);
            report.apply(&mut view, || has_order(queue));
        }
        events.push(Event::Task(view));
        if entry.owner.is_some_and(|owner| owner.lease == self.lease)
            && let Some(waiting) = waiting
        {
            let queue: Vec<Stored> = waiting.values().cloned().collect();
            let commands = reported(&queue);
            if !commands.is_empty() {
                events.push(Event::Commands {
                    id,
                    order,
                    commands,
                });
            }
        }
    }

    /// Returns the view of a task without its limits.
    fn view(&self, id: &TaskId, entry: &Entry) -> TaskView {
        let mut view = TaskView {
            id: id.clone(),
            kind: entry.kind.clone(),
            labels: entry.labels.clone(),
            data_version: entry.data_version,
            priority: entry.priority,
            order: entry.order,
            due: match entry.mark {
                Mark::None => Some(entry.submitted_at),
                Mark::Ready(at) | Mark::Until(at) => Some(at),
                Mark::Paused | Mark::Quarantined => None,
            },
            deadline: match entry.mark {
                Mark::None => entry.late.submitted,
                Mark::Ready(_) | Mark::Until(_) | Mark::Paused => entry.late.parked,
                Mark::Quarantined => None,
            },
            sleeping: matches!(entry.mark, Mark::Until(_)),
            claimed_by: entry.owner.map(|owner| owner.lease),
            commanded: self.waiting.contains_key(id),
            fair_key: self.limited.fair_key(id),
        };
        let is_listed = |id: &TaskId| self.tasks.contains(id);
        if let Mark::Until(until) = entry.mark
            && let Some(is_blocked) = self.waiters.is_blocked(id, is_listed)
        {
            let since = entry.submitted_at;
            let waiter = Waiter {
                is_blocked,
                until,
                since,
            };
            waiter.apply(&mut view);
        }
        view
    }

    /// Puts the changed tasks with limits into lines, or takes them out, and adds the tasks that the lines
    /// report now.
    fn report_lines(&mut self, changed: &mut Vec<(TaskId, u64)>, now: Instant) {
        let refused = self.limited.take_refused(self.tasks_at, now);
        let before = changed.len();
        changed.extend(refused);
        // The tasks that already wait go before those that are released now.
        let mut reported = self.limited.settle(now, self.wall);
        for (id, order) in changed.iter() {
            self.line_up(id, *order);
        }
        reported.extend(self.limited.settle(now, self.wall));
        changed.extend(reported);
        if changed.len() > before {
            // A task whose mark may still arrive is reported with it.
            let mut known = HashSet::new();
            changed.retain(|task| !self.in_changed.contains(task) && known.insert(task.clone()));
        }
    }

    fn line_up(&mut self, id: &TaskId, order: u64) {
        if !self.limited.has(id) {
            return;
        }
        let entry = self.tasks.get(id).filter(|entry| entry.order == order);
        let Some(entry) = entry else { return };
        let view = self.view(id, &entry);
        let is_due = |due: &Timestamp| !view.sleeping || *due <= self.wall;
        let due = view.due.filter(is_due);
        let may = due.is_some() && view.claimed_by.is_none() && entry.mark != Mark::Quarantined;
        let place = may.then(|| Place::new(view.priority, due, order));
        self.limited.ready(id, place, self.wall);
    }

    /// Returns the tasks with which a watch begins, in submit order. [`views`](Self::views) makes
    /// the events of some of them at a time: the events of all tasks at once would take more memory
    /// than the mirror.
    pub(crate) fn listed(&mut self) -> Vec<(TaskId, u64)> {
        // Dropped, not cleared, because their capacity fits every task.
        (self.changed, self.in_changed) = Default::default();
        self.deleted = HashMap::new();
        for (id, order) in self.limited.all() {
            self.line_up(&id, order);
        }
        self.limited.settle(Instant::now(), self.wall);
        let listed = self.tasks.listed();
        let mut ids: Vec<(u64, TaskId)> = listed.map(|(n, id)| (n, id.clone())).collect();
        ids.sort_unstable();
        ids.into_iter().map(|(order, id)| (id, order)).collect()
    }

    pub(crate) fn views(&self, tasks: &[(TaskId, u64)]) -> Vec<Event> {
        let mut events = Vec::with_capacity(tasks.len());
        for task in tasks {
            self.add(task.clone(), None, &mut events);
        }
        events
    }
}
