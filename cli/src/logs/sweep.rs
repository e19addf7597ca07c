//! Deletes the logs of tasks that the store does not have any more.

use std::{fs, io, time::Duration};

use tokio::time::{Instant, sleep};
use tracing::{debug, warn};
use windlass::Client;

use super::Logs;
use crate::exec::Fate;

/// A worker looks this often for logs whose tasks are gone,
const SWEEP_EVERY: Duration = Duration::from_secs(600);
/// or after this many times the time that the last look took, if that is longer.
const PAUSE: u32 = 100;

impl Logs {
    /// Deletes the logs of tasks that were deleted or pruned.
    pub(crate) async fn sweep(&self, client: &Client) {
        let Ok(entries) = fs::read_dir(&self.place.root) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let fate = Fate::ask_by_name(client, &name.to_string_lossy()).await;
            if fate == Some(Fate::Gone) {
                let folder = entry.path();
                match fs::remove_dir_all(&folder) {
                    Ok(()) => {
                        debug!(folder = %folder.display(), "deleted the logs of a task that is gone");
                    }
                    Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => {
                        warn!(folder = %folder.display(), %error, "could not delete the logs of a task");
                    }
                }
            }
        }
    }

    /// Does so now and then, and never returns.
    pub(crate) async fn keep_swept(&self, client: &Client) {
        let mut pause = SWEEP_EVERY;
        loop {
            sleep(pause).await;
            let began = Instant::now();
            self.sweep(client).await;
            pause = SWEEP_EVERY.max(began.elapsed().saturating_mul(PAUSE));
        }
    }
}
