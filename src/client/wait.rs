//! Waits for the end of a task, and for the outcome of a command.

use std::{
    ops::ControlFlow::{self, Break, Continue},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, sleep};
use windlass_statemachine::{CommandId, Invalid, Outcome, TaskId, TaskStatus};

use super::{Client, Done, WaitReason, Waiting, name, waiting::Reporter};
use crate::store::{
    Change, ChangeKind, Error, NodeRecord, TaskRecord,
    changes::{Delivered, Subscription},
};

/// How often a wait reads the store again when the task does not change: the other conditions of the wait may
/// have changed.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// The same interval for a wait that depends only on the task: ten thousand of them cost little.
const LOOK_SELDOM: Duration = Duration::from_secs(30);

/// Returns about [`LOOK_SELDOM`], so that waits that began together do not read together.
fn seldom() -> Duration {
    LOOK_SELDOM.mul_f64(0.75 + fastrand::f64() / 2.0)
}

/// Retries calls to an unavailable store for some seconds.
pub(super) struct Retries {
    wait: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self {
            wait: Duration::from_millis(50),
        }
    }
}

impl Retries {
    /// Waits before the next try. Returns the error when it is not retryable, or after some seconds.
    pub(super) async fn after(&mut self, error: Error) -> Result<(), Error> {
        if !error.is_retryable() || self.wait > LOOK_AGAIN {
            return Err(error);
        }
        sleep(self.wait).await;
        self.wait *= 2;
        Ok(())
    }
}

/// The result of a look at a task: the end of the wait, or when to look again if the task does not change.
type Looked<T> = Result<ControlFlow<T, Duration>, Error>;

/// Waits for a change of the task for which `matters` holds, or for `time`. Returns `false` when the
/// subscription has ended.
pub(super) async fn next(
    changes: &mut Subscription,
    matters: &impl Fn(&Change) -> bool,
    time: Duration,
) -> bool {
    let mut again = std::pin::pin!(sleep(time));
    loop {
        tokio::select! {
            biased;
            () = &mut again => return true,
            delivered = changes.next() => match delivered {
                Delivered::Change(change) if matters(&change) => return true,
                Delivered::Change(_) => {}
                Delivered::Missed => return true,
                Delivered::Ended => return false,
            },
        }
    }
}

impl Client {
    /// Calls `look` after every change of the task for which `matters` holds, until it returns a result.
    /// Subscribes before the first call, so that no change is missed.
    async fn until<T, Fut>(
        &self,
        task: &TaskId,
        matters: impl Fn(&Change) -> bool,
        look: impl Fn() -> Fut,
    ) -> Result<T, Error>
    where
        Fut: Future<Output = Looked<T>>,
    {
        let mut retries = Retries::default();
        loop {
            let mut changes = match self.store().changes().of(task).await {
                Ok(changes) => changes,
                Err(e) => {
                    retries.after(e).await?;
                    continue;
                }
            };
            loop {
                let place = self.store().changes().place().await;
                let looked = look().await;
                drop(place);
                let time = match looked {
                    Ok(Break(answer)) => return Ok(answer),
                    Ok(Continue(time)) => time,
                    Err(e) => {
                        retries.after(e).await?;
                        continue;
                    }
                };
                retries = Retries::default();
                if !next(&mut changes, &matters, time).await {
                    break;
                }
            }
            sleep(Retries::default().wait).await;
        }
    }

    /// Waits until a task has ended. Logs a warning after 5 s when no live node handles the kind.
    /// Use [`wait_with`](Self::wait_with) for reports in the meantime.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] when the task does not exist, or is deleted in the meantime;
    /// [`Error::Corrupt`] when it is quarantined; [`Error::Unavailable`].
    pub async fn wait(
        &self,
        id: impl TryInto<TaskId, Error: Into<Invalid>>,
    ) -> Result<Done, Error> {
        let id = &name::<TaskId>(id)?;
        let (begun, is_warned) = (Instant::now(), &AtomicBool::new(false));
        self.until(
            id,
            |change| may_end(&change.what),
            || async move {
                let record = self.get(id).await?;
                let time = match is_warned.load(Ordering::Relaxed) {
                    true => seldom(),
                    false => self.warn_of_no_node(&record, begun, is_warned).await?,
                };
                Ok(ended(record)?.map_or(Continue(time), Break))
            },
        )
        .await
    }

    /// Logs that no node handles the kind of the task, if a node could have claimed it for 5 s. The usual cause is that
    /// its handler was not registered. Returns when to look again.
    async fn warn_of_no_node(
        &self,
        record: &TaskRecord,
        begun: Instant,
        is_warned: &AtomicBool,
    ) -> Result<Duration, Error> {
        let now = self.store().clock().now();
        let is_unhandled =
            |nodes: &[NodeRecord]| WaitReason::of(record, nodes, now) == Some(WaitReason::NoNode);
        // The nodes matter only for a task that a node could claim now, so ten thousand waits for sleeping tasks read no
        // nodes, and read their tasks seldom.
        if !is_unhandled(&[]) {
            let status = record.state.as_ref().ok().map(|state| &state.status);
            let asleep = match status {
                Some(TaskStatus::Sleeping { until }) => {
                    Duration::try_from(until.duration_since(now)).ok()
                }
                _ => None,
            };
            let due = asleep.map(|asleep| asleep.saturating_add(LOOK_AGAIN));
            return Ok(due.map_or_else(seldom, |due| due.min(seldom())));
        }
        if begun.elapsed() < LOOK_AGAIN {
            return Ok(LOOK_AGAIN);
        }
        let nodes = self.nodes().await?;
        is_warned.store(true, Ordering::Relaxed);
        if is_unhandled(&nodes) {
            let (id, kind) = (&record.task.id, &record.task.kind);
            tracing::warn!(task = %id, %kind, "waits for a task whose kind no live node handles");
        }
        Ok(seldom())
    }

    /// Waits until a task has ended. Reports each failed attempt, and each reason why no node runs the
    /// task.
    ///
    /// # Errors
    ///
    /// Those of [`wait`](Self::wait).
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Client, Message, NewTask, Runner, TaskContext, store::Store};
    ///
    /// # #[tokio::main] async fn main() -> Result<(), windlass::BoxError> {
    /// let store = Store::open("memory:").await?;
    /// let fail = |_: TaskContext| async { Message::fail("no such address") };
    /// let runner = Runner::builder(&store).handler("deliver", fail).start().await?;
    /// let client = Client::new(&store);
    /// let id = client.submit(NewTask::new("deliver")).await?;
    ///
    /// let mut reports = Vec::new();
    /// let done = client.wait_with(&id, |waiting| reports.push(waiting.to_string())).await?;
    /// assert!(!done.is_completed());
    /// let failed = "attempt 1 failed: no such address; not retried, the task has failed";
    /// assert_eq!(reports.last().unwrap(), failed);
    /// # runner.shutdown().await;
    /// # Ok(()) }
    /// ```
    pub async fn wait_with(
        &self,
        id: impl TryInto<TaskId, Error: Into<Invalid>>,
        report: impl FnMut(Waiting) + Send,
    ) -> Result<Done, Error> {
        let id = &name::<TaskId>(id)?;
        let reporter = Mutex::new(Reporter::new(report));
        let reporter = || reporter.lock().unwrap_or_else(PoisonError::into_inner);
        let reporter = &reporter;
        self.until(
            id,
            |change| may_report(&change.what),
            || async move {
                let record = self.get(id).await?;
                let nodes = self.nodes().await?;
                let one = std::slice::from_ref(&record);
                let waits = self.wait_reasons(one, &nodes).await?.pop().flatten();
                reporter().look(&record, waits);
                Ok(ended(record)?.map_or(Continue(LOOK_AGAIN), Break))
            },
        )
        .await
    }

    /// Waits until a command has an outcome.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] when the command does not exist, or its task is deleted in the meantime;
    /// [`Error::Unavailable`].
    pub async fn wait_outcome(
        &self,
        id: impl TryInto<CommandId, Error: Into<Invalid>>,
    ) -> Result<Outcome, Error> {
        let id: CommandId = name(id)?;
        let task = self.store().registry().command(&id).await?.task;
        let look = || async {
            let outcome = self.outcome(&id).await?;
            Ok(outcome.map_or_else(|| Continue(seldom()), Break))
        };
        self.until(&task, |_| true, look).await
    }
}

/// Returns the end of a task; `None` while it is live.
fn ended(record: TaskRecord) -> Result<Option<Done>, Error> {
    match &record.state {
        Ok(state) if !state.code().is_terminal() => Ok(None),
        _ => Done::from_record(record).map(Some),
    }
}

/// Returns whether a wait may have something to report after this change.
fn may_report(what: &ChangeKind) -> bool {
    !matches!(
        what,
        ChangeKind::Checkpointed { .. }
            | ChangeKind::Commanded { .. }
            | ChangeKind::MalformedCommand { .. }
    )
}

fn may_end(what: &ChangeKind) -> bool {
    match what {
        ChangeKind::Moved { to, .. } => to.is_terminal(),
        ChangeKind::Deleted | ChangeKind::Quarantined => true,
        _ => false,
    }
}
