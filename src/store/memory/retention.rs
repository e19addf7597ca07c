//! Deletes old ended tasks and old changes.

use std::{collections::HashSet, convert::Infallible};

use jiff::Timestamp;
use windlass_statemachine::{StateKind, TaskId};

use super::{row::Saved, world::World};
use crate::store::{AUDIT_RETENTION, ChangeKind, retention, rules::dependencies};

/// The most tasks that one call of `maintain` deletes.
const TASKS_PER_STEP: u32 = 1000;
/// The most changes that one call of `maintain` deletes.
const CHANGES_PER_STEP: usize = 10_000;

impl World {
    pub(super) fn purge(
        &mut self,
        states: &[StateKind],
        before: Timestamp,
        limit: u32,
        now: Timestamp,
    ) -> u64 {
        // Usually no task is old enough.
        let is_any = self.ended.range(..(before, 0)).next().is_some();
        let spared = if is_any {
            self.waited_for()
        } else {
            HashSet::new()
        };
        let old = self.ended.range(..(before, 0));
        let old = old.filter_map(|(_, order)| self.by_order.get(order));
        let old = old.filter(|id| {
            let ended = self.tasks.get(*id).and_then(|row| row.ended);
            ended.is_some_and(|(code, _)| states.contains(&code))
        });
        let old = old.filter(|id| !spared.contains(*id));
        let old: Vec<TaskId> = old.take(limit as usize).cloned().collect();
        for id in &old {
            self.remove(id);
            self.record(id, ChangeKind::Deleted, now);
        }
        old.len() as u64
    }

    /// Returns the tasks that live tasks wait for.
    fn waited_for(&self) -> HashSet<TaskId> {
        let live = self.tasks.values().filter(|row| !row.has_ended());
        let states = live.filter_map(|row| match &row.saved {
            Saved::State(state) => Some(state),
            _ => None,
        });
        states
            .flat_map(|state| dependencies::waited_for(state))
            .cloned()
            .collect()
    }

    /// Deletes tasks and changes from before a time. `latest` is the latest time that a record can
    /// have without a wrong clock (see [`retention::oldest`]).
    pub(super) fn maintain(
        &mut self,
        (before, latest): (Timestamp, Timestamp),
        now: Timestamp,
    ) -> u64 {
        let all = [StateKind::Completed, StateKind::Failed, StateKind::Killed];
        let gone = self.purge(&all, before, TASKS_PER_STEP, now);
        let ats = self.log.iter().map(|change| Ok::<_, Infallible>(change.at));
        let Ok(old) = retention::oldest(ats, (before, latest), CHANGES_PER_STEP);
        self.log.drain(..old);
        self.first_seq += old as u64;
        let audited = self.audit.iter().map(|entry| Ok::<_, Infallible>(entry.at));
        let kept = before.min(latest.saturating_sub(AUDIT_RETENTION).unwrap_or(before));
        let Ok(old) = retention::oldest(audited, (kept, latest), CHANGES_PER_STEP);
        self.audit.drain(..old);
        gone
    }
}
