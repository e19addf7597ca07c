//! Waiting with a limit, and saying so when there is nobody to wait for.

use std::{collections::BTreeSet, time::Duration};

use tokio::time::Instant;
use tracing::debug;
use windlass::{Client, Kind, store::NodeRecord};

use crate::{args::duration, exit::Failure, output::Output, view::human};

/// Whether to wait, and for how long.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct WaitArgs {
    /// Wait until it is known what came of it
    #[arg(long)]
    pub(crate) wait: bool,

    /// Wait for at most so long (30s, 5m, …); then end with exit code 5
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "wait")]
    pub(crate) timeout: Option<Duration>,
}

/// Until when to wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(Option<(Instant, Duration)>);

impl Deadline {
    /// That long from now; `None` for ever.
    pub(crate) fn after(timeout: Option<Duration>) -> Self {
        // One that no clock reaches is none.
        Self(timeout.and_then(|t| Some((Instant::now().checked_add(t)?, t))))
    }

    /// Waits for something. `what` is told when the time was not enough.
    ///
    /// # Errors
    ///
    /// That of the wait, or [`Failure::Timeout`].
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

/// Says which of these kinds no live node handles, and what follows from it. A note for a person: where
/// the nodes cannot be read nothing is said, since what it is about was done.
pub(crate) async fn note_unhandled(
    client: &Client,
    out: &Output,
    kinds: &BTreeSet<Kind>,
    then: &str,
) {
    let Some(nodes) = nodes_for_a_note(client).await else {
        return;
    };
    for kind in kinds {
        let handled = nodes.iter().any(|n| {
            let kinds = n.spec.kinds.as_ref();
            kinds.is_none_or(|kinds| kinds.contains(kind))
        });
        if !handled {
            out.note(format!(
                "queued: no live node handles kind '{kind}'; {then} when one does"
            ));
        }
    }
}

/// The nodes that live; `None` when they cannot be read, which fails nothing.
pub(crate) async fn nodes_for_a_note(client: &Client) -> Option<Vec<NodeRecord>> {
    let nodes = client.nodes().await;
    nodes
        .inspect_err(|e| debug!(error = %e, "whether a node is there is not known"))
        .ok()
}
