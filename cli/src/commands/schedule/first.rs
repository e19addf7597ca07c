//! [`Machine::first`]: whether the first word of a line of a crontab is a command or a user, as this machine has them.

use std::{
    collections::HashSet,
    ffi::{OsStr, OsString},
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
};

/// What the first word of a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum First {
    /// A command, or the begin of one.
    Command,
    /// A user of this machine, and the command follows.
    User,
    /// A program and a user of this machine.
    Either,
    /// Neither a program nor a user of this machine.
    Unknown,
}

/// The users and programs of a machine.
pub(super) struct Machine {
    users: HashSet<String>,
    path: OsString,
}

/// Commands and keywords of a shell that need not be programs.
const OF_SHELL: &str = "\
    . : alias bg break builtin case cd command continue coproc declare do echo eval exec exit \
    export false fg for function getopts hash if jobs kill let local printf pushd pwd read \
    readonly return select set shift source test time times trap true type typeset ulimit umask \
    unalias unset until wait while";

impl Machine {
    /// Reads the users of this machine.
    pub(super) fn this() -> Self {
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let names = users.lines().filter_map(|line| line.split(':').next());
        let names = names.filter(|name| !name.is_empty()).chain(["root"]);
        Self {
            users: names.map(str::to_owned).collect(),
            path: std::env::var_os("PATH").unwrap_or_default(),
        }
    }

    /// Returns what the first word of a line is, before this rest. `path`: the `PATH` that the crontab sets.
    ///
    /// A name of a user that is no program is the user, whatever follows: assignments, groups, programs of another machine.
    /// Only an option makes it the name of a program that this machine does not have.
    pub(super) fn first(&self, word: &str, rest: &str, path: Option<&str>) -> First {
        let is_program = |word| self.is_program(word, path);
        let is_option = rest.starts_with('-') && word != "root";
        if self.users.contains(word) && !rest.is_empty() && !is_option {
            return match is_program(word) {
                true => First::Either,
                false => First::User,
            };
        }
        // The shell reads what follows the name, as in `sync; date`.
        let name = word
            .split([';', '&', '|', '<', '>', ')'])
            .next()
            .unwrap_or_default();
        let is_plain = |c: char| c.is_alphanumeric() || ['-', '_', '.', '+', ':', '@'].contains(&c);
        let of_shell = || OF_SHELL.split(' ').any(|word| word == name);
        let is_known = name.is_empty() || !name.chars().all(is_plain) || of_shell();
        match is_known || is_program(name) {
            true => First::Command,
            false => First::Unknown,
        }
    }

    fn is_program(&self, word: &str, path: Option<&str>) -> bool {
        let is_executable = |path: &Path| {
            fs::metadata(path)
                .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        };
        let has = |path: &OsStr| {
            std::env::split_paths(path).any(|folder| is_executable(&folder.join(word)))
        };
        has(&self.path) || path.is_some_and(|path| has(OsStr::new(path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what the first word of this line is, on a machine with a few users and the programs of a folder.
    fn first(line: &str) -> First {
        let folder = tempfile::tempdir().unwrap();
        for name in ["sh", "git", "sync"] {
            let file = folder.path().join(name);
            fs::write(&file, "").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let users = ["root", "www-data", "postgres", "backup", "git"];
        let machine = Machine {
            users: users.map(str::to_owned).into(),
            path: folder.path().into(),
        };
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        machine.first(word, rest, None)
    }

    #[test]
    fn a_user_that_is_no_program_is_the_user_whatever_follows() {
        for line in [
            "root any",
            "root -x",
            "www-data FOO=1 /bin/true",
            "www-data ( cd /tmp; ls )",
            "www-data (cd /tmp; ls)",
            "www-data ~/bin/x",
            "www-data \"$HOME/x\"",
            "www-data $HOME/x",
            "www-data ./x",
            "www-data ! sh",
            "www-data [ -e x ] && y",
            "www-data { cd / && x; }",
            "www-data /usr/bin/none",
            "www-data /usr",
            "www-data cd / && ls",
            "postgres vacuumdb -a",
            "backup nightly",
        ] {
            assert_eq!(first(line), First::User, "{line}");
        }
    }

    #[test]
    fn a_first_word_that_this_machine_does_not_know_is_unknown() {
        for (line, is) in [
            // A program of this name, with options.
            ("backup --all", First::Unknown),
            ("backup", First::Unknown),
            ("deploy /srv/x", First::Unknown),
            ("deploy; date", First::Unknown),
            ("git gc", First::Either),
            ("git -C x gc", First::Command),
            ("git", First::Command),
            ("sync; date", First::Command),
            ("sh -c x", First::Command),
            ("/srv/none x", First::Command),
            ("srv/none x", First::Command),
            ("~/x", First::Command),
            ("$HOME/x", First::Command),
            ("A=1 x", First::Command),
            ("(cd /tmp; x)", First::Command),
            ("{ x; }", First::Command),
            ("! x", First::Command),
            ("[ -e x ] && y", First::Command),
            ("[[ -e x ]] && y", First::Command),
            (">out x", First::Command),
            ("'a b' c", First::Command),
            ("`x` y", First::Command),
            ("\\ls", First::Command),
            ("cd / && x", First::Command),
            ("cd; x", First::Command),
            ("while x; do y; done", First::Command),
        ] {
            assert_eq!(first(line), is, "{line}");
        }
    }

    #[test]
    fn the_path_of_a_crontab_has_programs_too() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("backup");
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        let machine = Machine {
            users: HashSet::from(["backup".to_owned()]),
            path: OsString::new(),
        };
        let path = format!("/none:{}", folder.path().display());
        let is = |rest, path| machine.first("backup", rest, path);
        assert_eq!(is("x", None), First::User);
        assert_eq!(is("x", Some(&path)), First::Either);
        assert_eq!(is("", Some(&path)), First::Command);
    }

    #[test]
    fn this_machine_has_root_and_a_shell() {
        let machine = Machine::this();
        assert_eq!(machine.first("root", "x", None), First::User);
        assert_eq!(machine.first("nobody", "sh -c true", None), First::User);
        assert_eq!(machine.first("sh", "sh", None), First::Command);
    }
}
