//! Waits until no task matches a filter.

use std::time::Duration;

use tokio::time::sleep;
use windlass_statemachine::{StateKind, TaskId};

use super::{
    Client,
    wait::{LOOK_AGAIN, Retries, next},
};
use crate::store::{Change, ChangeKind, Error, Filter, Query, changes::Subscription};

/// The minimum time between two searches for a matching task.
const LOOK_APART: Duration = Duration::from_millis(50);

impl Client {
    /// Waits until no matching task is runnable, claimed or in fault: each has ended, is paused,
    /// sleeps, or is quarantined. Reads only live tasks, and reads them again only when the task
    /// that was last found busy has changed.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    pub async fn wait_idle(&self, filter: &Filter) -> Result<(), Error> {
        self.until_none(|| self.busy(filter)).await
    }

    /// Waits until no task matches. Searches again only when the first matching task has changed.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    pub async fn wait_none(&self, filter: &Filter) -> Result<(), Error> {
        self.until_none(|| self.first(filter)).await
    }

    /// Calls `look` until it finds no task, each time after the found task has changed.
    async fn until_none<Fut>(&self, look: impl Fn() -> Fut) -> Result<(), Error>
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
            let matters = |change: &Change| ends_a_wait(&change.what);
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
        Ok(None)
    }
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
