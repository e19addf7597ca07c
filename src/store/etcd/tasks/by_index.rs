//! Lists and counts with the index in memory.

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
        let towards = (span.order, span.ascending);
        let mut after = span.after.clone();
        let mut most = span.limit.clamp(FIRST_READ, LARGEST_READ);
        let mut selection = Selection::of(span);
        loop {
            let (known, last) = index.step(filter, towards, after.as_ref(), most);
            let mut may_go_on = true;
            for record in self.records(&known).await? {
                if filter.matches(&record) {
                    may_go_on = selection.take(record);
                }
            }
            if !may_go_on || last.is_none() {
                return Ok(selection.into_tasks());
            }
            after = last;
            most = (most * 2).min(LARGEST_READ);
        }
    }

    /// Reads tasks at the revision of the index, or as they are now if that fails: the history since then may be compacted.
    async fn records(&self, known: &Known) -> Result<Vec<TaskRecord>, Error> {
        let mut read = self.reader.read_at(&known.tasks, known.at).await;
        if read.iter().any(Result::is_err) {
            let ids: Vec<_> = known.tasks.iter().map(|(id, _)| id.clone()).collect();
            read = self.reader.read_many(&ids).await;
        }
        let mut records = Vec::with_capacity(known.tasks.len());
        for ((id, _), found) in known.tasks.iter().zip(read) {
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
        let mut held = self.records(&known).await?;
        held.retain(|record| may_be_held(record, now));
        self.name_limits(&mut held).await?;
        held.iter().for_each(|record| counter.hold_back(record));
        let mut stats = counter.into_stats(held_is_complete);
        stats.oldest_is_complete = oldest_is_complete;
        Ok(stats)
    }
}
