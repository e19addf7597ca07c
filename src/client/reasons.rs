//! Why tasks are not run, considering the tasks that they wait for: the one rule of views, lists by reason and
//! counts.
//!
//! A state keeps the tasks that it waits for until a node claims it. Without such a node, what holds the task back is
//! not the wait any more once these tasks have ended.

use std::collections::{HashMap, HashSet};

use futures::{StreamExt, stream};
use jiff::Timestamp;
use windlass_statemachine::{StateKind, TaskId};

use super::{Client, HeldBack, KindStats, WaitReason, counted::grouped};
use crate::store::{
    Error, Filter, LimitUse, NodeRecord, Order, Query, TaskRecord, copy::Copied,
    rules::waits::waited_for,
};

/// How many tasks are looked up at the same time.
const READS: usize = 32;

/// How many sleeping tasks of a kind are read for [`Client::stats`], at most.
const MOST: u32 = 1000;

impl Client {
    /// Returns why each of these tasks is not run, given the live nodes: as [`WaitReason::of`], but a task whose
    /// awaited tasks have all ended waits for what else holds it back. Reads the awaited tasks of each up to the first
    /// live one.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Client, NewTask, client::WaitReason, store::Store};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// client.submit(NewTask::new("report").id("a")).await?;
    /// client.submit(NewTask::new("mail").id("b").after(["a"])).await?;
    /// client.delete("a").await?;
    /// let (b, nodes) = (client.get("b").await?, client.nodes().await?);
    /// let reasons = client.wait_reasons(std::slice::from_ref(&b), &nodes).await?;
    /// assert_eq!(reasons, [Some(WaitReason::NoNode)]);
    /// # Ok(()) }
    /// ```
    pub async fn wait_reasons(
        &self,
        records: &[TaskRecord],
        nodes: &[NodeRecord],
    ) -> Result<Vec<Option<WaitReason>>, Error> {
        Lookup::new(self).reasons(records, nodes).await
    }

    /// Moves the tasks of a kind whose waits are over from the tasks that wait for others to those that are not run for
    /// another reason. Reads the first 1,000 sleeping tasks of the kind.
    pub(super) async fn read_waits(
        &self,
        of: &mut KindStats,
        nodes: &[NodeRecord],
    ) -> Result<(), Error> {
        let filter = Filter {
            kind: Some(of.kind.clone()),
            states: vec![StateKind::Sleeping],
            ..Filter::default()
        };
        // Those without a deadline come first: their time is the last one.
        let mut query = Query::new(filter).order(Order::Due).limit(MOST);
        query.ascending = false;
        query.without_props = true;
        let page = self.page(&query, None).await?;
        let waits = page.tasks.into_iter();
        let waits: Vec<TaskRecord> = waits.filter(|one| !awaited(one).is_empty()).collect();
        let at_least = page.next.is_some();
        let mut reasons = self.wait_reasons(&waits, nodes).await?;
        reasons.retain(|reason| !matches!(reason, Some(WaitReason::Tasks(_))));
        let over = (reasons.len() as u64).min(of.waiting);
        of.waiting -= over;
        of.available += over;
        let found = grouped(reasons.into_iter().flatten(), at_least);
        of.waits_are_over(over, found, |reason| matches!(reason, WaitReason::Tasks(_)));
        Ok(())
    }

    /// Adds the claimed tasks that wait for a signal, and moves those for which a command is queued to the tasks that are not
    /// run for another reason. Reads the first 1,000 tasks that wait for a signal, of all kinds together.
    pub(super) async fn read_awaiting(
        &self,
        kinds: &mut [(KindStats, bool)],
        nodes: &[NodeRecord],
    ) -> Result<(), Error> {
        let filter = Filter {
            awaits_signal: true,
            ..Filter::default()
        };
        let mut query = Query::new(filter).limit(MOST);
        query.without_props = true;
        let page = self.page(&query, None).await?;
        let reasons = self.wait_reasons(&page.tasks, nodes).await?;
        let at_least = page.next.is_some();
        let is_wait = |reason: &WaitReason| matches!(reason, WaitReason::Signal(_));
        let judged: Vec<_> = page.tasks.iter().zip(reasons).collect();
        for (of, _) in kinds {
            let (mut over, mut claimed, mut others) = (0, 0, Vec::new());
            for (record, reason) in judged.iter().filter(|(one, _)| one.task.kind == of.kind) {
                match reason {
                    // Kept signals hold the claim.
                    Some(reason) if is_wait(reason) => claimed += u64::from(record.node.is_some()),
                    reason if record.node.is_none() => {
                        over += 1;
                        others.extend(reason.clone());
                    }
                    // Lost ones are counted with the claims.
                    _ => {}
                }
            }
            let over = over.min(of.awaiting_signal);
            of.awaiting_signal -= over;
            of.available += over;
            of.waits_are_over(over, grouped(others.into_iter(), at_least), is_wait);
            if claimed > 0 {
                of.also_held([HeldBack {
                    reason: WaitReason::Signal(None),
                    tasks: claimed,
                    at_least,
                }]);
            }
        }
        Ok(())
    }

    /// Adds the claimed tasks of a kind whose node no longer lives. Reads the first 1,000 claimed tasks of the kind.
    pub(super) async fn read_lost(
        &self,
        of: &mut KindStats,
        nodes: &[NodeRecord],
        now: Timestamp,
    ) -> Result<(), Error> {
        let filter = Filter {
            kind: Some(of.kind.clone()),
            claimed: true,
            ..Filter::default()
        };
        let mut query = Query::new(filter).limit(MOST);
        query.without_props = true;
        let page = self.page(&query, None).await?;
        let reasons = page
            .tasks
            .iter()
            .filter_map(|one| WaitReason::of(one, nodes, now));
        let lost = reasons.filter(|reason| matches!(reason, WaitReason::Lost(_)));
        of.also_held(grouped(lost, page.next.is_some()));
        Ok(())
    }
}

/// Looks up which of the awaited tasks are live, each once.
pub(super) struct Lookup<'c> {
    client: &'c Client,
    is_live: HashMap<TaskId, bool>,
}

impl<'c> Lookup<'c> {
    pub(super) fn new(client: &'c Client) -> Self {
        Self {
            client,
            is_live: HashMap::new(),
        }
    }

    /// Returns why each of these tasks is not run: see [`Client::wait_reasons`].
    pub(super) async fn reasons(
        &mut self,
        records: &[TaskRecord],
        nodes: &[NodeRecord],
    ) -> Result<Vec<Option<WaitReason>>, Error> {
        // Each round looks up one more task of those that have had no live one yet.
        loop {
            let unknown = records
                .iter()
                .filter_map(|record| self.next(record).cloned());
            let unknown: HashSet<TaskId> = unknown.collect();
            if unknown.is_empty() {
                break;
            }
            let looks = unknown.into_iter();
            let looks: Vec<_> = looks.map(|id| look(self.client.clone(), id)).collect();
            let mut looks = stream::iter(looks).buffer_unordered(READS);
            while let Some(found) = looks.next().await {
                let (id, is_live) = found?;
                self.is_live.insert(id, is_live);
            }
        }
        let now = self.client.store.clock().now();
        let reasons = records.iter().map(|record| {
            let awaited = awaited(record);
            let is_over = !awaited.is_empty() && !awaited.iter().any(|id| self.lives(id));
            WaitReason::judged(record, nodes, now, is_over)
        });
        let mut reasons: Vec<_> = reasons.collect();
        let is_full = |reason: &Option<WaitReason>| matches!(reason, Some(WaitReason::Full(_)));
        let mut both = records.iter().zip(&reasons);
        if both.any(|(record, reason)| is_full(reason) && !record.task.limits.is_empty()) {
            let uses = in_use(self.client).await?;
            for (record, reason) in records.iter().zip(&mut reasons) {
                let limits = &record.task.limits;
                *reason = reason.take().map(|of| of.with_limits(limits, &uses));
            }
        }
        if reasons.iter().flatten().any(WaitReason::is_of_nodes)
            && let Some(mark) = mark(self.client).await?
        {
            let of_nodes = reasons.iter_mut().flatten().filter(|of| of.is_of_nodes());
            of_nodes.for_each(|reason| *reason = WaitReason::Copied(mark.clone()));
        }
        Ok(reasons)
    }

    /// Returns the next task to look up for this one: `None` once a live one is known, and once all are.
    fn next<'r>(&self, record: &'r TaskRecord) -> Option<&'r TaskId> {
        let mut unknown = None;
        for id in awaited(record) {
            match self.is_live.get(id) {
                Some(true) => return None,
                Some(false) => {}
                None => unknown = unknown.or(Some(id)),
            }
        }
        unknown
    }

    fn lives(&self, id: &TaskId) -> bool {
        self.is_live.get(id).is_some_and(|is_live| *is_live)
    }
}

/// Returns the limits in use; none on a store that has no limits.
pub(super) async fn in_use(client: &Client) -> Result<Vec<LimitUse>, Error> {
    match client.limits_in_use().await {
        Err(Error::Unusable(_)) => Ok(Vec::new()),
        limits => limits,
    }
}

/// Returns the mark of a copy in the store; `None` for one that cannot be read, which `doctor` reports.
pub(super) async fn mark(client: &Client) -> Result<Option<Copied>, Error> {
    let Some(part) = client.store.registry().transfer() else {
        return Ok(None);
    };
    match part.copied().await {
        Err(error) if error.is_retryable() => Err(error),
        read => Ok(read.unwrap_or_default()),
    }
}

/// Returns the tasks that this one waits for.
fn awaited(record: &TaskRecord) -> &[TaskId] {
    record.state.as_ref().map_or(&[], waited_for)
}

/// Returns whether a task is live; an unreadable one counts as live.
async fn look(client: Client, id: TaskId) -> Result<(TaskId, bool), Error> {
    let is_live = match client.get(&id).await {
        Ok(record) => record
            .state
            .map_or(true, |state| !state.code().is_terminal()),
        Err(Error::NotFound { .. }) => false,
        Err(Error::Corrupt { .. }) => true,
        Err(error) => return Err(error),
    };
    Ok((id, is_live))
}

#[cfg(test)]
mod tests;
