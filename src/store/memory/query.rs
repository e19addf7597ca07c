//! Reads tasks, lists and counts for clients.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use windlass_statemachine::{Kind, StateKind, TaskId};

use super::{row::Row, world::World};
use crate::store::{
    CommandRecord, Error, Filter, Page, Span, TaskCount, TaskRecord, TaskStats,
    rules::{list::Selection, stats::Counter},
};

impl World {
    pub(super) fn row(&self, id: &TaskId) -> Result<&Row, Error> {
        self.tasks.get(id).ok_or_else(|| Error::no_task(id))
    }

    pub(super) fn record_of(&self, row: &Row) -> TaskRecord {
        let lease = row.owner.and_then(|o| self.leases.get(&o.lease));
        TaskRecord {
            task: row.task.as_ref().clone(),
            state: row.state(),
            order: row.order,
            submitted_at: row.submitted_at,
            node: lease.map(|lease| lease.spec.name.clone()),
            fence: row.fence,
            commands: row.waiting.len() as u64,
            limited_by: self.limited_by(row),
        }
    }

    pub(super) fn list(&self, filter: &Filter, page: Page) -> Result<Vec<TaskRecord>, Error> {
        page.check()?;
        let rows = self.by_order.range(page.after.saturating_add(1)..);
        let rows = rows.filter_map(|(_, id)| self.tasks.get(id));
        let live_only = filter.is_live_only();
        let rows = rows.filter(|row| !(live_only && row.has_ended()));
        let records = rows.map(|row| self.record_of(row));
        let matching = records.filter(|record| filter.matches(record));
        Ok(matching.take(page.limit as usize).collect())
    }

    pub(super) fn span(&self, filter: &Filter, span: Span) -> Vec<TaskRecord> {
        let mut selection = Selection::of(span);
        let named = filter.ids.iter().collect::<BTreeSet<_>>().into_iter();
        let named = named.filter_map(|id| self.tasks.get(id));
        let all = self.tasks.values().filter(|_| filter.ids.is_empty());
        let records = all.chain(named).map(|row| self.record_of(row));
        let matching = records.filter(|record| filter.matches(record));
        matching.for_each(|record| {
            selection.take(record);
        });
        selection.into_tasks()
    }

    pub(super) fn counts(&self) -> Vec<TaskCount> {
        let mut counts = BTreeMap::<(&Kind, Option<StateKind>), (u64, u64)>::new();
        for row in self.tasks.values() {
            let state = row.state().ok().map(|state| state.code());
            let (tasks, claimed) = counts.entry((&row.task.kind, state)).or_default();
            *tasks += 1;
            *claimed += u64::from(row.owner.is_some());
        }
        let counts = counts.into_iter();
        counts
            .map(|((kind, state), (tasks, claimed))| TaskCount {
                kind: kind.clone(),
                state,
                tasks,
                claimed,
            })
            .collect()
    }

    /// Counts by reading every task, because the store is for tests.
    pub(super) fn stats(&self, now: Timestamp) -> TaskStats {
        let mut counter = Counter::new(now);
        for row in self.tasks.values() {
            counter.take(&self.record_of(row));
        }
        counter.into_stats(true)
    }

    pub(super) fn commands_of(&self, id: &TaskId) -> Result<Vec<CommandRecord>, Error> {
        Ok(self.row(id)?.commands.values().cloned().collect())
    }
}
