//! [`remove_all`]: removes a folder even when its files are write-protected.

use std::{fs, io, path::Path};

use nix::{
    fcntl::AT_FDCWD,
    sys::stat::{FchmodatFlags, Mode, fchmodat},
};

/// Removes a folder with everything in it. Commands may leave folders that are not writable (such as the module
/// cache of Go): such folders get write permission first.
///
/// # Errors
///
/// When a part of it cannot be removed.
pub(crate) fn remove_all(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            // The second attempt reports folders whose permissions cannot be changed.
            let _ = open_up(folder);
            fs::remove_dir_all(folder)
        }
        removed => removed,
    }
}

/// Gives the owner all permissions for the folder and the folders in it. Follows no link.
fn open_up(folder: &Path) -> io::Result<()> {
    let mut next = vec![folder.to_owned()];
    while let Some(folder) = next.pop() {
        let flags = FchmodatFlags::NoFollowSymlink;
        fchmodat(AT_FDCWD, &folder, Mode::S_IRWXU, flags)?;
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                next.push(entry.path());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn folders_get_their_permissions_back_and_what_links_lead_to_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let set = |name: &str, mode| {
            fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        let mode = |name: &str| fs::metadata(path(name)).unwrap().permissions().mode() & 0o777;
        fs::create_dir_all(path("task/mod/cache")).unwrap();
        fs::create_dir_all(path("elsewhere")).unwrap();
        fs::write(path("task/mod/cache/file"), "text").unwrap();
        symlink(path("elsewhere"), path("task/link")).unwrap();
        set("task/mod/cache/file", 0o400);
        for (name, bits) in [
            ("elsewhere", 0o500),
            ("task/mod/cache", 0o000),
            ("task/mod", 0o500),
            ("task", 0o500),
        ] {
            set(name, bits);
        }
        open_up(&path("task")).unwrap();
        for name in ["task", "task/mod", "task/mod/cache"] {
            assert_eq!(mode(name), 0o700, "{name}");
        }
        assert_eq!(mode("elsewhere"), 0o500);
        assert_eq!(mode("task/mod/cache/file"), 0o400, "a file needs none");
        remove_all(&path("task")).unwrap();
        assert!(!path("task").exists() && path("elsewhere").exists());
    }
}
