//! The programs of `tests/neighbours/`: each uses windlass beside another crate that links SQLite.
//!
//! A program can have one `libsqlite3-sys` only, so Cargo resolves them only while the range of `rusqlite` in Cargo.toml
//! meets what each of those crates requires.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::{cargo, root, run, target};

/// The programs, by the crate that each uses beside windlass.
const NEIGHBOURS: [&str; 4] = ["diesel", "riverqueue", "sea-orm", "sqlx"];
/// The program that is built and run: the crate that most of the others build on.
const RUN: &str = "sqlx";
/// What it prints.
const PRINTS: &str = "orders: 1\n";

/// Resolves each program with its lock file, then builds and runs one.
pub(crate) fn check() -> Vec<String> {
    let mut failed: Vec<String> = NEIGHBOURS
        .into_iter()
        .filter_map(|name| resolve(name).err())
        .collect();
    failed.extend(build_and_run(RUN).err());
    failed
}

fn manifest(name: &str) -> PathBuf {
    root()
        .join("tests/neighbours")
        .join(name)
        .join("Cargo.toml")
}

/// Cargo for one of the programs, which compiles with its lock file into the folder of all of them.
fn cargo_of(name: &str, chore: &str) -> Command {
    let mut cargo = cargo();
    cargo.args([chore, "--locked", "--manifest-path"]);
    cargo.arg(manifest(name));
    cargo
}

/// Checks that the lock file meets what windlass and the other crate require now.
fn resolve(name: &str) -> Result<(), String> {
    let mut metadata = cargo_of(name, "metadata");
    metadata
        .args(["--format-version", "1"])
        .stderr(Stdio::inherit());
    eprintln!("==> windlass beside {name}: versions");
    let why = |why: String| {
        format!(
            "windlass beside {name}: {why}; if a dependency of windlass has changed, write the lock file again: \
             cargo metadata --format-version 1 --manifest-path tests/neighbours/{name}/Cargo.toml"
        )
    };
    let out = metadata.output().map_err(|e| why(e.to_string()))?;
    if !out.status.success() {
        return Err(why(out.status.to_string()));
    }
    let packages = versions(&out.stdout).map_err(|e| why(e.to_string()))?;
    let of = |package: &str| packages.iter().find(|p| p.name == package);
    for package in ["windlass", "rusqlite", "libsqlite3-sys", name] {
        let found = of(package).ok_or_else(|| why(format!("{package} is not a part of it")))?;
        eprintln!("    {} {}", found.name, found.version);
    }
    Ok(())
}

#[derive(serde::Deserialize)]
struct Package {
    name: String,
    version: String,
}

fn versions(metadata: &[u8]) -> Result<Vec<Package>, serde_json::Error> {
    #[derive(serde::Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    Ok(serde_json::from_slice::<Metadata>(metadata)?.packages)
}

fn folder() -> PathBuf {
    target().join("neighbours")
}

fn build_and_run(name: &str) -> Result<(), String> {
    let mut build = cargo_of(name, "build");
    build.arg("--target-dir").arg(folder());
    run(&format!("windlass beside {name}: build"), &mut build)?;
    let program = folder()
        .join("debug")
        .join(format!("windlass-beside-{name}"));
    prints(name, &program, PRINTS)
}

/// Runs a program, which ends by itself, and compares what it prints.
fn prints(name: &str, program: &Path, expected: &str) -> Result<(), String> {
    let what = format!("windlass beside {name}: run");
    eprintln!("==> {what}");
    let out = Command::new(program)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("{what}: could not be started: {e}"))?;
    let printed = String::from_utf8_lossy(&out.stdout);
    match out.status.success() {
        true if printed == expected => Ok(()),
        true => Err(format!("{what}: it printed {printed:?}, not {expected:?}")),
        false => Err(format!(
            "{what}: {}, after it printed {printed:?}",
            out.status
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_of_the_folder_is_checked() {
        let folder = std::fs::read_dir(root().join("tests/neighbours")).unwrap();
        let mut names: Vec<String> = folder
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, NEIGHBOURS);
        assert!(NEIGHBOURS.contains(&RUN));
    }

    /// The lock files have one `libsqlite3-sys` each, and the range of `rusqlite` has a version for it.
    #[test]
    fn each_lock_file_has_one_sqlite() {
        for name in NEIGHBOURS {
            let lock =
                std::fs::read_to_string(manifest(name).with_file_name("Cargo.lock")).unwrap();
            for package in ["libsqlite3-sys", "rusqlite"] {
                let entry = format!("\nname = \"{package}\"\n");
                assert_eq!(lock.matches(&entry).count(), 1, "{package} beside {name}");
            }
        }
    }

    #[test]
    fn a_program_that_fails_or_prints_something_else_is_reported() {
        let error = prints("echo", Path::new("/bin/echo"), PRINTS).unwrap_err();
        assert!(
            error.contains(r#"it printed "\n", not "orders: 1\n""#),
            "{error}"
        );
        let error = prints("false", Path::new("/bin/false"), "").unwrap_err();
        assert!(error.contains("exit status: 1"), "{error}");
        assert_eq!(prints("echo", Path::new("/bin/echo"), "\n"), Ok(()));
        assert!(prints("no", Path::new("/no/such"), "").is_err());
    }
}
