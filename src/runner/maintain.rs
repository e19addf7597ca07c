//! Pruning what is past its retention, now and then.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;
use tracing::{debug, info, warn};

use super::MAINTAIN_EVERY;
use crate::store::Coordinator;

/// When it is asked again of a store that had something to prune.
const AGAIN: Duration = Duration::from_secs(1);

/// Prunes until it is dropped. The first time comes soon, at a moment that differs from node to
/// node.
pub(super) async fn run(coordinator: Arc<dyn Coordinator>, retention: Option<Duration>) {
    let mut pause = Duration::from_secs(30).mul_f64(1.0 + fastrand::f64());
    loop {
        sleep(pause).await;
        pause = MAINTAIN_EVERY.mul_f64(0.5 + fastrand::f64());
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
