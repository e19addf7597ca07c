//! Prunes finished tasks that are past their retention.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;
use tracing::{debug, info, warn};

use crate::store::Coordinator;

/// How often a node prunes at least.
const MAINTAIN_EVERY: Duration = Duration::from_secs(3600);

/// The minimum pause before a node prunes for the first time.
const SOON: Duration = Duration::from_secs(30);

/// The pause before the next call to a store that has pruned some tasks.
const AGAIN: Duration = Duration::from_secs(1);

/// Returns how often a node prunes. A task outlives a short retention by about a tenth of it.
fn every(retention: Option<Duration>) -> Duration {
    retention.map_or(MAINTAIN_EVERY, |keep| {
        (keep / 10).clamp(AGAIN, MAINTAIN_EVERY)
    })
}

/// Prunes until it is dropped. The first time comes soon, at a moment that differs between nodes.
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
                // A store prunes a limited number at a time, so that it serves other calls in
                // between.
                pause = AGAIN;
            }
            Err(e) if e.is_retryable() => {
                debug!(error = %e, "could not prune; trying again");
                pause = Duration::from_secs(60);
            }
            Err(e) => warn!(error = %e, "could not prune tasks that are past their retention"),
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
