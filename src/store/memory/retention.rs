//! Deletes old ended tasks and old changes.

use std::convert::Infallible;

use jiff::Timestamp;
use windlass_statemachine::{StateKind, TaskId};

use super::world::World;
use crate::store::{ChangeKind, retention};

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
        let old = self.ended.range(..(before, 0));
        let old = old.filter_map(|(_, order)| self.by_order.get(order));
        let old = old.filter(|id| {
            let ended = self.tasks.get(*id).and_then(|row| row.ended);
            ended.is_some_and(|(code, _)| states.contains(&code))
        });
        let old: Vec<TaskId> = old.take(limit as usize).cloned().collect();
        for id in &old {
            self.remove(id);
            self.record(id, ChangeKind::Deleted, now);
        }
        old.len() as u64
    }

    /// Deletes tasks and changes from before a time; `latest` is the latest time that a record can
    /// truly have (see [`retention::oldest`]).
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
        gone
    }
}
