//! [`Folders`]: a folder per task, where its command keeps its own progress from attempt to attempt.
//!
//! They lie beside the store, in a folder named after the store's identity
//! ([`Registry::identity`](windlass::store::Registry::identity)): for `sqlite:/var/lib/jobs.db` in
//! `/var/lib/jobs.db.tasks/store=IDENTITY/`; for etcd in the user's data directory, in
//! `IDENTITY.tasks/` (each machine has its own); for `memory:` in a temporary folder that only this
//! process knows. So the URL by which the store is reached makes no difference, and a store that takes
//! the place of another does not touch the folders of the other.
//!
//! A task's folder is named after its id and its submit order: a task that was deleted leaves nothing
//! to another one with its id. A folder is removed when the store says that this task has completed
//! (durably: a crash in between must not take the progress of a task that will run again) or is gone,
//! or, if the folder is empty, after any attempt.

use std::{
    fs,
    future::pending,
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use tempfile::TempDir;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};
use windlass::{
    Client, Code, TaskId,
    store::{Error, Filter, Page, TaskRecord},
};

use super::{
    leftover,
    names::{decode, encode},
};
use crate::{exit::Failure, waiting::patiently};

/// How long a store that does not answer is asked for its identity.
const PATIENCE: Duration = Duration::from_secs(60);
/// The most time between SIGTERM and SIGKILL for a command whose task is over.
const GRACE: Duration = Duration::from_secs(2);

/// The folders of the tasks of one store.
#[derive(Debug, Clone)]
pub(crate) struct Folders {
    root: PathBuf,
    /// What `root` lies in, if that holds nothing else; with the folders of earlier versions.
    above: Option<PathBuf>,
    /// Where earlier versions kept the folders, named after the id alone.
    earlier: Vec<PathBuf>,
    /// Removed with the last clone.
    temporary: Option<Arc<TempDir>>,
    client: Client,
    removals: TaskTracker,
}

/// The folder of one task, and the file beside it that tells of its running command.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    /// The folder, as an absolute path.
    pub(crate) path: PathBuf,
    /// The file.
    pub(crate) record: PathBuf,
}

/// Where this machine keeps the folders of clusters.
fn data_dir() -> io::Result<PathBuf> {
    let dirs = directories::ProjectDirs::from("", "", "windlass");
    let dirs = dirs.ok_or_else(|| {
        let reason = "you have no home directory; set HOME, or XDG_DATA_HOME";
        io::Error::new(io::ErrorKind::NotFound, reason)
    })?;
    Ok(dirs.data_dir().to_owned())
}

/// The folder that earlier versions named after the URL of a cluster.
fn named_after(url: &str) -> String {
    let name = url.rsplit('/').next().unwrap_or_default();
    let hash = crate::hash::hex(&[url.as_bytes()], 12);
    format!("{}-{hash}.tasks", encode(name))
}

/// The path without links: also of a file that is not there, in a folder that is.
fn canonical(path: &Path) -> io::Result<PathBuf> {
    path.canonicalize().or_else(|error| {
        let path = std::path::absolute(path)?;
        match (path.parent(), path.file_name()) {
            (Some(folder), Some(name)) => Ok(folder.canonicalize()?.join(name)),
            _ => Err(error),
        }
    })
}

/// Makes a folder that is only for this user, with what it lies in; one that is there and open to
/// others is closed to them.
fn make_private(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)?;
    let mode = fs::metadata(path)?.permissions().mode();
    if mode & 0o077 != 0
        && let Err(error) = fs::set_permissions(path, fs::Permissions::from_mode(0o700))
    {
        let folder = path.display();
        warn!(%folder, %error, "other users can reach the folder, and its mode cannot be changed");
    }
    Ok(())
}

/// Writes a file that only this user can read.
pub(crate) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    // One that is there keeps its mode.
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())
}

impl Folders {
    /// The folders that belong to the store with this URL.
    ///
    /// # Errors
    ///
    /// When the store's identity cannot be read, or the folder they lie in cannot be made.
    pub(crate) async fn of_store(url: &str, client: &Client) -> Result<Self, Failure> {
        let registry = client.store().registry();
        let identity = patiently(PATIENCE, || registry.identity()).await?;
        Self::at(url, &identity, client).map_err(|e| {
            Failure::Store(format!(
                "could not make the folder for the tasks' own files: {e}"
            ))
        })
    }

    fn at(url: &str, identity: &str, client: &Client) -> io::Result<Self> {
        let (mut above, mut earlier, mut temporary) = (None, Vec::new(), None);
        let root = match url.split_once(':') {
            Some(("sqlite", path)) => {
                let beside = |path: &Path| {
                    let mut name = path.as_os_str().to_owned();
                    name.push(".tasks");
                    PathBuf::from(name)
                };
                let path = Path::new(path);
                let folder = beside(&canonical(path)?);
                // The file may have been named by a link.
                let other = beside(path).canonicalize().ok();
                earlier.extend(other.filter(|other| *other != folder));
                earlier.push(folder.clone());
                make_private(&folder)?;
                above = Some(folder.clone());
                // Earlier versions read the name as that of a task, unless it has a '='.
                folder.join(format!("store={identity}"))
            }
            Some(("etcd" | "etcds", _)) => {
                let data = data_dir()?;
                earlier.push(data.join(named_after(url)));
                data.join(format!("{identity}.tasks"))
            }
            _ => {
                let mut builder = tempfile::Builder::new();
                builder.prefix("windlass-").suffix(".tasks");
                builder.permissions(fs::Permissions::from_mode(0o700));
                let made = temporary.insert(Arc::new(builder.tempdir()?));
                made.path().to_owned()
            }
        };
        make_private(&root)?;
        Ok(Self {
            // Two workers with different working folders have to mean the same by it.
            root: root.canonicalize()?,
            above,
            earlier,
            temporary,
            client: client.clone(),
            removals: TaskTracker::new(),
        })
    }

    fn folder(&self, id: &TaskId, order: u64) -> Folder {
        self.named(&format!("{}@{order}", encode(id.as_str())))
    }

    fn named(&self, name: &str) -> Folder {
        Folder {
            record: self.root.join(format!("{name}.run")),
            path: self.root.join(name),
        }
    }

    /// Makes the folder of the task with this id and submit order, if there is none.
    pub(crate) async fn prepare(&self, id: &TaskId, order: u64) -> io::Result<Folder> {
        let folder = self.folder(id, order);
        if !folder.path.exists() {
            self.adopt(id, order, &folder).await;
        }
        make_private(&folder.path)?;
        Ok(folder)
    }

    /// Takes over the folder that an earlier version kept for this id, if it is certain to be this
    /// task's: the task was claimed before, and the folder was made after its submit. Whose the others
    /// are cannot be known; they stay where they are.
    async fn adopt(&self, id: &TaskId, order: u64, folder: &Folder) {
        let name = encode(id.as_str());
        let places = self.earlier.iter().map(|place| place.join(&name));
        for old in places.filter(|old| old.is_dir()) {
            let Ok(record) = self.client.get(id).await else {
                return;
            };
            let created = fs::metadata(&old).and_then(|meta| meta.created());
            let after_submit = created
                .is_ok_and(|at| Timestamp::try_from(at).is_ok_and(|at| at >= record.submitted_at));
            // The claim of this attempt is one.
            let claimed_before = record.state.as_ref().is_ok_and(|state| state.claims > 1);
            if record.order != order || !claimed_before || !after_submit {
                continue;
            }
            let mut old_record = old.clone().into_os_string();
            old_record.push(".run");
            let moved = fs::rename(&old, &folder.path);
            let _ = fs::rename(old_record, &folder.record);
            let (old, new) = (old.display(), folder.path.display());
            match moved {
                Ok(()) => return debug!(%old, %new, "moved the folder of an earlier version"),
                Err(error) => {
                    warn!(%old, %new, %error, "could not move a folder of an earlier version");
                }
            }
        }
    }

    /// Returns the folders whose command runs, or was left running.
    pub(crate) fn with_record(&self) -> Vec<Folder> {
        let entries = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let folders = entries.filter_map(|entry| {
            let record = entry.path();
            let is_record = record.extension().is_some_and(|ending| ending == "run");
            is_record.then(|| Folder {
                path: record.with_extension(""),
                record,
            })
        });
        folders.collect()
    }

    /// Removes the folder of a task if it is empty. If not, and the task is about to complete: as
    /// soon as it has.
    pub(crate) fn retire(&self, id: &TaskId, order: u64, folder: &Path, completes: bool) {
        if fs::remove_dir(folder).is_ok() || !completes {
            return;
        }
        let (client, id, folder) = (self.client.clone(), id.clone(), folder.to_owned());
        self.removals.spawn(async move {
            let mut pause = Duration::from_millis(10);
            // What is not removed here is by the next worker that starts.
            while pause < Duration::from_secs(10) {
                sleep(pause).await;
                if is_over(&client, &id, order).await {
                    return remove(&folder);
                }
                pause *= 2;
            }
        });
    }

    /// Waits for the removals that are under way, for a short time.
    pub(crate) async fn settle(&self) {
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
            return remove(&self.root);
        }
        // Only if they are empty; who needs them makes them again.
        let _ = fs::remove_dir(&self.root);
        for place in self.above.iter().chain(&self.earlier) {
            let _ = fs::remove_dir(place);
        }
    }

    /// Removes the folders of tasks of this store that completed, or are gone, while no worker was
    /// there to do it. A command that still runs gets SIGKILL after the grace, or after 2 s if that is
    /// shorter.
    pub(crate) fn sweep(&self, grace: Duration) {
        let this = self.clone();
        self.removals.spawn(async move {
            let Ok(entries) = fs::read_dir(&this.root) else {
                return;
            };
            for entry in entries.flatten() {
                let name = entry.file_name();
                let name = name.to_string_lossy();
                let name = name.strip_suffix(".run").unwrap_or(&name);
                if !this.is_of_none(name).await {
                    continue;
                }
                let folder = this.named(name);
                // The task may have ended, or be deleted, before its command has.
                if leftover::is_held(&folder) {
                    continue;
                }
                if let Err(error) = leftover::end(&folder, grace.min(GRACE), pending()).await {
                    warn!(folder = %folder.path.display(), %error, "the command of a task that is over still runs");
                    continue;
                }
                let _ = fs::remove_file(&folder.record);
                remove(&folder.path);
            }
        });
    }

    /// Whether the task that a name stands for has completed or is gone. What is not the name of a
    /// task's folder is left alone.
    async fn is_of_none(&self, name: &str) -> bool {
        let Some((id, order)) = name.rsplit_once('@') else {
            return false;
        };
        let Some(order) = order.parse().ok().filter(|order| *order > 0) else {
            return false;
        };
        match decode(id) {
            Some(id) => is_over(&self.client, &id, order).await,
            // The id was too long for a name, but an order is one task's.
            None => {
                let page = Page {
                    after: order - 1,
                    limit: 1,
                };
                let listed = self.client.list(&Filter::default(), page).await;
                listed.is_ok_and(|records| {
                    let same = records.first().filter(|record| record.order == order);
                    same.is_none_or(has_completed)
                })
            }
        }
    }
}

fn has_completed(record: &TaskRecord) -> bool {
    let state = record.state.as_ref();
    state.is_ok_and(|state| state.code() == Code::Completed)
}

/// Whether the store says that the task with this id and submit order has completed or is gone.
async fn is_over(client: &Client, id: &TaskId, order: u64) -> bool {
    match client.get(id).await {
        Ok(record) => record.order != order || has_completed(&record),
        Err(e) => matches!(e, Error::NotFound { .. }),
    }
}

fn remove(folder: &Path) {
    match fs::remove_dir_all(folder) {
        Ok(()) => debug!(folder = %folder.display(), "removed the folder of a completed task"),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(error) => warn!(folder = %folder.display(), %error, "a folder could not be removed"),
    }
}
