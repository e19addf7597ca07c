//! [`OwnFolder`] and [`Owners`]: files next to a store may have been created by another user (in `/tmp`, say).
//! Folders and files are opened without following a link, and checked after they were opened, so that the file
//! that was checked is the one that is used.

use std::{
    ffi::OsStr,
    fs::{DirBuilder, File, Metadata},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{AT_FDCWD, OFlag, openat},
    sys::stat::{Mode, fchmod, mkdirat},
    unistd::geteuid,
};
use tracing::warn;

const ROOT: u32 = 0;
/// The mode bits for users other than the owner.
const OTHERS: u32 = 0o077;
/// The mode bits with which other users can write.
const OTHERS_WRITE: u32 = 0o022;

/// The users whose folders and files next to a store are trusted: this user, root, and the owner of the store's
/// file, who decides which commands run here anyway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owners([u32; 3]);

impl Owners {
    /// Returns this user and root.
    pub(crate) fn us() -> Self {
        let us = geteuid().as_raw();
        Self([us, us, ROOT])
    }

    /// Returns these users and the owner of this file, if it exists.
    pub(crate) fn of_store(file: &Path) -> Self {
        let Self([us, _, root]) = Self::us();
        let owner = file.metadata().map_or(us, |found| found.uid());
        Self([us, owner, root])
    }

    /// Returns a user other than the one that runs the test.
    #[cfg(test)]
    pub(crate) fn of_another_user() -> Self {
        Self([geteuid().as_raw().wrapping_add(1); 3])
    }

    fn check(self, path: &Path, found: &Metadata) -> io::Result<()> {
        let owner = found.uid();
        if self.0.contains(&owner) {
            return Ok(());
        }
        let reason = format!(
            "belongs to another user (uid {owner}); remove it, or give it to the user of the worker (chown)"
        );
        Err(refused(path, &reason))
    }
}

fn refused(path: &Path, reason: &str) -> io::Error {
    let text = format!("'{}' {reason}", path.display());
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

/// An open folder that belongs to one of the owners.
#[derive(Debug)]
pub(crate) struct OwnFolder {
    folder: File,
    path: PathBuf,
    owners: Owners,
}

/// Opens a folder only to look up names in it, so that its owner need not be able to list it.
#[cfg(any(target_os = "linux", target_os = "android"))]
const LOOK: OFlag = OFlag::O_PATH;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const LOOK: OFlag = OFlag::O_RDONLY;

fn flags(access: OFlag) -> OFlag {
    access | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC
}

impl OwnFolder {
    /// Opens a folder.
    ///
    /// # Errors
    ///
    /// When the folder does not exist, is a link, or belongs to another user.
    pub(crate) fn open(path: &Path, owners: Owners) -> io::Result<Self> {
        let opened = openat(
            AT_FDCWD,
            path,
            flags(LOOK | OFlag::O_DIRECTORY),
            Mode::empty(),
        );
        Self::of(opened, path.to_owned(), owners)
    }

    /// Creates a folder that is only for this user, with its missing parents, or opens the existing one.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open), and when it cannot be created.
    pub(crate) fn make(path: &Path, owners: Owners) -> io::Result<Self> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .or_else(|error| match error.kind() {
                // A dangling link, or a file: opening it reports the error.
                io::ErrorKind::AlreadyExists => Ok(()),
                _ => Err(error),
            })?;
        Self::open(path, owners)
    }

    fn of(
        opened: nix::Result<std::os::fd::OwnedFd>,
        path: PathBuf,
        owners: Owners,
    ) -> io::Result<Self> {
        let folder = opened.map(File::from).map_err(|errno| match errno {
            Errno::ENOTDIR | Errno::ELOOP => refused(
                &path,
                "is a link, or no folder; remove it: links are not followed here",
            ),
            errno => errno.into(),
        })?;
        let found = folder.metadata()?;
        owners.check(&path, &found)?;
        let this = Self {
            folder,
            path,
            owners,
        };
        if found.mode() & OTHERS != 0 {
            this.close_to_others();
        }
        Ok(this)
    }

    fn close_to_others(&self) {
        let narrow = || {
            let flags = flags(OFlag::O_RDONLY | OFlag::O_DIRECTORY);
            let listed = openat(&self.folder, ".", flags, Mode::empty())?;
            fchmod(listed, Mode::S_IRWXU)
        };
        if let Err(error) = narrow() {
            let folder = self.path.display();
            warn!(%folder, %error, "other users can reach the folder, and its mode cannot be changed");
        }
    }

    /// Returns the path of the folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a folder in it.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open).
    pub(crate) fn open_in(&self, name: &OsStr) -> io::Result<Self> {
        let flags = flags(LOOK | OFlag::O_DIRECTORY);
        let opened = openat(&self.folder, name, flags, Mode::empty());
        Self::of(opened, self.path.join(name), self.owners)
    }

    /// Creates a folder in it that is only for this user, or opens the existing one. Returns whether it is new.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open), and when it cannot be created.
    pub(crate) fn make_in(&self, name: &OsStr) -> io::Result<(Self, bool)> {
        let new = match mkdirat(&self.folder, name, Mode::S_IRWXU) {
            Ok(()) => true,
            Err(Errno::EEXIST) => false,
            Err(errno) => return Err(errno.into()),
        };
        Ok((self.open_in(name)?, new))
    }

    /// Opens a file in it to append. Creates the file, readable only for this user, if it does not
    /// exist.
    ///
    /// # Errors
    ///
    /// When it is a link, belongs to another user, or cannot be opened.
    pub(crate) fn append(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CREAT;
        self.file(name, flags).map(|(file, _)| file)
    }

    /// Opens a file in it to read. Only the file's owner may have write access.
    ///
    /// # Errors
    ///
    /// When it is a link, belongs to another user, is writable for other users, or cannot be opened.
    pub(crate) fn read(&self, name: &OsStr) -> io::Result<File> {
        let (file, found) = self.file(name, OFlag::O_RDONLY)?;
        if found.mode() & OTHERS_WRITE != 0 {
            let reason =
                "can be written by other users; remove it, or close it to them (chmod go-w)";
            return Err(refused(&self.path.join(name), reason));
        }
        Ok(file)
    }

    fn file(&self, name: &OsStr, access: OFlag) -> io::Result<(File, Metadata)> {
        // Without this flag, opening a pipe waits for its other end.
        let flags = flags(access | OFlag::O_NONBLOCK);
        let opened = openat(&self.folder, name, flags, Mode::S_IRUSR | Mode::S_IWUSR);
        let path = || self.path.join(name);
        let file = opened.map(File::from).map_err(|errno| match errno {
            Errno::ELOOP => refused(&path(), "is a link; remove it: links are not followed here"),
            errno => errno.into(),
        })?;
        let found = file.metadata()?;
        self.owners.check(&path(), &found)?;
        match found.is_file() {
            true => Ok((file, found)),
            false => Err(refused(&path(), "is not a regular file; remove it")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{PermissionsExt, symlink},
    };

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn reason(error: &io::Error) -> String {
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
        error.to_string()
    }

    #[test]
    fn a_folder_of_another_user_is_refused_and_keeps_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        set(dir.path(), 0o755);
        let refused = OwnFolder::open(dir.path(), Owners::of_another_user()).unwrap_err();
        assert!(reason(&refused).contains("belongs to another user (uid "));
        assert_eq!(mode(dir.path()), 0o755);
        let opened = OwnFolder::open(dir.path(), Owners::us()).unwrap();
        assert_eq!(mode(dir.path()), 0o700, "ours is closed to others");
        let theirs = OwnFolder {
            owners: Owners::of_another_user(),
            ..opened
        };
        fs::create_dir(dir.path().join("in")).unwrap();
        for name in ["in", "new"] {
            let refused = theirs.make_in(name.as_ref()).unwrap_err();
            assert!(
                reason(&refused).contains("belongs to another user"),
                "{refused}"
            );
        }
    }

    #[test]
    fn a_link_is_not_followed_and_what_it_leads_to_is_not_changed() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir(path("target")).unwrap();
        fs::write(path("target/file"), "text").unwrap();
        set(&path("target"), 0o755);
        symlink("target", path("link")).unwrap();
        symlink("nowhere", path("dangling")).unwrap();
        symlink("target/file", path("file")).unwrap();
        let own = OwnFolder::open(dir.path(), Owners::us()).unwrap();
        for name in ["link", "dangling", "file"] {
            for refused in [
                OwnFolder::open(&path(name), Owners::us()).unwrap_err(),
                OwnFolder::make(&path(name), Owners::us()).unwrap_err(),
                own.open_in(name.as_ref()).unwrap_err(),
                own.make_in(name.as_ref()).unwrap_err(),
                own.append(name.as_ref()).unwrap_err(),
                own.read(name.as_ref()).unwrap_err(),
            ] {
                assert!(reason(&refused).contains("is a link"), "{name}");
            }
        }
        assert_eq!(mode(&path("target")), 0o755);
        assert!(!path("nowhere").exists());
    }

    #[test]
    fn a_file_counts_if_it_is_regular_and_only_its_owner_has_written_it() {
        let dir = tempfile::tempdir().unwrap();
        let own = OwnFolder::open(dir.path(), Owners::us()).unwrap();
        let name = OsStr::new("file");
        drop(own.append(name).unwrap());
        let path = dir.path().join("file");
        assert_eq!(mode(&path), 0o600);
        assert!(own.read(name).is_ok());
        for (bits, counts) in [(0o644, true), (0o620, false), (0o602, false)] {
            set(&path, bits);
            assert_eq!(own.read(name).is_ok(), counts, "{bits:o}");
        }
        set(&path, 0o600);
        let theirs = OwnFolder {
            owners: Owners::of_another_user(),
            ..own
        };
        for refused in [theirs.read(name), theirs.append(name)] {
            assert!(reason(&refused.unwrap_err()).contains("belongs to another user"));
        }
        let own = OwnFolder::open(dir.path(), Owners::us()).unwrap();
        nix::unistd::mkfifo(&dir.path().join("pipe"), Mode::S_IRWXU).unwrap();
        let refused = own.read("pipe".as_ref()).unwrap_err();
        assert!(reason(&refused).contains("is not a regular file"));
    }

    #[test]
    fn the_owner_of_the_store_counts_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let us = Owners::us();
        assert_eq!(Owners::of_store(&dir.path().join("none")), us);
        assert_eq!(Owners::of_store(dir.path()), us);
        let (Owners([owner, ..]), Owners([other, ..])) = (us, Owners::of_another_user());
        let shared = Owners([other, owner, other]);
        assert!(OwnFolder::open(dir.path(), shared).is_ok());
    }
}
