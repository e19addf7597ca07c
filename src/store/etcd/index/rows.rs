//! [`Rows`]: the tasks in the orders of lists, and their counts, updated with each change of a key.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use jiff::Timestamp;
use windlass_statemachine::{Kind, StateKind, TaskId};

use super::{
    entry::{Entry, IndexKey, Row},
    known::{Known, KnownTask},
};
use crate::store::{
    FailedGroup, FailedTasks, Filter, Order, Place, Span, TaskCount,
    etcd::schema::{Fences, KeyValue},
    rules::{
        failures,
        stats::{Counter, Facts, Wait, by_state},
    },
};

/// The most runnable tasks that are examined to find the oldest one.
const MOST_LIVE: usize = 2_000;
/// The most tasks that one step of a list examines.
pub(super) const STEP: usize = 5_000;

/// What the tasks of one count have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    kind: Kind,
    state: Option<StateKind>,
    data_version: u32,
    is_claimed: bool,
    waits: Wait,
}

impl Group {
    fn of(row: &Row) -> Self {
        Self {
            kind: row.kind.clone(),
            state: row.state,
            data_version: row.data_version,
            is_claimed: row.is_claimed,
            waits: row.waits,
        }
    }

    fn facts(&self) -> Facts {
        Facts {
            state: self.state,
            is_claimed: self.is_claimed,
            waits: self.waits,
            is_due: false,
        }
    }
}

/// The tasks of a namespace.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Rows {
    /// In the order of the ids.
    entries: BTreeMap<TaskId, Box<Entry>>,
    /// Every task by its submit.
    submitted: BTreeSet<Place>,
    /// The live tasks by their submit.
    live: BTreeSet<Place>,
    /// The sleeping tasks by their wake-up.
    asleep: BTreeSet<Place>,
    /// Those of them that wait for other tasks.
    waiting: BTreeSet<Place>,
    /// The ended tasks by their end.
    ended: BTreeSet<Place>,
    /// The live, unclaimed tasks with limits, by their submit.
    limited: BTreeSet<Place>,
    /// The tasks that wait for a signal, by their submit.
    awaiting_signal: BTreeSet<Place>,
    counts: BTreeMap<Group, u64>,
    /// The failed tasks by the fingerprint of their error and their kind, in the order of their ends.
    failed: BTreeMap<(u64, Kind), BTreeSet<Place>>,
    /// The revision of the last change.
    pub(super) at: i64,
}

/// A step of a list.
pub(super) struct Found {
    /// The tasks that may match, in order.
    pub(super) known: Known,
    /// The last task that was examined; `None` at the end of the list.
    pub(super) last: Option<Place>,
}

/// Returns the bounds of what follows a position in a list, in the direction of the list.
fn bounds<T>(after: Option<&T>, ascending: bool) -> (Bound<&T>, Bound<&T>) {
    match (after, ascending) {
        (None, _) => (Bound::Unbounded, Bound::Unbounded),
        (Some(after), true) => (Bound::Excluded(after), Bound::Unbounded),
        (Some(after), false) => (Bound::Unbounded, Bound::Excluded(after)),
    }
}

/// Returns the position after which a list by end begins, if the filter has a time for it.
fn start_of(filter: &Filter, ascending: bool) -> Option<Place> {
    let at = match ascending {
        true => filter.ended.from?.as_microsecond(),
        false => filter.ended.until?.as_microsecond().saturating_add(1),
    };
    Some(Place::new(at, 0))
}

/// Returns the group of a failed task, and its place there.
fn failed(id: &TaskId, row: &Row) -> Option<((u64, Kind), Place)> {
    let place = Place {
        at: row.since.as_microsecond(),
        order: row.order,
        id: Some(id.clone()),
    };
    Some(((row.failure?, row.kind.clone()), place))
}

impl Rows {
    /// Applies a key of a task; `None` for a deleted one.
    pub(super) fn take(
        &mut self,
        id: TaskId,
        of: &IndexKey<'_>,
        kv: Option<&KeyValue>,
        fences: &Fences,
    ) {
        let entry = self.entries.entry(id.clone()).or_default();
        let before = entry.row();
        entry.take(of, kv, fences);
        let after = entry.row();
        if entry.is_empty() {
            self.entries.remove(&id);
        }
        if before == after {
            return;
        }
        if let Some(row) = before {
            self.remove(&id, &row);
        }
        if let Some(row) = after {
            self.add(&id, &row);
        }
    }

    /// Returns the sets that contain a task, each with the task's key in it.
    fn places<'a>(&'a mut self, id: &TaskId, row: &Row) -> Vec<(&'a mut BTreeSet<Place>, Place)> {
        let at = |at| Place {
            at,
            order: row.order,
            id: Some(id.clone()),
        };
        let by_submit = at(0);
        let mut places = vec![(&mut self.submitted, by_submit.clone())];
        if row.is_live {
            if row.has_limits && !row.is_claimed {
                places.push((&mut self.limited, by_submit.clone()));
            }
            if row.waits == Wait::Signal {
                places.push((&mut self.awaiting_signal, by_submit.clone()));
            }
            places.push((&mut self.live, by_submit));
        }
        if let Some(until) = row.until {
            let by_due = at(until.as_microsecond());
            if row.waits == Wait::Tasks {
                places.push((&mut self.waiting, by_due.clone()));
            }
            places.push((&mut self.asleep, by_due));
        }
        if row.state.is_some_and(StateKind::is_terminal) {
            places.push((&mut self.ended, at(row.since.as_microsecond())));
        }
        places
    }

    fn add(&mut self, id: &TaskId, row: &Row) {
        for (set, key) in self.places(id, row) {
            set.insert(key);
        }
        if let Some((key, place)) = failed(id, row) {
            self.failed.entry(key).or_default().insert(place);
        }
        *self.counts.entry(Group::of(row)).or_default() += 1;
    }

    fn remove(&mut self, id: &TaskId, row: &Row) {
        for (set, key) in self.places(id, row) {
            set.remove(&key);
        }
        if let Some((key, place)) = failed(id, row)
            && let Some(set) = self.failed.get_mut(&key)
        {
            set.remove(&place);
            if set.is_empty() {
                self.failed.remove(&key);
            }
        }
        let group = Group::of(row);
        if let Some(tasks) = self.counts.get_mut(&group) {
            *tasks -= 1;
            if *tasks == 0 {
                self.counts.remove(&group);
            }
        }
    }

    /// Examines the next tasks of a list: at most [`STEP`], until as many as the limit of the span may match.
    pub(super) fn step(&self, filter: &Filter, span: &Span) -> Found {
        let (order, ascending, after) = (span.order, span.ascending, span.after.as_ref());
        if order == Order::Id {
            let after = after.and_then(|after| after.id.as_ref());
            let ids = self.entries.range::<TaskId, _>(bounds(after, ascending));
            let ids = ids.map(|(id, _)| (id, None));
            return match ascending {
                true => self.look(ids, filter, span),
                false => self.look(ids.rev(), filter, span),
            };
        }
        let set = match order {
            Order::Due if span.only_waiting => &self.waiting,
            Order::Due => &self.asleep,
            Order::Ended => &self.ended,
            _ if filter.awaits_signal => &self.awaiting_signal,
            _ if filter.is_live_only() => &self.live,
            _ => &self.submitted,
        };
        let after = after.map(|after| match &after.id {
            // A position without an id stands for every task with this time.
            None if ascending => Place {
                order: after.order.saturating_add(1),
                ..after.clone()
            },
            _ => after.clone(),
        });
        let after = match order {
            Order::Ended => {
                start_of(filter, ascending)
                    .into_iter()
                    .chain(after)
                    .reduce(|start, after| match ascending {
                        true => start.max(after),
                        false => start.min(after),
                    })
            }
            _ => after,
        };
        let places = set.range::<Place, _>(bounds(after.as_ref(), ascending));
        let places = places.filter_map(|place| Some((place.id.as_ref()?, Some(place))));
        match ascending {
            true => self.look(places, filter, span),
            false => self.look(places.rev(), filter, span),
        }
    }

    /// Examines tasks, each with its position in the list, which in a list by id is the id.
    fn look<'a>(
        &self,
        tasks: impl Iterator<Item = (&'a TaskId, Option<&'a Place>)>,
        filter: &Filter,
        span: &Span,
    ) -> Found {
        let (mut tasks, mut last, all) = (Vec::new(), None, tasks);
        for (looked, (id, place)) in all.enumerate() {
            if let Some(entry) = self.entries.get(id)
                && let Some(row) = entry.row()
                && row.may_match(id.as_str(), filter)
            {
                tasks.push(KnownTask::of(id, entry, span.without_props));
            }
            if looked + 1 >= STEP || tasks.len() >= span.limit {
                let by_id = || Place {
                    id: Some(id.clone()),
                    ..Place::new(0, 0)
                };
                last = Some(place.cloned().unwrap_or_else(by_id));
                break;
            }
        }
        let known = Known { tasks, at: self.at };
        Found { known, last }
    }

    fn task_at<'a>(&self, place: &'a Place) -> Option<(&'a TaskId, Row)> {
        let id = place.id.as_ref()?;
        Some((id, self.entries.get(id)?.row()?))
    }

    /// Returns how many tasks there are by kind and state.
    pub(super) fn states(&self) -> Vec<TaskCount> {
        let groups = self.counts.iter();
        by_state(groups.map(|(group, tasks)| (&group.kind, group.state, *tasks, group.is_claimed)))
    }

    /// Returns the counts without the tasks that limits hold back, and whether the first due time of each group is known.
    pub(super) fn counter(&self, now: Timestamp) -> (Counter, bool) {
        let mut counter = Counter::new(now);
        let mut late = BTreeMap::<Group, (u64, Option<Timestamp>)>::new();
        let due = self.asleep.iter();
        for place in due.take_while(|place| place.at <= now.as_microsecond()) {
            let is_due = |row: &Row| !row.is_claimed && row.until.is_some_and(|until| until <= now);
            if let Some((_, row)) = self.task_at(place).filter(|(_, row)| is_due(row)) {
                let (tasks, first) = late.entry(Group::of(&row)).or_default();
                *tasks += 1;
                // They are in the order of their wake-ups.
                *first = first.or(row.until);
            }
        }
        for (group, tasks) in &self.counts {
            let (is_late, first) = late.remove(group).unwrap_or_default();
            let due = Facts {
                is_due: true,
                ..group.facts()
            };
            let version = group.data_version;
            counter.add(&group.kind, version, due, (is_late, first));
            let rest = tasks.saturating_sub(is_late);
            counter.add(&group.kind, version, group.facts(), (rest, None));
        }
        let complete = self.oldest(&mut counter);
        (counter, complete)
    }

    /// Notes the first due times of the runnable tasks. Examines only the first live tasks. Returns whether these were
    /// all.
    fn oldest(&self, counter: &mut Counter) -> bool {
        for place in self.live.iter().take(MOST_LIVE) {
            let Some((_, row)) = self.task_at(place) else {
                continue;
            };
            let is_runnable = matches!(row.state, Some(StateKind::Runnable | StateKind::Fault));
            if is_runnable && !row.is_claimed {
                counter.due_since(&row.kind, row.state, row.data_version, row.ready);
            }
        }
        self.live.len() <= MOST_LIVE
    }

    /// Returns the failed tasks in groups.
    pub(super) fn failures(&self, limit: usize) -> FailedTasks {
        let groups = self.failed.iter().filter_map(|((print, kind), set)| {
            let (first, last) = (set.first()?, set.last()?);
            let recent = set.iter().rev().take(FailedGroup::RECENT);
            let time = |place: &Place| Timestamp::from_microsecond(place.at).ok();
            Some(FailedGroup {
                fingerprint: format!("{print:012x}"),
                kind: kind.clone(),
                tasks: set.len() as u64,
                first: time(first)?,
                last: time(last)?,
                recent: recent.filter_map(|place| place.id.clone()).collect(),
            })
        });
        failures::ordered(groups.collect(), limit, true)
    }

    /// Returns the first tasks that a limit may hold back, and whether these are all.
    pub(super) fn limited(&self, most: usize) -> (Known, bool) {
        let tasks = self.limited.iter().take(most).filter_map(|place| {
            let id = place.id.as_ref()?;
            Some(KnownTask::of(id, self.entries.get(id)?, true))
        });
        let (tasks, at) = (tasks.collect(), self.at);
        let known = Known { tasks, at };
        (known, self.limited.len() <= most)
    }
}
