//! The Unix socket of a server: only for its user, and never two servers on one.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use nix::unistd::geteuid;
use tokio::net::UnixListener;
use windlass::store::Error;

/// The most bytes of the path of a socket: the operating system has room for 108 with the end.
const LONGEST: usize = 107;

/// A socket that listens. Dropping it removes the file.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) listener: UnixListener,
    path: PathBuf,
    /// Locked as long as the socket is ours.
    _lock: File,
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn unusable(path: &Path, what: impl std::fmt::Display) -> Error {
    Error::Unusable(format!("socket {}: {what}", path.display()))
}

impl Socket {
    /// Listens at a path. Its folder is created for our user alone, or has to be ours and closed to others: the socket is
    /// protected by it from the first moment.
    pub(crate) fn bind(path: &Path) -> Result<Self, Error> {
        let bytes = path.as_os_str().len();
        if bytes > LONGEST {
            let what = format!(
                "its path has {bytes} bytes, and the operating system allows {LONGEST}; give a shorter one"
            );
            return Err(unusable(path, what));
        }
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let Some(folder) = folder else {
            let what = "give a path with a folder, such as ./run/windlass.sock; the folder must be closed to other users";
            return Err(unusable(path, what));
        };
        let created = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        created
            .map_err(|error| unusable(path, format!("its folder cannot be created: {error}")))?;
        check_folder(folder).map_err(|what| unusable(path, what))?;
        let lock = lock(path)?;
        remove_stale(path)?;
        let listener = UnixListener::bind(path).map_err(|error| unusable(path, error))?;
        Ok(Self {
            listener,
            path: path.to_owned(),
            _lock: lock,
        })
    }
}

impl Socket {
    /// Returns the path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Returns whether a user may use the socket: our own, and the superuser.
pub(crate) fn may_use(uid: u32) -> bool {
    uid == geteuid().as_raw() || uid == 0
}

fn check_folder(folder: &Path) -> Result<(), String> {
    let shown = folder.display();
    // The folder itself, not what a link points to.
    let found = fs::symlink_metadata(folder).map_err(|error| format!("folder {shown}: {error}"))?;
    if !found.is_dir() {
        return Err(format!(
            "{shown} is not a folder, or a link to one; give the folder itself"
        ));
    }
    let own = geteuid().as_raw();
    if found.uid() != own {
        let owner = found.uid();
        return Err(format!(
            "folder {shown} belongs to user {owner}, not to us ({own}); use a folder of your own"
        ));
    }
    let mode = found.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(format!(
            "folder {shown} is open to other users (mode {mode:03o}); close it (chmod 700 {shown}), or use another one"
        ));
    }
    check_above(folder)
}

/// Refuses a folder below one in which other users can rename it, and put another one in its place.
fn check_above(folder: &Path) -> Result<(), String> {
    let own = geteuid().as_raw();
    let real = folder.canonicalize();
    let real = real.map_err(|error| format!("folder {}: {error}", folder.display()))?;
    for above in real.ancestors().skip(1) {
        let shown = above.display();
        let found = fs::metadata(above).map_err(|error| format!("folder {shown}: {error}"))?;
        let mode = found.mode();
        // A group with the number of its only user is that user.
        let is_shared = mode & 0o002 != 0 || mode & 0o020 != 0 && found.gid() != own;
        let is_sticky = mode & 0o1000 != 0;
        let is_trusted = found.uid() == own || found.uid() == 0;
        if !is_trusted || is_shared && !is_sticky {
            let owner = found.uid();
            return Err(format!(
                "other users can rename the folders in {shown} (user {owner}, mode {:04o}); use a path below folders of your \
                 own or of root",
                mode & 0o7777
            ));
        }
    }
    Ok(())
}

/// Locks the path, so that of two servers one has the socket, and a socket that is left behind differs from one in use.
fn lock(path: &Path) -> Result<File, Error> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .custom_flags(nix::fcntl::OFlag::O_NOFOLLOW.bits())
        .open(&name)
        .map_err(|error| unusable(path, format!("its lock file cannot be opened: {error}")))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(unusable(
            path,
            "another server uses it; stop that one, or give another path",
        )),
        Err(fs::TryLockError::Error(error)) => {
            Err(unusable(path, format!("cannot be locked: {error}")))
        }
    }
}

fn remove_stale(path: &Path) -> Result<(), Error> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(unusable(path, error)),
        Ok(found) if found.file_type().is_socket() => {
            fs::remove_file(path).map_err(|error| unusable(path, error))
        }
        Ok(_) => Err(unusable(
            path,
            "there is a file of another kind; remove it, or give another path",
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    type Tested = Result<(), Box<dyn std::error::Error>>;

    fn refusal(path: &Path) -> String {
        match Socket::bind(path) {
            Ok(_) => "it listens".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[tokio::test]
    async fn a_socket_is_closed_to_others_from_the_first_moment() -> Tested {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("run/windlass.sock");
        let socket = Socket::bind(&path)?;
        let folder = fs::metadata(dir.path().join("run"))?;
        assert_eq!(folder.permissions().mode() & 0o777, 0o700);
        let busy = refusal(&path);
        assert!(busy.contains("another server uses it"), "{busy}");
        drop(socket);
        assert!(!path.exists(), "the file is removed");
        Ok(())
    }

    #[tokio::test]
    async fn a_socket_that_was_left_behind_is_replaced_and_another_file_is_not() -> Tested {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("run/windlass.sock");
        fs::create_dir(dir.path().join("run"))?;
        fs::set_permissions(dir.path().join("run"), fs::Permissions::from_mode(0o700))?;
        drop(std::os::unix::net::UnixListener::bind(&path)?);
        assert!(path.exists());
        drop(Socket::bind(&path)?);
        fs::write(&path, "text")?;
        let refused = refusal(&path);
        assert!(refused.contains("a file of another kind"), "{refused}");
        assert_eq!(fs::read_to_string(&path)?, "text");
        Ok(())
    }

    #[tokio::test]
    async fn a_folder_that_others_can_use_is_refused() -> Tested {
        let dir = tempfile::tempdir()?;
        let open = dir.path().join("open");
        fs::create_dir(&open)?;
        fs::set_permissions(&open, fs::Permissions::from_mode(0o750))?;
        let refused = refusal(&open.join("s"));
        assert!(
            refused.contains("is open to other users (mode 750)"),
            "{refused}"
        );
        let own = dir.path().join("own");
        fs::create_dir(&own)?;
        fs::set_permissions(&own, fs::Permissions::from_mode(0o700))?;
        let link = dir.path().join("link");
        symlink(&own, &link)?;
        let refused = refusal(&link.join("s"));
        assert!(
            refused.contains("is not a folder, or a link to one"),
            "{refused}"
        );
        symlink("/dev/null", own.join("s.lock"))?;
        let refused = refusal(&own.join("s"));
        assert!(refused.contains("lock file"), "{refused}");
        Ok(())
    }

    #[tokio::test]
    async fn a_folder_that_others_can_rename_is_refused() -> Tested {
        let dir = tempfile::tempdir()?;
        let shared = dir.path().join("shared");
        let own = shared.join("own");
        fs::create_dir_all(&own)?;
        fs::set_permissions(&own, fs::Permissions::from_mode(0o700))?;
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o777))?;
        let refused = refusal(&own.join("s"));
        assert!(
            refused.contains("other users can rename the folders"),
            "{refused}"
        );
        // As /tmp is: only the owner of a folder may rename it.
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777))?;
        drop(Socket::bind(&own.join("s"))?);
        Ok(())
    }

    #[test]
    fn a_path_that_is_too_long_or_has_no_folder_is_refused() {
        let long = refusal(Path::new(&format!("/tmp/{}", "x".repeat(110))));
        assert!(long.contains("has 115 bytes"), "{long}");
        let bare = refusal(Path::new("windlass.sock"));
        assert!(bare.contains("give a path with a folder"), "{bare}");
    }
}
