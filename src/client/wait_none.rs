//! Waits until no task matches a filter.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::sleep;
use windlass_statemachine::{StateKind, TaskId, TaskState};

use super::{
    Client, WaitReason,
    reasons::Lookup,
    wait::{LOOK_AGAIN, Retries, next},
};
use crate::store::{
    Change, ChangeKind, Error, Filter, Order, Query, TaskRecord, changes::Subscription,
    rules::claim::is_claimable,
};

/// The minimum time between two searches for a matching task.
const LOOK_APART: Duration = Duration::from_millis(50);

impl Client {
    /// Waits until no matching task is due or claimed, waits for its next attempt, or has waited for tasks that have all
    /// ended: each has ended, is paused without a command that waits for it, sleeps until a later time, waits for a live task or
    /// a signal, or is quarantined. Reads only live tasks, the parked ones after the others, and reads them again only when the
    /// task that was last found busy has changed.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    pub async fn wait_idle(&self, filter: &Filter) -> Result<(), Error> {
        self.until_none(filter, || self.busy(filter)).await
    }

    /// Waits until no task matches. Searches again only when the first matching task has changed.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    pub async fn wait_none(&self, filter: &Filter) -> Result<(), Error> {
        self.until_none(filter, || self.first(filter)).await
    }

    /// Calls `look` until it finds no task of the filter, each time after the found task has changed.
    async fn until_none<Fut>(&self, filter: &Filter, look: impl Fn() -> Fut) -> Result<(), Error>
    where
        Fut: Future<Output = Result<Option<TaskId>, Error>>,
    {
        let (mut retries, mut followed) = (Retries::default(), None::<Subscription>);
        loop {
            let found = match look().await {
                Ok(None) => return Ok(()),
                Ok(Some(found)) => found,
                Err(e) => {
                    retries.after(e).await?;
                    continue;
                }
            };
            let changes = match &mut followed {
                Some(changes) if *changes.task() == found => changes,
                _ => {
                    // The task may have changed since it was found, so it is read again after the
                    // subscription.
                    match self.store().changes().of(&found).await {
                        Ok(changes) => followed = Some(changes),
                        Err(e) => retries.after(e).await?,
                    }
                    continue;
                }
            };
            retries = Retries::default();
            // A queued task no longer matches when a node claims it.
            let is_claim = |what: &ChangeKind| matches!(what, ChangeKind::Claimed { .. });
            let matters = |change: &Change| {
                let is_end = filter.running.is_some() && is_claim(&change.what);
                is_end || ends_a_wait(&change.what)
            };
            if !next(changes, &matters, LOOK_AGAIN).await {
                followed = None;
            }
            // A task that changes all the time must not cause a search for each change.
            sleep(LOOK_APART).await;
        }
    }

    async fn first(&self, filter: &Filter) -> Result<Option<TaskId>, Error> {
        let mut query = Query::new(filter.clone())
            .order(self.order_of_newest())
            .limit(1)
            .without_props();
        // The oldest task: the newest of many may end soon, and each end causes another search.
        query.ascending = true;
        let found = self.page(&query, None).await?.tasks.into_iter().next();
        Ok(found.map(|record| record.task.id))
    }

    /// Returns a matching task that is runnable, in fault or claimed.
    async fn busy(&self, filter: &Filter) -> Result<Option<TaskId>, Error> {
        let with = |codes: &[StateKind]| {
            let asked = |code: &StateKind| filter.states.is_empty() || filter.states.contains(code);
            let states: Vec<StateKind> = codes.iter().copied().filter(asked).collect();
            (!states.is_empty()).then(|| Filter {
                states,
                ..filter.clone()
            })
        };
        if let Some(active) = with(&[StateKind::Runnable, StateKind::Fault])
            && let Some(found) = self.first(&active).await?
        {
            return Ok(Some(found));
        }
        let Some(mut claimed) = with(&LIVE) else {
            return Ok(None);
        };
        let nodes = match &filter.node {
            Some(node) => vec![node.clone()],
            None => {
                let nodes = self.nodes().await?.into_iter();
                nodes.map(|node| node.spec.name).collect()
            }
        };
        for node in nodes {
            claimed.node = Some(node);
            if let Some(found) = self.first(&claimed).await? {
                return Ok(Some(found));
            }
        }
        // Of other filters, no unclaimed sleeping or paused task matches.
        if !may_be_parked(filter) {
            return Ok(None);
        }
        if let Some(asleep) = with(&[StateKind::Sleeping])
            && let Some(found) = self.awake(asleep).await?
        {
            return Ok(Some(found));
        }
        match with(&[StateKind::Paused]) {
            Some(paused) => self.commanded(paused).await,
            None => Ok(None),
        }
    }

    /// Returns a task among the unclaimed paused ones that a node claims at once: for a command, or for a missed deadline.
    async fn commanded(&self, paused: Filter) -> Result<Option<TaskId>, Error> {
        let query = Query::new(paused).limit(PARKED).without_props();
        let mut cursor = None;
        loop {
            let page = self.page(&query, cursor.as_ref()).await?;
            let now = self.now();
            let mut free = page.tasks.into_iter().filter(|one| one.node.is_none());
            if let Some(found) = free.find(|one| is_awake(one, now)) {
                return Ok(Some(found.task.id));
            }
            match page.next {
                Some(next) => cursor = Some(next),
                None => return Ok(None),
            }
        }
    }

    /// Returns a task among the unclaimed sleeping ones that a node claims at once or that waits for its next attempt: the
    /// one with the earliest wake-up.
    async fn awake(&self, asleep: Filter) -> Result<Option<TaskId>, Error> {
        let query = Query::new(asleep).order(Order::Due).limit(PARKED);
        let query = query.without_props();
        let (mut lookup, mut cursor) = (Lookup::new(self), None);
        loop {
            let page = self.page(&query, cursor.as_ref()).await?;
            let now = self.now();
            let free = page.tasks.into_iter().filter(|one| one.node.is_none());
            let (waiting, others): (Vec<_>, Vec<_>) =
                free.partition(|one| one.state.as_ref().is_ok_and(TaskState::is_waiting));
            let found = others.iter().find(|one| is_awake(one, now));
            if let Some(found) = found {
                return Ok(Some(found.task.id.clone()));
            }
            let reasons = lookup.reasons(&waiting, &[]).await?;
            let mut with_reasons = waiting.iter().zip(reasons);
            let over = with_reasons.find(|(_, of)| !matches!(of, Some(WaitReason::Tasks(_))));
            if let Some((found, _)) = over {
                return Ok(Some(found.task.id.clone()));
            }
            match page.next {
                Some(next) => cursor = Some(next),
                None => return Ok(None),
            }
        }
    }
}

/// Returns whether unclaimed sleeping or paused tasks may match a filter.
fn may_be_parked(filter: &Filter) -> bool {
    let is_claimed = filter.node.is_some() || filter.claimed;
    !(is_claimed || filter.quarantined || filter.awaits_signal || filter.is_of_ends())
}

/// How many parked tasks are read at once.
const PARKED: u32 = 10_000;

/// Returns whether an unclaimed parked task can be claimed, or sleeps before its next attempt.
fn is_awake(record: &TaskRecord, now: Timestamp) -> bool {
    let Ok(state) = &record.state else {
        return false;
    };
    let awaits_signal = state.awaits_signal().is_some();
    // Signals that a handler has kept wake nothing.
    let is_commanded = record.commands > 0 && !(awaits_signal && state.kept_signals > 0);
    let is_asleep = state.code() == StateKind::Sleeping;
    let is_retry = is_asleep && state.attempts > 0 && !awaits_signal;
    is_retry || is_claimable(state, is_commanded, now)
}

/// The states of tasks that have not ended.
const LIVE: [StateKind; 4] = [
    StateKind::Runnable,
    StateKind::Sleeping,
    StateKind::Paused,
    StateKind::Fault,
];

/// Returns whether a task may no longer match after this change.
fn ends_a_wait(what: &ChangeKind) -> bool {
    !matches!(
        what,
        ChangeKind::Claimed { .. }
            | ChangeKind::Checkpointed { .. }
            | ChangeKind::Commanded { .. }
            | ChangeKind::MalformedCommand { .. }
    )
}
