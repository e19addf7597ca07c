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
    Error, Filter, LimitUse, NodeRecord, Order, Query, Span, TaskRecord, copy::Copied,
    rules::dependencies::waited_for,
};

/// How many tasks are looked up at the same time.
const READS: usize = 32;

/// How many tasks that wait are read for [`Client::stats`], at most.
const MOST: u32 = 1000;

/// How many of the tasks that they wait for are read for [`Client::stats`], at most.
const MOST_LOOKS: usize = 10_000;

/// How many live tasks are read for [`Client::stats`] at once, at most.
pub(super) const MOST_READ: usize = 10_000;

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

    /// Moves the tasks whose waits are over from the tasks that wait for others to those that are not run for another reason,
    /// or that a node will claim. Reads the first 1,000 tasks that wait for others, of all kinds together, and at most
    /// 10,000 of those that they wait for.
    pub(super) async fn read_waits(
        &self,
        kinds: &mut [(KindStats, bool)],
        nodes: &[NodeRecord],
        now: Timestamp,
    ) -> Result<(), Error> {
        let filter = Filter {
            states: vec![StateKind::Sleeping],
            ..Filter::default()
        };
        let span = Span {
            order: Order::Due,
            ascending: true,
            after: None,
            limit: MOST as usize,
            without_props: true,
            only_waiting: true,
        };
        let mut waits = self.store.registry().span(&filter, span).await?;
        let at_least = waits.len() >= MOST as usize;
        waits.retain(|one| {
            one.node.is_none() && !awaited(one).is_empty() && !is_wait_expired(one, now)
        });
        let mut lookup = Lookup::new(self);
        lookup.left = MOST_LOOKS;
        let reasons = lookup.reasons(&waits, nodes).await?;
        let with_reasons: Vec<_> = waits.iter().zip(reasons).collect();
        for (of, _) in kinds.iter_mut().filter(|(of, _)| of.waiting > 0) {
            let of_kind = with_reasons
                .iter()
                .filter(|(one, _)| one.task.kind == of.kind);
            let over = of_kind.filter(|(_, of)| !matches!(of, Some(WaitReason::Tasks(_))));
            let over: Vec<_> = over.map(|(_, of)| of.clone()).collect();
            let moved = (over.len() as u64).min(of.waiting);
            of.waiting -= moved;
            of.available += moved;
            let found = grouped(over.into_iter().flatten(), at_least);
            of.waits_are_over(moved, found, |of| matches!(of, WaitReason::Tasks(_)));
        }
        Ok(())
    }

    /// Adds the claimed tasks that wait for a signal, and moves those for which a command is queued to the tasks that are not
    /// run for another reason. Reads the first 1,000 tasks that wait for a signal, of all kinds together.
    pub(super) async fn read_awaiting(
        &self,
        kinds: &mut [(KindStats, bool)],
        nodes: &[NodeRecord],
        now: Timestamp,
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
        let with_reasons: Vec<_> = page.tasks.iter().zip(reasons).collect();
        for (of, _) in kinds {
            let (mut over, mut claimed, mut others) = (0, 0, Vec::new());
            for (record, reason) in with_reasons
                .iter()
                .filter(|(one, _)| one.task.kind == of.kind)
            {
                match reason {
                    // Kept signals hold the claim.
                    Some(reason) if is_wait(reason) => claimed += u64::from(record.node.is_some()),
                    reason if record.node.is_none() && !is_wait_expired(record, now) => {
                        over += 1;
                        others.extend(reason.clone());
                    }
                    // Lost ones are counted with the claims, and those whose deadline has passed with the available tasks.
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

    /// Adds the claimed tasks whose node no longer lives. Reads the first 10,000 claimed tasks, of all kinds together.
    pub(super) async fn read_lost(
        &self,
        kinds: &mut [(KindStats, bool)],
        nodes: &[NodeRecord],
        now: Timestamp,
    ) -> Result<(), Error> {
        let filter = Filter {
            claimed: true,
            ..Filter::default()
        };
        let records = self.first_of_stats(&filter).await?;
        let at_least = records.len() >= MOST_READ;
        let is_lost = |one: &&TaskRecord| {
            let reason = WaitReason::of(one, nodes, now);
            matches!(reason, Some(WaitReason::Lost(_)))
        };
        let lost: Vec<_> = records.iter().filter(is_lost).collect();
        for (of, _) in kinds.iter_mut().filter(|(of, _)| of.claimed > 0) {
            let lost = lost.iter().filter(|one| one.task.kind == of.kind);
            let reasons = lost.filter_map(|one| WaitReason::of(one, nodes, now));
            of.also_held(grouped(reasons, at_least));
        }
        Ok(())
    }

    /// Returns the first matching tasks in the order of submits, without their props: at most [`MOST_READ`], in one read.
    pub(super) async fn first_of_stats(&self, filter: &Filter) -> Result<Vec<TaskRecord>, Error> {
        let span = Span {
            order: Order::Submitted,
            ascending: true,
            after: None,
            limit: MOST_READ,
            without_props: true,
            only_waiting: false,
        };
        self.store.registry().span(filter, span).await
    }
}

/// Looks up which of the awaited tasks are live, each once.
pub(super) struct Lookup<'c> {
    client: &'c Client,
    is_live: HashMap<TaskId, bool>,
    /// How many more tasks are looked up; the waits for others count as not over.
    left: usize,
}

impl<'c> Lookup<'c> {
    pub(super) fn new(client: &'c Client) -> Self {
        Self {
            client,
            is_live: HashMap::new(),
            left: usize::MAX,
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
            let looks = unknown.into_iter().take(self.left);
            let looks: Vec<_> = looks.map(|id| look(self.client.clone(), id)).collect();
            if looks.is_empty() {
                break;
            }
            self.left -= looks.len();
            let mut looks = stream::iter(looks).buffer_unordered(READS);
            while let Some(found) = looks.next().await {
                let (id, is_live) = found?;
                self.is_live.insert(id, is_live);
            }
        }
        let now = self.client.store.clock().now();
        let reasons = records.iter().map(|record| {
            let awaited = awaited(record);
            let is_over = !awaited.is_empty() && awaited.iter().all(|id| self.has_ended(id));
            WaitReason::given_dependencies(record, nodes, now, is_over)
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

    fn has_ended(&self, id: &TaskId) -> bool {
        self.is_live.get(id).is_some_and(|is_live| !is_live)
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

/// Returns whether the deadline of a task's wait has passed. The counts of the store have it among the available tasks.
fn is_wait_expired(record: &TaskRecord, now: Timestamp) -> bool {
    record.state.as_ref().is_ok_and(|state| state.is_due(now))
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
