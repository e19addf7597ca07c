//! Groups failed tasks by the fingerprint of their last error.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use jiff::Timestamp;
use windlass_statemachine::{ErrorEntry, Kind, StateKind, TaskId, TaskState};

use crate::store::{FailedGroup, FailedTasks, TaskRecord};

/// How many failed tasks a store reads that keeps no counts.
pub(crate) const READ: usize = 10_000;

/// Returns the fingerprint of the error with which a task has failed; `None` for another task.
pub(crate) fn of(state: &TaskState) -> Option<String> {
    let last = (state.code() == StateKind::Failed).then(|| state.errors.last())?;
    last.map(ErrorEntry::fingerprint)
}

/// Failed tasks in groups.
#[derive(Debug, Default)]
pub(crate) struct Groups(BTreeMap<(String, Kind), Group>);

/// The failed tasks of one group.
#[derive(Debug)]
struct Group {
    tasks: u64,
    first: Timestamp,
    /// The ends of the tasks that failed last, oldest first.
    recent: BTreeSet<(Timestamp, TaskId)>,
}

impl Groups {
    /// Adds a task; one that has not failed is left out.
    pub(crate) fn take(&mut self, record: &TaskRecord) {
        let Ok(state) = &record.state else { return };
        if let Some(print) = of(state) {
            self.add(print, &record.task.kind, &record.task.id, state.since);
        }
    }

    fn add(&mut self, fingerprint: String, kind: &Kind, id: &TaskId, at: Timestamp) {
        let key = (fingerprint, kind.clone());
        let group = self.0.entry(key).or_insert_with(|| Group {
            tasks: 0,
            first: at,
            recent: BTreeSet::new(),
        });
        group.tasks += 1;
        group.first = group.first.min(at);
        group.recent.insert((at, id.clone()));
        if group.recent.len() > FailedGroup::RECENT {
            group.recent.pop_first();
        }
    }

    pub(crate) fn into_tasks(self, limit: usize, is_complete: bool) -> FailedTasks {
        let groups = self.0.into_iter().filter_map(|((fingerprint, kind), of)| {
            Some(FailedGroup {
                fingerprint,
                kind,
                tasks: of.tasks,
                first: of.first,
                last: of.recent.last()?.0,
                recent: of.recent.into_iter().rev().map(|(_, id)| id).collect(),
            })
        });
        ordered(groups.collect(), limit, is_complete)
    }
}

/// Returns the first groups, those with the most tasks first.
pub(crate) fn ordered(
    mut groups: Vec<FailedGroup>,
    limit: usize,
    is_complete: bool,
) -> FailedTasks {
    groups.sort_by(|a, b| {
        let key = |of: &FailedGroup| (Reverse(of.tasks), Reverse(of.last));
        key(a)
            .cmp(&key(b))
            .then_with(|| (&a.fingerprint, &a.kind).cmp(&(&b.fingerprint, &b.kind)))
    });
    let fits = groups.len() <= limit;
    groups.truncate(limit);
    FailedTasks {
        groups,
        is_complete: is_complete && fits,
    }
}

impl FailedTasks {
    /// Groups these records: at most `limit` groups. Tasks that have not failed are left out.
    pub fn of(records: &[TaskRecord], limit: usize, is_complete: bool) -> Self {
        let mut groups = Groups::default();
        records.iter().for_each(|record| groups.take(record));
        groups.into_tasks(limit, is_complete)
    }
}
