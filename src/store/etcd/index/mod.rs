//! The index in memory: every task of the namespace in the orders of lists, and their counts.
//!
//! etcd's only index is the order of its keys. A process that lists and counts often keeps this index in addition: it
//! lists the namespace once and follows it with one watch. A list finds its tasks here. It reads from etcd only the long
//! values, which the index does not keep.
//! Before each use the index waits until it has seen the newest revision, so that a list includes what this process and
//! others have written before.

mod entry;
mod kept;
mod known;
mod rows;
#[cfg(test)]
mod tests;
mod updater;

use std::{
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
    time::Duration,
};

use jiff::Timestamp;
use tokio::{
    sync::{Mutex, watch},
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

pub(crate) use self::known::Known;
use self::{
    rows::{Found, Rows},
    updater::Updater,
};
use super::read::Reader;
use crate::store::{FailedTasks, Filter, Place, Span, TaskCount, rules::stats::Counter};

/// How long a change of the namespace takes to arrive, almost always. The newest revision may belong to another
/// namespace.
const USUAL: Duration = Duration::from_millis(10);
/// How long a use waits for the newest revision. After that, tasks are read as if there were no
/// index.
const PATIENCE: Duration = Duration::from_millis(500);

/// The index. It is kept until it is dropped.
pub(crate) struct Index {
    reader: Reader,
    rows: Arc<RwLock<Rows>>,
    /// Held by the use that writes a revision on behalf of all waiting uses.
    marking: Mutex<()>,
    /// The revision that the index has seen; 0 while it has not listed the namespace.
    seen: watch::Receiver<i64>,
    _updater: AbortOnDropHandle<()>,
}

impl Index {
    /// Starts to follow the namespace.
    pub(crate) fn start(reader: Reader) -> Self {
        let rows = Arc::new(RwLock::default());
        let (sets, seen) = watch::channel(0);
        let updater = Updater::new(reader.clone(), rows.clone(), sets);
        let updater = AbortOnDropHandle::new(tokio::spawn(updater.run()));
        Self {
            reader,
            rows,
            marking: Mutex::default(),
            seen,
            _updater: updater,
        }
    }

    /// Waits until the index includes every change before this call. Returns `None` when it does not get there in
    /// time, and while it lists the namespace.
    pub(crate) async fn current(&self) -> Option<Current<'_>> {
        if *self.seen.borrow() == 0 {
            return None;
        }
        let horizon = self.reader.keys.horizon();
        let (_, newest) = self.reader.link.get_all(&horizon).await.ok()?;
        if !self.reaches(newest, USUAL).await {
            // A request for the progress of a watch may be answered before changes that the watch lacks (etcd before
            // 3.4.25 and 3.5.8). A change of the namespace is used instead.
            let marking = timeout(PATIENCE, self.marking.lock()).await.ok()?;
            if *self.seen.borrow() < newest {
                let mark = self.reader.keys.index();
                let mut client = self.reader.link.kv();
                self.reader
                    .link
                    .call(client.put(mark, "", None))
                    .await
                    .ok()?;
            }
            drop(marking);
            if !self.reaches(newest, PATIENCE).await {
                return None;
            }
        }
        Some(Current { index: self })
    }

    /// Waits until the index has seen a revision. Returns `false` if that takes too long.
    async fn reaches(&self, revision: i64, within: Duration) -> bool {
        let mut seen = self.seen.clone();
        let reached = seen.wait_for(|seen| *seen >= revision);
        matches!(timeout(within, reached).await, Ok(Ok(_)))
    }
}

/// The index, up to date at the time of the call.
pub(crate) struct Current<'a> {
    index: &'a Index,
}

impl Current<'_> {
    fn rows(&self) -> RwLockReadGuard<'_, Rows> {
        let rows = self.index.rows.read();
        rows.unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next tasks of a list that may match, and the position from which the list continues; `None` at its
    /// end.
    pub(crate) fn step(&self, filter: &Filter, span: &Span) -> (Known, Option<Place>) {
        let Found { known, last } = self.rows().step(filter, span);
        (known, last)
    }

    /// Returns how many tasks there are by kind and state.
    pub(crate) fn states(&self) -> Vec<TaskCount> {
        self.rows().states()
    }

    /// Returns the counts without the tasks that limits hold back, and whether the first due time of each group is known.
    pub(crate) fn counter(&self, now: Timestamp) -> (Counter, bool) {
        self.rows().counter(now)
    }

    /// Returns the failed tasks in groups.
    pub(crate) fn failures(&self, limit: usize) -> FailedTasks {
        self.rows().failures(limit)
    }

    /// Returns the first tasks that a limit may hold back, and whether these are all.
    pub(crate) fn limited(&self, most: usize) -> (Known, bool) {
        self.rows().limited(most)
    }
}
