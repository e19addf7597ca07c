//! [`Folders`]: one folder per task, in which its command keeps its progress from attempt to attempt.
//!
//! They are next to the store, in a folder named after the store's identity
//! ([`Registry::identity`](windlass::store::Registry::identity)): for `sqlite:/var/lib/jobs.db` in
//! `/var/lib/jobs.db.tasks/store=IDENTITY/`; for etcd in the user's data directory, in
//! `IDENTITY.tasks/` (each machine has its own); for `memory:` in a temporary folder that only this
//! process knows. So the folders do not depend on the URL by which the store is reached, and a new
//! store in the place of another does not touch the folders of the other.
//!
//! A task's folder is named after its id and its submit order, so a new task does not find the files
//! of a deleted task with the same id. A folder is removed once the store reports that its task has
//! completed (durably, because a crash before that must not lose the progress of a task that will run
//! again) or no longer exists. An empty folder is removed after any attempt.

use std::{
    fs,
    future::pending,
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tracing::{debug, warn};
use windlass::{Client, TaskId, statemachine::Backoff};

use super::{
    folder::Folder,
    leftover::{self, OnBehalfOf},
};
use crate::{
    logs::Logs,
    place::{Place, named, remove_all},
    task_folder::{Fate, task_folder},
};

/// The longest time between SIGTERM and SIGKILL for a command whose task has ended.
const GRACE: Duration = Duration::from_secs(2);

/// The folders of the tasks of one store.
#[derive(Debug, Clone)]
pub struct Folders {
    /// The place of the folders.
    place: Place,
    /// The temporary folder, removed with the last clone.
    temporary: Option<Arc<TempDir>>,
    /// The logs of the tasks' commands.
    logs: Logs,
    client: Client,
    removals: TaskTracker,
    /// Looks for the commands of killed workers; ends with the last clone.
    looking: Option<Arc<AbortOnDropHandle<()>>>,
}

impl Folders {
    /// Returns the folders that belong to the store with this URL.
    ///
    /// # Errors
    ///
    /// When the folder around them cannot be made.
    pub fn of_store(url: &str, identity: &str, client: &Client) -> io::Result<Self> {
        let mut temporary = None;
        let mut place = match Place::of(url, identity, "tasks")? {
            Some(place) => place,
            None => {
                let mut builder = tempfile::Builder::new();
                builder.prefix("windlass-").suffix(".tasks");
                builder.permissions(fs::Permissions::from_mode(0o700));
                let made = temporary.insert(Arc::new(builder.tempdir()?));
                Place::private(made.path().to_owned())
            }
        };
        let logs = match Place::of(url, identity, "logs")? {
            Some(place) => Logs::at(place),
            // The logs end with the process, like the tasks. No task's folder has this name.
            None => Logs::at(Place::private(place.root.join("logs"))),
        };
        let made = place.make().map_err(|e| named(&place.root, e))?;
        // An absolute path: two workers with different working folders must use the same folder.
        place.root = made.path().canonicalize()?;
        Ok(Self {
            place,
            temporary,
            logs,
            client: client.clone(),
            removals: TaskTracker::new(),
            looking: None,
        })
    }

    pub(super) fn set_looking(&mut self, looking: AbortOnDropHandle<()>) {
        self.looking = Some(Arc::new(looking));
    }

    /// Returns the logs of the tasks' commands.
    pub fn logs(&self) -> &Logs {
        &self.logs
    }

    fn folder(&self, id: &TaskId, order: u64) -> Folder {
        self.named(&task_folder(id, order))
    }

    fn named(&self, name: &str) -> Folder {
        Folder {
            record: self.place.root.join(format!("{name}.run")),
            path: self.place.root.join(name),
            owners: self.place.owners,
        }
    }

    /// Makes the folder of the task with this id and submit order, if there is none.
    ///
    /// # Errors
    ///
    /// The path of the folder that could not be made, and why.
    pub(crate) fn prepare(&self, id: &TaskId, order: u64) -> Result<Folder, (PathBuf, io::Error)> {
        let folder = self.folder(id, order);
        match self.place.make_in(task_folder(id, order).as_ref()) {
            Ok(_) => Ok(folder),
            Err(e) => Err((folder.path, e)),
        }
    }

    /// Returns the folders whose command runs, or was left running.
    pub(super) fn with_record(&self) -> Vec<Folder> {
        let entries = fs::read_dir(&self.place.root)
            .into_iter()
            .flatten()
            .flatten();
        let folders = entries.filter_map(|entry| {
            let record = entry.path();
            let is_record = record.extension().is_some_and(|ending| ending == "run");
            is_record.then(|| Folder {
                path: record.with_extension(""),
                record,
                owners: self.place.owners,
            })
        });
        folders.collect()
    }

    /// Removes the folder of a task if it is empty. If `completes`, removes it in any case, once
    /// the store has the task as completed.
    pub(super) fn retire(&self, id: &TaskId, order: u64, folder: &Path, completes: bool) {
        if fs::remove_dir(folder).is_ok() || !completes {
            return;
        }
        let (client, id, folder) = (self.client.clone(), id.clone(), folder.to_owned());
        self.removals.spawn(async move {
            let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_secs(5));
            let give_up = Instant::now() + Duration::from_secs(10);
            // The next worker that starts removes the folders that remain.
            while Instant::now() < give_up {
                sleep(backoff.pause()).await;
                if is_over(Fate::ask(&client, &id, order).await) {
                    return remove(&folder);
                }
            }
        });
    }

    /// Waits a short time for removals that are under way.
    pub async fn settle(&self) {
        self.removals.close();
        let longest = Duration::from_secs(2);
        if tokio::time::timeout(longest, self.removals.wait())
            .await
            .is_err()
        {
            debug!("folders of completed tasks are left to the next worker");
        }
        if self.temporary.is_some() {
            // The tasks end with the process.
            return remove(&self.place.root);
        }
        self.logs.remove_empty();
        // Removes them only if they are empty; a later user makes them again.
        let _ = fs::remove_dir(&self.place.root);
        if let Some(place) = &self.place.above {
            let _ = fs::remove_dir(place);
        }
    }

    /// Removes the folders of tasks of this store that completed, or were deleted, while no worker was running, and the
    /// logs of deleted tasks. A command that still runs gets SIGKILL after the grace, or after 2 s if that is shorter.
    pub fn sweep(&self, grace: Duration) {
        let (logs, client) = (self.logs.clone(), self.client.clone());
        self.removals
            .spawn(async move { logs.sweep(&client).await });
        let this = self.clone();
        self.removals
            .spawn(async move { this.remove_needless(grace).await });
    }

    /// Removes the folders of tasks that completed or no longer exist.
    pub(super) async fn remove_needless(&self, grace: Duration) {
        let Ok(entries) = fs::read_dir(&self.place.root) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let name = name.strip_suffix(".run").unwrap_or(&name);
            if !is_over(Fate::ask_by_name(&self.client, name).await) {
                continue;
            }
            let folder = self.named(name);
            // The task may have ended, or be deleted, before its command has.
            if leftover::is_held(&folder) {
                continue;
            }
            let ended = leftover::end(&folder, OnBehalfOf::Nobody, grace.min(GRACE), pending());
            if let Err(error) = ended.await {
                warn!(folder = %folder.path.display(), %error, "the command of a task that is over still runs");
                continue;
            }
            let _ = fs::remove_file(&folder.record);
            remove(&folder.path);
        }
    }
}

/// Returns whether a task with this fate no longer needs its folder.
fn is_over(fate: Option<Fate>) -> bool {
    matches!(fate, Some(Fate::Completed | Fate::Gone))
}

fn remove(folder: &Path) {
    match remove_all(folder) {
        Ok(()) => debug!(folder = %folder.display(), "removed the folder of a completed task"),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(error) => warn!(folder = %folder.display(), %error, "a folder could not be removed"),
    }
}

/// Returns the folders of a store.
#[cfg(test)]
pub(super) async fn folders_of(url: &str, client: &Client) -> Folders {
    let identity = client.store().registry().identity().await.unwrap();
    Folders::of_store(url, &identity, client).unwrap()
}
