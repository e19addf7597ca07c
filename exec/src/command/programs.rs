//! `Programs`: finds programs in `PATH` and remembers them. Without it, each command would try
//! the folders of `PATH` one after the other.

use std::{
    collections::HashMap,
    env,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use nix::{
    fcntl::{AT_FDCWD, AtFlags},
    unistd::{AccessFlags, faccessat},
};

/// How long a path is used without a new search. A program that is installed into an earlier folder
/// of `PATH` is found after this time.
const KNOWN_FOR: Duration = Duration::from_secs(1);
/// The most names that are remembered.
const MOST: usize = 256;

/// The paths of recently found programs.
#[derive(Debug, Default)]
pub(super) struct Programs(Mutex<HashMap<OsString, (Instant, PathBuf)>>);

impl Programs {
    /// Returns the path of the program with this name in the `PATH` of this process. `None` when the
    /// name is a path already, or is not found in the absolute folders of `PATH`: then the start of the
    /// command searches.
    pub(super) fn find(&self, name: &OsStr) -> Option<PathBuf> {
        if name.is_empty() || name.as_bytes().contains(&b'/') {
            return None;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, path)) = known.get(name)
            && at.elapsed() < KNOWN_FOR
        {
            return Some(path.clone());
        }
        let path = search(name, &env::var_os("PATH")?)?;
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(name.to_owned(), (Instant::now(), path.clone()));
        Some(path)
    }
}

/// Returns whether `PATH` has a program with this name.
pub fn is_known(name: &OsStr) -> bool {
    let folders = env::var_os("PATH").unwrap_or_default();
    !name.is_empty() && search(name, &folders).is_some()
}

/// Returns the first program with this name. A relative folder ends the search, because a command
/// may start in another folder.
fn search(name: &OsStr, folders: &OsStr) -> Option<PathBuf> {
    let folders = env::split_paths(folders).take_while(|folder| folder.is_absolute());
    folders
        .map(|folder| folder.join(name))
        .find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    let executable = faccessat(AT_FDCWD, path, AccessFlags::X_OK, AtFlags::AT_EACCESS);
    executable.is_ok() && path.is_file()
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn the_first_program_is_found_that_can_be_executed() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, mode| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        fs::create_dir_all(dir.path().join("1/tool")).unwrap();
        file("2/tool", 0o644);
        let third = file("3/tool", 0o755);
        file("4/tool", 0o755);
        let found = |folders: &[&str]| {
            let folders = folders.iter().map(|folder| match folder.parse::<u8>() {
                Ok(_) => dir.path().join(folder),
                Err(_) => PathBuf::from(folder),
            });
            search("tool".as_ref(), &env::join_paths(folders).unwrap())
        };
        assert_eq!(found(&["0", "1", "2", "3", "4"]), Some(third.clone()));
        assert_eq!(found(&["1", "2"]), None);
        for relative in ["", ".", "bin"] {
            assert_eq!(found(&["1", relative, "3"]), None, "{relative:?}");
            assert_eq!(found(&["3", relative]), Some(third.clone()));
        }
    }

    #[test]
    fn a_name_with_a_slash_is_a_path() {
        let programs = Programs::default();
        for path in ["", "/bin/true", "./true", "bin/true"] {
            assert_eq!(programs.find(path.as_ref()), None);
        }
        let found = programs.find("true".as_ref()).unwrap();
        assert!(found.is_absolute() && found.ends_with("true"), "{found:?}");
    }
}
