//! The identity and the length of a file, read without its times.
//!
//! Since 6.13, Linux gives a file a new time with each write that follows a read of its times; otherwise
//! the writes of a few milliseconds share one. A file system without a journal then writes the inode with
//! each sync: a second write for each transaction. So the files of a store are examined without their
//! times.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Identifies a file, whatever its name. The numbers are not reused while the file is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

/// Returns the identity of the file with this name, without following a symbolic link, because the logs of a
/// file are next to its own name. `None` if files have no such numbers; then only a missing file is noticed.
///
/// # Errors
///
/// The file does not exist, or the system does not show it.
pub(super) fn identity(path: &Path) -> io::Result<Option<Identity>> {
    #[cfg(target_os = "linux")]
    if let Some(found) = linux::identity(path)? {
        return Ok(Some(found));
    }
    let found = fs::symlink_metadata(path)?;
    Ok(identity_of(&found))
}

#[cfg(unix)]
#[allow(clippy::unnecessary_wraps, reason = "other systems have none")]
fn identity_of(found: &fs::Metadata) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;

    Some(Identity {
        device: found.dev(),
        inode: found.ino(),
    })
}

#[cfg(not(unix))]
fn identity_of(_: &fs::Metadata) -> Option<Identity> {
    None
}

/// Returns the length of a file; 0 when there is none.
pub(super) fn length(path: &Path) -> u64 {
    #[cfg(target_os = "linux")]
    if let Some(length) = linux::length(path) {
        return length;
    }
    fs::metadata(path).map_or(0, |file| file.len())
}

#[cfg(target_os = "linux")]
mod linux {
    use std::{io, path::Path};

    use rustix::{
        fs::{AtFlags, CWD, Statx, StatxFlags, makedev, statx},
        io::Errno,
    };

    use super::Identity;

    /// Returns `None` if the system cannot report only these fields.
    fn look(path: &Path, how: AtFlags, what: StatxFlags) -> io::Result<Option<Statx>> {
        match statx(CWD, path, how, what) {
            Ok(found) if StatxFlags::from_bits_retain(found.stx_mask).contains(what) => {
                Ok(Some(found))
            }
            Ok(_) | Err(Errno::NOSYS) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn identity(path: &Path) -> io::Result<Option<Identity>> {
        let found = look(path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::INO)?;
        Ok(found.map(|found| Identity {
            device: makedev(found.stx_dev_major, found.stx_dev_minor),
            inode: found.stx_ino,
        }))
    }

    pub(super) fn length(path: &Path) -> Option<u64> {
        let found = look(path, AtFlags::empty(), StatxFlags::SIZE);
        let found = found.ok().flatten();
        found.map(|found| found.stx_size)
    }
}

/// Returns the path of a file that belongs to a database: `PATH-wal` for `-wal`.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_identity_by_each_of_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let [a, b, link] = ["a", "b", "link"].map(|name| folder.path().join(name));
        fs::write(&a, "one").unwrap();
        fs::write(&b, "other").unwrap();
        fs::hard_link(&a, &link).unwrap();
        let [a_is, b_is, link_is] = [&a, &b, &link].map(|path| identity(path).unwrap());
        assert_eq!(a_is, link_is);
        assert_ne!(a_is, b_is);
        assert_eq!(
            a_is,
            identity_of(&fs::metadata(&a).unwrap()),
            "as the library has it"
        );
        assert_eq!((length(&a), length(&b)), (3, 5));
    }

    #[cfg(unix)]
    #[test]
    fn a_symbolic_link_is_not_the_file_to_which_it_leads() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| folder.path().join(name));
        fs::write(&file, "one").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_ne!(identity(&file).unwrap(), identity(&link).unwrap());
        assert_eq!(length(&link), 3);
    }

    #[test]
    fn a_file_that_is_not_there_has_no_identity_and_no_length() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("none");
        let error = identity(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert_eq!(length(&path), 0);
    }
}
