//! Deletes the logs of tasks that the store does not have any more.

use std::{fs, io, time::Duration};

use tokio::time::sleep;
use tracing::{debug, warn};
use windlass::Client;

use super::Logs;
use crate::exec::Fate;

/// A worker looks this often for logs whose tasks are gone.
const SWEEP_EVERY: Duration = Duration::from_secs(600);

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
        loop {
            sleep(SWEEP_EVERY).await;
            self.sweep(client).await;
        }
    }
}
