//! The origin of an imported schedule: a label of its task, by which a later import of the same crontab finds it.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use windlass::{
    Client, TaskId,
    schedule::KIND,
    statemachine::task::MAX_LABEL_BYTES,
    store::{Filter, Page},
};

use crate::{exit::Failure, hash::hex};

/// The label that names the crontab of an imported schedule.
pub(super) const LABEL: &str = "crontab";

/// The label with the number of the line from which a schedule was created.
pub(super) const LINE: &str = "crontab-line";

/// How many tasks one call reads.
const PAGE: u32 = 1000;

/// A crontab.
pub(super) struct Origin {
    /// This machine, and the path of the file or `-`.
    pub(super) name: String,
    /// Whether it is a file: different crontabs may come from standard input.
    pub(super) is_file: bool,
    /// Whether it is one of the system's, whose lines name a user.
    pub(super) is_of_system: bool,
}

/// Returns what a file of the command line is.
pub(super) fn of(file: &str) -> Origin {
    let machine = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let machine = machine.trim();
    let path = match file {
        "-" => file.to_owned(),
        path => {
            fs::canonicalize(path).map_or_else(|_| path.to_owned(), |at| at.display().to_string())
        }
    };
    Origin {
        name: named(machine, &path),
        is_file: file != "-",
        is_of_system: path == "/etc/crontab" || path.starts_with("/etc/cron.d/"),
    }
}

/// Returns a name that is a valid label. A path that is not valid is replaced by a hash.
fn named(machine: &str, path: &str) -> String {
    let name = format!("{machine}:{path}");
    let is_label =
        name.len() <= MAX_LABEL_BYTES && !name.contains(',') && !name.contains(char::is_control);
    match is_label {
        true => name,
        false => hex(&[name.as_bytes()], 32),
    }
}

/// Returns the live schedules from this crontab, in the order of their submits.
pub(super) async fn present(client: &Client, origin: &Origin) -> Result<Vec<TaskId>, Failure> {
    let filter = Filter::new()
        .kind(KIND.parse()?)
        .labels([(LABEL.to_owned(), Some(origin.name.clone()))]);
    let (mut after, mut present) = (0, Vec::new());
    loop {
        let records = client.list(&filter, Page::new(PAGE).after(after)).await?;
        let Some(last) = records.last() else {
            return Ok(present);
        };
        after = last.order;
        let live = records.into_iter().filter(|record| {
            let state = record.state.as_ref();
            !state.is_ok_and(|state| state.code().is_terminal())
        });
        present.extend(live.map(|record| record.task.id));
    }
}

/// Commands that are no program.
const BUILT_IN: [&str; 7] = ["cd", ".", "exec", "export", "if", "umask", "ulimit"];

/// Returns whether a line begins with the name of a user of this machine, and not with a program in `PATH`. Programs may have
/// the name of a user, such as `backup`: then arguments follow, and no command.
pub(super) fn is_user(word: &str, rest: &str) -> bool {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mut names = users.lines().filter_map(|line| line.split(':').next());
    let is_command = || {
        let next = rest.split_whitespace().next().unwrap_or_default();
        let is_path = next.starts_with('/') && !Path::new(next).is_dir();
        is_path || BUILT_IN.contains(&next) || (!next.starts_with('-') && is_program(next))
    };
    word == "root" && !is_program(word)
        || (names.any(|name| name == word) && !is_program(word) && is_command())
}

fn is_program(word: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_executable = |path: &Path| {
        fs::metadata(path)
            .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&path).any(|folder| is_executable(&folder.join(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crontab_has_a_name_that_a_label_can_have() {
        assert_eq!(named("build-1", "/etc/tab"), "build-1:/etc/tab");
        let long = "/x".repeat(MAX_LABEL_BYTES);
        for path in ["/a,b", "/a\nb", long.as_str()] {
            assert_eq!(named("build-1", path).len(), 32, "{path}");
            assert_ne!(named("build-1", path), named("build-2", path));
        }
    }

    #[test]
    fn a_user_is_one_that_is_no_program() {
        assert!(is_user("root", "any") && is_user("nobody", "sh -c true"));
        assert!(is_user("nobody", "/usr/bin/none") && is_user("nobody", "cd / && ls"));
        // A program of this name, with arguments.
        assert!(!is_user("nobody", "--all") && !is_user("nobody", "/usr"));
        assert!(!is_user("sh", "sh") && !is_user("/bin/sh", "sh"));
        assert!(!is_user("nobody-of-this-name", "sh"));
    }
}
