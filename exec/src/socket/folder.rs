//! [`Folder`]: the folder of a socket, for this user alone.

use std::{
    env, fs, io,
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    time::Duration,
};

use nix::unistd::geteuid;
use tempfile::TempDir;
use tracing::debug;

/// How the name of a folder begins.
const PREFIX: &str = "windlass-";
/// The name of the socket.
const NAME: &str = "s";
/// How old the folder of an ended worker is when it is removed: a socket refuses connections for a moment after it was made.
const LEFT_FOR: Duration = Duration::from_secs(60);
/// The longest path of a socket, in bytes: the operating system has room for 104 or 108, with the end.
const LONGEST: usize = 103;

/// A folder with a socket. Dropping it removes both.
#[derive(Debug)]
pub(super) struct Folder {
    socket: PathBuf,
    /// Removes the folder.
    _dir: TempDir,
}

impl Folder {
    /// Makes a folder for temporary files, and a socket in it. Removes the folders that killed workers of this user have
    /// left there.
    pub(super) fn make() -> io::Result<(Self, UnixListener)> {
        let base = env::temp_dir();
        match Self::make_in(&base) {
            // Some programs have a long folder of their own.
            Err(_) if base != Path::new("/tmp") => Self::make_in(Path::new("/tmp")),
            made => made,
        }
    }

    pub(super) fn make_in(base: &Path) -> io::Result<(Self, UnixListener)> {
        remove_left(base, LEFT_FOR);
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX);
        let dir = builder
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir_in(base)?;
        let socket = dir.path().join(NAME);
        if socket.as_os_str().len() > LONGEST {
            let reason = format!("'{}' is too long for a socket", socket.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        // Under its own name, so that programs which clean folders of temporary files see that it is in use.
        let listener = UnixListener::bind(&socket)?;
        listener.set_nonblocking(true)?;
        Ok((Self { socket, _dir: dir }, listener))
    }

    /// Returns the path of the socket.
    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }
}

/// Removes the folders whose worker has ended without removing them.
fn remove_left(base: &Path, left_for: Duration) {
    let Ok(entries) = fs::read_dir(base) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name.as_encoded_bytes().starts_with(PREFIX.as_bytes())
            && is_left(&entry.path(), left_for)
        {
            let removed = fs::remove_dir_all(entry.path());
            debug!(folder = %entry.path().display(), ?removed, "the socket of an ended worker");
        }
    }
}

fn is_left(folder: &Path, left_for: Duration) -> bool {
    let is_old = |found: &fs::Metadata| {
        let age = found.modified().map(|at| at.elapsed().unwrap_or_default());
        age.is_ok_and(|age| age >= left_for)
    };
    let is_ours = fs::symlink_metadata(folder)
        .is_ok_and(|found| found.is_dir() && found.uid() == geteuid().as_raw() && is_old(&found));
    let refused = || UnixStream::connect(folder.join(NAME)).map_err(|error| error.kind());
    is_ours && matches!(refused(), Err(io::ErrorKind::ConnectionRefused))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_closed_to_others_and_removed_at_the_end() {
        let base = tempfile::tempdir().unwrap();
        let (folder, listener) = Folder::make_in(base.path()).unwrap();
        let path = folder.socket().to_owned();
        let mode = fs::metadata(path.parent().unwrap()).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700);
        UnixStream::connect(&path).unwrap();
        drop((folder, listener));
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_next_worker_removes_what_a_killed_one_left_and_nothing_else() {
        let base = tempfile::tempdir().unwrap();
        let (living, _listener) = Folder::make_in(base.path()).unwrap();
        let left = base.path().join("windlass-left");
        fs::create_dir(&left).unwrap();
        drop(UnixListener::bind(left.join(NAME)).unwrap());
        let starting = base.path().join("windlass-starting");
        fs::create_dir(&starting).unwrap();
        let other = base.path().join("other");
        fs::create_dir(&other).unwrap();
        drop(UnixListener::bind(other.join(NAME)).unwrap());
        remove_left(base.path(), LEFT_FOR);
        assert!(left.exists(), "another worker may be starting");
        remove_left(base.path(), Duration::ZERO);
        assert!(!left.exists());
        for kept in [living.socket(), &starting, &other] {
            assert!(kept.exists(), "{}", kept.display());
        }
    }

    #[test]
    fn a_path_that_is_too_long_for_a_socket_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let long = base.path().join("x".repeat(100));
        fs::create_dir(&long).unwrap();
        let refused = Folder::make_in(&long).unwrap_err().to_string();
        assert!(refused.contains("too long for a socket"), "{refused}");
        assert_eq!(fs::read_dir(&long).unwrap().count(), 0);
    }
}
