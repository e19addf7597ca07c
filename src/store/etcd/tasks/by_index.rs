//! Lists and counts with the index in memory.

use windlass_statemachine::TaskId;

use super::query::{LIST, Queries, may_be_held};
use crate::store::{
    Error, Filter, Span, TaskRecord, TaskStats,
    etcd::index::{Current, Known},
    rules::list::Selection,
};

/// How many tasks are read at once: in the first read, and at most.
const FIRST_READ: usize = 64;
const LARGEST_READ: usize = 1000;
/// The most tasks with limits that are read for the counts.
const MOST_HELD: usize = 10_000;

impl Queries {
    /// Returns the index, if this process keeps one and it is up to date.
    pub(super) async fn indexed(&self) -> Option<Current<'_>> {
        self.index.as_ref()?.current().await
    }

    /// Returns the tasks of a span. Reads the tasks that may match, in order, until it has those
    /// of the span.
    pub(super) async fn by_index(
        &self,
        index: &Current<'_>,
        filter: &Filter,
        span: Span,
    ) -> Result<Vec<TaskRecord>, Error> {
        let mut part = span.clone();
        part.limit = span.limit.clamp(FIRST_READ, LARGEST_READ);
        let mut selection = Selection::of(span);
        loop {
            let (known, last) = index.step(filter, &part);
            for record in self.records(known).await? {
                if filter.matches(&record) {
                    selection.take(record);
                }
            }
            // The index returns the tasks in the order of the list.
            if selection.is_full() || last.is_none() {
                return Ok(selection.into_tasks());
            }
            part.after = last;
            part.limit = (part.limit * 2).min(LARGEST_READ);
        }
    }

    /// Reads what the index does not keep of tasks, at its revision. If that fails, because the history since then is
    /// compacted, reads the tasks as they are now.
    async fn records(&self, known: Known) -> Result<Vec<TaskRecord>, Error> {
        let Known { tasks, at } = known;
        let missing = tasks.iter().filter(|task| !task.missing.is_empty());
        let missing: Vec<_> = missing
            .map(|task| (task.id.clone(), task.missing))
            .collect();
        let read = self.reader.read_at(&missing, at).await.into_iter();
        let Ok(read) = read.collect::<Result<Vec<_>, _>>() else {
            return self
                .records_now(tasks.into_iter().map(|task| task.id))
                .await;
        };
        let mut read = read.into_iter();
        let records = tasks.into_iter().map(|task| {
            let read = match task.missing.is_empty() {
                true => None,
                false => read.next(),
            };
            task.record(read, &self.reader.fences)
        });
        records.collect()
    }

    async fn records_now(
        &self,
        ids: impl Iterator<Item = TaskId>,
    ) -> Result<Vec<TaskRecord>, Error> {
        let ids: Vec<_> = ids.collect();
        let mut records = Vec::with_capacity(ids.len());
        for (id, found) in ids.iter().zip(self.reader.read_many(&ids).await) {
            let found = found.map_err(|fault| fault.into_error(LIST))?;
            if found.exists() {
                records.push(found.record(id)?);
            }
        }
        Ok(records)
    }

    /// Returns the counts of the index, with the tasks that limits hold back.
    pub(super) async fn stats_of(&self, index: &Current<'_>) -> Result<TaskStats, Error> {
        let now = self.clock.now();
        let (mut counter, oldest_is_complete) = index.counter(now);
        let (known, held_is_complete) = index.limited(MOST_HELD);
        let mut held = self.records(known).await?;
        held.retain(|record| may_be_held(record, now));
        self.name_limits(&mut held).await?;
        held.iter().for_each(|record| counter.hold_back(record));
        let mut stats = counter.into_stats(held_is_complete);
        stats.oldest_is_complete = oldest_is_complete;
        Ok(stats)
    }
}
