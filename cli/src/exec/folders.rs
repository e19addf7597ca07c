//! [`Folders`]: a folder per task, where its command keeps its own progress from attempt to attempt.
//!
//! They lie beside the store: for `sqlite:/var/lib/jobs.db` in `/var/lib/jobs.db.tasks/`; for etcd in
//! the user's data directory, in a folder named after the store's URL (each machine has its own); for
//! `memory:` in the folder for temporary files. A folder is removed when its task has completed
//! (durably: a crash in between must not take the progress of a task that will run again), or, if it
//! is empty, after any attempt.

use std::{
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::time::sleep;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};
use windlass::{Client, Code, TaskId, store::Error};

use super::leftover;

/// The longest name of a folder; file systems take 255 bytes, and a record has an ending besides.
const LONGEST: usize = 200;

/// The folders of the tasks of one store.
#[derive(Debug, Clone)]
pub(crate) struct Folders {
    root: PathBuf,
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

/// Where this machine keeps the folders of the tasks of a cluster: whoever works for it here, and
/// starts again after a crash, finds them by the URL.
fn of_cluster(url: &str) -> io::Result<PathBuf> {
    let dirs = directories::ProjectDirs::from("", "", "windlass");
    let dirs = dirs.ok_or_else(|| {
        let reason = "you have no home directory; set HOME, or XDG_DATA_HOME";
        io::Error::new(io::ErrorKind::NotFound, reason)
    })?;
    let name = url.rsplit('/').next().unwrap_or_default();
    let hash = crate::hash::hex(&[url.as_bytes()], 12);
    let name = format!("{}-{hash}.tasks", encode(name));
    Ok(dirs.data_dir().join(name))
}

impl Folders {
    /// The folders that belong to the store with this URL.
    ///
    /// # Errors
    ///
    /// When the folder they lie in cannot be made.
    pub(crate) fn of_store(url: &str, client: &Client) -> io::Result<Self> {
        let root = match url.split_once(':') {
            Some(("sqlite", path)) => PathBuf::from(format!("{path}.tasks")),
            Some(("etcd" | "etcds", _)) => of_cluster(url)?,
            _ => std::env::temp_dir().join(format!("windlass-{}.tasks", std::process::id())),
        };
        fs::create_dir_all(&root)?;
        Ok(Self {
            // Two workers with different working folders have to mean the same by it.
            root: root.canonicalize()?,
            client: client.clone(),
            removals: TaskTracker::new(),
        })
    }

    fn folder(&self, id: &TaskId) -> Folder {
        let name = encode(id.as_str());
        Folder {
            record: self.root.join(format!("{name}.run")),
            path: self.root.join(name),
        }
    }

    /// Makes the folder of a task, if there is none.
    pub(crate) fn prepare(&self, id: &TaskId) -> io::Result<Folder> {
        let folder = self.folder(id);
        fs::create_dir_all(&folder.path)?;
        Ok(folder)
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
    pub(crate) fn retire(&self, id: &TaskId, folder: &Path, completes: bool) {
        if fs::remove_dir(folder).is_ok() || !completes {
            return;
        }
        let (client, id, folder) = (self.client.clone(), id.clone(), folder.to_owned());
        self.removals.spawn(async move {
            let mut pause = Duration::from_millis(10);
            // What is not removed here is by the next worker that starts.
            while pause < Duration::from_secs(10) {
                sleep(pause).await;
                if is_over(&client, &id).await {
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
        // Only if it is empty; who needs it makes it again.
        let _ = fs::remove_dir(&self.root);
    }

    /// Removes the folders of tasks that completed, or are gone, while no worker was there to do it.
    pub(crate) fn sweep(&self) {
        let this = self.clone();
        self.removals.spawn(async move {
            let Ok(entries) = fs::read_dir(&this.root) else {
                return;
            };
            for entry in entries.flatten() {
                let name = entry.file_name();
                let name = name.to_string_lossy();
                let Some(id) = decode(name.strip_suffix(".run").unwrap_or(&name)) else {
                    continue;
                };
                let folder = this.folder(&id);
                // The task may have ended, or be deleted, before its command has.
                if !leftover::is_held(&folder) && is_over(&this.client, &id).await {
                    let _ = fs::remove_file(&folder.record);
                    remove(&folder.path);
                }
            }
        });
    }
}

async fn is_over(client: &Client, id: &TaskId) -> bool {
    match client.get(id).await {
        Ok(record) => record.state.is_ok_and(|s| s.code() == Code::Completed),
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

/// An id as the name of a folder: it may be longer than a name can be, and file systems that do not
/// tell `A` from `a` must not take two tasks for one.
fn encode(id: &str) -> String {
    let mut name = String::with_capacity(id.len());
    for (at, byte) in id.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => name.push(byte as char),
            b'.' if at > 0 => name.push('.'),
            byte => {
                let _ = write!(name, "%{byte:02x}");
            }
        }
    }
    // A record's name is that of its folder with an ending.
    if name.len() > LONGEST || name.ends_with(".run") {
        let hash = crate::hash::hex(&[id.as_bytes()], 32);
        name.truncate(LONGEST - 40);
        name.push('=');
        name.push_str(&hash);
    }
    name
}

/// The id that a name stands for; `None` when it was shortened.
fn decode(name: &str) -> Option<TaskId> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            b'=' => return None,
            byte => byte,
        });
    }
    TaskId::new(String::from_utf8(bytes).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_id_has_a_name_of_its_own() {
        let long = "ü".repeat(128);
        let longer = format!("{}a", "x".repeat(255));
        let ids = ["a", "A", "a.run", "a b", "...", "%41", "=", &long, &longer];
        let mut names = HashSet::new();
        for id in ids {
            let name = encode(id);
            assert!(name.len() <= LONGEST && !name.starts_with('.'), "{name}");
            assert!(!name.contains('/') && name.to_lowercase() == name, "{name}");
            assert!(names.insert(name.clone()), "{id}");
            if !name.contains('=') {
                assert_eq!(decode(&name).unwrap().as_str(), id);
            }
        }
    }
}
