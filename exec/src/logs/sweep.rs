//! Deletes the logs of tasks that the store no longer has.

use std::{fs, io, path::Path, time::Duration};

use tokio::time::{Instant, sleep};
use tracing::{debug, warn};
use windlass::Client;

use crate::{place::remove_all, task_folder::Fate};

/// How often a worker looks for logs of deleted tasks.
pub const SWEEP_EVERY: Duration = Duration::from_secs(600);
/// The minimum length of the pause after a sweep, as a multiple of the duration of the sweep.
const PAUSE: u32 = 100;

/// Deletes the logs of tasks that were deleted or pruned.
pub(super) async fn sweep(root: &Path, client: &Client) {
    let Ok(entries) = fs::read_dir(root) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let fate = Fate::ask_by_name(client, &name.to_string_lossy()).await;
        if fate == Some(Fate::Gone) {
            let folder = entry.path();
            match remove_all(&folder) {
                Ok(()) => {
                    debug!(folder = %folder.display(), "deleted the logs of a task that no longer exists");
                }
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    warn!(folder = %folder.display(), %error, "could not delete the logs of a task");
                }
            }
        }
    }
}

/// Sweeps at this interval, or at 100 times the duration of the last sweep if that is longer. Never
/// returns.
pub(super) async fn keep_swept(root: &Path, client: &Client, every: Duration) {
    let mut pause = every;
    loop {
        sleep(pause).await;
        let began = Instant::now();
        sweep(root, client).await;
        pause = every.max(began.elapsed().saturating_mul(PAUSE));
    }
}
