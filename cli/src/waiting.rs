//! Waits with a time limit, also for an unavailable store, and notes when no node can end the wait.

use std::{collections::BTreeSet, time::Duration};

use tokio::time::{Instant, sleep};
use tracing::{debug, warn};
use windlass::{
    Client, Kind, TaskId,
    client::{Done, WaitReason, Waiting},
    runner::REPORTS,
    statemachine::Backoff,
    store::{Error, NodeRecord},
};

use crate::{exit::Failure, output::Output, parse::duration, text::one_line, view::human};

/// Whether to wait, and for how long.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct WaitArgs {
    /// Wait for the outcome
    #[arg(long)]
    pub(crate) wait: bool,

    /// Wait for at most this long (30s, 5m, …), then end with exit code 5
    #[arg(long, value_name = "DURATION", value_parser = duration, allow_hyphen_values = true, requires = "wait")]
    pub(crate) timeout: Option<Duration>,
}

/// Until when to wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(Option<(Instant, Duration)>);

impl Deadline {
    /// Returns the deadline after this time; `None` waits for ever.
    pub(crate) fn after(timeout: Option<Duration>) -> Self {
        // A deadline beyond the range of the clock is not a limit.
        Self(timeout.and_then(|t| Some((Instant::now().checked_add(t)?, t))))
    }

    /// Waits for something. The error of a timeout names `what`.
    ///
    /// # Errors
    ///
    /// The error of the wait, or [`Failure::Timeout`].
    pub(crate) async fn within<T>(
        self,
        what: &str,
        wait: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let Some((at, limit)) = self.0 else {
            return wait.await;
        };
        match tokio::time::timeout_at(at, wait).await {
            Ok(answer) => answer,
            Err(_) => {
                let limit = human(limit);
                Err(Failure::Timeout(format!(
                    "{what} after {limit} (--timeout)"
                )))
            }
        }
    }
}

/// How long commands that run a node retry a store that does not respond: a cluster elects a leader
/// within seconds, a backup or a restart takes longer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The pauses between two calls of a store that does not respond.
pub(crate) const PAUSES: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(2));

/// Retries until there is a result or a permanent error. After `limit` every error is returned. A
/// limit beyond the range of the clock means no limit.
///
/// # Errors
///
/// The last error.
pub(crate) async fn patiently<T, Answer>(
    limit: Duration,
    mut ask: impl FnMut() -> Answer,
) -> Result<T, Error>
where
    Answer: Future<Output = Result<T, Error>>,
{
    let deadline = Instant::now().checked_add(limit);
    let mut backoff = PAUSES;
    loop {
        match ask().await {
            Err(e) if e.is_retryable() && deadline.is_none_or(|at| Instant::now() < at) => {
                if backoff.is_new() {
                    warn!(target: REPORTS, error = %e, "the store does not answer; asking again");
                }
                sleep(backoff.pause()).await;
            }
            answer => return answer,
        }
    }
}

/// Notes which of these kinds no live node handles. Prints nothing if the nodes cannot be read: the
/// action itself succeeded. The note says what waits, and what follows once such a node starts.
pub(crate) async fn note_unhandled(
    client: &Client,
    out: &Output,
    kinds: &BTreeSet<Kind>,
    (what, then): (&str, &str),
) -> bool {
    let Some(nodes) = nodes_for_a_note(client).await else {
        return false;
    };
    let mut any = false;
    for kind in kinds {
        let handled = nodes.iter().any(|n| {
            let kinds = n.spec.kinds.as_ref();
            kinds.is_none_or(|kinds| kinds.contains(kind))
        });
        if !handled {
            out.note(format!(
                "{what}: no live node handles kind '{kind}'; {then}"
            ));
            any = true;
        }
    }
    any
}

/// Returns the live nodes; `None` when they cannot be read.
pub(crate) async fn nodes_for_a_note(client: &Client) -> Option<Vec<NodeRecord>> {
    let nodes = client.nodes().await;
    nodes
        .inspect_err(|e| debug!(error = %e, "could not determine whether a live node exists"))
        .ok()
}

/// Waits until a task has ended, and reports events in the meantime.
pub(crate) async fn ended(
    client: &Client,
    id: &TaskId,
    deadline: Deadline,
    report: impl FnMut(Waiting) + Send,
) -> Result<Done, Failure> {
    let wait = async { Ok(client.wait_with(id, report).await?) };
    let what = format!("task '{id}' has not ended");
    deadline.within(&what, wait).await
}

/// Returns the text of a report to print. The missing node and the end are printed elsewhere.
pub(crate) fn reported(waiting: &Waiting) -> Option<String> {
    match waiting {
        Waiting::Failed(failed) if failed.is_last() => None,
        Waiting::Waits(WaitReason::NoNode) => None,
        waiting => Some(one_line(&waiting.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Fails this many times, then returns how often it was called.
    async fn asked(failures: u32, limit: Duration) -> Result<u32, Error> {
        let asked = Cell::new(0);
        let ask = || {
            asked.set(asked.get() + 1);
            let answer = match asked.get() {
                n if n > failures => Ok(n),
                _ => Err(Error::unavailable("get", "no leader")),
            };
            async move { answer }
        };
        patiently(limit, ask).await
    }

    #[tokio::test]
    async fn a_store_that_is_away_is_asked_again() {
        assert_eq!(asked(0, PATIENCE).await.unwrap(), 1);
        assert_eq!(asked(4, PATIENCE).await.unwrap(), 5);
        assert_eq!(asked(4, Duration::MAX).await.unwrap(), 5);
    }

    #[tokio::test]
    async fn patience_ends() {
        let (begun, limit) = (Instant::now(), Duration::from_millis(100));
        let error = asked(u32::MAX, limit).await.unwrap_err();
        assert!(error.is_retryable(), "{error}");
        assert!(begun.elapsed() >= limit);
        assert!(asked(1, Duration::ZERO).await.is_err(), "asked once");
    }

    #[tokio::test]
    async fn an_error_that_no_retry_fixes_is_reported_at_once() {
        let asked = Cell::new(0);
        let ask = || {
            asked.set(asked.get() + 1);
            async { Err::<(), _>(Error::Unusable("not ours".into())) }
        };
        assert!(patiently(PATIENCE, ask).await.is_err());
        assert_eq!(asked.get(), 1);
    }
}
