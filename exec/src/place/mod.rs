//! Where this machine keeps the files that belong to a store, and how such files are made.

mod own;
mod removal;

use std::{
    ffi::OsStr,
    fs,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use windlass::store::sqlite::Location;

pub(crate) use self::{
    own::{OwnFolder, Owners},
    removal::remove_all,
};

/// A folder of a store.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The folder. It is named after the store's identity.
    pub(crate) root: PathBuf,
    /// The folder around `root`, if it holds nothing but the folders of stores.
    pub(crate) above: Option<PathBuf>,
    /// The users whose folders and files in it are trusted.
    pub(crate) owners: Owners,
}

impl Place {
    /// Returns the folder with this ending (`tasks`, say) of the store with this URL and identity:
    /// next to the file of SQLite, or in the user's data directory for etcd. `None` for the store
    /// in memory.
    ///
    /// # Errors
    ///
    /// When the file of the store, or the data directory, cannot be found.
    pub(crate) fn of(url: &str, identity: &str, ending: &str) -> io::Result<Option<Self>> {
        if let Some(file) = Location::of(url) {
            let file = canonical(file.path())?;
            let above = beside(&file, ending);
            return Ok(Some(Self {
                owners: Owners::of_store(&file),
                root: above.join(format!("store={identity}")),
                above: Some(above),
            }));
        }
        Ok(match url.split_once(':') {
            Some(("etcd" | "etcds", _)) => {
                let root = data_dir()?.join(format!("{identity}.{ending}"));
                Some(Self::private(root))
            }
            _ => None,
        })
    }

    /// Returns the place that is this folder, in a folder of this user.
    pub(crate) fn private(root: PathBuf) -> Self {
        Self {
            root,
            above: None,
            owners: Owners::us(),
        }
    }

    /// Creates the missing folders of the place, accessible only to this user, and opens the innermost one.
    /// Removes the access of other users to existing folders.
    ///
    /// # Errors
    ///
    /// When a folder belongs to another user, is a link, or cannot be made.
    pub(crate) fn make(&self) -> io::Result<OwnFolder> {
        again_if_removed(|| self.make_once())
    }

    /// Creates a folder in the innermost folder, and opens it. Returns whether it is new.
    ///
    /// # Errors
    ///
    /// The errors of [`make`](Self::make).
    pub(crate) fn make_in(&self, name: &OsStr) -> io::Result<(OwnFolder, bool)> {
        again_if_removed(|| self.make_once()?.make_in(name))
    }

    fn make_once(&self) -> io::Result<OwnFolder> {
        match (&self.above, self.root.file_name()) {
            (Some(above), Some(name)) => {
                let above = OwnFolder::make(above, self.owners)?;
                above.make_in(name).map(|(root, _)| root)
            }
            _ => OwnFolder::make(&self.root, self.owners),
        }
    }
}

/// Returns the path of the folder with this ending next to a file.
pub(crate) fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    PathBuf::from(name)
}

/// Returns the folder in which this machine keeps the files of etcd stores.
///
/// # Errors
///
/// When the user has no home directory.
pub(crate) fn data_dir() -> io::Result<PathBuf> {
    let dirs = directories::ProjectDirs::from("", "", "windlass");
    let dirs = dirs.ok_or_else(|| {
        let reason = "you have no home directory; set HOME, or XDG_DATA_HOME";
        io::Error::new(io::ErrorKind::NotFound, reason)
    })?;
    Ok(dirs.data_dir().to_owned())
}

/// Returns the path without links. The file itself need not exist, but its folder must.
fn canonical(path: &Path) -> io::Result<PathBuf> {
    path.canonicalize().or_else(|error| {
        let path = std::path::absolute(path)?;
        match (path.parent(), path.file_name()) {
            (Some(folder), Some(name)) => Ok(folder.canonicalize()?.join(name)),
            _ => Err(error),
        }
    })
}

/// How often to create a folder that another process keeps removing.
const TRIES: usize = 50;

/// Creates a folder again if another process removed it: a worker that ends removes empty folders. The system
/// reports a removed folder as *not found*, or as *exists* when the removal came between that answer and the check.
fn again_if_removed<T>(mut make: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut made = make();
    for _ in 1..TRIES {
        let removed = |error: &io::Error| {
            let kind = error.kind();
            kind == io::ErrorKind::NotFound || kind == io::ErrorKind::AlreadyExists
        };
        match &made {
            Err(error) if removed(error) => made = make(),
            _ => break,
        }
    }
    made
}

/// Adds the path to an error of the system, unless the error (one of [`own`]) names the path
/// already.
pub(crate) fn named(path: &Path, error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(_) => io::Error::new(error.kind(), format!("'{}': {error}", path.display())),
        None => error,
    }
}

/// Creates or replaces a file that only this user can read, and returns it open.
///
/// # Errors
///
/// When it cannot be written.
pub(crate) fn write_private(path: &Path, text: &[u8]) -> io::Result<fs::File> {
    match write_new_private(path, text) {
        // An existing file would keep its mode.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            write_new_private(path, text)
        }
        written => written,
    }
}

/// Like [`write_private`], but only if no file has that name.
///
/// # Errors
///
/// When something has that name, or the file cannot be written.
pub(crate) fn write_new_private(path: &Path, text: &[u8]) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(path)?;
    file.write_all(text)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker that starts creates the folder while others, which end, remove it. Each failed attempt
    /// requires at least one removal, so with fewer removals than attempts the folder must be created.
    #[test]
    fn a_folder_that_others_remove_while_it_is_made_is_made() {
        use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
        let folder = tempfile::tempdir().unwrap();
        let above = folder.path().join("a.db.tasks");
        let root = above.join("store=1");
        let place = Place {
            root: root.clone(),
            above: Some(above.clone()),
            owners: Owners::us(),
        };
        let done = AtomicBool::new(false);
        let left = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(SeqCst) {
                    for path in [&root, &above] {
                        let may = left.load(SeqCst) > 0;
                        if may && fs::remove_dir(path).is_ok() {
                            // The main thread may set a new number at this moment; the number must not
                            // go below zero.
                            let _ = left.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1));
                        }
                    }
                }
            });
            let mut made = Vec::new();
            for _ in 0..1_000 {
                left.store(TRIES / 2, SeqCst);
                made.push(place.make());
            }
            done.store(true, SeqCst);
            for made in made {
                made.unwrap();
            }
        });
    }
}
