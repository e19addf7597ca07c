//! [`ById`]: reads the records of tasks by their ids, a few at a time.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::Arc,
};

use windlass_statemachine::TaskId;

use crate::store::{Error, Filter, Order, Registry, Span, TaskRecord};

/// How many bytes of data and results one read aims at: 1 MiB.
pub(crate) const AIM: usize = 1 << 20;

/// How many tasks the first read has.
const FIRST: usize = 4;

/// The most tasks of one read.
const MOST: usize = 64;

/// A task that was asked for; `None` when it does not exist.
pub(crate) type Found = (TaskId, Option<TaskRecord>);

/// Reads the records of tasks in the order of their ids, without their props. Holds the records of one read: as many as
/// have about 1 MiB together, by the sizes of the read before.
pub(crate) struct ById {
    registry: Arc<dyn Registry>,
    /// The ids that were not read yet.
    ids: VecDeque<TaskId>,
    read: VecDeque<Found>,
    /// How many tasks the next read has.
    many: usize,
}

impl ById {
    pub(crate) fn new(registry: &Arc<dyn Registry>, ids: impl IntoIterator<Item = TaskId>) -> Self {
        Self {
            registry: registry.clone(),
            ids: ids.into_iter().collect(),
            read: VecDeque::new(),
            many: FIRST,
        }
    }

    /// Returns the next task; `None` at the end. After an error the next call reads the same tasks again.
    pub(crate) async fn next(&mut self) -> Result<Option<Found>, Error> {
        if self.read.is_empty() {
            self.read().await?;
        }
        Ok(self.read.pop_front())
    }

    async fn read(&mut self) -> Result<(), Error> {
        let ids: Vec<TaskId> = self.ids.iter().take(self.many).cloned().collect();
        if ids.is_empty() {
            return Ok(());
        }
        let span = Span {
            order: Order::Id,
            ascending: true,
            after: None,
            limit: ids.len(),
            without_props: true,
            only_waiting: false,
        };
        let filter = Filter::new().ids(ids.iter().cloned());
        let records = self.registry.span(&filter, span).await?;
        let bytes = records.iter().map(TaskRecord::bytes).sum();
        self.many = next_many(ids.len(), bytes);
        let by_id = |record: TaskRecord| (record.task.id.clone(), record);
        let mut records: HashMap<TaskId, TaskRecord> = records.into_iter().map(by_id).collect();
        self.ids.drain(..ids.len());
        self.read.extend(ids.into_iter().map(|id| {
            let record = records.remove(&id);
            (id, record)
        }));
        Ok(())
    }
}

impl fmt::Debug for ById {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = self.ids.len() + self.read.len();
        f.debug_struct("ById").field("left", &left).finish()
    }
}

/// Returns how many tasks the read after one of `many` tasks has: as many as have the size to aim at, and at most twice as
/// many as before, because others may be larger.
fn next_many(many: usize, bytes: usize) -> usize {
    let fit = AIM.saturating_mul(many) / bytes.max(1);
    fit.clamp(1, many.saturating_mul(2)).min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Client, NewTask, Store};

    #[test]
    fn a_read_grows_with_small_results_and_shrinks_with_large_ones() {
        assert_eq!(next_many(4, 400), 8);
        assert_eq!(next_many(64, 64 * 100), 64);
        assert_eq!(next_many(8, 8 << 20), 1);
        assert_eq!(next_many(4, 1 << 20), 4);
        assert_eq!(next_many(1, 0), 2);
        assert_eq!(next_many(1, usize::MAX), 1);
    }

    #[tokio::test]
    async fn tasks_are_read_in_the_order_of_their_names_and_missing_ones_are_none() {
        let client = Client::new(&Store::open("memory:").await.unwrap());
        let ids: Vec<TaskId> = (0..150).map(|n| format!("t{n}").parse().unwrap()).collect();
        for id in ids.iter().filter(|id| id.as_str() != "t77") {
            let task = NewTask::new("k").id(id.as_str());
            client.submit(task).await.unwrap();
        }
        let mut tasks = ById::new(client.store().registry(), ids.iter().rev().cloned());
        let mut seen = Vec::new();
        while let Some((id, record)) = tasks.next().await.unwrap() {
            let found = record.map(|record| record.task.id);
            assert_eq!(found, (id.as_str() != "t77").then(|| id.clone()));
            seen.push(id);
        }
        assert!(seen.iter().eq(ids.iter().rev()));
        assert!(tasks.next().await.unwrap().is_none());
    }
}
