use std::{
    cell::Cell,
    fs,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::Path,
    process::{Command, Stdio},
};

use proptest::{prelude::*, test_runner::TestRunner};
use tempfile::TempDir;

use super::*;

/// Lines that try to break out of every kind of quotes to be executed.
const HOSTILE: [&str; 22] = [
    "$(touch canary)",
    "`touch canary`",
    "'$(touch canary)'",
    "\"$(touch canary)\"",
    "\"; touch canary; \"",
    "'; touch canary; '",
    "; touch canary",
    "\ntouch canary\n",
    "\nEOF\ntouch canary\n",
    ") touch canary (",
    "} ; touch canary",
    "& touch canary &",
    "| touch canary",
    "a[$(touch canary)]",
    "${x:=$(touch canary)}",
    "\\",
    "\\'; touch canary; '",
    "-rf",
    "--help",
    "*",
    "~ a  b\tc ",
    "",
];

/// Pieces of templates around a place.
const PIECES: [&str; 44] = [
    "'",
    "\"",
    "`",
    "$(",
    ")",
    "${x:-",
    "${",
    "}",
    "$((",
    "))",
    "((",
    "{",
    "[",
    "]",
    "[[ ",
    "\\",
    "$",
    "$'",
    "<<EOF\n",
    "\nEOF\n",
    "<<",
    "<",
    "#",
    " ",
    " # ",
    "\n",
    "\\\n",
    ";",
    "&&",
    "||",
    "x=",
    "a",
    "{}",
    " {} ",
    "\"{}\"",
    "'{}'",
    "\n./show {}\n",
    " $(./show {}) ",
    "\"$1\"",
    "case a in a) ",
    " esac",
    ";;",
    "\\{}",
    "\u{e9}",
];

struct Sh {
    dir: TempDir,
    program: &'static str,
    runs: Cell<u32>,
}

impl Sh {
    fn new(program: &'static str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let show = dir.path().join("show");
        // Records how it was called: a line with the number of arguments, then each argument
        // followed by a NUL.
        let text = "#!/bin/sh\n{ echo $#; printf '%s\\0' \"$@\"; } >> \"$SHOWN\"\n";
        fs::write(&show, text).unwrap();
        fs::set_permissions(show, fs::Permissions::from_mode(0o700)).unwrap();
        Self {
            dir,
            program,
            runs: Cell::new(0),
        }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Runs a script with the line as its argument, and returns what `show` was called with.
    fn run(&self, script: &Script, line: &str) -> Vec<u8> {
        // A part of a pipeline may outlive its script: it writes to the file of its own run.
        self.runs.set(self.runs.get() + 1);
        let shown = self.path().join(format!("shown-{}", self.runs.get()));
        Command::new(self.program)
            .args(["-c", script.text(), "sh", line])
            .current_dir(self.path())
            .env("SHOWN", &shown)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        let names = fs::read_dir(self.path()).unwrap().flatten();
        let executed = names
            .map(|entry| entry.file_name())
            .any(|name| name.as_bytes() == b"canary");
        assert!(
            !executed,
            "{} executed {line:?} in {script:?}",
            self.program
        );
        let text = fs::read(&shown).unwrap_or_default();
        let _ = fs::remove_file(&shown);
        text
    }
}

fn shells() -> Vec<Sh> {
    // Every system has sh; bash reads more syntax as its own.
    let bash = Path::new("/bin/bash").exists().then_some("/bin/bash");
    let shells: Vec<_> = ["sh"].into_iter().chain(bash).map(Sh::new).collect();
    assert!(!shells.is_empty());
    shells
}

fn called_with(line: &str) -> Vec<u8> {
    [b"1\n", line.as_bytes(), b"\0"].concat()
}

#[test]
fn a_line_arrives_byte_for_byte_wherever_it_may_stand() {
    let templates = [
        "./show",
        "./show {}",
        "exec ./show {}",
        ": 'it is' \"a b\" \\' \"\\\"\"; ./show {}",
        ": $(echo \")\" ')') ${HOME:-x} $# # it's a comment\n./show {}",
        "x={}; ./show \"$x\"",
        "for x in {}; do ./show \"$x\"; done",
        "case a in a) ./show {};; esac",
        "if true; then ./show {}; fi && { : ; } || (: {})",
        "x=$(./show {})",
        ": \"$(./show {})\" \"$(echo \"$(: {})\")\"",
        "./show \\\n {}",
        "./show \"$1\"",
        "cat <<EOF\n$(./show \"$1\")\nEOF",
        "sh -c './show \"$1\"' sh {}",
        "echo `./show \"$1\"`",
    ];
    for sh in shells() {
        for template in templates {
            let script = Script::new(template).unwrap();
            for line in HOSTILE {
                let shown = sh.run(&script, line);
                assert_eq!(shown, called_with(line), "{template}: {line:?}: {script:?}");
            }
        }
        let script = Script::new("./show a{}b{}").unwrap();
        assert_eq!(sh.run(&script, "$x *"), called_with("a$x *b$x *"));
    }
}

/// Templates made of everything that sh reads, and lines that try to get out of them.
#[test]
fn no_template_executes_a_part_of_its_line() {
    let shells = shells();
    let piece = || prop::sample::select(PIECES.as_slice());
    let pieces = || prop::collection::vec(piece(), 0..6);
    let line = prop::collection::vec(prop::sample::select(HOSTILE.as_slice()), 1..4);
    let cases = (pieces(), pieces(), any::<bool>(), line);
    let config = ProptestConfig {
        cases: ProptestConfig::default().cases.max(1500),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let (accepted, arrived) = (Cell::new(0), Cell::new(0));
    let ran = TestRunner::new(config).run(&cases, |(before, after, place, line)| {
        let place = if place { "\n./show {}\n" } else { "" };
        let template = format!("{}{place}{}", before.concat(), after.concat());
        let line = line.concat();
        let Ok(script) = Script::new(&template) else {
            return Ok(());
        };
        accepted.set(accepted.get() + 1);
        for sh in &shells {
            let shown = sh.run(&script, &line);
            if template.contains("show {}") && !shown.is_empty() {
                // However often it was called.
                let once = called_with(&line);
                prop_assert_eq!(shown.len() % once.len(), 0, "{:?}: {:?}", script, shown);
                for call in shown.chunks(once.len()) {
                    prop_assert_eq!(call, &once, "{:?}: {:?}", script, shown);
                }
                arrived.set(arrived.get() + 1);
            }
        }
        Ok(())
    });
    ran.unwrap();
    let (accepted, arrived) = (accepted.get(), arrived.get());
    assert!(accepted > 50 && arrived > 20, "{accepted} {arrived}");
}

#[test]
fn places_that_sh_would_read_as_something_else_are_refused() {
    for (template, says) in [
        ("convert \"{}\" \"{}.png\"", "within double quotes"),
        ("sh -c 'echo {}'", "within single quotes"),
        ("echo `basename {}`", "within or behind a backquote"),
        ("echo \"`basename {}`\"", "within or behind a backquote"),
        ("cat <<EOF\n{}\nEOF", "within or behind a here-document"),
        ("cat <<< {}", "within or behind a here-document"),
        ("echo $(( {} + 1 ))", "within or behind arithmetic"),
        ("(( {} ))", "within or behind arithmetic"),
        ("echo ${x:-{}}", "within or behind ${"),
        ("echo ${}", "within or behind ${"),
        ("echo $'{}'", "within or behind $'"),
        ("echo \\{}", "behind a backslash"),
        ("a[{}]=1", "within brackets"),
        ("a[ {} ]=1", "behind brackets"),
        ("a=([{}]=1)", "behind an array"),
        ("a[$(echo {})]=1", "behind brackets"),
        ("[[ {} -eq 1 ]]", "within or behind [["),
        ("echo # {}", "within a comment"),
        ("echo \"$(case a in a) echo \"{}\";; esac)\"", "behind case"),
        ("echo 'a", "single quote that is not closed"),
        ("echo \"a", "double quote that is not closed"),
        ("echo $(a", "$( that is not closed"),
        ("echo # all", "cannot be added at the end"),
        ("echo \\", "cannot be added at the end"),
        ("cat <<EOF\na\nEOF", "cannot be added at the end"),
    ] {
        let error = Script::new(template).unwrap_err();
        assert!(error.contains(says), "{template}: {error}");
    }
}

#[test]
fn a_line_in_the_middle_of_a_script_of_another_shell_is_refused() {
    let check = |text: &str| check_words(&shell_words::split(text).unwrap());
    for text in [
        "sh -c 'echo {}'",
        "/bin/bash -ec 'echo {}'",
        "sudo env A=1 bash -o pipefail -c 'echo {}'",
        "su postgres -c 'dropdb {}'",
        "fish --command 'echo {}'",
        "busybox sh -c ' {}'",
    ] {
        let error = check(text).unwrap_err();
        assert!(error.contains("as its own text"), "{text}: {error}");
    }
    for text in [
        "sh -c 'echo \"$1\"' sh {}",
        "sh -c {}",
        "gcc -c {}.c",
        "sh {}.sh",
        "convert {} {}.png",
    ] {
        check(text).unwrap();
    }
}
