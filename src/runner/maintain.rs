//! Pruning what is past its retention, now and then.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;
use tracing::{debug, info, warn};

use super::MAINTAIN_EVERY;
use crate::store::Coordinator;

/// The least pause before a node prunes for the first time.
const SOON: Duration = Duration::from_secs(30);

/// When it is asked again of a store that had something to prune.
const AGAIN: Duration = Duration::from_secs(1);

/// How often a node prunes: a task outlives a short retention by about a tenth of it.
fn every(retention: Option<Duration>) -> Duration {
    retention.map_or(MAINTAIN_EVERY, |keep| {
        (keep / 10).clamp(AGAIN, MAINTAIN_EVERY)
    })
}

/// Prunes until it is dropped. The first time comes soon, at a moment that differs from node to
/// node.
pub(super) async fn run(coordinator: Arc<dyn Coordinator>, retention: Option<Duration>) {
    let every = every(retention);
    let mut pause = every.min(SOON).mul_f64(1.0 + fastrand::f64());
    loop {
        sleep(pause).await;
        pause = every.mul_f64(0.5 + fastrand::f64());
        match coordinator.maintain(retention).await {
            Ok(0) => debug!("nothing is past its retention"),
            Ok(tasks) => {
                info!(
                    tasks,
                    "pruned finished tasks that were past their retention"
                );
                // A store does some at a time, so that others are served meanwhile.
                pause = AGAIN;
            }
            Err(e) if e.is_retryable() => {
                debug!(error = %e, "could not prune; trying again");
                pause = Duration::from_secs(60);
            }
            Err(e) => warn!(error = %e, "could not prune what is past its retention"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_retention_is_looked_after_more_often() {
        let secs = Duration::from_secs;
        for (keep, pause) in [
            (None, secs(3600)),
            (Some(secs(7 * 24 * 3600)), secs(3600)),
            (Some(secs(36_000)), secs(3600)),
            (Some(secs(600)), secs(60)),
            (Some(secs(3)), secs(1)),
            (Some(Duration::ZERO), secs(1)),
        ] {
            assert_eq!(every(keep), pause, "{keep:?}");
        }
    }
}
