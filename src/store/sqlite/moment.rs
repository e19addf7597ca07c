//! One moment of the whole file, for an export: a private copy, which is read instead of the file.
//!
//! A long read of the file itself would keep its log from being shortened, and so hold up every writer. The copy is made in
//! one read transaction, like a backup. Its folder is removed as soon as the copy is open: it has no name while it is
//! read, so it disappears with the process, however that ends.

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use rusqlite::{
    Connection,
    backup::{Backup as Copying, StepResult},
};
use windlass_statemachine::{TaskId, text::of_io};

use super::{
    Options, SqliteStore, all_failed,
    backup::create,
    errors::{self, Stop},
    file::beside,
    node, open, read_counts,
    settings::Settings,
    space, transfer,
};
use crate::{
    MachineFault,
    store::{
        Error, Exported, Moment, NodeRecord, PastTasks,
        copy::{OUTSIDE, Outside},
    },
};

/// What the operation is called in errors.
const VERB: &str = "export the store";
/// What the name of the folder beside the store begins with, after that of the file.
const FOLDER: &str = ".export-";
/// What the name of the folder begins with in the folder for temporary files.
const TEMPORARY: &str = "windlass";
/// How old a folder for temporary files is at least before another export removes it: an export may have made its copy and not
/// yet locked it.
const OLD: Duration = Duration::from_secs(60);
/// The name of the copy in its folder.
const COPY: &str = "copy.db";
/// How many bytes stay free on the disk of the store, whose log grows meanwhile.
const RESERVE: u64 = 64 << 20;
/// How many bytes stay free on another disk.
const ROOM: u64 = 1 << 20;

/// The copy, without a name.
struct Copied {
    path: Arc<Path>,
    conn: Arc<Mutex<Connection>>,
}

/// What is read of the copy at once.
struct Found {
    conn: Connection,
    ids: Vec<TaskId>,
    outside: Vec<Outside>,
    nodes: Vec<NodeRecord>,
    claimed: u64,
}

impl SqliteStore {
    /// Copies the file to a private place, and returns its state from there.
    pub(super) async fn at_one_moment(&self) -> Result<Moment, Error> {
        self.look_for_ended_leases().await?;
        let (store, clock) = (self.0.path.clone(), self.0.lease_clock.clone());
        let read = move |conn: &Connection| {
            let conn = copy(conn, &store)?;
            let counts = read_counts::states(&conn)?;
            Ok(Found {
                ids: transfer::ids(&conn)?,
                outside: transfer::outside(&conn, OUTSIDE)?,
                nodes: node::nodes(&conn, &clock)?,
                claimed: counts.iter().map(|count| count.claimed).sum(),
                conn,
            })
        };
        let found = self.0.readers.run(VERB, read).await?;
        let copied = Copied {
            path: self.0.path.clone(),
            conn: Arc::new(Mutex::new(found.conn)),
        };
        let mut moment = Moment::new(found.ids, copied);
        moment.outside = found.outside;
        moment.nodes = found.nodes;
        moment.claimed = found.claimed;
        Ok(moment)
    }
}

#[async_trait]
impl PastTasks for Copied {
    async fn export(&self, ids: &[TaskId]) -> Vec<Result<Exported, Error>> {
        let (count, ids, conn) = (ids.len(), ids.to_vec(), self.conn.clone());
        let read = move || {
            let conn = conn.lock().unwrap_or_else(PoisonError::into_inner);
            let one = |id| errors::item(transfer::export(&conn, id));
            ids.iter().map(one).collect::<Result<Vec<_>, _>>()
        };
        let failed = |error: &Error| all_failed(count, error);
        match tokio::task::spawn_blocking(read).await {
            Ok(Ok(tasks)) => tasks,
            Ok(Err(error)) => failed(&errors::running(&self.path, VERB, &error)),
            Err(error) => failed(&Error::unavailable_by(VERB, error)),
        }
    }
}

/// Copies the state that the present transaction sees, and opens the copy. Its folder is gone when this returns.
fn copy(conn: &Connection, store: &Path) -> Result<Connection, Stop> {
    let number = |name| conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let bytes = (number("page_count")? * number("page_size")?).unsigned_abs();
    let folder = Folder::of(store, bytes)?;
    let path = folder.path.join(COPY);
    let failed = |error: rusqlite::Error| match space::fault_of(&path) {
        Some(MachineFault::DiskFull) => {
            Stop::Refused(full(bytes, &[folder.path.display().to_string()]))
        }
        _ => error.into(),
    };
    let file = create(&path).map_err(|e| Error::unavailable(VERB, of_io(&e)))?;
    // For `remove_old`. Where files cannot be locked, an old folder stays.
    let _ = file.try_lock();
    let settings = Settings::of(&Options::default());
    let mut target = open::empty(&path, settings).map_err(failed)?;
    // Nobody reads the copy after a crash.
    for (setting, off) in [("synchronous", "OFF"), ("journal_mode", "OFF")] {
        target.pragma_update(None, setting, off).map_err(failed)?;
    }
    let copied = Copying::new(conn, &mut target).and_then(|copying| copying.step(-1));
    match copied.map_err(failed)? {
        StepResult::Done => {}
        _ => {
            let reason = "another program has locked the file; try again";
            return Err(Error::unavailable(VERB, reason).into());
        }
    }
    drop(target);
    open::private(&path, settings).map_err(failed)
}

fn full(bytes: u64, places: &[String]) -> Error {
    let reason = format!(
        "it is first copied to a private file of {bytes} bytes, and there is no room for that: {}; free space, or name a \
         folder on another disk with the variable TMPDIR",
        places.join("; ")
    );
    Error::unavailable(VERB, reason)
}

/// A folder that only this user can enter, with the copy. It is removed with everything in it.
struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Creates the folder beside the store or, if that fails or lacks room, in the folder for temporary files.
    fn of(store: &Path, bytes: u64) -> Result<Self, Error> {
        remove_old(store);
        let name = format!("{FOLDER}{}", crate::unique_id::new());
        let temporary = env::temp_dir();
        // Exports of other stores begin there, too.
        remove_old_of(&temporary, TEMPORARY, OLD);
        let temporary = temporary.join(format!("{TEMPORARY}{name}"));
        let mut reasons = Vec::new();
        for (path, reserve) in [(beside(store, &name), RESERVE), (temporary, ROOM)] {
            let parent = path.parent().unwrap_or(&path).display().to_string();
            if let Some(free) =
                space::free(&path).filter(|free| *free < bytes.saturating_add(reserve))
            {
                reasons.push(format!(
                    "'{parent}' has {free} bytes free, and {reserve} stay free there"
                ));
                continue;
            }
            match create_folder(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) => reasons.push(format!("'{parent}': {}", of_io(&error))),
            }
        }
        Err(full(bytes, &reasons))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

fn remove(folder: &Path) {
    if let Err(error) = fs::remove_dir_all(folder) {
        let folder = folder.display();
        tracing::warn!(%error, %folder, "could not remove the private copy of an export; delete the folder");
    }
}

/// Removes the folders that exports left when their process was killed while it copied.
fn remove_old(store: &Path) {
    let begins = store.file_name().and_then(|name| name.to_str());
    let (Some(name), Some(parent)) = (begins, store.parent()) else {
        return;
    };
    remove_old_of(parent, name, Duration::ZERO);
}

/// Removes such folders in a folder, if they were made this long ago. The names begin like this.
fn remove_old_of(parent: &Path, name: &str, age: Duration) {
    let begins = format!("{name}{FOLDER}");
    let has_age = |of: &fs::Metadata| {
        let made = of.modified().ok().and_then(|at| at.elapsed().ok());
        age.is_zero() || made.is_some_and(|made| made >= age)
    };
    let is_old = |folder: &Path| {
        let name = folder.file_name().and_then(|name| name.to_str());
        // A live export has its copy locked.
        name.is_some_and(|name| name.starts_with(&begins))
            && folder
                .symlink_metadata()
                .is_ok_and(|of| of.is_dir() && is_own(&of) && has_age(&of))
            && own_file(&folder.join(COPY)).is_some_and(|copy| copy.try_lock().is_ok())
    };
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if is_old(&entry.path()) {
            remove(&entry.path());
        }
    }
}

/// Opens a file of this user. Other users may have made something of this name: no link is followed, and no open waits.
fn own_file(path: &Path) -> Option<fs::File> {
    if !path
        .symlink_metadata()
        .is_ok_and(|of| of.is_file() && is_own(&of))
    {
        return None;
    }
    let mut options = fs::File::options();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        (nix::fcntl::OFlag::O_NOFOLLOW | nix::fcntl::OFlag::O_NONBLOCK).bits(),
    );
    options.open(path).ok()
}

/// Returns whether a file or folder is one of this user.
fn is_own(found: &fs::Metadata) -> bool {
    #[cfg(unix)]
    {
        std::os::unix::fs::MetadataExt::uid(found) == nix::unistd::geteuid().as_raw()
    }
    #[cfg(not(unix))]
    {
        let _ = found;
        true
    }
}

fn create_folder(path: &Path) -> std::io::Result<()> {
    let mut folder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
    folder.create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_copy_is_private_and_goes_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("tasks.db");
        let private = Folder::of(&store, 1).unwrap();
        assert_eq!(private.path.parent(), Some(folder.path()));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = private.path.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700);
        }
        fs::write(private.path.join(COPY), "copy").unwrap();
        let path = private.path.clone();
        drop(private);
        assert!(!path.exists());
    }

    #[test]
    fn a_copy_without_room_is_refused_with_the_places_and_what_helps() {
        let folder = tempfile::tempdir().unwrap();
        let refused = Folder::of(&folder.path().join("tasks.db"), 1 << 60).map(|_| ());
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("there is no room for that"), "{text}");
        assert!(
            text.contains(&folder.path().display().to_string()),
            "{text}"
        );
        assert!(
            text.contains(&env::temp_dir().display().to_string()),
            "{text}"
        );
        assert!(text.contains("TMPDIR"), "{text}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_store_whose_folder_is_gone_is_copied_to_the_temporary_folder() {
        let store = Path::new("/nonexistent-folder-of-a-store/tasks.db");
        let private = Folder::of(store, 1).unwrap();
        assert_eq!(private.path.parent(), Some(&*env::temp_dir()));
    }

    #[test]
    fn the_folder_of_a_live_export_stays() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("tasks.db");
        let live = Folder::of(&store, 1).unwrap();
        let copy = create(&live.path.join(COPY)).unwrap();
        copy.try_lock().unwrap();
        let another = Folder::of(&store, 1).unwrap();
        assert!(live.path.join(COPY).exists());
        drop(another);
        // Its process was killed.
        drop(copy);
        let path = live.path.clone();
        std::mem::forget(live);
        drop(Folder::of(&store, 1).unwrap());
        assert!(!path.exists());
    }

    /// Regression: a killed export left its copy in the folder for temporary files for ever.
    #[test]
    fn a_copy_of_a_killed_export_is_removed_among_temporary_files_too() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str| {
            let path = folder.path().join(name);
            create_folder(&path).unwrap();
            (create(&path.join(COPY)).unwrap(), path)
        };
        let (live, live_path) = of("windlass.export-live");
        live.lock().unwrap();
        let (_, killed) = of("windlass.export-killed");
        let (_, other) = of("other.export-x");
        remove_old_of(folder.path(), TEMPORARY, OLD);
        assert!(killed.exists(), "it may be locked in a moment");
        remove_old_of(folder.path(), TEMPORARY, Duration::ZERO);
        assert!(live_path.exists() && other.exists() && !killed.exists());
    }

    /// Regression: anybody could let every export wait for ever, by a pipe of this name, and have it open any file.
    #[cfg(unix)]
    #[test]
    fn what_is_no_file_of_this_user_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str| {
            let path = folder.path().join(name);
            create_folder(&path).unwrap();
            path.join(COPY)
        };
        let pipe = of("windlass.export-pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let link = of("windlass.export-link");
        std::os::unix::fs::symlink(&pipe, &link).unwrap();
        remove_old_of(folder.path(), TEMPORARY, Duration::ZERO);
        assert!(pipe.exists() && link.symlink_metadata().is_ok());
    }
}
