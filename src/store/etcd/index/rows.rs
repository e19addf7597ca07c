//! [`Rows`]: the tasks in the orders of lists, and their counts, updated with each change of a key.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Bound,
};

use jiff::Timestamp;
use windlass_statemachine::{Kind, StateKind, TaskId};

use super::entry::{Entry, Of, Row};
use crate::store::{
    Filter, Order, Place, TaskCount,
    etcd::schema::{Fences, KeyValue},
    rules::stats::{Counter, Facts, by_state},
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
    is_waiting: bool,
}

impl Group {
    fn of(row: &Row) -> Self {
        Self {
            kind: row.kind.clone(),
            state: row.state,
            data_version: row.data_version,
            is_claimed: row.is_claimed,
            is_waiting: row.is_waiting,
        }
    }

    fn facts(&self) -> Facts {
        Facts {
            state: self.state,
            is_claimed: self.is_claimed,
            is_waiting: self.is_waiting,
            is_due: false,
        }
    }
}

/// The tasks of a namespace.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Rows {
    entries: HashMap<TaskId, Entry>,
    /// Every task by its submit.
    submitted: BTreeSet<Place>,
    /// The live tasks by their submit.
    live: BTreeSet<Place>,
    /// The sleeping tasks by their wake-up.
    asleep: BTreeSet<Place>,
    /// The live, unclaimed tasks with limits, by their submit.
    limited: BTreeSet<Place>,
    counts: BTreeMap<Group, u64>,
}

/// A step of a list.
pub(super) struct Found {
    /// The tasks that may match, in order.
    pub(super) ids: Vec<TaskId>,
    /// The last task that was examined; `None` at the end of the list.
    pub(super) last: Option<Place>,
}

impl Rows {
    /// Applies a key of a task; `None` for a deleted one.
    pub(super) fn take(&mut self, id: TaskId, of: &Of<'_>, kv: Option<&KeyValue>, fences: &Fences) {
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
            places.push((&mut self.live, by_submit));
        }
        if let Some(until) = row.until {
            places.push((&mut self.asleep, at(until.as_microsecond())));
        }
        places
    }

    fn add(&mut self, id: &TaskId, row: &Row) {
        for (set, key) in self.places(id, row) {
            set.insert(key);
        }
        *self.counts.entry(Group::of(row)).or_default() += 1;
    }

    fn remove(&mut self, id: &TaskId, row: &Row) {
        for (set, key) in self.places(id, row) {
            set.remove(&key);
        }
        let group = Group::of(row);
        if let Some(tasks) = self.counts.get_mut(&group) {
            *tasks -= 1;
            if *tasks == 0 {
                self.counts.remove(&group);
            }
        }
    }

    /// Examines the next tasks of a list by submit or by wake-up: at most [`STEP`], until `most` of them may match.
    pub(super) fn step(
        &self,
        filter: &Filter,
        (order, ascending): (Order, bool),
        after: Option<&Place>,
        most: usize,
    ) -> Found {
        let set = match order {
            Order::Due => &self.asleep,
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
        let (from, to) = match (after, ascending) {
            (None, _) => (Bound::Unbounded, Bound::Unbounded),
            (Some(after), true) => (Bound::Excluded(after), Bound::Unbounded),
            (Some(after), false) => (Bound::Unbounded, Bound::Excluded(after)),
        };
        let range = set.range::<Place, _>((from, to));
        match ascending {
            true => self.look(range, filter, most),
            false => self.look(range.rev(), filter, most),
        }
    }

    fn look<'a>(
        &self,
        places: impl Iterator<Item = &'a Place>,
        filter: &Filter,
        most: usize,
    ) -> Found {
        let mut ids = Vec::new();
        for (looked, place) in places.enumerate() {
            if let Some((id, row)) = self.task_at(place)
                && row.may_match(id.as_str(), filter)
            {
                ids.push(id.clone());
            }
            if looked + 1 >= STEP || ids.len() >= most {
                let last = Some(place.clone());
                return Found { ids, last };
            }
        }
        Found { ids, last: None }
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
                counter.due_since(&row.kind, row.state, row.data_version, row.since);
            }
        }
        self.live.len() <= MOST_LIVE
    }

    /// Returns the first tasks that a limit may hold back, and whether these are all.
    pub(super) fn limited(&self, most: usize) -> (Vec<TaskId>, bool) {
        let ids = self.limited.iter().take(most);
        let ids = ids.filter_map(|place| place.id.clone()).collect();
        (ids, self.limited.len() <= most)
    }
}
