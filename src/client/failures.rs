//! [`Failures`]: failed tasks in groups, with a sample of each.

use std::{cmp::Reverse, collections::BTreeMap};

use futures::{StreamExt, stream};
use jiff::Timestamp;
use windlass_statemachine::{Kind, NodeName, StateKind, TaskId};

use super::Client;
use crate::store::{
    Error, FailedGroup, FailedTasks, Filter, Order, Query, TaskRecord, TimeRange, rules::failures,
};

/// How many groups are read at the same time.
const READS: usize = 8;
/// How many failed tasks are read that failed since a time: a whole page.
const MOST_READ: u32 = 10_000;

/// Failed tasks whose last errors have the same [fingerprint](crate::fingerprint).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The fingerprint; `None` for tasks whose errors the caller hides, which are one group of each kind.
    pub fingerprint: Option<String>,
    /// How many tasks there are of each kind, the kind with the most tasks first.
    pub kinds: Vec<(Kind, u64)>,
    /// The number of tasks.
    pub tasks: u64,
    /// When the first of them failed.
    pub first: Timestamp,
    /// When the last of them failed.
    pub last: Timestamp,
    /// The task that failed last.
    pub sample: TaskId,
    /// The last error of the sample.
    pub error: Option<String>,
    /// The nodes on which the last error of the newest tasks was, up to [`FailedGroup::RECENT`] of each kind, with their
    /// number: the node with the most tasks first.
    pub nodes: Vec<(NodeName, u64)>,
    /// The data versions of the handlers of those tasks, with their number: the version with the most tasks first.
    pub data_versions: Vec<(u32, u64)>,
    /// The newest tasks of each kind.
    recent: Vec<TaskId>,
}

/// Failed tasks in groups.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failures {
    /// The groups, those with the most tasks first.
    pub groups: Vec<Failure>,
    /// Whether the groups have every failed task.
    pub is_complete: bool,
}

impl Client {
    /// Returns the failed tasks in groups by the fingerprint of their last error: at most `limit` groups, those with the
    /// most tasks first. Reads up to eight tasks of each group and kind. SQLite, and etcd with `memory-index=true`, keep the numbers; other
    /// stores read the last 10,000 failed tasks.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Client, store::Store};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::store::Error> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// let failures = client.failures(50).await?;
    /// assert!(failures.groups.is_empty() && failures.is_complete);
    /// # Ok(()) }
    /// ```
    pub async fn failures(&self, limit: usize) -> Result<Failures, Error> {
        // A group of several kinds has a row for each.
        let all = self
            .store
            .registry()
            .failures(limit.saturating_mul(4))
            .await?;
        self.failures_of(all, limit, |_| false).await
    }

    /// Returns the tasks that match a filter and failed at this time or later, in groups. Reads at most the last
    /// 10,000 of them, and leaves out those that are not to be `kept`. [`failures_of`](Self::failures_of) makes
    /// [`Failures`] of the groups.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a filter with too many conditions, [`Error::Unavailable`].
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Client, jiff::Timestamp, store::{Filter, Store}};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::store::Error> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// let failed = client.failed_since(Timestamp::UNIX_EPOCH, &Filter::new(), |_| true).await?;
    /// assert!(failed.groups.is_empty() && failed.is_complete);
    /// # Ok(()) }
    /// ```
    pub async fn failed_since(
        &self,
        since: Timestamp,
        filter: &Filter,
        kept: impl Fn(&TaskRecord) -> bool,
    ) -> Result<FailedTasks, Error> {
        let mut filter = filter.clone().states([StateKind::Failed]);
        filter.ended = TimeRange::new(since, filter.ended.until);
        let query = Query::new(filter).order(Order::Ended).limit(MOST_READ);
        let mut page = self.page(&query.without_props(), None).await?;
        page.tasks.retain(kept);
        let is_complete = page.next.is_none();
        Ok(FailedTasks::of(&page.tasks, usize::MAX, is_complete))
    }

    /// Returns groups of a store like [`failures`](Self::failures), with a sample of each. Tasks of a kind that `hides` its
    /// errors are one group, without an error.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    pub async fn failures_of(
        &self,
        all: FailedTasks,
        limit: usize,
        hides: impl Fn(&Kind) -> bool,
    ) -> Result<Failures, Error> {
        let mut merged = BTreeMap::<(Option<String>, Option<Kind>), Failure>::new();
        for group in all.groups {
            let Some(newest) = group.recent.first() else {
                continue;
            };
            let is_hidden = hides(&group.kind);
            let key = match is_hidden {
                true => (None, Some(group.kind.clone())),
                false => (Some(group.fingerprint.clone()), None),
            };
            let fingerprint = key.0.clone();
            let into = merged.entry(key).or_insert_with(|| Failure {
                fingerprint,
                kinds: Vec::new(),
                tasks: 0,
                first: group.first,
                last: group.last,
                sample: newest.clone(),
                error: None,
                nodes: Vec::new(),
                data_versions: Vec::new(),
                recent: Vec::new(),
            });
            into.add(group);
        }
        let mut groups: Vec<Failure> = merged.into_values().collect();
        groups.sort_by_key(|of| (Reverse(of.tasks), Reverse(of.last)));
        let is_complete = all.is_complete && groups.len() <= limit;
        groups.truncate(limit);
        let read = groups.into_iter().map(|of| self.with_newest(of));
        let read: Vec<_> = stream::iter(read).buffered(READS).collect().await;
        let groups = read.into_iter().collect::<Result<_, _>>()?;
        Ok(Failures {
            groups,
            is_complete,
        })
    }

    /// Adds what is known of the newest tasks of a group. One that was deleted meanwhile adds nothing.
    async fn with_newest(&self, mut of: Failure) -> Result<Failure, Error> {
        let (mut nodes, mut versions) = (BTreeMap::new(), BTreeMap::new());
        for id in std::mem::take(&mut of.recent) {
            let read = match self.get(&id).await {
                Err(error) if error.is_retryable() => return Err(error),
                read => read,
            };
            // Another task may have the id by now, of a kind that the caller does not see.
            let is_of_group = |record: &TaskRecord| {
                let is_kind = |(kind, _): &(Kind, u64)| *kind == record.task.kind;
                let print = record.state.as_ref().ok().and_then(failures::of);
                let is_same = of.fingerprint.is_none() || of.fingerprint == print;
                print.is_some() && is_same && of.kinds.iter().any(is_kind)
            };
            let Ok(Ok(state)) = read.map(|record| match is_of_group(&record) {
                true => record.state,
                false => Err(Error::no_task(&id)),
            }) else {
                continue;
            };
            let Some(last) = state.errors.last() else {
                continue;
            };
            if of.fingerprint.is_some() && id == of.sample {
                of.error = Some(last.error.clone());
            }
            if let Some(node) = &last.node {
                *nodes.entry(node.clone()).or_default() += 1;
                *versions.entry(last.data_version.unwrap_or(1)).or_default() += 1;
            }
        }
        (of.nodes, of.data_versions) = (most_first(nodes), most_first(versions));
        Ok(of)
    }
}

/// Returns the numbers, the greatest first.
fn most_first<T: Ord>(numbers: BTreeMap<T, u64>) -> Vec<(T, u64)> {
    let mut all: Vec<_> = numbers.into_iter().collect();
    all.sort_by_key(|(_, number)| Reverse(*number));
    all
}

impl Failure {
    fn add(&mut self, group: FailedGroup) {
        self.tasks += group.tasks;
        self.first = self.first.min(group.first);
        if let Some(newest) = group.recent.first()
            && group.last >= self.last
        {
            (self.last, self.sample) = (group.last, newest.clone());
        }
        self.recent.extend(group.recent);
        match self.kinds.iter_mut().find(|(kind, _)| *kind == group.kind) {
            Some((_, tasks)) => *tasks += group.tasks,
            None => self.kinds.push((group.kind, group.tasks)),
        }
        self.kinds.sort_by_key(|(_, tasks)| Reverse(*tasks));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Message, NewTask, Runner, TaskContext, store::Store};

    #[tokio::test]
    async fn failed_tasks_are_grouped_over_kinds_with_a_sample() {
        let store = Store::open("memory:").await.unwrap();
        let client = Client::new(&store);
        let fails =
            async |task: TaskContext| Message::fail(format!("no route to 10.0.0.{}", task.id()));
        let other = async |_: TaskContext| Message::fail("disk full");
        let runner = Runner::builder(&store)
            .node("n1")
            .handler("a", fails)
            .handler("b", fails);
        let runner = runner.handler("c", other).start().await.unwrap();
        for (id, kind) in [("1", "a"), ("2", "a"), ("3", "b"), ("4", "c")] {
            client.submit(NewTask::new(kind).id(id)).await.unwrap();
            assert!(client.wait(id).await.is_ok());
        }
        let found = client.failures(10).await.unwrap();
        assert!(found.is_complete);
        let shown: Vec<_> = found
            .groups
            .iter()
            .map(|of| (of.tasks, of.sample.as_str()))
            .collect();
        assert_eq!(shown, [(3, "3"), (1, "4")]);
        let first = &found.groups[0];
        assert_eq!(first.error.as_deref(), Some("no route to 10.0.0.3"));
        assert_eq!(first.nodes, [("n1".parse().unwrap(), 3)]);
        assert_eq!(first.data_versions, [(1, 3)]);
        let kinds: Vec<_> = first
            .kinds
            .iter()
            .map(|(kind, n)| (kind.as_str(), *n))
            .collect();
        assert_eq!(kinds, [("a", 2), ("b", 1)]);
        assert!(!client.failures(1).await.unwrap().is_complete);

        // The id of a sample may be that of another task by now.
        let mut all = store.registry().failures(10).await.unwrap();
        let group = all.groups.iter_mut().find(|of| of.kind.as_str() == "c");
        group.unwrap().recent = vec!["1".parse().unwrap()];
        let found = client.failures_of(all, 10, |_| false).await.unwrap();
        let of_c = found.groups.iter().find(|of| of.tasks == 1).unwrap();
        assert_eq!((&of_c.error, of_c.nodes.len()), (&None, 0));

        let all = store.registry().failures(10).await.unwrap();
        let hidden = client
            .failures_of(all, 10, |kind| kind.as_str() == "a")
            .await
            .unwrap();
        let shown: Vec<_> = hidden
            .groups
            .iter()
            .map(|of| (of.tasks, of.error.is_some()))
            .collect();
        assert_eq!(shown, [(2, false), (1, true), (1, true)]);
        runner.shutdown().await;
    }
}
