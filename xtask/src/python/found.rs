//! The Pythons of this machine.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::tools;

/// The first minor version of Python 3 that the SDK supports (`requires-python` of its pyproject.toml).
pub(super) const FIRST: u32 = 10;

/// An interpreter that makes virtual environments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Python {
    /// The minor version and the patch of Python 3.
    pub(super) version: (u32, u32),
    pub(super) program: PathBuf,
    /// Whether it has what `python -m venv` needs. Debian packs that by itself.
    has_venv: bool,
}

impl Python {
    /// The name in the output: `Python 3.13.0`.
    pub(super) fn name(&self) -> String {
        format!("Python {}", self.number())
    }

    /// The version: `3.13.0`.
    pub(super) fn number(&self) -> String {
        format!("3.{}.{}", self.version.0, self.version.1)
    }
}

/// Returns one Python of each minor version from [`FIRST`] on, oldest first.
///
/// # Errors
///
/// When there is none and none could be fetched, and when one cannot make virtual environments.
pub(super) fn all() -> Result<Vec<Python>, String> {
    let mut found = one_of_each(programs().iter().filter_map(|program| ask(program)));
    if found.is_empty() {
        tools::by_apt("python3-venv", "python3");
        found = one_of_each(programs().iter().filter_map(|program| ask(program)));
    }
    for python in &mut found {
        if !python.has_venv {
            let name = format!("python3.{}", python.version.0);
            tools::by_apt(&format!("{name}-venv"), &name);
            *python = ask(&python.program)
                .filter(|now| now.has_venv)
                .ok_or_else(|| {
                    let (name, program) = (python.name(), python.program.display());
                    format!("{name} ({program}) lacks venv, which could not be fetched: install it")
                })?;
        }
    }
    if found.is_empty() {
        return Err(format!(
            "Python 3.{FIRST} or later is needed by the tests of sdk/python and could not be fetched: install it"
        ));
    }
    Ok(found)
}

/// Keeps of each minor version one that makes virtual environments, and of those the newest. Oldest version first.
fn one_of_each(pythons: impl Iterator<Item = Python>) -> Vec<Python> {
    let mut best: BTreeMap<u32, Python> = BTreeMap::new();
    let rank = |python: &Python| (python.has_venv, python.version.1);
    for python in pythons.filter(|python| python.version.0 >= FIRST) {
        let kept = best
            .entry(python.version.0)
            .or_insert_with(|| python.clone());
        if rank(&python) > rank(kept) {
            *kept = python;
        }
    }
    best.into_values().collect()
}

/// The programs `python3` and `python3.N` of each folder of the PATH and of each version of pyenv.
fn programs() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = env::split_paths(&path).collect();
    let pyenv = env::var_os("PYENV_ROOT").map(PathBuf::from);
    let pyenv = pyenv.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".pyenv")));
    if let Some(pyenv) = pyenv {
        let versions = fs::read_dir(pyenv.join("versions")).into_iter().flatten();
        folders.extend(versions.flatten().map(|version| version.path().join("bin")));
    }
    let files = folders.iter().flat_map(fs::read_dir).flatten().flatten();
    let names = files.filter(|file| is_python(&file.file_name().to_string_lossy()));
    let mut programs: Vec<PathBuf> = names.map(|file| file.path()).collect();
    programs.sort();
    programs.dedup();
    programs
}

fn is_python(name: &str) -> bool {
    let minor = match name.strip_prefix("python3") {
        Some("") => return true,
        Some(rest) => rest.strip_prefix('.'),
        None => None,
    };
    minor.is_some_and(|minor| !minor.is_empty() && minor.bytes().all(|b| b.is_ascii_digit()))
}

/// Prints the version, the program behind a link or a script, and whether it makes virtual environments.
const QUESTION: &str = "\
import importlib.util, sys
print(sys.implementation.name, sys.version_info.releaselevel, sys.version_info.minor, sys.version_info.micro)
print(sys.executable)
print(all(importlib.util.find_spec(name) for name in ('venv', 'ensurepip')))";

/// Asks a program what it is. One of pyenv's scripts fails when its version is not chosen.
fn ask(program: &Path) -> Option<Python> {
    let mut python = Command::new(program);
    python.args(["-I", "-c", QUESTION]);
    let output = python.stdin(Stdio::null()).output().ok()?;
    read(&String::from_utf8(output.stdout).ok()?)
}

/// Reads an answer to [`QUESTION`]. A version before its release is left out: other packages have no wheels for it.
fn read(answer: &str) -> Option<Python> {
    let [what, program, has_venv] = answer.lines().collect::<Vec<_>>()[..] else {
        return None;
    };
    let ["cpython", "final", minor, patch] = what.split(' ').collect::<Vec<_>>()[..] else {
        return None;
    };
    Some(Python {
        version: (minor.parse().ok()?, patch.parse().ok()?),
        program: program.into(),
        has_venv: has_venv == "True",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn python(minor: u32, patch: u32, has_venv: bool) -> Python {
        let program = format!("/{minor}/{patch}").into();
        let version = (minor, patch);
        Python {
            version,
            program,
            has_venv,
        }
    }

    #[test]
    fn one_python_of_each_version_is_kept_that_makes_environments() {
        let found = [
            (13, 0, true),
            (9, 1, true),
            (11, 2, false),
            (11, 1, true),
            (13, 1, true),
        ];
        let found = found.map(|(minor, patch, has_venv)| python(minor, patch, has_venv));
        let kept = one_of_each(found.into_iter());
        assert_eq!(kept, [python(11, 1, true), python(13, 1, true)]);
        assert_eq!(kept[0].name(), "Python 3.11.1");
    }

    #[test]
    fn names_of_programs_are_told_from_other_files() {
        assert!(["python3", "python3.10"].into_iter().all(is_python));
        let others = [
            "python",
            "python2.7",
            "python3.",
            "python3.12-config",
            "python3.13t",
        ];
        assert!(!others.into_iter().any(is_python));
    }

    #[test]
    fn the_answer_of_a_python_is_read() {
        let answer = "cpython final 12 1\n/usr/bin/python3.12\nTrue\n";
        let mut expected = python(12, 1, true);
        expected.program = "/usr/bin/python3.12".into();
        assert_eq!(read(answer), Some(expected));
        assert_eq!(read(&answer.replace("final", "alpha")), None);
        assert_eq!(read("pyenv: python3.12: command not found"), None);
    }

    #[test]
    fn the_python_of_this_machine_is_found() {
        let found = all().unwrap();
        assert!(
            found
                .iter()
                .all(|python| python.version.0 >= FIRST && python.has_venv)
        );
    }
}
