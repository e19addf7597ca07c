//! Findings about the modes and owners of the files.

use std::path::Path;

#[cfg(unix)]
use super::file_identity::beside;
use crate::store::examine::{Finding, Verdict};

/// Examines whether other users can read the tasks.
#[cfg(unix)]
pub(super) fn permissions(path: &Path) -> Finding {
    use std::os::unix::fs::PermissionsExt;

    let open = ["", "-wal", "-shm"].into_iter().filter_map(|ending| {
        let part = beside(path, ending);
        let mode = std::fs::metadata(&part).ok()?.permissions().mode() & 0o7777;
        (mode & 0o077 != 0).then_some((part, mode))
    });
    let open: Vec<_> = open.collect();
    let Some((first, mode)) = open.first() else {
        return Finding::ok("permissions", "only the owner can read the file");
    };
    let command = match open.as_slice() {
        [(part, _)] if part == path => format!("chmod go-rwx {}", quoted(part)),
        parts => {
            // The last process that closes the store, perhaps this one, removes the log and its index.
            let names: Vec<String> = parts.iter().map(|(part, _)| quoted(part)).collect();
            let names = names.join(" ");
            format!("for f in {names}; do [ ! -e \"$f\" ] || chmod go-rwx \"$f\"; done")
        }
    };
    let shown = first.display();
    let found = format!("'{shown}' has mode {mode:04o}; run: {command}");
    let advice = "other users can read or write props, results and errors of tasks; run the chmod \
                  above, unless the file is shared on purpose";
    Finding::new("permissions", Verdict::Warning, found, advice)
}

/// Returns the finding about a file that was opened to read, because it could not be opened to write.
pub(super) fn only_read(path: &Path, is_writable: bool) -> Finding {
    if !is_writable {
        return not_writable(path);
    }
    let found = format!(
        "'{}' was opened to read, although this user can write it",
        path.display()
    );
    let advice = "a program that writes could not open it: a full disk is the usual cause, look at the finding `space`";
    Finding::new("access", Verdict::Warning, found, advice)
}

/// Returns the finding about a file that this user can only read.
#[cfg(unix)]
fn not_writable(path: &Path) -> Finding {
    let found = format!(
        "this user can only read '{}'; to write, run as its owner: chmod u+rw {} && chmod u+rwx {}",
        path.display(),
        quoted(path),
        quoted(folder_of(path))
    );
    let advice = "run commands that write as a user that can write the file and its folder";
    Finding::new("access", Verdict::Warning, found, advice)
}

/// Returns the folder of a path; the present one for a name alone.
#[cfg(unix)]
fn folder_of(path: &Path) -> &Path {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

#[cfg(not(unix))]
fn not_writable(path: &Path) -> Finding {
    let found = format!("this user can only read '{}'", path.display());
    Finding::new("access", Verdict::Warning, found, "make the file writable")
}

/// Returns the reason not to trust the log or journal next to a file, whose content SQLite would apply. `None` when
/// nothing is wrong, or when the mode of the file lets other users write tasks anyway.
#[cfg(unix)]
pub(super) fn planted(path: &Path, found: &std::fs::Metadata) -> Option<String> {
    use std::os::unix::fs::MetadataExt;

    if found.mode() & 0o022 != 0 {
        return None;
    }
    let owners = [0, found.uid(), nix::unistd::geteuid().as_raw()];
    ["-wal", "-shm", "-journal"].into_iter().find_map(|ending| {
        let part = beside(path, ending);
        let there = std::fs::symlink_metadata(&part).ok()?;
        let what = match there.is_symlink() {
            true => "is a link".to_owned(),
            false if owners.contains(&there.uid()) => return None,
            false => format!("belongs to another user (uid {})", there.uid()),
        };
        Some(format!(
            "'{}' {what}, and could hold writes of that user; find out who made it, and remove it or give it to the \
             owner of the file (chown)",
            part.display()
        ))
    })
}

#[cfg(not(unix))]
pub(super) fn planted(_: &Path, _: &std::fs::Metadata) -> Option<String> {
    None
}

/// Returns the path as one word of a shell.
#[cfg(unix)]
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

#[cfg(not(unix))]
pub(super) fn permissions(_: &Path) -> Finding {
    let found = "not known on this system";
    Finding::new("permissions", Verdict::Unknown, found, "")
}

#[cfg(all(test, unix))]
#[allow(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of the test functions that clippy knows"
)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt, process::Command};

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    /// Runs the command that a finding names.
    fn run(finding: &Finding) {
        let split = finding.found.rsplit_once("run: ");
        let split = split.or_else(|| finding.found.rsplit_once("as its owner: "));
        let (_, command) = split.unwrap();
        let mut shell = Command::new("sh");
        let ran = shell.args(["-c", command]).status();
        assert!(ran.unwrap().success(), "{finding:?}");
    }

    #[test]
    fn the_commands_that_are_named_work_whatever_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("it's a \"$folder\"");
        fs::create_dir(&inner).unwrap();
        let path = inner.join("-it's $(a) store.db");
        for ending in ["", "-wal"] {
            fs::write(beside(&path, ending), "").unwrap();
            set_mode(&beside(&path, ending), 0o664);
        }
        run(&permissions(&path));
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(&beside(&path, "-wal")), 0o600);
        assert_eq!(permissions(&path).verdict, Verdict::Ok);
        // The process that closes the store last removes the log.
        for ending in ["", "-wal"] {
            set_mode(&beside(&path, ending), 0o664);
        }
        let finding = permissions(&path);
        fs::remove_file(beside(&path, "-wal")).unwrap();
        run(&finding);
        assert_eq!(mode(&path), 0o600);
        let relative = not_writable(Path::new("store.db")).found;
        assert!(relative.ends_with("chmod u+rwx '.'"), "{relative}");
        set_mode(&path, 0o444);
        set_mode(&inner, 0o555);
        run(&not_writable(&path));
        assert_eq!((mode(&path), mode(&inner)), (0o644, 0o755));
    }
}
