//! A worker without handlers: it claims tasks and works on them in loops of its own.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use windlass::{
    Message,
    runner::{Builder, Claimer, StopSignals},
};

use super::{KINDS, Run};
use crate::{BoxError, terms::Terms, witness::Journal};

/// How many loops a worker has.
const LOOPS: usize = 12;
/// How long a loop waits for a task at a time.
const WAIT: Duration = Duration::from_secs(1);

/// Claims tasks of the worker's kinds, until the process is asked to end.
///
/// # Errors
///
/// When the node does not start, or has stopped on its own.
pub async fn pull(builder: Builder, journal: &Arc<Journal>, terms: &Terms) -> Result<(), BoxError> {
    let kinds = KINDS.into_iter().filter(|kind| terms.take(kind));
    let mut stops = StopSignals::listen()?;
    let claimer = Claimer::start_with(builder, kinds).await?;
    tracing::info!(node = %claimer.node(), "working");
    let mut loops = tokio::task::JoinSet::new();
    for _ in 0..LOOPS {
        loops.spawn(claims(claimer.clone(), journal.clone()));
    }
    tokio::select! {
        biased;
        _ = stops.next() => {}
        Some(ended) = loops.join_next() => ended??,
    }
    // Dropped tasks are released.
    loops.shutdown().await;
    claimer.shutdown().await;
    Ok(())
}

async fn claims(claimer: Claimer, journal: Arc<Journal>) -> Result<(), BoxError> {
    loop {
        let Some(claimed) = claimer.claim(WAIT).await? else {
            continue;
        };
        let kind = claimed.kind().to_string();
        let worked = match Run::start(journal.clone(), (*claimed).clone()) {
            Ok(run) => run.work(&kind).await,
            Err(error) => Err(error),
        };
        let message = worked.unwrap_or_else(|error| Message::error(error.to_string()));
        // The claim may be over: then another one works on the task.
        let _ = claimed.finish(message).await;
    }
}
